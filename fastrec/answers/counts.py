"""Count the selected records of a corpus: the results that a summary of them would have.

    `Records` of a run of scopes ──▶ `ModelTally` of each scope and model, `QuestionCounts` of each
    scope ──▶ summaries

All sums are exact. What an array cannot hold stands apart in the columns, and is added here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from fastrec.answers.codes import Array, by_code, count_of, distinct_of, distinct_within, order_of
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
    groups = distinct_of(records.scope, records.model)
    scopes = records.scope[groups.first].tolist()
    of_models = records.model[groups.first].tolist()
    names = {number: scope_of(*records.selection.scopes[number]) for number in records.scopes}
    models = list(map(encode_text, records.models))
    tallies = _Counting(records, groups.place, len(groups.first)).tallies()
    tally = Tally()
    for scope, model, of_model in zip(scopes, of_models, tallies, strict=True):
        tally.models[names[scope], models[model]] = of_model
    census = Census()
    for scope, questions in _questions(records, models).items():
        census.questions[names[scope]] = questions
    return tally, census


class _Counting(Struct):
    """Counts records by group."""

    records: Records
    groups: Array  # of each record
    count: int

    def tallies(self) -> Iterable[ModelTally]:
        """The tally of each group."""
        flag = self.records.flag
        score = self.records.score
        is_error = flag == ERROR
        is_graded = ~is_error & (score != 0) & (score != 1)
        counted = {
            "records": np.ones(len(flag), dtype=np.bool_),
            "correct": flag == RIGHT,
            "errors": is_error,
            "graded": is_graded,
            "outside": is_graded & ((score < 0) | (score > 1)),
            "with_tokens": self.records.gather("has_tokens") > 0,
        }
        fields: dict[str, Sequence[Any]] = {
            name: self._number_of(mask) for name, mask in counted.items()
        }
        notes = np.zeros(self.count, dtype=np.uint8)
        np.bitwise_or.at(notes, self.groups, self.records.gather("notes").astype(np.uint8))
        fields["notes"] = notes.tolist()
        for name in ("turns", "tool_calls", "input_tokens", "output_tokens", "total_tokens"):
            fields[name] = self._sums(name)
        fields["score"], fields["score_squared"] = self._score_sums(~is_error)
        fields["error_score"], fields["error_score_squared"] = self._score_sums(is_error)
        fields["latency"] = self._latencies()
        fields["first"], fields["last"] = self._ends()
        for values in zip(*fields.values(), strict=True):
            yield ModelTally(**dict(zip(fields, values, strict=True)))

    def _number_of(self, mask: Array) -> list[int]:
        return list(count_of(self.groups[mask], self.count).tolist())

    def _sums(self, name: str) -> list[int]:
        """The sum of the numbers of each group.

        The halves of 64-bit integers are added up apart, so that it is exact.
        """
        numbers = self.records.gather(name)
        wide = numbers.astype(np.uint64)
        totals = [0] * self.count
        for half, shift in ((wide & np.uint64(0xFFFFFFFF), 0), (wide >> np.uint64(32), 32)):
            sums = np.bincount(self.groups, half.astype(np.float64), self.count)
            for group, total in enumerate(sums.tolist()):
                totals[group] += int(total) << shift
        for place, value in self.records.exact(name).items():
            totals[int(self.groups[place])] += value - int(numbers[place])
        return totals

    def _score_sums(self, mask: Array) -> tuple[list[int], list[int]]:
        """The sums of the scores of each group, and of their squares, in some of the records."""
        score = self.records.score
        exact = self.records.exact("score")
        is_double = mask & (score != 0) & (score != 1)
        is_double[list(exact)] = False
        sums, squares = _sums_of_doubles(self.groups[is_double], score[is_double], self.count)
        for group, number in enumerate(self._number_of(mask & (score == 1))):
            sums[group] += number << UNIT_BITS
            squares[group] += number << 2 * UNIT_BITS
        for place, value in exact.items():
            if mask[place]:
                group = int(self.groups[place])
                sums[group] += value << UNIT_BITS
                squares[group] += value**2 << 2 * UNIT_BITS
        return sums, squares

    def _latencies(self) -> list[Counter[int]]:
        """The number of records of each group by latency bucket (`rows.bucket_of`)."""
        latencies = self.records.gather("latency_ms")
        exact = self.records.exact("latency_ms")
        known = ~np.isnan(latencies)
        known[list(exact)] = False
        values = latencies[known]
        mantissa, exponent = np.frexp(values)
        steps = ((mantissa - 0.5) * 2 * BUCKETS_PER_POWER).astype(np.int64)
        buckets = (exponent.astype(np.int64) + FIRST_EXPONENT) * BUCKETS_PER_POWER + steps
        buckets[values == 0] = 0
        groups = self.groups[known]
        first, place = distinct_of(groups, buckets)
        by_group: list[Counter[int]] = [Counter() for _ in range(self.count)]
        columns = groups[first], buckets[first], count_of(place, len(first))
        for group, bucket, number in zip(*map(np.ndarray.tolist, columns), strict=True):
            by_group[group][bucket] = number
        for at, value in exact.items():
            by_group[int(self.groups[at])][bucket_of(value)] += 1
        return by_group

    def _ends(self) -> tuple[list[bytes], list[bytes]]:
        """The lowest and the highest sample_id of each group, encoded as in sort keys."""
        codes, sample_ids = self.records.sample_ids
        encoded = list(map(encode_sample_id, sample_ids))
        order, ranks = order_of(encoded)
        of_record = ranks[codes]
        lowest = np.full(self.count, len(order))
        np.minimum.at(lowest, self.groups, of_record)
        highest = np.zeros(self.count, dtype=np.int64)
        np.maximum.at(highest, self.groups, of_record)
        first, last = (
            [encoded[order[rank]] for rank in ends.tolist()] for ends in (lowest, highest)
        )
        return first, last


def _sums_of_doubles(groups: Array, values: Array, count: int) -> tuple[list[int], list[int]]:
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


def _questions(records: Records, models: Sequence[bytes]) -> dict[int, QuestionCounts]:
    """Count the questions of each scope."""
    by_scope = {scope: QuestionCounts() for scope in records.scopes}
    scope = records.scope
    sample_id = records.sample_ids.codes
    is_split = records.split_hashes
    split = scope[is_split]
    counted = {
        "hashes_with_many_ids": _several(scope, records.hash, sample_id),
        "ids_with_many_hashes": _several(scope, sample_id, records.hash),
        "split_hashes": split[distinct_of(split, records.hash[is_split]).first],
    }
    for name, scopes in counted.items():
        for code, number in Counter(scopes.tolist()).items():
            setattr(by_scope[code], name, number)
    cells = distinct_of(records.question, records.model)
    questions = distinct_of(records.question[cells.first])
    is_answer = records.flag & ANSWERS > 0
    has_answers = count_of(cells.place[is_answer], len(cells.first)) > 0
    count = len(questions.first)
    having = count_of(questions.place, count)
    answering = count_of(questions.place[has_answers], count)
    for code, places in by_code(scope[cells.first][questions.first], np.arange(count)):
        by_scope[code].questions = len(places)
        by_scope[code].by_models = Counter(having[places].tolist())
        by_scope[code].by_answering = Counter(answering[places].tolist())
    _add_repeats(records, cells.place, by_scope, models)
    return by_scope


def _several(scope: Array, keys: Array, others: Array) -> Array:
    """The scope of each key that has several different values."""
    of_key = distinct_of(scope, keys)
    return scope[of_key.first][distinct_within(of_key, others) > 1]


def _add_repeats(
    records: Records, cells: Array, by_scope: dict[int, QuestionCounts], models: Sequence[bytes]
) -> None:
    """Add the questions that a model has several records of, given the cell of each record."""
    repeated = np.flatnonzero(np.bincount(cells)[cells] > 1)
    if not repeated.size:
        return
    is_right = records.gather("correct") > 0
    is_error = records.flag == ERROR
    scores = records.score.astype(object)
    for place, score in records.exact("score").items():
        scores[place] = score
    for _, places in by_code(cells[repeated], repeated):
        verdicts = zip(
            *(values[places].tolist() for values in (is_right, scores, is_error)), strict=True
        )
        name = models[int(records.model[places[0]])]
        outcomes = [(name, verdict) for verdict in verdicts]
        add_repeats(by_scope[int(records.scope[places[0]])].repeats, outcomes)
