"""The table of codes: for each row there is a line that has the code, with a clear message."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from fastrec.judge.findings import CODES, ERRORS, NOTES, PAIRS, WARNINGS
from fastrec.schemas.registry import SCHEMAS
from fastrec.schemas.schema import LABELS
from tests.judge.helpers import codes, judge, warning_codes
from tests.samples import sample, sample_of


def findings(record: Any, **options: Any) -> list[tuple[str, str, str]]:
    batch, _ = judge(
        record if isinstance(record, bytes) else json.dumps(record).encode(), **options
    )
    return [
        (finding.code, finding.path, finding.message)
        for invalid in batch.rejected
        for finding in invalid.findings
    ]


def without(record: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != key}


ERROR_CASES: list[tuple[dict[str, Any], str, str, str]] = [
    (sample(model_id=3), "schema.type", "$.model_id", "expected a string, found the integer 3"),
    (
        sample(sample_id=1.5),
        "schema.type",
        "$.sample_id",
        "expected an integer or a string, found the number 1.5",
    ),
    (
        sample(input={"raw": ["x"], "reference": ""}),
        "schema.type",
        "$.input.raw",
        "expected a string, found an array of 1 item",
    ),
    (
        without(sample(), "evaluation"),
        "schema.required",
        "$.evaluation",
        "the required field is missing",
    ),
    (
        sample(interaction_type="chat"),
        "schema.enum",
        "$.interaction_type",
        'expected "single_turn", "multi_turn" or "agentic", found the string "chat"',
    ),
    (
        sample(evaluation={"score": 1, "is_correct": True, "num_turns": 0}),
        "schema.minimum",
        "$.evaluation.num_turns",
        "expected at least 1, found the integer 0",
    ),
    (
        sample("agentic", interactions=[{"turn_idx": 0, "role": "tool", "tool_call_id": None}]),
        "schema.one_of",
        "$.interactions[0].tool_call_id",
        "expected a string or an array of strings, found null",
    ),
    (
        without(sample(), "output"),
        "rule.single_turn_output",
        "$.output",
        "single_turn must have `output` as an object, found nothing",
    ),
    (
        sample(output=None),
        "rule.single_turn_output",
        "$.output",
        "single_turn must have `output` as an object, found null",
    ),
    (
        sample(interactions=[]),
        "rule.single_turn_interactions",
        "$.interactions",
        "single_turn must not have `interactions`, found an array of 0 items",
    ),
    (
        without(sample("multi_turn"), "interactions"),
        "rule.multi_turn_interactions",
        "$.interactions",
        "multi_turn and agentic must have `interactions` as an array, found nothing",
    ),
    (
        sample("agentic", interactions=None),
        "rule.multi_turn_interactions",
        "$.interactions",
        "multi_turn and agentic must have `interactions` as an array, found null",
    ),
    (
        sample("agentic", output={"raw": ""}),
        "rule.multi_turn_output",
        "$.output",
        "multi_turn and agentic must not have `output`, found an object with 1 key",
    ),
    (
        sample("multi_turn", metrics={"other": 1}),
        "rule.metrics_num_turns",
        "$.metrics.num_turns",
        "in multi_turn and agentic, a `metrics` object must have `num_turns`, found nothing",
    ),
    (
        sample_of("0.3.0", "agentic", zz=1),
        "schema.unknown_key",
        "$.zz",
        "this version allows no such key here",
    ),
    (
        sample_of(
            "0.3.0", messages=[], sample_hash=None
        ),  # 0.2.0 allows `messages`, but not the null
        "rule.single_turn_messages",
        "$.messages",
        "single_turn must not have `messages`, found an array of 0 items",
    ),
    (
        without(sample_of("0.3.0", "agentic"), "messages"),
        "rule.multi_turn_messages",
        "$.messages",
        "multi_turn and agentic must have `messages` as an array, found nothing",
    ),
    (
        sample_of(
            "0.3.0", "agentic", interactions=[], sample_hash=None
        ),  # 0.2.0 allows no null, 0.3.0 no such key
        "version.contradiction",
        "$.messages",
        "expected either `interactions` or `messages`, found both",
    ),
]


@pytest.mark.parametrize(("record", "code", "path", "message"), ERROR_CASES)
def test_an_error_has_a_code_a_path_and_a_message(
    record: dict[str, Any], code: str, path: str, message: str
) -> None:
    """One flaw gives exactly one finding."""
    assert findings(record) == [(code, path, message)]


def test_all_errors_of_a_line_are_listed_in_the_order_of_the_table() -> None:
    """A line with several flaws has a finding for each, the most fundamental one first."""
    record = sample(
        model_id=None, evaluation={"score": "x", "num_turns": -1}, interactions=[{"turn_idx": -1}]
    )
    assert [(code, path) for code, path, _ in findings(record)] == [
        ("schema.type", "$.evaluation.score"),
        ("schema.type", "$.model_id"),
        ("schema.required", "$.evaluation.is_correct"),
        ("schema.required", "$.interactions[0].role"),
        ("schema.minimum", "$.evaluation.num_turns"),
        ("schema.minimum", "$.interactions[0].turn_idx"),
        ("rule.single_turn_interactions", "$.interactions"),
    ]


def test_json_flaws_and_schema_errors_are_listed_together() -> None:
    """A duplicate key does not hide the other errors."""
    line = (
        json.dumps(without(sample(), "model_id")).encode()[:-1]
        + b',"error":"a","error":"b","zz":1e999}'
    )
    assert [(code, path) for code, path, _ in findings(line)] == [
        ("json.number", "$.zz"),
        ("json.duplicate_key", "$.error"),
        ("schema.required", "$.model_id"),
    ]


def test_a_wrong_interaction_type_breaks_no_rule() -> None:
    """The conditional rules do not apply without a known interaction_type."""
    assert codes(without(sample(), "interaction_type")) == ["schema.required"]
    assert codes(without(sample(interaction_type="x"), "output")) == ["schema.enum"]


def test_long_values_are_shortened_in_messages() -> None:
    """A message does not contain a whole megabyte of text."""
    [(_, _, message)] = findings(sample(interaction_type="x" * 1_000_000))
    assert message.endswith('found the string "xxxxxxxxxxxxxxxxxxxx…" of 1,000,000 characters')


def test_the_metrics_rule_is_exact() -> None:
    """The rule applies only to multi_turn and agentic records, and only if `metrics` is an object."""
    assert codes(sample(metrics={})) == []
    assert codes(sample("agentic", metrics=[])) == []
    assert codes(sample("agentic", metrics={"num_turns": None})) == []
    assert codes(sample("agentic", metrics={})) == ["rule.metrics_num_turns"]


def test_sample_hash_verify_rejects_a_wrong_hash() -> None:
    """With `verify`, a wrong hash is an error on both paths."""
    assert codes(sample(), sample_hash="verify") == ["hash.mismatch"]
    assert codes(sample(zz=1), sample_hash="verify") == ["hash.mismatch"]
    assert codes(without(sample(), "sample_hash"), sample_hash="verify") == []


def usage(total: int) -> dict[str, int]:
    return {"input_tokens": 2, "output_tokens": 3, "total_tokens": total}


def attribution(turn: int) -> list[dict[str, Any]]:
    return [{**sample()["answer_attribution"][0], "turn_idx": turn}]


def turns(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"turn_idx": index, "role": "user", **change} for index, change in enumerate(changes)]


EVALUATION = {"score": 1, "is_correct": True}
PLAIN = without(sample("multi_turn"), "sample_hash")
WARNING_CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("warn.num_turns_missing", {**PLAIN, "evaluation": EVALUATION}, PLAIN),
    ("warn.num_turns", {**PLAIN, "evaluation": {**EVALUATION, "num_turns": 3}}, PLAIN),
    (
        "warn.tool_calls_count",
        {**PLAIN, "evaluation": {**EVALUATION, "num_turns": 2, "tool_calls_count": 1}},
        {
            **PLAIN,
            "evaluation": {**EVALUATION, "num_turns": 2, "tool_calls_count": 1},
            "interactions": turns({"tool_calls": [{"id": "a", "name": "b"}]}, {"tool_calls": None}),
        },
    ),
    ("warn.turn_idx", {**PLAIN, "interactions": turns({"turn_idx": 1}, {})}, PLAIN),
    (
        "warn.attribution_turn",
        {**PLAIN, "answer_attribution": attribution(2)},
        {**PLAIN, "answer_attribution": attribution(1)},
    ),
    (
        "warn.tool_call_id",
        {
            **PLAIN,
            "interactions": turns(
                {"tool_call_id": ["a"]}, {"tool_calls": [{"id": "a", "name": "b"}]}
            ),
        },
        {
            **PLAIN,
            "evaluation": {**EVALUATION, "num_turns": 2},
            "interactions": turns(
                {"tool_calls": [{"id": "a", "name": "b"}]}, {"tool_call_id": ["a"]}
            ),
        },
    ),
    ("warn.total_tokens", {**PLAIN, "token_usage": usage(6)}, {**PLAIN, "token_usage": usage(5)}),
    ("warn.sample_hash", {**PLAIN, "sample_hash": "00"}, PLAIN),
    (
        "version.unknown",
        {**PLAIN, "schema_version": "banana"},
        {**PLAIN, "schema_version": "0.2.0"},
    ),
    (
        "version.unknown",
        {**PLAIN, "schema_version": ""},
        {**PLAIN, "schema_version": "instance_level_eval_0.2.0"},
    ),
    ("version.mismatch", {**PLAIN, "schema_version": "0.3.0"}, PLAIN),
    ("version.mismatch", {**PLAIN, "schema_version": "instance_level_eval_0.2.2"}, PLAIN),
    ("version.other_turns", {**PLAIN, "messages": []}, {**PLAIN, "messages": None}),
]


@pytest.mark.parametrize(("code", "odd", "plain"), WARNING_CASES)
def test_a_warning_does_not_change_the_verdict(
    code: str, odd: dict[str, Any], plain: dict[str, Any]
) -> None:
    """For each warning there is a valid record that has it, and a similar valid record that does
    not.
    """
    wanted = {"warn.tool_call_id": ["warn.tool_calls_count", "warn.tool_call_id"]}.get(code, [code])
    assert warning_codes(odd) == wanted
    assert warning_codes(plain) == []
    assert warning_codes({**odd, "zz": 1}) == wanted  # the slow path sees the same


def test_warnings_about_versions_name_the_expected_labels() -> None:
    """The message has the labels of the version that the record follows, and a long label is
    shortened.
    """
    batch, _ = judge(json.dumps({**PLAIN, "schema_version": "x" * 100_000}).encode(), warnings=True)
    ((_, finding),) = batch.warnings
    assert finding.path == "$.schema_version"
    assert finding.message == (
        "not a known version: expected 0.2.0 or instance_level_eval_0.2.0, "
        'found the string "xxxxxxxxxxxxxxxxxxxx…" of 100,000 characters'
    )


def test_every_schema_version_has_a_label_of_its_own() -> None:
    """What upgraded records get is one of the labels of their version, and all labels are known."""
    for schema in SCHEMAS.values():
        assert schema.label in schema.labels <= LABELS
        assert {
            label.removeprefix("instance_level_eval_") for label in schema.labels
        } <= schema.labels
    labels = [schema.labels for schema in SCHEMAS.values()]
    assert labels[0] == labels[1]  # two structures were published as 0.2.0
    assert all(one.isdisjoint(other) for one, other in itertools.combinations(labels[1:], 2))


def test_single_turns_have_no_warnings_about_conversations() -> None:
    """`num_turns` and similar fields are only expected if there are interactions."""
    assert warning_codes(without(sample(evaluation=EVALUATION), "sample_hash")) == []
    assert warning_codes(without(sample(answer_attribution=attribution(1)), "sample_hash")) == [
        "warn.attribution_turn"
    ]


def test_every_row_of_the_table_has_a_case() -> None:
    """The cases here and the hostile lines cover all codes."""
    from tests.judge import test_hostile  # noqa: PLC0415

    shown = {code for _, code, _, _ in ERROR_CASES} | {code for code, _, _ in WARNING_CASES}
    for mark in test_hostile.test_hostile_values_are_rejected_in_every_field.pytestmark:
        if mark.name == "parametrize":
            shown |= {case[-1] for case in mark.args[1] if isinstance(case, tuple)}
    shown |= {"hash.mismatch", "line.too_long"}  # by options: above, and in the tests of validate
    shown |= {"version.newer"}  # by option: in the tests of versions
    shown |= {
        "conflict.not_first",
        "conflict.rejected",
        "repeat.not_first",
        "repeat.rejected",
    }  # by options: in the tests of normalize
    shown |= NOTES.keys()  # by options: in the tests of repairs
    shown |= PAIRS.keys()  # not about lines: in the tests of check-pairs
    assert shown == set(CODES)
    assert len(CODES) == len(ERRORS) + len(WARNINGS) + len(NOTES) + len(PAIRS)
