"""The census, checked against simple counting with sets and dicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from fastrec.summary.census import (
    Conflict,
    QuestionCounts,
    census_of_part,
    count_conflicts,
    count_questions,
)
from fastrec.summary.means import NO_OUTCOME

Fields = tuple[bytes, bytes, bytes, bytes, bytes]
"""evaluation_name, sample_hash, model_id, evaluation_id, sample_id; each record of the same fields is another one."""

QuestionsByModel = dict[bytes, Counter[bytes]]
"""Number of questions by evaluation and model."""

few = st.sampled_from([b"a", b"b", b"c"])
fields = st.tuples(st.sampled_from([b"x", b"y"]), few, few, st.sampled_from([b"1", b"2"]), few)
dice = st.randoms(use_true_random=False)


def census(parts: list[list[Fields]]) -> tuple[dict[bytes, QuestionCounts], list[Conflict], QuestionsByModel]:
    """Build the census of each part, encode and decode it, and merge; count the questions of each model."""
    taken = [census_of_part(part, [NO_OUTCOME] * len(part)) for part in parts]
    by_hash, by_id = (
        [msgspec.msgpack.decode(msgspec.msgpack.encode(lists[side])) for lists in taken] for side in (0, 1)
    )
    counted = count_questions(by_hash)
    conflicts = list(count_conflicts(by_id, counted))
    answered: QuestionsByModel = defaultdict(Counter)
    for part in parts:
        for evaluation, _, model, _, _ in part:
            answered[evaluation][model] += 1
    for evaluation, questions in counted.items():
        for model, repeats in questions.repeats.items():
            answered[evaluation][model] -= sum((k - 1) * sums.questions for k, sums in repeats.without_errors.items())
            assert not repeats.answers
            assert not repeats.records
    return counted, conflicts, answered


def brute_force(records: list[Fields]) -> tuple[dict[bytes, dict[str, Any]], list[tuple[Any, ...]]]:
    """The same counts with sets and dicts."""
    models, ids, hashes = defaultdict(set), defaultdict(set), defaultdict(set)
    identities: dict[tuple[bytes, ...], list[bytes]] = defaultdict(list)
    for evaluation, sample, model, run, sample_id in records:
        models[evaluation, sample].add(model)
        ids[evaluation, sample].add(sample_id)
        hashes[evaluation, sample_id].add(sample)
        identities[evaluation, sample_id, model, run].append(sample)
    evaluations = {}
    for name in {record[0] for record in records}:
        everyone = {record[2] for record in records if record[0] == name}
        samples = [who for (evaluation, _), who in models.items() if evaluation == name]
        evaluations[name] = {
            "samples": len(samples),
            "questions_all_models": sum(who == everyone for who in samples),
            "hashes_with_many_ids": sum(len(found) > 1 for (evaluation, _), found in ids.items() if evaluation == name),
            "ids_with_many_hashes": sum(
                len(found) > 1 for (evaluation, _), found in hashes.items() if evaluation == name
            ),
        }
    conflicts = [(*who, len(found), sorted(set(found))) for who, found in sorted(identities.items()) if len(found) > 1]
    return evaluations, conflicts


@given(st.lists(fields, max_size=30), st.integers(1, 4), dice)
@example([(b"x", b"a", b"m", b"1", b"i")] * 2, 2, None)
def test_the_census_agrees_with_simple_counting(records: list[Fields], parts: int, rng: Any) -> None:
    """Questions, answers, ids and hashes that disagree, and conflicts, however records are spread over parts."""
    spread: list[list[Fields]] = [[] for _ in range(parts)]
    for number, record in enumerate(records):
        spread[rng.randrange(parts) if rng else number % parts].append(record)
    counted, conflicts, answered = census(spread)
    expected, expected_conflicts = brute_force(records)
    assert counted.keys() == expected.keys()
    for name, samples in counted.items():
        everyone = len({record[2] for record in records if record[0] == name})
        assert {
            "samples": samples.questions,
            "questions_all_models": samples.by_models[everyone],
            "hashes_with_many_ids": samples.hashes_with_many_ids,
            "ids_with_many_hashes": samples.ids_with_many_hashes,
        } == expected[name]
        assert samples.by_models.total() == samples.questions
    found = [msgspec.structs.astuple(conflict) for conflict in conflicts]
    assert found == expected_conflicts
    pairs = {(name, sample, model) for name, sample, model, _, _ in records}
    for name, models in answered.items():
        assert models == Counter(model for evaluation, _, model in pairs if evaluation == name)


@given(st.lists(fields, min_size=1, max_size=30), dice)
def test_the_census_does_not_depend_on_the_order(records: list[Fields], rng: Any) -> None:
    """Shuffled records, in one part or in many, give the same counts and the same conflicts in the same order."""
    shuffled = rng.sample(records, len(records))
    assert census([records]) == census([shuffled]) == census([[record] for record in shuffled])


def test_an_empty_census_counts_nothing() -> None:
    """No parts, and parts without records, count nothing."""
    assert census([]) == census([[], []]) == ({}, [], {})
