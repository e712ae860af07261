"""The tally: exact however records are split and ordered, and checked with independent arithmetic."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastrec.judge.judge import Judge
from fastrec.sorting.keys import KeyColumns, key_maker, key_splitter, sample_id_of
from fastrec.summary.rows import (
    Column,
    bucket_of,
    bucket_value,
    from_portable,
    row_maker,
    to_portable,
)
from fastrec.summary.tally import ModelTally, Tally, means_of
from tests.samples import sample

HUGE = [2**63, -(2**63) - 1, 2**64, 10**18, 10**19, 10**30, -(10**30), 10**400]
scores = (
    st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(HUGE)
)
dice = st.integers(0, 2**32).map(random.Random)


@given(st.integers() | st.sampled_from(HUGE), st.integers(0, 2_200))
def test_integers_of_any_size_are_written_and_read(number: int, zeros: int) -> None:
    """Trailing zeros take no space: sums of scores have a thousand, for each model in each part."""
    number <<= zeros
    written = msgspec.msgpack.encode(to_portable(number))
    assert from_portable(msgspec.msgpack.decode(written)) == number
    assert len(written) < 20 + (number >> zeros).bit_length() // 4
    assert from_portable(hex(number)) == number  # kept work of earlier versions


def rows_of(records: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """The fields and rows of records, by way of the judge and of a file, as in a run."""
    out = bytearray()
    batch = Judge().judge_chunk(b"\n".join(msgspec.json.encode(record) for record in records), out)
    assert not batch.rejected
    split = key_splitter()
    key = key_maker()
    row_of = row_maker()
    rows = [
        row_of(record, number % 3, line)
        for number, (record, line) in enumerate(zip(batch.records, batch.numbers, strict=True))
    ]
    return [split(key(record)) for record in batch.records], msgspec.msgpack.decode(
        msgspec.msgpack.encode(rows)
    )


def tallied(*records: dict[str, Any]) -> ModelTally:
    fields, rows = rows_of(list(records))
    tally = Tally()
    tally.add(KeyColumns.of(fields), rows)
    (only,) = tally.models.values()
    return only


def scored(score: Any, **changes: Any) -> dict[str, Any]:
    return sample(
        evaluation={"score": score, "is_correct": bool(score)}, **{"error": None, **changes}
    )


# Sums


@given(st.lists(scores, min_size=1, max_size=12), dice)
@example([0.1] * 10, random.Random(0))
@example([1e308, 1e308, -1e308, 5e-324, True], random.Random(0))
def test_a_tally_is_exact_for_any_split(several: list[Any], rng: random.Random) -> None:
    """Records spread over several tallies, merged in any order, give the exact sums."""
    fields, rows = rows_of(
        [scored(score, sample_id=number) for number, score in enumerate(several)]
    )
    whole = Tally()
    whole.add(KeyColumns.of(fields), rows)
    pieces = [Tally() for _ in range(3)]
    places = list(range(len(rows)))
    rng.shuffle(places)
    for place in places:
        pieces[rng.randrange(3)].add(KeyColumns.of([fields[place]]), [rows[place]])
    rng.shuffle(pieces)
    merged = Tally()
    for piece in pieces:
        merged += piece
    assert merged == whole
    (model,) = whole.models.values()
    exact = [Fraction(score) for score in several]
    assert Fraction(model.score, 2**1074) == sum(exact)
    assert Fraction(model.score_squared, 2**2148) == sum(score**2 for score in exact)
    assert (model.records, model.correct) == (len(several), sum(map(bool, several)))
    try:
        mean = float(sum(exact) / len(exact))
    except OverflowError:
        mean = None
    assert means_of(model.answers()).mean_score == mean


@given(st.lists(st.floats(-1e6, 1e6) | st.integers(-5, 5) | st.booleans(), min_size=2, max_size=20))
def test_the_standard_error_is_that_of_the_mean(several: list[Any]) -> None:
    """It agrees with the standard deviation of the statistics module divided by the root of the
    count.
    """
    expected = statistics.stdev([Fraction(score) for score in several]) / math.sqrt(len(several))
    tally = tallied(*(scored(score, sample_id=number) for number, score in enumerate(several)))
    assert means_of(tally.answers()).score_standard_error == pytest.approx(
        float(expected), rel=1e-12, abs=1e-320
    )


@pytest.mark.parametrize(
    ("several", "mean", "error"),
    [
        ([True], 1.0, None),
        ([1, 1.0, True], 1.0, 0.0),
        ([0.1, 0.1, 0.1], 0.1, 0.0),
        ([True, False], 0.5, 0.5),
        ([0, 10**400], None, None),
        ([10**400, -(10**400)], 0.0, None),
        ([10**18, 10**18 + 2], float(10**18 + 1), 1.0),
        ([1e-200, 3e-200], 2e-200, 1e-200),
        ([1e200, 3e200], 2e200, 1e200),
        ([1.7e308, 1.7e308], 1.7e308, 0.0),
        ([5e-324, 15e-324], 10e-324, 5e-324),
    ],
)
def test_means_and_errors_are_rounded_once(
    several: list[Any], mean: float | None, error: float | None
) -> None:
    """A mean or an error of any size is exact; one that overflows a double is null."""
    tally = tallied(*(scored(score, sample_id=number) for number, score in enumerate(several)))
    found = means_of(tally.answers())
    assert found.mean_score == mean
    assert found.score_standard_error == (
        error if error is None else pytest.approx(error, rel=1e-15, abs=0)
    )


def test_what_is_counted() -> None:
    """Errors, turns, tool calls and tokens are sums over records; missing values do not count."""
    usage = {"input_tokens": 10**30, "output_tokens": 10**18, "total_tokens": 7}
    found = tallied(
        sample(),  # error: "none" is a word like any other; 10, 5 and 15 tokens; 12.5 ms
        sample(sample_id="q-2", error="", token_usage=None, performance=None),
        sample(
            "agentic",
            model_id="org/model",
            error=None,
            token_usage=usage,
            performance={"latency_ms": 0},
        ),
        sample("multi_turn", sample_id=-5, error="timeout", performance={"latency_ms": None}),
        sample(
            "multi_turn",
            sample_id=9,
            interactions=[],
            token_usage={**usage, "total_tokens": 2**63},
            unknown=1,
        ),
    )
    assert (found.records, found.correct, found.errors) == (
        5,
        1,
        3,
    )  # the others that are correct have an error
    assert (found.turns, found.tool_calls) == (1 + 1 + 2 + 2 + 0, 1)
    assert found.with_tokens == 4
    assert [found.input_tokens, found.output_tokens, found.total_tokens] == [
        10 + 2 * 10**30 + 10,
        5 + 2 * 10**18 + 5,
        15 + 7 + 15 + 2**63,
    ]
    assert found.latency == Counter({bucket_of(12.5): 2, 0: 1})
    assert (sample_id_of(found.first), sample_id_of(found.last)) == (-5, "q-2")


def test_kinds_of_records_are_counted() -> None:
    """Interaction types and schema versions are counted by record."""
    fields, rows = rows_of(
        [sample(), sample("agentic"), sample("agentic", schema_version="x", model_id="other")]
    )
    tally = Tally()
    tally.add(KeyColumns.of(fields), rows)
    assert tally.interaction_types == {None: 1, "agentic": 2}
    assert tally.schema_versions == {None: 2, "x": 1}
    assert sorted(model for _, model in tally.models) == [b"org/model", b"other"]


@given(st.sampled_from(HUGE), st.booleans())
def test_rows_carry_integers_of_any_size(number: int, unknown: bool) -> None:
    """A score or a count beyond 64 bits can be written and read, on the fast path and on the slow
    path.
    """
    usage = {"input_tokens": abs(number), "output_tokens": 0, "total_tokens": 10**18}
    record = scored(number, token_usage=usage, **({"unknown": 1} if unknown else {}))
    found = tallied(record)
    assert Fraction(found.score, 2**1074) == number
    assert [found.input_tokens, found.output_tokens, found.total_tokens] == [abs(number), 0, 10**18]


# The histogram of latencies


@given(st.floats(5e-324, 1.7e308) | st.integers(1, 10**300))
@example(1.0)
@example(2.0**-1074)
@example(math.nextafter(1.0, 0))
def test_a_bucket_is_accurate_to_1_in_128(value: float) -> None:
    """The middle of a bucket is within 1/128 of each latency in it, or one step of a double."""
    assert abs(bucket_value(bucket_of(value)) - value) <= max(value / 128, 5e-324)


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=50))
def test_buckets_are_in_order(values: list[float]) -> None:
    """A larger latency is never in a lower bucket, and zero has a bucket of its own."""
    buckets = [bucket_of(value) if value else 0 for value in sorted(values)]
    assert buckets == sorted(buckets)
    assert all(
        (bucket == 0) is (value == 0) for bucket, value in zip(buckets, sorted(values), strict=True)
    )


def test_a_latency_beyond_a_double_is_in_the_last_bucket() -> None:
    """A latency of 400 digits is counted in the last bucket, not refused."""
    assert bucket_of(10**400) >= bucket_of(2.0**1023)
    assert math.isfinite(bucket_value(bucket_of(10**400)))


@given(
    st.lists(st.floats(0.001, 1e9) | st.just(0), min_size=1, max_size=60),
    st.sampled_from([0.5, 0.9, 0.99, 1.0]),
)
def test_quantiles_are_those_of_the_sorted_list(values: list[float], share: float) -> None:
    """A quantile is the bucket of the value at that rank, as in a sorted list of all values."""
    records = [
        sample(sample_id=number, performance={"latency_ms": value})
        for number, value in enumerate(values)
    ]
    bucket = tallied(*records).latency_quantiles([share])[0]
    expected = sorted(values)[max(math.ceil(share * len(values)), 1) - 1]
    assert bucket == (bucket_of(expected) if expected else 0)


def test_no_latency_no_quantile() -> None:
    """Records without a latency have no quantiles."""
    assert tallied(sample(performance=None)).latency_quantiles([0.5]) == [None]
    assert rows_of([sample(performance={})])[1][0][Column.LATENCY] is None
