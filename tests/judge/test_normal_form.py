"""The normal form is lossless and idempotent, and equal for every spelling and on both paths."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.judge.judge import Judge
from tests import reference
from tests.judge.helpers import judge, normal
from tests.samples import sample, sample_of
from tests.sizes import examples
from tests.strategies import dice, records, respelled


@given(records, dice)
@settings(max_examples=examples(12, 600))
def test_normal_form_is_lossless_idempotent_and_independent_of_spelling(
    record: dict[str, Any], rng: random.Random
) -> None:
    """Every spelling of a record has the same normal form, which has the same values and is its own
    normal form.
    """
    assert reference.is_valid(record)
    lines = [json.dumps(record).encode(), *(respelled(record, rng).encode() for _ in range(3))]
    once = normal(lines[0])
    assert reference.same(json.loads(once), reference.normal_record(record))
    other = (
        Judge()
    )  # one for all spellings: a judge learns unknown keys, which takes longer than all the rest
    assert [normal_by(other, line) for line in [*lines[1:], once]] == [once] * 4
    assert once.endswith(b"}\n")
    assert once.count(b"\n") == 1


NULLS = {
    "sample_hash": {"sample_hash": None},
    "metadata": {"metadata": None},
    "choices": {"input": {"raw": "q", "reference": ["x"], "choices": None}},
    "formatted": {"input": {"raw": "q", "reference": ["x"], "formatted": None}},
    "reasoning_trace": {"output": {"raw": ["y"], "reasoning_trace": None}},
    "num_turns": {"evaluation": {"score": 1.0, "is_correct": True, "num_turns": None}},
    "error": {"error": None},
    "none": {},
}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("label", ["0.2.0", "instance_level_eval_0.2.0", "0.2.1", "0.2.3", "x"])
@pytest.mark.parametrize("nulls", NULLS.values(), ids=NULLS)
def test_an_upgraded_record_stays_as_it_is(nulls: dict[str, Any], label: str, named: bool) -> None:
    """Whatever its label says of a shape that several versions have but for nulls."""
    record = sample_of("0.3.0") | {
        "schema_version": label,
        "input": {"raw": "q", "reference": ["x"]},
        "output": {"raw": ["y"]},
    }
    if not named:
        record.pop("evaluation_result_id")
    once = fastrec.judge(json.dumps(record | nulls), upgrade=True)
    assert once.valid
    assert once.normal is not None
    again = fastrec.judge(once.normal, upgrade=True)
    assert (again.normal, again.version) == (once.normal, "0.3.0")


def normal_by(judge: Judge, line: bytes) -> bytes:
    out = bytearray()
    assert not judge.judge_chunk(line, out).rejected
    return bytes(out)


@given(st.lists(records, min_size=1, max_size=12), dice)
@settings(max_examples=examples(4, 160))
def test_normal_forms_do_not_depend_on_earlier_records(
    batch: list[dict[str, Any]], rng: random.Random
) -> None:
    """A judge that has learned unknown keys writes the same bytes as a fresh one, in one chunk or
    in many.
    """
    lines = [respelled(record, rng).encode() for record in batch]
    seasoned = Judge()
    once = bytearray()
    twice = bytearray()
    seasoned.judge_chunk(b"\n".join(lines), once)
    seasoned.judge_chunk(b"\n".join(lines), twice)
    assert bytes(once) == bytes(twice) == b"".join(normal(line) for line in lines)


def test_fast_path_and_slow_path_write_the_same_bytes() -> None:
    """Structs and plain dicts have the same normal form."""
    for name in ("single_turn", "multi_turn", "agentic"):
        record = sample(name)
        line = json.dumps(record)
        fast = judge(line.encode())[0]
        slow = judge(line.replace('"turn_idx": 0', '"turn_idx": 0.0').encode())[0]
        assert (fast.slow, slow.slow) == (0, 1)
        assert normal(line.encode()) == normal(
            line.replace('"turn_idx": 0', '"turn_idx": 0.0').encode()
        )


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ('"score": 1', '"score":1,'),
        ('"score": 1.0', '"score":1.0,'),
        ('"score": true', '"score":true,'),
        ('"score": 1e2', '"score":100.0,'),
        ('"score": 0.1000', '"score":0.1,'),
        ('"score": -0.0', '"score":-0.0,'),
        ('"score": 1E-7', '"score":1e-7,'),
        ('"score": 123456789012345678901234567890', '"score":123456789012345678901234567890,'),
    ],
)
def test_numbers_keep_their_kind(given_text: str, expected: str) -> None:
    """Outside integer fields a number keeps its kind, in its shortest spelling."""
    line = json.dumps(sample(evaluation={"score": "@", "is_correct": True})).replace(
        '"score": "@"', given_text
    )
    assert expected.encode() in normal(line.encode())


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [("1.0", "1"), ("1e2", "100"), ("-0.0", "0"), ("-0", "0"), ("1e22", "1" + "0" * 22)],
)
def test_integral_numbers_in_integer_fields_become_integers(spelling: str, expected: str) -> None:
    """1.0 and 1e2 are integers in draft-07, and become integers in integer fields."""
    line = json.dumps(sample(sample_id="@")).replace('"@"', spelling)
    assert f'"sample_id":{expected},'.encode() in normal(line.encode())


def test_only_nulls_that_mean_absence_are_left_out() -> None:
    """A null is dropped in a known, optional and nullable field, and kept in unknown and free-form
    fields.
    """
    record = sample(error=None, token_usage=None, performance=None, zz=None, metadata={"x": None})
    out = json.loads(normal(record))
    assert not {"error", "token_usage", "performance"} & out.keys()
    assert out["zz"] is None
    assert out["metadata"] == {"x": None}


def test_every_nullable_field_of_the_schema_is_dropped_when_null() -> None:
    """The fast path drops nulls in all nullable optional fields of the schema."""
    single = sample(error=None, interactions=None, output={"raw": "x", "reasoning_trace": None})
    single["token_usage"] |= dict.fromkeys(
        ["input_tokens_cache_write", "input_tokens_cache_read", "reasoning_tokens"]
    )
    single["performance"] = dict.fromkeys(
        ["latency_ms", "time_to_first_token_ms", "generation_time_ms"]
    )
    agentic = sample("agentic", output=None, token_usage=None, performance=None)
    for turn in agentic["interactions"]:
        turn |= dict.fromkeys(["content", "reasoning_trace", "tool_calls"])
    for record in (single, agentic):
        batch, out = judge(json.dumps(record).encode())
        assert batch.slow == 0
        assert reference.same(json.loads(out), reference.normal_record(record))
        assert b":null" not in out.replace(b'"b":null', b"")  # the free-form one stays


def test_keys_of_free_form_objects_are_sorted_by_code_point_at_every_level() -> None:
    """U+FFFF sorts before U+10000, unlike in UTF-16."""
    metadata = {"\U00010000": 1, "\uffff": {"b": 1, "a": [{"d": 1, "c": 2}]}, "": 0}
    out = json.loads(normal(sample(metadata=metadata, zz=metadata)))
    for value in (out["metadata"], out["zz"]):
        assert list(value) == ["", "\uffff", "\U00010000"]
        assert list(value["\uffff"]["a"][0]) == ["c", "d"]


@pytest.mark.parametrize(
    ("mode", "expected"), [("replace", reference.sample_hash(sample())), ("fill", "00ff")]
)
def test_a_wrong_sample_hash_is_replaced_or_kept(mode: Any, expected: str) -> None:
    """`replace` corrects it, `fill` keeps it; both modes count it, on both paths."""
    for record in (sample(), sample(zz=1)):
        batch, out = judge(json.dumps(record).encode(), sample_hash=mode)
        assert json.loads(out)["sample_hash"] == expected
        assert (batch.recipe_names, len(batch.replaced)) == (["wrong"], 1)
        assert (batch.replaced[0].given, batch.replaced[0].computed) == (
            "00ff",
            reference.sample_hash(record),
        )


def test_right_and_missing_hashes_are_counted() -> None:
    """A right hash counts by its recipe, a missing one as absent."""
    right = sample(sample_hash=reference.sample_hash(sample()))
    absent = sample()
    del absent["sample_hash"]
    lines = b"\n".join(
        json.dumps(record).encode()
        for record in (right, absent, {**right, "zz": 1}, {**absent, "zz": 1})
    )
    batch, _ = judge(lines)
    assert (batch.recipe_names, batch.replaced) == (["R1", "absent"] * 2, [])


def test_unknown_keys_in_every_record_soon_take_the_fast_path() -> None:
    """After a few records the judge has fields for the unknown keys.

    Other keys stay on the slow path.
    """
    record = sample("agentic", zz={"b": 1}, **{"a b": None})
    record["interactions"][0]["tool_calls"][0]["latency"] = 3
    record["performance"]["judge_price"] = 0.1
    batch, _ = judge(b"\n".join([json.dumps(record).encode()] * 50))
    assert batch.slow == 1
    odd = sample("agentic", metrics={"num_turns": 1}, **{'q"': 1})
    batch, out = judge(b"\n".join([json.dumps(odd).encode()] * 5))
    assert batch.slow == 5
    assert reference.same(json.loads(out.splitlines()[0]), reference.normal_record(odd))


def test_new_keys_in_every_record_do_not_build_a_decoder_each() -> None:
    """The wait for the next decoder doubles, so hostile input cannot make the judge build decoders
    forever.
    """
    machine = Judge()
    lines = [json.dumps(sample(**{f"key_{number}": number})).encode() for number in range(300)]
    batch = machine.judge_chunk(b"\n".join(lines), bytearray())
    assert len(batch.records) == 300
    assert machine._rules.decoder.built < 10


def test_output_is_utf8() -> None:
    """Non-ASCII characters are written as themselves, not as escapes."""
    out = normal(sample(error="é\u2028😀"))
    assert "é\u2028😀".encode() in out
    assert msgspec.json.decode(out)["error"] == "é\u2028😀"
