"""A judge without normal forms gives the same verdicts, findings and counts as one with them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.judge.batch import Batch
from fastrec.judge.findings import WARNINGS, warnings_of
from fastrec.judge.judge import Judge
from fastrec.judge.repair import repair_codes
from fastrec.judge.version_rules import JudgeSettings
from fastrec.schemas.registry import SCHEMAS, schema_of
from fastrec.schemas.schema import Schema
from tests import reference
from tests.judge.test_oracle import spelled
from tests.judge.test_paths import mixed_records
from tests.samples import sample_of
from tests.sizes import examples
from tests.strategies import dice, records_of, respelled

OPTIONS: dict[str, dict[str, Any]] = {
    "any version": {},
    "one version": {"schema": "0.2.0"},
    "repairs": {"repairs": frozenset(repair_codes(["all"]))},
    "verify hashes": {"sample_hash": "verify"},
}
KINDS = ["single_turn", "multi_turn", "agentic"]


def verdicts(batch: Batch) -> dict[str, Any]:
    """Return what a batch says about its lines, apart from records and normal forms."""
    assert batch.lines == batch.valid + len(batch.rejected) + batch.blank
    return {
        "lines": batch.lines,
        "blank": batch.blank,
        "valid": batch.valid,
        "versions": +batch.versions,
        "notes": +batch.notes,
        "rejected": batch.rejected,
        "warnings": batch.warnings,
        "replaced": batch.replaced,
        "repaired": batch.repaired,
    }


def judged(judge: Judge, data: bytes) -> Batch:
    """Judge lines without normal forms."""
    out = bytearray(b"before")
    batch = judge.judge_chunk(data, out, line=7, offset=100)
    assert out == b"before"
    assert [batch.records, batch.numbers, batch.ends, batch.recipe_names] == [[], [], [], []]
    return batch


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a value that have a key."""
    if isinstance(value, dict):
        if value:
            yield value
        value = list(value.values())
    for child in value if isinstance(value, list) else ():
        yield from objects_in(child)


def hostile_text(rng: random.Random) -> str:
    """Return text with quotes and runs of backslashes."""
    return "".join(
        rng.choice(['"', "\\", "\\" * rng.randrange(9), '":', "a", "é"])
        for _ in range(rng.randrange(8))
    )


def hostile_line(record: dict[str, Any], rng: random.Random) -> bytes:
    """Spell a record with odd texts, unknown keys, and perhaps one key twice, at any depth."""
    for one in list(objects_in(record)):
        for key, value in one.items():
            if (
                isinstance(value, str)
                and key not in ("schema_version", "interaction_type")
                and rng.random() < 0.2
            ):
                one[key] = hostile_text(rng)
        if rng.random() < 0.05:
            one[rng.choice(["zz", "class", "é", "ﬁ", "a:b", 'q"', hostile_text(rng)])] = rng.choice(
                ["x", 1, None, {}, ["a", {"b": "c"}], hostile_text(rng)]
            )
    if rng.random() < 0.5:
        return spelled(record, rng)
    one = rng.choice(list(objects_in(record)))
    twice = rng.choice(list(one))
    one["(twice)"] = rng.choice(
        [one[twice], None, 1, "x", hostile_text(rng), {"a": "b"}, ["c", "d"]]
    )
    line = spelled(record, rng)
    key = json.dumps(twice)
    if rng.random() < 0.3:
        key = '"' + "".join(f"\\u{ord(char):04x}" for char in twice if ord(char) < 0x10000) + '"'
    return line.replace(b'"(twice)"', key.encode())


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@given(dice)
@settings(max_examples=examples(2, 60))
def test_verdicts_are_the_same_without_normal_forms(
    options: dict[str, Any], rng: random.Random
) -> None:
    """Line by line, in one chunk, and again: with duplicate keys at every depth, and backslashes
    before quotes.
    """
    lines = [hostile_line(record, rng) for record in mixed_records(rng, 25)]
    lines.insert(
        rng.randrange(25), rng.choice([b"", b" ", b'{"', b'"\\', b"[]", b"\xff", lines[0][:-9]])
    )
    subject = Judge(JudgeSettings(warnings=True, normal=False, **options))
    other = Judge(JudgeSettings(warnings=True, **options))
    for data in (*lines, b"\n".join(lines), b"\n".join(reversed(lines)) + b"\n"):
        expected = other.judge_chunk(data, bytearray(), line=7, offset=100)
        assert verdicts(judged(subject, data)) == verdicts(expected), data


@given(dice)
@settings(max_examples=examples(2, 60))
def test_records_without_normal_forms(rng: random.Random) -> None:
    """With `records`, verdicts come with the same records and line numbers as with normal forms."""
    lines = [hostile_line(record, rng) for record in mixed_records(rng, 25)]
    subject = Judge(JudgeSettings(normal=False, records=True))
    other = Judge(JudgeSettings(known_input_bytes=0))
    for data in (*lines, b"\n".join(lines), b"\n".join(reversed(lines)) + b"\n"):
        out = bytearray()
        found = subject.judge_chunk(data, out, line=7)
        expected = other.judge_chunk(data, bytearray(), line=7)
        assert not out
        assert verdicts(found) == verdicts(expected)
        assert found.numbers == expected.numbers
        for mine, other_one in zip(found.records, expected.records, strict=True):
            for name in ("evaluation_id", "model_id", "evaluation_name", "sample_id"):
                assert getattr(mine, name) == getattr(other_one, name)
            assert mine.evaluation.score == other_one.evaluation.score
            assert (mine.error or None) == (other_one.error or None)


@pytest.mark.parametrize("version", SCHEMAS)
@given(st.data(), dice)
@settings(max_examples=examples(3, 100))
def test_no_valid_record_seems_to_have_lost_a_key(
    version: str, data: st.DataObject, rng: random.Random
) -> None:
    """Random valid records take the fast path without normal forms, too, as soon as their unknown
    keys are learned.
    """
    record = data.draw(records_of[version])
    lines = b"\n".join(respelled(record, rng).encode() for _ in range(3))
    subject = Judge(JudgeSettings(schema=version, normal=False))
    other = Judge(JudgeSettings(schema=version, known_input_bytes=0))
    for _ in range(2):
        batch = judged(subject, lines)
        expected = other.judge_chunk(lines, bytearray())
        assert verdicts(batch)["versions"] == {version: 3}
        assert batch.slow == expected.slow


def perturbed(record: dict[str, Any], schema: Schema, rng: random.Random) -> dict[str, Any]:
    """Return a record with right or wrong numbers of turns and calls, and ids of calls that may not
    exist.
    """
    turns = record.get(schema.turns_field) or []
    for turn in turns:
        if rng.random() < 0.1:
            turn["turn_idx"] = rng.randrange(3)
        if rng.random() < 0.2:
            ids: list[Any] = ["call-1", "call-2", ""]
            turn["tool_call_id"] = rng.choice([[], rng.sample(ids, 1), ids])
            if schema.turns_field == "interactions" and rng.random() < 0.5:
                turn["tool_call_id"] = rng.choice(ids)
        if rng.random() < 0.1:
            turn.pop("tool_calls", None)
    counts = record["evaluation"]
    for key in ("num_turns", "tool_calls_count"):
        if rng.random() < 0.2:
            counts[key] = rng.randrange(1, 4)
        elif rng.random() < 0.1:
            counts.pop(key, None)
    if rng.random() < 0.2:
        record["answer_attribution"][0]["turn_idx"] = rng.randrange(4)
    if rng.random() < 0.2:
        record["token_usage"]["total_tokens"] = rng.randrange(13, 17)
    if rng.random() < 0.1 and turns:
        record[schema.turns_field] = []
    return record


def warned(value: dict[str, Any], turns_field: str) -> set[str]:
    """Return the codes of the warnings about a record, by their definitions."""
    turns = value.get(turns_field) or []
    counts = value["evaluation"]
    usage = value["token_usage"]
    ids = [[call["id"] for call in turn.get("tool_calls") or ()] for turn in turns]
    made = sum(map(len, ids))
    unknown = False
    for index, turn in enumerate(turns):
        answered = turn.get("tool_call_id", [])
        earlier = {one for some in ids[: index + 1] for one in some}
        unknown |= not earlier.issuperset([answered] if isinstance(answered, str) else answered)
    is_conversation = value["interaction_type"] != "single_turn"
    rows = {
        "warn.num_turns_missing": is_conversation and "num_turns" not in counts,
        "warn.num_turns": is_conversation and counts.get("num_turns", len(turns)) != len(turns),
        "warn.tool_calls_count": is_conversation and counts.get("tool_calls_count", made) != made,
        "warn.turn_idx": [turn["turn_idx"] for turn in turns] != list(range(len(turns))),
        "warn.attribution_turn": any(
            one["turn_idx"] > max(len(turns) - 1, 0) for one in value["answer_attribution"]
        ),
        "warn.tool_call_id": unknown,
        "warn.total_tokens": usage["total_tokens"]
        != usage["input_tokens"] + usage["output_tokens"],
    }
    return {code for code, holds in rows.items() if holds}


@given(dice)
@settings(max_examples=examples(10, 120))
def test_warnings_follow_their_definitions(rng: random.Random) -> None:
    """A record has exactly the warnings whose definition holds, in the order of the table of codes."""
    judge = Judge()
    found = []
    order = list(WARNINGS)
    for _ in range(20):
        schema = SCHEMAS[rng.choice(reference.VERSIONS)]
        value = perturbed(sample_of(schema.name, rng.choice(KINDS)), schema, rng)
        batch = judge.judge_chunk(json.dumps(value).encode(), bytearray())
        for record in batch.records:
            own = schema_of(record)
            label = min(own.labels)
            codes = [one.code for one in warnings_of(record, own, label, own, wrong_hash=False)]
            assert set(codes) == warned(value, schema.turns_field), value
            assert codes == sorted(codes, key=order.index)
            found.append(bool(codes))
    assert found
