"""Count the selected records of a corpus: the same results that `normalize` has in its summary, from columns.

    `Records` of a run of scopes ──▶ `ModelTally` of each scope and model, `QuestionCounts` of each
    scope ──▶ summaries

All sums are exact. What an array cannot hold stands apart in the columns, and is added here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from fastrec.answers.records import ANSWERS, ERROR, RIGHT, Records, RecordsOfScopes, joint_codes
from fastrec.answers.selection import Array, Selection
from fastrec.sorting.keys import encode_sample_id, encode_text, scope_of
from fastrec.summary.census import QuestionCounts
from fastrec.summary.document import EvaluationSummary
from fastrec.summary.part_statistics import Census
from fastrec.summary.rows import BUCKETS_PER_POWER, FIRST_EXPONENT, bucket_of
from fastrec.summary.summarize import summarize_evaluations
from fastrec.summary.tally import UNIT_BITS, ModelTally, Tally, add_repeats, score_sums


def count_evaluations(selection: Selection, loader: RecordsOfScopes) -> list[EvaluationSummary]:
    """Count what the selected records say about each evaluation and metric.

    Those of all records are known.
    """
    if selection.is_whole:
        return selection.summary.evaluations
    found: list[EvaluationSummary] = []
    for run in loader.runs:
        records = loader.load(run)
        tally = Tally()
        census = Census()
        for counted in count_run(records, np.ones(len(records.number), dtype=np.bool_)):
            tally.models.update(counted.models)
            census.questions[counted.scope] = counted.questions
        found += summarize_evaluations(tally, census)
    return found


class CountedScope(msgspec.Struct):
    """What was counted in a scope; names are encoded as in sort keys."""

    scope: bytes
    models: dict[tuple[bytes, bytes], ModelTally]
    questions: QuestionCounts


def count_run(records: Records, chosen: Array) -> Iterator[CountedScope]:
    """Count the chosen ones of some records, scope by scope."""
    results = joint_codes(
        (records.scope, records.scopes.stop), (records.model, len(records.models))
    )[chosen]
    distinct, of_record = np.unique(results, return_inverse=True)
    tallies = _tallies(records, chosen, of_record, len(distinct))
    by_scope: dict[int, dict[tuple[bytes, bytes], ModelTally]] = {}
    names = {number: scope_of(*records.selection.scopes[number]) for number in records.scopes}
    models = [encode_text(model) for model in records.models]
    for code, tally in zip(distinct.tolist(), tallies, strict=True):
        scope, model = divmod(code, len(records.models))
        by_scope.setdefault(scope, {})[names[scope], models[model]] = tally
    questions = _questions(records, chosen, models)
    for scope, found in by_scope.items():
        yield CountedScope(names[scope], found, questions[scope])


def _tallies(records: Records, chosen: Array, groups: Array, count: int) -> list[ModelTally]:
    """The tally of each group of the chosen records."""
    flag = records.flag[chosen]
    score = records.score[chosen]
    is_error = flag == ERROR
    is_graded = ~is_error & (score != 0) & (score != 1)
    is_outside = is_graded & ((score < 0) | (score > 1))

    def number_of(mask: Array) -> list[int]:
        return [int(one) for one in np.bincount(groups[mask], minlength=count)]

    fields: dict[str, Sequence[Any]] = {
        "records": number_of(np.ones(len(groups), dtype=np.bool_)),
        "correct": number_of(flag == RIGHT),
        "errors": number_of(is_error),
        "graded": number_of(is_graded),
        "outside": number_of(is_outside),
        "notes": _notes(records.gather("notes")[chosen], groups, count),
        "with_tokens": number_of(records.gather("has_tokens")[chosen] > 0),
    }
    exact_values = _Exact(records, chosen)
    for name in ("turns", "tool_calls", "input_tokens", "output_tokens", "total_tokens"):
        fields[name] = _sums(records.gather(name)[chosen], groups, count, exact_values.of(name))
    exact_scores = exact_values.of("score")
    everything = np.ones(len(groups), dtype=np.bool_)
    fields["score"], fields["score_squared"] = _score_sums(
        score, groups, count, exact_scores, everything
    )
    errors = _score_sums(score, groups, count, exact_scores, is_error)
    fields["error_score"], fields["error_score_squared"] = errors
    fields["latency"] = _latencies(
        records.gather("latency_ms")[chosen], groups, count, exact_values.of("latency_ms")
    )
    fields["first"], fields["last"] = _ends(records, chosen, groups, count)
    return [
        ModelTally(**dict(zip(fields, values, strict=True)))
        for values in zip(*fields.values(), strict=True)
    ]


class _Exact:
    """The integers that arrays cannot hold, by position among the chosen records."""

    def __init__(self, records: Records, chosen: Array) -> None:
        self._records = records
        self._numbers = records.number[chosen]

    def of(self, name: str) -> dict[int, int]:
        selection = self._records.selection
        apart: dict[int, int] = {}
        parts = np.unique(np.searchsorted(selection.starts, self._numbers, side="right") - 1)
        for part in parts.tolist():
            start = int(selection.starts[part])
            apart |= {
                start + at: value for at, value in selection.columns(part).exact(name).items()
            }
        if not apart:
            return {}
        return {
            at: apart[number] for at, number in enumerate(self._numbers.tolist()) if number in apart
        }


def _notes(notes: Array, groups: Array, count: int) -> list[int]:
    found = np.zeros(count, dtype=np.int64)
    for bit in range(8):
        has_bit = (notes >> bit) & 1 > 0
        found |= (np.bincount(groups[has_bit], minlength=count) > 0).astype(np.int64) << bit
    return [int(one) for one in found]


def _sums(numbers: Array, groups: Array, count: int, exact_numbers: dict[int, int]) -> list[int]:
    """The sum of the numbers of each group.

    The halves of 64-bit integers are added up apart, so that it is exact.
    """
    wide = numbers.astype(np.uint64)
    low = np.bincount(
        groups, weights=(wide & np.uint64(0xFFFFFFFF)).astype(np.float64), minlength=count
    )
    high = np.bincount(groups, weights=(wide >> np.uint64(32)).astype(np.float64), minlength=count)
    found = [
        int(one) + (int(other) << 32)
        for one, other in zip(low.tolist(), high.tolist(), strict=True)
    ]
    for place, value in exact_numbers.items():
        found[int(groups[place])] += value - int(numbers[place])
    return found


def _score_sums(
    scores: Array, groups: Array, count: int, exact_scores: dict[int, int], mask: Array
) -> tuple[list[int], list[int]]:
    """The sums of the scores of each group, and of their squares, in some of the records."""
    ones = np.bincount(groups[mask & (scores == 1)], minlength=count).tolist()
    sums = [number << UNIT_BITS for number in ones]
    squares = [number << 2 * UNIT_BITS for number in ones]
    places = np.flatnonzero(mask & (scores != 0) & (scores != 1))
    places = places[np.argsort(groups[places], kind="stable")]
    values = scores[places].tolist()
    if exact_scores:
        values = [
            exact_scores.get(place, value)
            for place, value in zip(places.tolist(), values, strict=True)
        ]
    bounds = np.searchsorted(groups[places], np.arange(count + 1)).tolist()
    for group, (begin, end) in enumerate(pairwise(bounds)):
        if begin < end:
            total, squared, _, _ = score_sums(values[begin:end])
            sums[group] += total
            squares[group] += squared
    return sums, squares


def _latencies(
    latencies: Array, groups: Array, count: int, exact_latencies: dict[int, int]
) -> list[Counter[int]]:
    """The number of records of each group by latency bucket (`rows.bucket_of`)."""
    known = ~np.isnan(latencies)
    known[list(exact_latencies)] = False
    found: list[Counter[int]] = [Counter() for _ in range(count)]
    values = latencies[known]
    mantissa, exponent = np.frexp(values)
    steps = ((mantissa - 0.5) * 2 * BUCKETS_PER_POWER).astype(np.int64)
    buckets = (exponent.astype(np.int64) + FIRST_EXPONENT) * BUCKETS_PER_POWER + steps
    buckets[values == 0] = 0
    bound = int(buckets.max(initial=0)) + 1
    pairs, numbers = np.unique(
        joint_codes((groups[known], count), (buckets, bound)), return_counts=True
    )
    for pair, number in zip(pairs.tolist(), numbers.tolist(), strict=True):
        group, bucket = divmod(pair, bound)
        found[group][bucket] = number
    for place, value in exact_latencies.items():
        found[int(groups[place])][bucket_of(value)] += 1
    return found


def _ends(
    records: Records, chosen: Array, groups: Array, count: int
) -> tuple[list[bytes], list[bytes]]:
    """The lowest and the highest sample_id of each group, encoded as in sort keys."""
    encoded = list(map(encode_sample_id, records.sample_ids))
    order = sorted(range(len(encoded)), key=encoded.__getitem__)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    of_record = ranks[records.sample_id[chosen]]
    lowest = np.full(count, len(order))
    np.minimum.at(lowest, groups, of_record)
    highest = np.zeros(count, dtype=np.int64)
    np.maximum.at(highest, groups, of_record)
    first = [encoded[order[rank]] for rank in lowest.tolist()]
    return first, [encoded[order[rank]] for rank in highest.tolist()]


def _questions(
    records: Records, chosen: Array, models: Sequence[bytes]
) -> dict[int, QuestionCounts]:
    """Count the questions of each scope."""
    found = {scope: QuestionCounts() for scope in records.scopes}
    question = records.question[chosen]
    scope = records.scope[chosen]
    hashes = (scope, records.scopes.stop), (records.hash[chosen], len(records.hashes))
    ids = records.sample_id[chosen], len(records.sample_ids)
    for code in _several(joint_codes(*hashes), ids, scope).tolist():
        found[code].hashes_with_many_ids += 1
    for code in _several(joint_codes(hashes[0], ids), hashes[1], scope).tolist():
        found[code].ids_with_many_hashes += 1
    split = records.split_hashes[chosen]
    _, first_split = np.unique(joint_codes(*hashes)[split], return_index=True)
    for code in scope[split][first_split].tolist():
        found[code].split_hashes += 1

    bound = len(records.models)
    cells = joint_codes((question, len(records.first)), (records.model[chosen], bound))
    distinct, first, of_record, sizes = np.unique(
        cells, return_index=True, return_inverse=True, return_counts=True
    )
    is_answer = (records.flag[chosen] & ANSWERS) > 0
    answers = np.bincount(of_record[is_answer], minlength=len(distinct))
    cell_question = question[first]
    questions, places = np.unique(cell_question, return_inverse=True)
    of_scope = np.empty(len(questions), dtype=np.int64)
    of_scope[places] = scope[first]
    counted = zip(
        of_scope.tolist(),
        np.bincount(places, minlength=len(questions)).tolist(),
        np.bincount(places[answers > 0], minlength=len(questions)).tolist(),
        strict=True,
    )
    by_models: dict[int, Counter[int]] = {code: Counter() for code in found}
    by_answering: dict[int, Counter[int]] = {code: Counter() for code in found}
    for (code, having, answering), number in Counter(counted).items():
        found[code].questions += number
        by_models[code][having] += number
        by_answering[code][answering] += number
    for code, counts in found.items():
        if counts.questions:
            counts.by_models = max(by_models[code].items())
            counts.by_answering = max(by_answering[code].items())
    _add_repeats(records, chosen, (of_record, sizes), found, models)
    return found


def _several(keys: Array, other: tuple[Array, int], scope: Array) -> Array:
    """The scope of each key that has several different values."""
    _, places = np.unique(keys, return_inverse=True)
    pairs = joint_codes((places, int(places.max(initial=0)) + 1), other)
    _, first = np.unique(pairs, return_index=True)
    count = np.bincount(places[first])
    of_scope = np.zeros(len(count), dtype=np.int64)
    of_scope[places] = scope
    return of_scope[count > 1]


def _add_repeats(
    records: Records,
    chosen: Array,
    cells: tuple[Array, Array],
    found: dict[int, QuestionCounts],
    models: Sequence[bytes],
) -> None:
    """Add the questions that a model has several records of."""
    of_record, sizes = cells
    places = np.flatnonzero(sizes[of_record] > 1)
    if not places.size:
        return
    places = places[np.argsort(of_record[places], kind="stable")]
    bounds = np.flatnonzero(np.diff(of_record[places], prepend=-1)).tolist()
    exact_scores = _Exact(records, chosen).of("score")
    flags = records.flag[chosen][places].tolist()
    scores = [
        exact_scores.get(place, score)
        for place, score in zip(
            places.tolist(), records.score[chosen][places].tolist(), strict=True
        )
    ]
    correct = records.gather("correct")[chosen][places].tolist()
    scopes = records.scope[chosen][places].tolist()
    of_models = records.model[chosen][places].tolist()
    for begin, end in zip(bounds, [*bounds[1:], len(flags)], strict=True):
        model = models[of_models[begin]]
        outcomes = [
            (model, (bool(correct[at]), scores[at], flags[at] == ERROR)) for at in range(begin, end)
        ]
        add_repeats(found[scopes[begin]].repeats, outcomes)
