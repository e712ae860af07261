"""Upgrading records: the result is valid, loses nothing, and is that of a second implementation."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings

import fastrec
from fastrec.judge.arbiter import is_valid, normal_form
from fastrec.judge.findings import UPGRADES
from fastrec.judge.judge import Judge
from fastrec.judge.parse import parse, spell
from fastrec.judge.version_rules import JudgeSettings
from fastrec.schemas.registry import NEWEST_SCHEMA, SCHEMAS
from fastrec.schemas.upgrade import upgrade_record, upgrade_value
from fastrec.schemas.widen import widen
from tests import strategies
from tests.samples import sample, sample_of
from tests.schemas.upgrading import (
    OLD,
    assert_agrees,
    expected,
    leaves,
    old_records,
    pruned,
    with_integers,
)
from tests.sizes import examples

SHARED = Path(__file__).parents[2].parent / "shared" / "schema" / "versions"
EXAMPLES = examples(15, 500)
RECORDS = examples(100, 5_000)
"""Generated records that are upgraded; 10,000 take a minute."""


@cache
def validator() -> jsonschema.Draft7Validator:
    """A second validator over the published structure, where it is beside this checkout, or else
    over our file.
    """
    published = SHARED / "instance_level_eval_0.3.0.schema.json"
    return jsonschema.Draft7Validator(
        json.loads(published.read_bytes()) if published.exists() else NEWEST_SCHEMA.document
    )


def upgraded(record: dict[str, Any], version: str = "0.2.0") -> tuple[dict[str, Any], list[str]]:
    assert is_valid(record, SCHEMAS[version])
    return upgrade_value(record, SCHEMAS[version])


# Any record


@settings(max_examples=EXAMPLES)
@given(old_records)
def test_any_old_record_becomes_valid(versioned: tuple[str, dict[str, Any]]) -> None:
    """The result is valid by a second validator, is that of the second implementation, and does not
    change again.
    """
    version, record = versioned
    before = copy.deepcopy(record)
    new, codes = upgraded(record, version)
    assert record == before
    validator().validate(new)
    wanted, wanted_codes = expected(record, version)
    assert_agrees(wanted, new)
    assert codes == sorted(wanted_codes)
    assert upgrade_value(new, NEWEST_SCHEMA) == (new, [])


@settings(max_examples=EXAMPLES)
@given(old_records)
def test_nothing_is_lost(versioned: tuple[str, dict[str, Any]]) -> None:
    """Every key and value of the source is found in the result, as itself or inside JSON text."""
    version, record = versioned
    new, _ = upgraded(record, version)
    found = Counter(leaves(new))
    for name, value in [*_text_places(new)]:
        found.update([name, name.rsplit("_", 1)[0], name.removeprefix("performance.")])
        if _is_json(value):
            found.update(leaves(json.loads(value)))
    source = copy.deepcopy(record)
    source["sample_id"] = new["sample_id"]
    if not source.get("metadata"):
        source.pop("metadata", None)  # it may not be empty any more
    if source.get("evaluation_result_id") is None:
        source.pop("evaluation_result_id", None)
    turns = source.pop("interactions", None)
    if turns is not None:
        source["messages"] = turns
    if isinstance(source["evaluation"]["score"], bool):
        source["evaluation"]["score"] = float(source["evaluation"]["score"])
    if record["schema_version"] in SCHEMAS[version].labels:
        source["schema_version"] = "0.3.0"
    lost = {leaf for leaf in leaves(pruned(source, ())) if leaf not in found}
    assert not lost


def _text_places(record: dict[str, Any]) -> Any:
    """Yield the keys and values of objects whose values became text."""
    details = (record.get("performance") or {}).get("additional_details") or {}
    calls = [call for turn in record.get("messages") or () for call in turn.get("tool_calls") or ()]
    for place in (
        record.get("metadata") or {},
        details,
        *(call.get("arguments") or {} for call in calls),
    ):
        yield from place.items()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def unknown_keys(record: dict[str, Any], version: str) -> dict[str, set[str]]:
    unknown: dict[str, set[str]] = {}
    normal_form(copy.deepcopy(record), SCHEMAS[version].shape, unknown)
    return unknown


@settings(max_examples=EXAMPLES)
@given(old_records)
def test_structs_are_upgraded_like_dicts(versioned: tuple[str, dict[str, Any]]) -> None:
    """The fast path gives the same bytes and codes, with unknown keys at every level."""
    version, record = versioned
    schema = SCHEMAS[version]
    record = json.loads(
        json.dumps(record).replace(r"\u03a9\"", "x")
    )  # a key with a quote cannot become a field
    unknown = unknown_keys(record, version)
    struct = widen(schema.record, unknown)
    try:
        decoded = msgspec.json.decode(spell(record), type=struct)
    except msgspec.ValidationError:  # an integer that is spelled as 7.0
        record = normal_form(record, schema.shape, unknown)
        decoded = msgspec.json.decode(spell(record), type=struct)
    new, codes = upgraded(record, version)
    result = upgrade_record(decoded, schema)
    NEWEST_SCHEMA.drop_nulls(result[0])
    normal = spell(normal_form(copy.deepcopy(new), NEWEST_SCHEMA.shape, {}))
    assert msgspec.json.Encoder(order="deterministic").encode(result[0]) == normal
    assert result[1] == codes


@settings(max_examples=EXAMPLES)
@given(strategies.records_of["0.3.0"])
def test_the_newest_version_stays_as_it_is(record: dict[str, Any]) -> None:
    """A record of 0.3.0 passes unchanged, whatever its label."""
    assert is_valid(record, NEWEST_SCHEMA)
    before = copy.deepcopy(record)
    assert upgrade_value(record, NEWEST_SCHEMA) == (before, [])


# Generated records


def generated(folder: Path, records: int) -> list[bytes]:
    fastrec.generate(
        folder,
        records=records,
        seed=15,
        shards=1,
        compression="none",
        unknown_keys=0.1,
        warnings=0.1,
    )
    return [line for path in sorted(folder.iterdir()) for line in path.read_bytes().splitlines()]


def test_generated_records_are_upgraded_field_by_field(tmp_path: Path) -> None:
    """Normal forms of upgraded records are valid by a second validator, and every field is what it
    should be.
    """
    judge = Judge(JudgeSettings(target=NEWEST_SCHEMA.name))
    notes: Counter[str] = Counter()
    wanted_notes: Counter[str] = Counter()
    for line in generated(tmp_path, RECORDS):
        normal = bytearray()
        batch = judge.judge_chunk(line, normal)
        assert (len(batch.records), batch.versions) == (1, Counter({"0.2.0": 1}))
        new = json.loads(normal)
        validator().validate(new)
        wanted, codes = expected(json.loads(line), "0.2.0")
        question = wanted["input"]
        wanted["sample_hash"] = fastrec.sample_hash(question["raw"], question["reference"])
        assert_agrees(with_integers(wanted), new)
        notes.update({code: count for code, count in batch.notes.items() if code in UPGRADES})
        wanted_notes.update(codes)
        again = bytearray()
        judge.judge_chunk(bytes(normal), again)
        assert again == normal
    assert notes == wanted_notes


# Tables


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # By code: changes of a sample, and the paths and values of the result.
    "upgrade.label": (
        {"schema_version": "0.2.2"},
        {"schema_version": "0.3.0", "metadata.schema_version": "0.2.2"},
    ),
    "upgrade.unknown_root_key": (
        {"epoch": 3, "note": "as it is", "more": {"b": [1.0, None], "a": "é"}},
        {
            "metadata.epoch": "3",
            "metadata.note": "as it is",
            "metadata.more": '{"a":"é","b":[1.0,null]}',
        },
    ),
    "upgrade.name_taken": (
        {"subject": 5, "subject_2": 6, "metadata": {"subject": "a"}},
        {"metadata.subject": "a", "metadata.subject_2": "5", "metadata.subject_2_2": "6"},
    ),
    "upgrade.result_id": ({"evaluation_result_id": "f1"}, {"evaluation_result_id": "f1"}),
    "upgrade.sample_id_number": ({"sample_id": 17}, {"sample_id": "17"}),
    "upgrade.reference_empty": (
        {"input": {"raw": "x", "reference": ""}},
        {"input.reference": [""]},
    ),
    "upgrade.output_empty": ({"output": {"raw": ""}}, {"output.raw": [""]}),
    "upgrade.score_from_boolean": (
        {"evaluation": {"score": True, "is_correct": True}},
        {"evaluation.score": 1.0},
    ),
    "upgrade.metadata_text": (
        {"metadata": {"n": 5, "t": True, "s": "5", "z": None}},
        {"metadata": {"n": "5", "t": "true", "s": "5", "z": "null"}},
    ),
    "upgrade.details_text": (
        {"performance": {"additional_details": {"queue": 3}}},
        {"performance.additional_details": {"queue": "3"}},
    ),
    "upgrade.details_moved": (
        {"performance": {"latency_ms": 1, "additional_details": [3]}},
        {"performance": {"latency_ms": 1}, "metadata.performance\0additional_details": "[3]"},
    ),
}
TURNS = [
    {
        "turn_idx": 0,
        "role": "assistant",
        "tool_calls": [{"id": "c", "name": "f", "arguments": {"n": 5, "s": "ls"}}],
    },
    {"turn_idx": 1, "role": "tool", "tool_call_id": "c"},
]
SOURCE = {"turn_idx": 0, "source": "interactions[3].content", "extracted_value": "", "extraction_method": "",
          "is_terminal": True}  # fmt: skip
CONVERSATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "upgrade.arguments_text": (
        {"interactions": TURNS},
        {
            "messages.0.tool_calls.0.arguments": {"n": "5", "s": "ls"},
            "messages.1.tool_call_id": ["c"],
        },
    ),
    "upgrade.attribution_source": (
        {"answer_attribution": [SOURCE], "interactions": []},
        {"answer_attribution.0.source": "interactions[3].content"},
    ),
    "upgrade.one_assistant_turn": (
        {"interaction_type": "multi_turn", "interactions": [{"turn_idx": 0, "role": "assistant"}]},
        {"interaction_type": "multi_turn"},
    ),
}
PLAIN = {
    "metadata": {"subject": "maths"},
    "evaluation": {"score": 1, "is_correct": True},
    "sample_id": "q",
}


def value_at(record: Any, path: str) -> Any:
    for step in path.split("."):
        record = record[int(step)] if step.isdigit() else record[step.replace("\0", ".")]
    return record


@pytest.mark.parametrize("code", UPGRADES)
def test_every_code_has_an_example(code: str) -> None:
    """Each lossy or ambiguous step is counted, and what it does is as documented."""
    kind = "agentic" if code in CONVERSATIONS else "single_turn"
    changes, wanted = (CASES | CONVERSATIONS)[code]
    new, codes = upgraded(sample(kind, **{**PLAIN, **changes}))
    assert code in codes
    assert set(codes) - {code} <= {"upgrade.unknown_root_key"}
    for path, value in wanted.items():
        assert_agrees(value, value_at(new, path))


@pytest.mark.each_value
@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("kind", ["single_turn", "multi_turn", "agentic"])
def test_full_records_are_upgraded(kind: str, version: str) -> None:
    """A record with every field of its version becomes valid, by the fast path."""
    normal = bytearray()
    batch = Judge(JudgeSettings(target=NEWEST_SCHEMA.name)).judge_chunk(
        json.dumps(sample_of(version, kind)).encode(), normal
    )
    assert (batch.slow, batch.versions) == (0, Counter({version: 1}))
    validator().validate(json.loads(normal))


@pytest.mark.parametrize("digits", [18, 25, 4_300, 4_301, 100_000])
def test_integers_keep_their_digits(digits: int) -> None:
    """Integers of any length keep their digits, as `sample_id`, in `metadata` and as unknown keys."""
    number = "7" * digits
    record = sample(
        sample_id="@",
        zz={"n": "@"},
        metadata={"n": "@"},
        evaluation={"score": "@", "is_correct": True},
    )
    line = json.dumps(record).replace('"@"', number).encode()
    judge = Judge(JudgeSettings(target=NEWEST_SCHEMA.name))
    for _ in range(2):  # the second time by the fast path, if it can
        normal = bytearray()
        judge.judge_chunk(line, normal)
        assert f'"sample_id":"{number}"'.encode() in normal
        assert f'"metadata":{{"n":"{number}","zz":"{{\\"n\\":{number}}}"}}'.encode() in normal
        assert f'"score":{number},'.encode() in normal


@pytest.mark.parametrize(
    ("sample_id", "text"),
    [("1.0", "1"), ("-0.0", "0"), ("1e22", "1" + "0" * 22), ("-5", "-5"), ("0", "0")],
)
def test_a_numeric_sample_id_becomes_a_decimal_integer(sample_id: str, text: str) -> None:
    """An integral number is spelled as an integer."""
    value, _ = parse(json.dumps(sample(sample_id="@")).replace('"@"', sample_id).encode())
    assert upgraded(value)[0]["sample_id"] == text


def test_nulls_that_mean_absence_are_left_out() -> None:
    """`messages`, `evaluation_result_id` and nullable fields; a null of an unknown key is kept."""
    record = sample(
        messages=None,
        evaluation_result_id=None,
        error=None,
        interactions=None,
        output={"raw": "x", "reasoning_trace": None, "more": None},
        other=None,
    )
    new, _ = upgraded(record)
    assert not {"messages", "evaluation_result_id", "error", "interactions", "other"} & new.keys()
    assert new["output"] == {"raw": ["x"], "more": None}
    assert new["metadata"]["other"] == "null"


def test_messages_of_a_single_turn_go_to_metadata() -> None:
    """They were an unknown key, and a single turn of 0.3.0 must not have them."""
    new, codes = upgraded(sample(messages=[{"role": "user"}]))
    assert "messages" not in new
    assert new["metadata"]["messages"] == '[{"role":"user"}]'
    assert "upgrade.unknown_root_key" in codes


def test_the_order_of_keys_does_not_matter() -> None:
    """Suffixes follow the order of names, not that of the keys in the line."""
    record = sample(metadata={"a": "0"}, a=1, a_2=2, b=3)
    backwards = dict(reversed(record.items()))
    assert upgraded(record)[0]["metadata"] == upgraded(backwards)[0]["metadata"]


def test_every_code_is_documented() -> None:
    """The page about versions has every code of an upgrade, and no others."""
    page = (Path(__file__).parents[2] / "docs" / "versions.md").read_text()
    assert set(re.findall(r"`(upgrade\.\w+)`", page)) == UPGRADES.keys()
