"""A record's version is told by its shape; its label decides only where several shapes fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fastrec.judge.judge import Judge
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA, SCHEMAS, closest_version
from fastrec.schemas.schema import LABELS
from tests import reference
from tests.judge.helpers import judge, warning_codes
from tests.samples import sample_of

OLD = ("0.2.0", "0.2.0-released")
RELEASED = ("0.2.0-released",)
NEW = ("0.2.1", "0.3.0")
LISTED = ("0.2.0-released", *NEW)
RESULT = ("0.2.0-released", "0.3.0")
TURN = {"turn_idx": 0, "role": "tool"}


def texts(**changes: Any) -> dict[str, Any]:
    """Return a single turn as in 0.2.0, with a label that names no version."""
    record = sample_of("0.2.0", schema_version="")
    for key in ("metadata", "performance"):
        del record[key]
    return put({**record, "output": {"raw": "42"}}, changes)


def lists(**changes: Any) -> dict[str, Any]:
    """Return a single turn that is valid by all versions but the founding one."""
    record = texts()
    record["input"]["reference"] = ["42"]
    return put({**record, "output": {"raw": ["42"]}}, changes)


def conversation(
    field: str, turn: Any = None, reference: Any = "42", **changes: Any
) -> dict[str, Any]:
    """Return a conversation of one turn."""
    record = texts(interaction_type="multi_turn", input__reference=reference)
    del record["output"]
    return put({**record, field: [{**TURN, **(turn or {})}]}, changes)


def messages(turn: Any = None, **changes: Any) -> dict[str, Any]:
    return conversation("messages", turn, ["42"], **changes)


def interactions(turn: Any = None, **changes: Any) -> dict[str, Any]:
    return conversation("interactions", turn, **changes)


def put(record: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Change fields; two underscores lead to a field of an object."""
    for name, value in changes.items():
        parent, _, field = name.rpartition("__")
        (record.setdefault(parent, {}) if parent else record)[field] = value
    return record


def without_num_turns(record: dict[str, Any]) -> dict[str, Any]:
    del record["evaluation"]["num_turns"]
    return record


def before_0_2_0() -> dict[str, Any]:
    record = texts(metrics={"score": 1, "is_correct": True, "input_tokens": 1, "output_tokens": 1})
    del record["evaluation"]
    return record


def call(arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"id": "a", "name": "b", "arguments": arguments}]}


# Shape, the versions that it is valid by, and the version of a record whose label names none; of an
# invalid record, the version that it comes closest to.
SHAPES: dict[str, tuple[dict[str, Any], tuple[str, ...], str]] = {
    "texts": (texts(), OLD, "0.2.0"),
    "lists": (lists(), LISTED, "0.3.0"),
    "lists, result id": (lists(evaluation_result_id="x"), RESULT, "0.3.0"),
    "lists, result id null": (lists(evaluation_result_id=None), RELEASED, "0.2.0-released"),
    "lists, messages null": (lists(messages=None), LISTED, "0.3.0"),
    "lists, interactions null": (lists(interactions=None), RELEASED, "0.2.0-released"),
    "texts, interactions null": (texts(interactions=None), OLD, "0.2.0"),
    "texts, messages null": (texts(messages=None), OLD, "0.2.0"),
    "interactions, reference text": (interactions(), OLD, "0.2.0"),
    "interactions, reference list": (
        interactions(input__reference=["4"]),
        RELEASED,
        "0.2.0-released",
    ),
    "messages": (messages(), NEW, "0.3.0"),
    "no messages": (messages(messages=[]), NEW, "0.3.0"),
    "messages, no num_turns": (without_num_turns(messages()), NEW, "0.3.0"),
    "sample_id integer, texts": (texts(sample_id=1), OLD, "0.2.0"),
    "sample_id integer, lists": (lists(sample_id=1), RELEASED, "0.2.0-released"),
    "score true, texts": (texts(evaluation__score=True), OLD, "0.2.0"),
    "score true, lists": (lists(evaluation__score=True), RELEASED, "0.2.0-released"),
    "tool_call_id text": (interactions({"tool_call_id": "a"}), OLD, "0.2.0"),
    "tool_call_id list, interactions": (interactions({"tool_call_id": ["a"]}), OLD, "0.2.0"),
    "tool_call_id null, interactions": (interactions({"tool_call_id": None}), (), "0.2.0"),
    "tool_call_id null, messages": (messages({"tool_call_id": None}), NEW, "0.3.0"),
    "reasoning_trace text": (texts(output__reasoning_trace=""), OLD, "0.2.0"),
    "reasoning_trace null, texts": (texts(output__reasoning_trace=None), ("0.2.0",), "0.2.0"),
    "reasoning_trace null, lists": (lists(output__reasoning_trace=None), NEW, "0.3.0"),
    "reasoning_trace list": (lists(output__reasoning_trace=[""]), LISTED, "0.3.0"),
    "formatted null": (lists(input__formatted=None), NEW, "0.3.0"),
    "sample_hash null": (lists(sample_hash=None), NEW, "0.3.0"),
    "metadata with a number": (lists(metadata={"n": 1}), RELEASED, "0.2.0-released"),
    "unknown root key": (lists(zz=1), RELEASED, "0.2.0-released"),
    "unknown keys deeper down": (
        lists(input__zz=1, evaluation__zz=1, performance__zz=1),
        LISTED,
        "0.3.0",
    ),
    "output and interactions": (texts(interactions=[TURN]), (), "0.2.0"),
    "is_correct null": (lists(evaluation__is_correct=None), (), "0.3.0"),
    "before 0.2.0": (before_0_2_0(), (), "0.2.0"),
    "arguments with a number, messages": (messages(call({"n": 1})), (), "0.3.0"),
    "arguments with a number, interactions": (interactions(call({"n": 1})), OLD, "0.2.0"),
    "interactions and messages": (interactions(messages=[]), OLD, "0.2.0"),
    "messages and interactions": (messages(interactions=[], sample_hash=None), (), "0.3.0"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_valid_by_the_versions_of_the_table(name: str) -> None:
    """A judge of one version accepts it exactly if the table and an independent validator say so."""
    record, valid, _ = SHAPES[name]
    line = json.dumps(record).encode()
    assert (
        tuple(version for version in reference.VERSIONS if reference.is_valid(record, version))
        == valid
    )
    assert tuple(version for version in SCHEMAS if judge(line, schema=version)[0].records) == valid


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_the_version_of_the_table(name: str) -> None:
    """A valid record is of that version.

    A rejected line has the errors of the version that it comes closest to.
    """
    record, valid, expected = SHAPES[name]
    batch, _ = judge(json.dumps(record).encode())
    if not valid:
        (invalid,) = batch.rejected
        assert invalid.version == closest_version(record).name == expected
    else:
        assert +batch.versions == {expected: 1}


LABELLED: dict[str, dict[str, str]] = {
    "lists": {"0.2.0": "0.2.0-released", "0.2.1": "0.2.1"},
    "lists, messages null": {"0.2.0": "0.2.0-released", "0.2.1": "0.2.1"},
    "reasoning_trace list": {"0.2.0": "0.2.0-released", "0.2.1": "0.2.1"},
    "unknown keys deeper down": {"0.2.0": "0.2.0-released", "0.2.1": "0.2.1"},
    "messages": {"0.2.1": "0.2.1"},
    "no messages": {"0.2.1": "0.2.1"},
    "messages, no num_turns": {"0.2.1": "0.2.1"},
    "tool_call_id null, messages": {"0.2.1": "0.2.1"},
    "reasoning_trace null, lists": {"0.2.1": "0.2.1"},
    "formatted null": {"0.2.1": "0.2.1"},
    "sample_hash null": {"0.2.1": "0.2.1"},
}
"""The shapes whose version depends on the label; other labels leave the version of the table above."""


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape[1]])
def test_a_label_decides_only_where_several_shapes_fit(name: str) -> None:
    """With and without the prefix, in any order, and a label of another version is a warning that
    is counted.
    """
    record, _, expected = SHAPES[name]
    subject = Judge()
    for label in sorted(LABELS) * 2:
        bare = label.removeprefix("instance_level_eval_")
        version = LABELLED.get(name, {}).get(bare, expected)
        batch = subject.judge_chunk(
            json.dumps({**record, "schema_version": label}).encode(), bytearray()
        )
        assert +batch.versions == {version: 1}
        lies = label not in SCHEMAS[version].labels
        notes = {
            "version.mismatch": int(lies),
            "version.other_turns": int(name == "interactions and messages"),
        }
        assert +batch.notes == {code: count for code, count in notes.items() if count}


def test_labels_that_name_no_version_are_counted() -> None:
    """The label is no error; the shape decides."""
    for label in ("", "banana", "0.2", "v0.3.0", "instance_level_eval_"):
        batch, _ = judge(json.dumps(messages(schema_version=label)).encode())
        assert (+batch.versions, batch.notes) == ({"0.3.0": 1}, {"version.unknown": 1})


@pytest.mark.each_value
@pytest.mark.parametrize("version", SCHEMAS)
@pytest.mark.parametrize("kind", ["single_turn", "multi_turn", "agentic"])
def test_a_full_record_of_a_version_has_no_warning_about_it(version: str, kind: str) -> None:
    """Records that use every field of a version are of that version, on the fast path, with its
    hash.
    """
    record = sample_of(version, kind)
    record["sample_hash"] = reference.sample_hash(record, version)
    batch, out = judge(json.dumps(record).encode(), sample_hash="verify")
    assert (+batch.versions, batch.slow, +batch.notes) == ({version: 1}, 0, {})
    assert reference.same(json.loads(out), reference.normal_record(record, version))
    assert not [
        code for code in warning_codes(record) if code.startswith(("version.", "warn.sample_hash"))
    ]


def test_a_later_record_is_rejected_if_the_target_is_an_earlier_version() -> None:
    """The error says which version was found and what to do; records of the target are kept."""
    lines = b"\n".join(json.dumps(record).encode() for record in (texts(), lists(), messages()))
    batch, _ = judge(lines, target=DEFAULT_SCHEMA.name)
    assert +batch.versions == {"0.2.0": 1}
    assert [
        (invalid.version, finding.code)
        for invalid in batch.rejected
        for finding in invalid.findings
    ] == [
        ("0.3.0", "version.newer"),
        ("0.3.0", "version.newer"),
    ]
    message = batch.rejected[0].findings[0].message
    assert message == "expected a record of 0.2.0, found one of 0.3.0: give --schema 0.3.0 or auto"


def test_versions_are_counted_before_an_upgrade() -> None:
    """The counts are of the versions that the lines had, also of lines on the slow path."""
    records = [
        texts(),
        lists(zz=1),
        lists(schema_version="0.2.1"),
        messages(),
        texts(sample_id=1.0),
    ]
    batch, out = judge(
        b"\n".join(json.dumps(record).encode() for record in records), target=NEWEST_SCHEMA.name
    )
    assert +batch.versions == {"0.2.0": 2, "0.2.0-released": 1, "0.2.1": 1, "0.3.0": 1}
    assert all(reference.is_valid(json.loads(line), "0.3.0") for line in out.splitlines())


def test_values_that_are_no_objects_have_a_closest_version() -> None:
    """Anything can stand in a line."""
    for value in (
        None,
        1,
        "x",
        [],
        {},
        {"input": 1, "output": [], "evaluation": "x", "sample_id": []},
    ):
        assert closest_version(value) in SCHEMAS.values()
