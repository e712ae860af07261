"""Count the selected records of a corpus: the results that a summary of them would have.

    `Records` of a run of scopes ──▶ `ModelTally` of each scope and model, `QuestionCounts` of each
    scope ──▶ summaries

All sums are exact. What an array cannot hold stands apart in the columns, and is added here.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from fastrec.answers.codes import Array, Distinct, count_of, distinct_of, order_of
from fastrec.answers.records import ANSWERS, ERROR, RIGHT, Records, RecordsOfScopes
from fastrec.answers.selection import Selection
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
    groups = distinct_of(records.scope[chosen], records.model[chosen])
    scopes = records.scope[chosen][groups.first].tolist()
    of_models = records.model[chosen][groups.first].tolist()
    tallies = _Counting(records, chosen, groups.place, len(groups.first)).tallies()
    names = {number: scope_of(*records.selection.scopes[number]) for number in records.scopes}
    models = [encode_text(model) for model in records.models]
    by_scope: dict[int, dict[tuple[bytes, bytes], ModelTally]] = {}
    for scope, model, tally in zip(scopes, of_models, tallies, strict=True):
        by_scope.setdefault(scope, {})[names[scope], models[model]] = tally
    questions = _questions(records, chosen, models)
    for scope, found in by_scope.items():
        yield CountedScope(names[scope], found, questions[scope])


class _Counting:
    """Counts the chosen ones of some records, by group."""

    def __init__(self, records: Records, chosen: Array, groups: Array, count: int) -> None:
        self._records = records
        self._chosen = chosen
        self._groups = groups  # of each chosen record
        self._count = count
        self._score = records.score[chosen]
        self._exact_scores = self._exact("score")

    def tallies(self) -> list[ModelTally]:
        """The tally of each group."""
        flag = self._records.flag[self._chosen]
        score = self._score
        every = np.ones(len(flag), dtype=np.bool_)
        is_error = flag == ERROR
        is_graded = ~is_error & (score != 0) & (score != 1)
        counted = {
            "records": every,
            "correct": flag == RIGHT,
            "errors": is_error,
            "graded": is_graded,
            "outside": is_graded & ((score < 0) | (score > 1)),
            "with_tokens": self._column("has_tokens") > 0,
        }
        fields: dict[str, Sequence[Any]] = {
            name: self._number_of(mask).tolist() for name, mask in counted.items()
        }
        fields["notes"] = self._notes()
        for name in ("turns", "tool_calls", "input_tokens", "output_tokens", "total_tokens"):
            fields[name] = self._sums(name)
        fields["score"], fields["score_squared"] = self._score_sums(every)
        fields["error_score"], fields["error_score_squared"] = self._score_sums(is_error)
        fields["latency"] = self._latencies()
        fields["first"], fields["last"] = self._ends()
        return [
            ModelTally(**dict(zip(fields, values, strict=True)))
            for values in zip(*fields.values(), strict=True)
        ]

    def _column(self, name: str) -> Array:
        records = self._records
        return records.selection.gather(name, records.number[self._chosen])

    def _exact(self, name: str) -> dict[int, int]:
        """The integers that a column cannot hold, by position among the chosen records."""
        records = self._records
        return records.selection.exact(name, records.number[self._chosen])

    def _number_of(self, mask: Array) -> Array:
        return count_of(self._groups[mask], self._count)

    def _notes(self) -> list[int]:
        found = np.zeros(self._count, dtype=np.uint8)
        np.bitwise_or.at(found, self._groups, self._column("notes").astype(np.uint8))
        return list(found.tolist())

    def _sums(self, name: str) -> list[int]:
        """The sum of the numbers of each group.

        The halves of 64-bit integers are added up apart, so that it is exact.
        """
        numbers = self._column(name)
        wide = numbers.astype(np.uint64)
        found = [0] * self._count
        for half, shift in ((wide & np.uint64(0xFFFFFFFF), 0), (wide >> np.uint64(32), 32)):
            sums = np.bincount(self._groups, half.astype(np.float64), self._count)
            for group, total in enumerate(sums.tolist()):
                found[group] += int(total) << shift
        for place, value in self._exact(name).items():
            found[int(self._groups[place])] += value - int(numbers[place])
        return found

    def _score_sums(self, mask: Array) -> tuple[list[int], list[int]]:
        """The sums of the scores of each group, and of their squares, in some of the records."""
        score = self._score
        ones = self._number_of(mask & (score == 1)).tolist()
        sums = [number << UNIT_BITS for number in ones]
        squares = [number << 2 * UNIT_BITS for number in ones]
        places = np.flatnonzero(mask & (score != 0) & (score != 1))
        for group, some in self.by_group(places):
            total, squared, _, _ = score_sums(self.scores(some))
            sums[group] += total
            squares[group] += squared
        return sums, squares

    def by_group(self, places: Array) -> Iterator[tuple[int, list[int]]]:
        """Yield the groups of some chosen records, with the positions of these."""
        places = places[np.argsort(self._groups[places], kind="stable")]
        starts = np.flatnonzero(np.diff(self._groups[places], prepend=-1)).tolist()
        listed = places.tolist()
        for begin, end in pairwise([*starts, len(listed)]):
            yield int(self._groups[listed[begin]]), listed[begin:end]

    def scores(self, places: Sequence[int]) -> list[float]:
        """The exact scores of some chosen records."""
        known = zip(places, self._score[places].tolist(), strict=True)
        return [self._exact_scores.get(place, score) for place, score in known]

    def _latencies(self) -> list[Counter[int]]:
        """The number of records of each group by latency bucket (`rows.bucket_of`)."""
        latencies = self._column("latency_ms")
        exact = self._exact("latency_ms")
        known = ~np.isnan(latencies)
        known[list(exact)] = False
        values = latencies[known]
        mantissa, exponent = np.frexp(values)
        steps = ((mantissa - 0.5) * 2 * BUCKETS_PER_POWER).astype(np.int64)
        buckets = (exponent.astype(np.int64) + FIRST_EXPONENT) * BUCKETS_PER_POWER + steps
        buckets[values == 0] = 0
        groups = self._groups[known]
        pairs = distinct_of(groups, buckets)
        numbers = count_of(pairs.place, len(pairs.first))
        found: list[Counter[int]] = [Counter() for _ in range(self._count)]
        for group, bucket, number in zip(
            groups[pairs.first].tolist(),
            buckets[pairs.first].tolist(),
            numbers.tolist(),
            strict=True,
        ):
            found[group][bucket] = number
        for place, value in exact.items():
            found[int(self._groups[place])][bucket_of(value)] += 1
        return found

    def _ends(self) -> tuple[list[bytes], list[bytes]]:
        """The lowest and the highest sample_id of each group, encoded as in sort keys."""
        encoded = list(map(encode_sample_id, self._records.sample_ids))
        order, ranks = order_of(encoded)
        of_record = ranks[self._records.sample_id[self._chosen]]
        lowest = np.full(self._count, len(order))
        np.minimum.at(lowest, self._groups, of_record)
        highest = np.zeros(self._count, dtype=np.int64)
        np.maximum.at(highest, self._groups, of_record)
        first, last = (
            [encoded[order[rank]] for rank in ends.tolist()] for ends in (lowest, highest)
        )
        return first, last


def _questions(
    records: Records, chosen: Array, models: Sequence[bytes]
) -> dict[int, QuestionCounts]:
    """Count the questions of each scope."""
    found = {scope: QuestionCounts() for scope in records.scopes}
    scope = records.scope[chosen]
    hashes = records.hash[chosen]
    ids = records.sample_id[chosen]
    split = records.split_hashes[chosen]
    counted = {
        "hashes_with_many_ids": _several(scope, hashes, ids),
        "ids_with_many_hashes": _several(scope, ids, hashes),
        "split_hashes": scope[split][distinct_of(scope[split], hashes[split]).first],
    }
    for name, scopes in counted.items():
        for code, number in Counter(scopes.tolist()).items():
            setattr(found[code], name, number)
    cells = distinct_of(records.question[chosen], records.model[chosen])
    questions = distinct_of(records.question[chosen][cells.first])
    is_answer = records.flag[chosen] & ANSWERS > 0
    has_answers = count_of(cells.place[is_answer], len(cells.first)) > 0
    by_question = zip(
        scope[cells.first][questions.first].tolist(),
        count_of(questions.place, len(questions.first)).tolist(),
        count_of(questions.place[has_answers], len(questions.first)).tolist(),
        strict=True,
    )
    by_models: dict[int, Counter[int]] = {code: Counter() for code in found}
    by_answering: dict[int, Counter[int]] = {code: Counter() for code in found}
    for (code, having, answering), number in Counter(by_question).items():
        found[code].questions += number
        by_models[code][having] += number
        by_answering[code][answering] += number
    for code, counts in found.items():
        if counts.questions:
            counts.by_models = max(by_models[code].items())
            counts.by_answering = max(by_answering[code].items())
    _add_repeats(records, chosen, cells, found, models)
    return found


def _several(scope: Array, keys: Array, others: Array) -> Array:
    """The scope of each key that has several different values."""
    of_key = distinct_of(scope, keys)
    values = count_of(of_key.place[distinct_of(of_key.place, others).first], len(of_key.first))
    return scope[of_key.first][values > 1]


def _add_repeats(
    records: Records,
    chosen: Array,
    cells: Distinct,
    found: dict[int, QuestionCounts],
    models: Sequence[bytes],
) -> None:
    """Add the questions that a model has several records of."""
    repeated = np.flatnonzero(count_of(cells.place, len(cells.first))[cells.place] > 1)
    if not repeated.size:
        return
    counting = _Counting(records, chosen, cells.place, len(cells.first))
    correct = records.gather("correct")[chosen]
    flag = records.flag[chosen]
    scope = records.scope[chosen]
    model = records.model[chosen]
    for _, places in counting.by_group(repeated):
        name = models[int(model[places[0]])]
        verdicts = zip(
            correct[places].tolist(), counting.scores(places), flag[places].tolist(), strict=True
        )
        outcomes = [(name, (bool(right), score, kind == ERROR)) for right, score, kind in verdicts]
        add_repeats(found[int(scope[places[0]])].repeats, outcomes)
