"""Count the selected records of a corpus: the results that a summary of them would have.

    `Records` of a run of scopes ──▶ `ModelTally` of each scope and model, `QuestionCounts` of each
    scope ──▶ summaries

All sums are exact. What an array cannot hold stands apart in the columns, and is added here.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fastrec.answers.codes import (
    Array,
    Distinct,
    by_code,
    distinct_of,
    distinct_within,
    order_of,
    rows_of,
)
from fastrec.answers.records import ANSWERS, ERROR, RIGHT, Records, RecordsOfScopes
from fastrec.answers.selection import Selection
from fastrec.sorting.keys import encode_sample_id, encode_text, scope_of
from fastrec.summary.census import QuestionCounts
from fastrec.summary.document import EvaluationSummary
from fastrec.summary.part_statistics import Census
from fastrec.summary.rows import BUCKETS_PER_POWER, FIRST_EXPONENT, bucket_of
from fastrec.summary.summarize import summarize_evaluations
from fastrec.summary.tally import UNIT_BITS, ModelTally, Tally, add_repeats

_MANTISSA_BITS = 53
_LEAST_EXPONENT = _MANTISSA_BITS - UNIT_BITS  # of a double with all of these bits
_SMALL = 1 << 30  # doubles are exact for sums of eight million smaller numbers


def count_evaluations(selection: Selection, loader: RecordsOfScopes) -> list[EvaluationSummary]:
    """Count what the selected records say about each evaluation and metric.

    Those of all records are known.
    """
    if selection.is_whole:
        return selection.summary.evaluations
    evaluations: list[EvaluationSummary] = []
    for run in loader.runs:
        evaluations += summarize_evaluations(*count_run(loader.load(run)))
    return evaluations


def count_run(records: Records) -> tuple[Tally, Census]:
    """Count some records: by scope and model, and the questions of each scope."""
    names = {number: scope_of(*records.selection.scopes[number]) for number in records.scopes}
    models = list(map(encode_text, records.models))
    groups = distinct_of(records.scope, records.model)
    tally = Tally()
    for record, of_model in zip(groups.first, _tallies(records, groups), strict=True):
        name = names[records.scope[record]], models[records.model[record]]
        tally.models[name] = of_model
    census = Census()
    for scope, questions in _questions(records, models).items():
        census.questions[names[scope]] = questions
    return tally, census


def _tallies(records: Records, groups: Distinct) -> Iterator[ModelTally]:
    """The tally of each group of records."""
    score = records.score
    is_error = records.flag == ERROR
    is_graded = ~is_error & (score != 0) & (score != 1)
    masks = {
        "records": records.flag > 0,  # all of them
        "correct": records.flag == RIGHT,
        "errors": is_error,
        "graded": is_graded,
        "outside": is_graded & ((score < 0) | (score > 1)),
        "with_tokens": records.gather("has_tokens") > 0,
    }
    fields: dict[str, Sequence[Any]] = {
        name: groups.count_of(mask).tolist() for name, mask in masks.items()
    }
    fields["notes"] = groups.reduce(np.bitwise_or, records.gather("notes")).tolist()
    for name in ("turns", "tool_calls", "input_tokens", "output_tokens", "total_tokens"):
        fields[name] = _sums(records, groups, name)
    fields["score"], fields["score_squared"] = _score_sums(records, groups, ~is_error)
    fields["error_score"], fields["error_score_squared"] = _score_sums(records, groups, is_error)
    fields["latency"] = _latencies(records, groups)
    fields["first"], fields["last"] = _ends(records, groups)
    for values in zip(*fields.values(), strict=True):
        yield ModelTally(**dict(zip(fields, values, strict=True)))


def _sums(records: Records, groups: Distinct, name: str) -> list[int]:
    """The sum of the numbers of each group.

    Doubles are exact for sums of small numbers; the few others are added one by one.
    """
    numbers = records.gather(name)
    integers = records.exact(name)
    is_small = numbers < _SMALL
    sums = np.bincount(groups.place, np.where(is_small, numbers, 0), len(groups.first))
    totals = list(map(int, sums.tolist()))
    for place in np.flatnonzero(~is_small).tolist():
        totals[groups.place[place]] += integers.get(place, int(numbers[place]))
    return totals


def _score_sums(records: Records, groups: Distinct, mask: Array) -> tuple[list[int], list[int]]:
    """The sums of the scores of each group, and of their squares, in some of the records."""
    score = records.score
    integers = records.exact("score")
    # Most scores are 0 or 1, and the others take much longer to add up.
    is_double = mask & (score != 0) & (score != 1)
    is_double[list(integers)] = False
    places = groups.place[is_double]
    sums, squares = sums_of_doubles(places, score[is_double], len(groups.first))
    for group, number in enumerate(groups.count_of(mask & (score == 1)).tolist()):
        sums[group] += number << UNIT_BITS
        squares[group] += number << 2 * UNIT_BITS
    for place, value in integers.items():
        if mask[place]:
            sums[groups.place[place]] += value << UNIT_BITS
            squares[groups.place[place]] += value**2 << 2 * UNIT_BITS
    return sums, squares


def sums_of_doubles(groups: Array, values: Array, count: int) -> tuple[list[int], list[int]]:
    """The sums of the doubles of each group, and of their squares, in units as in a `ModelTally`.

    They are added up as integers: mantissas, each shifted by its exponent.
    """
    exponents = np.maximum(np.frexp(values)[1], _LEAST_EXPONENT)
    lowest = int(exponents.min(initial=0))
    mantissas = np.ldexp(values, _MANTISSA_BITS - exponents).astype(np.int64)
    integers = mantissas.astype(object) << (exponents - lowest).astype(object)
    sums, squares = np.zeros((2, count), dtype=object)
    np.add.at(sums, groups, integers)
    np.add.at(squares, groups, integers * integers)
    shift = lowest - _LEAST_EXPONENT
    return list(sums << shift), list(squares << 2 * shift)


def _latencies(records: Records, groups: Distinct) -> list[Counter[int]]:
    """The number of records of each group by latency bucket (`rows.bucket_of`)."""
    latencies = records.gather("latency_ms")
    integers = records.exact("latency_ms")
    is_known = ~np.isnan(latencies)
    is_known[list(integers)] = False
    mantissa, exponent = np.frexp(latencies[is_known])
    steps = ((mantissa - 0.5) * 2 * BUCKETS_PER_POWER).astype(np.int64)
    buckets = (exponent.astype(np.int64) + FIRST_EXPONENT) * BUCKETS_PER_POWER + steps
    buckets[mantissa == 0] = 0
    group = groups.place[is_known]
    same = distinct_of(group, buckets)
    by_group: list[Counter[int]] = [Counter() for _ in groups.first]
    for number, bucket, count in rows_of(group[same.first], buckets[same.first], same.counts):
        by_group[number][bucket] = count
    for place, value in integers.items():
        by_group[groups.place[place]][bucket_of(value)] += 1
    return by_group


def _ends(records: Records, groups: Distinct) -> Iterator[list[bytes]]:
    """The lowest and the highest sample_id of each group, encoded as in sort keys."""
    codes, sample_ids = records.sample_ids
    encoded = list(map(encode_sample_id, sample_ids))
    order, ranks = order_of(encoded)
    for function in (np.minimum, np.maximum):
        ends = groups.reduce(function, ranks[codes])
        yield [encoded[order[rank]] for rank in ends]


def _questions(records: Records, models: Sequence[bytes]) -> dict[int, QuestionCounts]:
    """Count the questions of each scope."""
    by_scope = {scope: QuestionCounts() for scope in records.scopes}
    scope = records.scope
    sample_id = records.sample_ids.codes
    split = np.flatnonzero(records.split_hashes)
    counted = {
        "hashes_with_many_ids": _several(scope, records.hash, sample_id),
        "ids_with_many_hashes": _several(scope, sample_id, records.hash),
        "split_hashes": scope[split[distinct_of(scope[split], records.hash[split]).first]],
    }
    for name, scopes in counted.items():
        for code, number in Counter(scopes.tolist()).items():
            setattr(by_scope[code], name, number)
    cells = distinct_of(records.question, records.model)
    has_answers = cells.count_of(records.flag & ANSWERS > 0) > 0
    questions = distinct_of(records.question[cells.first])
    answering = questions.count_of(has_answers)
    of_questions = scope[cells.first[questions.first]]
    for code, places in by_code(of_questions, np.arange(len(of_questions))):
        by_scope[code].questions = len(places)
        by_scope[code].by_models = Counter(questions.counts[places].tolist())
        by_scope[code].by_answering = Counter(answering[places].tolist())
    _add_repeats(records, cells, by_scope, models)
    return by_scope


def _several(scope: Array, keys: Array, others: Array) -> Array:
    """The scope of each key that has several different values."""
    of_key = distinct_of(scope, keys)
    return scope[of_key.first][distinct_within(of_key, others) > 1]


def _add_repeats(
    records: Records,
    cells: Distinct,
    by_scope: dict[int, QuestionCounts],
    models: Sequence[bytes],
) -> None:
    """Add the questions that a model has several records of."""
    repeated = np.flatnonzero(cells.counts[cells.place] > 1)
    if not repeated.size:
        return
    scores = records.score.tolist()
    for place, score in records.exact("score").items():
        scores[place] = score
    is_right = (records.gather("correct") > 0).tolist()
    is_error = (records.flag == ERROR).tolist()
    for _, places in by_code(records.question[repeated], repeated):
        outcomes = [
            (models[records.model[place]], (is_right[place], scores[place], is_error[place]))
            for place in places
        ]
        add_repeats(by_scope[records.scope[places[0]]].repeats, outcomes)
