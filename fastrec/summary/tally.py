"""Statistics that add up exactly, however the records are grouped and ordered.

All counts and sums are integers, those of scores in units of 2**-1074, the smallest step between doubles.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter, mul
from typing import Any, Final, Self

import msgspec

from fastrec.sorting.fields import KeyColumns
from fastrec.summary.means import UNIT_BITS, Totals
from fastrec.summary.rows import USUAL_TYPE, Column, from_portable, to_portable
from fastrec.summary.sums import Sums

__all__ = ["ModelTally", "Tally"]

_type_of: Final = itemgetter(Column.INTERACTION_TYPE)
_version_of: Final = itemgetter(Column.SCHEMA_VERSION)


class ModelTally(Sums):
    """Statistics of one model on one metric of an evaluation."""

    records: int = 0
    correct: int = 0  # without an error
    errors: int = 0
    graded: int = 0  # answers with a score other than 0 and 1
    turns: int = 0
    tool_calls: int = 0
    with_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    score: int = 0  # sum of the scores, in units of 2**-1074
    score_squared: int = 0  # sum of their squares, in units of 2**-2148
    error_score: int = 0  # the part of `score` from records with an error
    error_score_squared: int = 0
    latency: Counter[int] = msgspec.field(default_factory=Counter)  # records by latency bucket
    first: bytes = b""  # the lowest sample_id, encoded as in sort keys
    last: bytes = b""  # the highest sample_id

    def add_rows(self, rows: list[Sequence[Any]], sample_ids: list[bytes]) -> None:
        """Add records column by column, because a sum over a column runs in C."""
        columns = list(zip(*rows, strict=True))
        self.records += len(rows)
        self.correct += sum(columns[Column.CORRECT])
        if errors := sum(columns[Column.ERROR]):
            failed = [row for row in rows if row[Column.ERROR]]
            self.errors += errors
            self.correct -= sum([row[Column.CORRECT] for row in failed])
            score, squared, graded = _score_sums([row[Column.SCORE] for row in failed])
            self.error_score += score
            self.error_score_squared += squared
            self.graded -= graded
        self.turns += sum(columns[Column.TURNS])
        self.tool_calls += sum(columns[Column.TOOL_CALLS])
        if known := list(filter(None, columns[Column.TOKENS])):
            self.with_tokens += len(known)
            of_input, of_output, in_total = map(_sum, zip(*known, strict=True))
            self.input_tokens += of_input
            self.output_tokens += of_output
            self.total_tokens += in_total
        score, squared, graded = _score_sums(columns[Column.SCORE])
        self.score += score
        self.score_squared += squared
        self.graded += graded
        latencies = columns[Column.LATENCY]
        if latencies.count(None) < len(rows):
            self.latency.update(latencies)
            del self.latency[None]
        lowest, highest = min(sample_ids), max(sample_ids)
        self.first = min(self.first, lowest) if self.first else lowest
        self.last = max(self.last, highest)

    def __iadd__(self, other: Self) -> Self:
        # Field by field: a loop over their names takes four times as long, for each model in each part.
        self.records += other.records
        self.correct += other.correct
        self.errors += other.errors
        self.graded += other.graded
        self.turns += other.turns
        self.tool_calls += other.tool_calls
        self.with_tokens += other.with_tokens
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.total_tokens += other.total_tokens
        self.score += other.score
        self.score_squared += other.score_squared
        self.error_score += other.error_score
        self.error_score_squared += other.error_score_squared
        if other.latency:
            self.latency.update(other.latency)
        if other.first:
            self.first = min(self.first, other.first) if self.first else other.first
        self.last = max(self.last, other.last)
        return self

    def answers(self) -> Totals:
        """Return the sums over records without an error."""
        score, squared = self.score - self.error_score, self.score_squared - self.error_score_squared
        return Totals(self.records - self.errors, self.correct, score, squared)

    def with_errors(self) -> Totals:
        """Return the sums over all records, with errors as wrong."""
        return Totals(self.records, self.correct, self.score, self.score_squared)

    def latency_quantiles(self, shares: Sequence[float]) -> list[int | None]:
        """Return, for each share of the records, the lowest bucket such that it lies in or below that bucket."""
        total = self.latency.total()
        if not total:
            return [None] * len(shares)
        buckets = sorted(self.latency)
        ends = list(accumulate(map(self.latency.__getitem__, buckets)))
        return [buckets[bisect_left(ends, max(math.ceil(share * total), 1))] for share in shares]


class Tally(Sums):
    """Statistics of a set of kept records."""

    interaction_types: Counter[str] = msgspec.field(default_factory=Counter)
    schema_versions: Counter[str | None] = msgspec.field(default_factory=Counter)
    models: dict[tuple[bytes, bytes], ModelTally] = msgspec.field(default_factory=lambda: defaultdict(ModelTally))
    """By scope (an evaluation with a metric, if it has one) and model_id, encoded as in sort keys."""

    def add(self, keys: KeyColumns, rows: Sequence[Sequence[Any]]) -> None:
        """Add records, given their key fields and rows."""
        scopes: dict[bytes, dict[bytes, tuple[list[Sequence[Any]], list[bytes]]]] = {}
        models: dict[bytes, tuple[list[Sequence[Any]], list[bytes]]] = {}
        last: bytes | None = None
        for scope, model, sample_id, row in zip(keys.scopes, keys.models, keys.sample_ids, rows, strict=True):
            if scope is not last:  # most neighbours share it
                models = scopes.setdefault(scope, {})
                last = scope
            group = models.get(model)
            if group is None:
                group = models[model] = ([], [])
            group[0].append(row)
            group[1].append(sample_id)
        for scope, models in scopes.items():
            for model, (some_rows, sample_ids) in models.items():
                self.models[scope, model].add_rows(some_rows, sample_ids)
        types = Counter(map(_type_of, rows))
        if usual := types.pop(None, 0):
            types[USUAL_TYPE] += usual
        self.interaction_types += types
        self.schema_versions.update(map(_version_of, rows))

    def packed(self) -> list[Any]:
        """Encode the tally as plain lists that hold integers of any size."""
        models = [[*key, *map(_packed, msgspec.structs.astuple(model))] for key, model in self.models.items()]
        return [self.interaction_types, self.schema_versions, models]

    @classmethod
    def unpacked(cls, packed: list[Any]) -> Tally:
        """Decode a tally from what `packed` returns."""
        types, versions, models = packed
        tally = cls(Counter(types), Counter(versions))
        for scope, model, *values in models:
            # A call for each of the numbers, most of which are small, takes longer.
            plain: list[Any] = [value if value.__class__ is int else _unpacked(value) for value in values]
            tally.models[scope, model] = ModelTally(*plain)
        return tally


def _packed(value: Any) -> Any:
    return to_portable(value) if isinstance(value, int) else value


def _unpacked(value: Any) -> Any:
    return Counter(value) if isinstance(value, dict) else from_portable(value)


def _sum(column: Sequence[int | str]) -> int:
    """Add up all values; integers beyond 64 bits are text."""
    try:
        return sum(column)  # type: ignore[arg-type]
    except TypeError:
        return sum(map(from_portable, column))


def _score_sums(scores: Sequence[Any]) -> tuple[int, int, int]:
    """Return the sum of the scores, the sum of their squares, and the number of scores other than 0 and 1."""
    counts = Counter(scores)  # 1, 1.0 and true are equal here
    ones = counts.pop(1, 0)
    graded = len(scores) - ones - counts.pop(0, 0)
    total = squared = 0
    if counts:
        # In units of the smallest step that occurs, because integers of 64 bits are added faster than those of 1,074.
        numbers = [from_portable(score) for score in counts]
        ratios = [number.as_integer_ratio() for number in numbers]
        unit = max([denominator for _, denominator in ratios])  # all of them are powers of two
        steps = [numerator * (unit // denominator) for numerator, denominator in ratios]
        weighted = list(map(mul, steps, counts.values()))
        shift = UNIT_BITS + 1 - unit.bit_length()
        total, squared = sum(weighted) << shift, sum(map(mul, steps, weighted)) << 2 * shift
    return total + (ones << UNIT_BITS), squared + (ones << 2 * UNIT_BITS), graded
