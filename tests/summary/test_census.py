"""The census, checked against simple counting with sets and dicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from fastrec.sorting.keys import KeyColumns
from fastrec.summary.census import (
    Identity,
    QuestionCounts,
    census_of_part,
    count_questions,
    find_several,
)
from fastrec.summary.tally import NO_OUTCOME

Fields = tuple[bytes, bytes, bytes, bytes, bytes, int | None]
"""evaluation_name, sample_hash, model_id, evaluation_id, sample_id, and which contradiction of its key it belongs to.

Each record of the same fields is another one.
"""

QuestionsByModel = dict[bytes, Counter[bytes]]
"""Number of questions by evaluation and model."""

few = st.sampled_from([b"a", b"b", b"c"])
numbers = st.sampled_from([None, None, 0, 1])
fields = st.tuples(
    st.sampled_from([b"x", b"y"]), few, few, st.sampled_from([b"1", b"2"]), few, numbers
)
dice = st.randoms(use_true_random=False)


Found = list[Identity | None]


def census(
    parts: list[list[Fields]],
) -> tuple[dict[bytes, QuestionCounts], Found, Found, QuestionsByModel]:
    """Build the census of each part, encode and decode it, and merge.

    Count the questions of each model.
    """
    taken = []
    for part in parts:
        contradictions: dict[tuple[bytes, ...], list[int | None]] = defaultdict(list)
        for *key, number in part:
            contradictions[tuple(key)].append(number)
        some = {
            key: numbers
            for key, numbers in contradictions.items()
            if any(n is not None for n in numbers)
        }
        taken.append(
            census_of_part(
                KeyColumns.of(record[:5] for record in part), [NO_OUTCOME] * len(part), some
            )
        )
    by_hash, by_id = (
        sorted(
            chain(*(msgspec.msgpack.decode(msgspec.msgpack.encode(lists[side])) for lists in taken))
        )
        for side in (0, 1)
    )
    counted = count_questions(by_hash)
    several = list(find_several(by_id, counted))
    repeated, contradicting = (
        [one.identity(contradicting=kind) for one in several] for kind in (False, True)
    )
    answered: QuestionsByModel = defaultdict(Counter)
    for part in parts:
        for evaluation, _, model, *_ in part:
            answered[evaluation][model] += 1
    for evaluation, questions in counted.items():
        for model, repeats in questions.repeats.items():
            answered[evaluation][model] -= sum(
                (k - 1) * sums.questions for k, sums in repeats.without_errors.items()
            )
            assert not repeats.answers
            assert not repeats.records
    return counted, repeated, contradicting, answered


Expected = list[tuple[Any, ...]]


def split_hashes(records: list[Fields]) -> set[tuple[bytes, bytes]]:
    """Evaluations and hashes that one run of a model has under several sample_ids."""
    return {
        (one[0], one[1])
        for one in records
        for other in records
        if one[:4] == other[:4] and one[4] != other[4]
    }


def brute_force(records: list[Fields]) -> tuple[dict[bytes, dict[str, Any]], Expected, Expected]:
    """The same counts with sets and dicts."""
    models = defaultdict(set)
    ids = defaultdict(set)
    hashes = defaultdict(set)
    identities: dict[tuple[bytes, ...], list[tuple[bytes, bool]]] = defaultdict(list)
    split = split_hashes(records)
    for evaluation, sample, model, run, sample_id, number in records:
        models[evaluation, sample, sample_id if (evaluation, sample) in split else None].add(model)
        ids[evaluation, sample].add(sample_id)
        hashes[evaluation, sample_id].add(sample)
        identities[evaluation, sample_id, model, run].append((sample, number is not None))
    evaluations = {}
    for name in {record[0] for record in records}:
        everyone = {record[2] for record in records if record[0] == name}
        samples = [who for (evaluation, *_), who in models.items() if evaluation == name]
        evaluations[name] = {
            "samples": len(samples),
            "questions_all_models": sum(who == everyone for who in samples),
            "hashes_with_many_ids": sum(
                len(found) > 1 for (evaluation, _), found in ids.items() if evaluation == name
            ),
            "split_hashes": sum(evaluation == name for evaluation, _ in split),
            "ids_with_many_hashes": sum(
                len(found) > 1 for (evaluation, _), found in hashes.items() if evaluation == name
            ),
        }
    kinds: list[Expected] = [[], []]
    for who, found in sorted(identities.items()):
        for contradicts in (False, True) if len(found) > 1 else ():
            some = [sample for sample, kind in found if kind == contradicts]
            kinds[contradicts].append((who, len(some), sorted(set(some))))
    return evaluations, *kinds


@given(st.lists(fields, max_size=30), st.integers(1, 4), dice)
@example([(b"x", b"a", b"m", b"1", b"i", None)] * 2, 2, None)
@example([(b"x", b"a", b"m", b"1", b"i", 0)] * 2 + [(b"x", b"b", b"m", b"1", b"i", None)], 1, None)
def test_the_census_agrees_with_simple_counting(
    records: list[Fields], parts: int, rng: Any
) -> None:
    """Questions, answers, ids and hashes that disagree, repeats and contradictions, however spread
    over parts.
    """
    spread: list[list[Fields]] = [[] for _ in range(parts)]
    for number, record in enumerate(records):
        spread[rng.randrange(parts) if rng else number % parts].append(record)
    counted, *several, answered = census(spread)
    expected, *expected_several = brute_force(records)
    assert counted.keys() == expected.keys()
    for name, samples in counted.items():
        everyone = len({record[2] for record in records if record[0] == name})
        assert {
            "samples": samples.questions,
            "questions_all_models": samples.by_models[everyone],
            "hashes_with_many_ids": samples.hashes_with_many_ids,
            "split_hashes": samples.split_hashes,
            "ids_with_many_hashes": samples.ids_with_many_hashes,
        } == expected[name]
    assert several == expected_several
    split = split_hashes(records)
    pairs = {
        (name, model, sample, id_ if (name, sample) in split else None)
        for name, sample, model, _, id_, _ in records
    }
    for name, models in answered.items():
        assert models == Counter(model for evaluation, model, *_ in pairs if evaluation == name)


@given(st.lists(fields, min_size=1, max_size=30), dice)
def test_the_census_does_not_depend_on_the_order(records: list[Fields], rng: Any) -> None:
    """Shuffled records, in one part or in many, give the same counts and the same identities in the
    same order.
    """
    shuffled = rng.sample(records, len(records))
    assert census([records]) == census([shuffled]) == census([[record] for record in shuffled])


def test_an_empty_census_counts_nothing() -> None:
    """No parts, and parts without records, count nothing."""
    assert census([]) == census([[], []]) == ({}, [], [], {})
