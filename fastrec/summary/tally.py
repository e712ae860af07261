"""Statistics that add up exactly, however the records are grouped and ordered.

All counts and sums are integers. Scores are summed as integers in units of 2**-1074, the smallest step between doubles,
so a sum is exact and a mean is rounded once.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, Self

import msgspec

from fastrec.summary.rows import Column, from_portable, to_portable

__all__ = ["ModelTally", "Sums", "Tally"]

_UNIT_BITS: Final = 1_074
_ROOT_BITS: Final = 128  # extra bits of precision for a square root


class Sums(msgspec.Struct):
    """Counts that add up field by field; those in a Counter or in a dict of Sums add up by key."""

    def __iadd__(self, other: Self) -> Self:
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            elif isinstance(mine, defaultdict):
                for key, value in theirs.items():
                    mine[key] += value
            else:
                mine += theirs
                setattr(self, name, mine)
        return self


class ModelTally(Sums):
    """Statistics of one model on one evaluation."""

    records: int = 0
    correct: int = 0
    errors: int = 0
    turns: int = 0
    tool_calls: int = 0
    with_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    score: int = 0  # sum of the scores, in units of 2**-1074
    score_squared: int = 0  # sum of their squares, in units of 2**-2148
    latency: Counter[int] = msgspec.field(default_factory=Counter)  # records by latency bucket
    first: bytes = b""  # the lowest sample_id, encoded as in sort keys
    last: bytes = b""  # the highest sample_id
    census_rows: int = 0
    """Census rows that name the model. A question may have several rows; the census counts the excess."""

    def add_rows(self, rows: list[Sequence[Any]], sample_ids: list[bytes]) -> None:
        """Add records column by column, because a sum over a column runs in C."""
        columns = list(zip(*rows, strict=True))
        self.records += len(rows)
        self.correct += sum(columns[Column.CORRECT])
        self.errors += sum(columns[Column.ERROR])
        self.turns += sum(columns[Column.TURNS])
        self.tool_calls += sum(columns[Column.TOOL_CALLS])
        self.input_tokens += _sum(columns[Column.INPUT_TOKENS])
        self.output_tokens += _sum(columns[Column.OUTPUT_TOKENS])
        self.total_tokens += _sum(columns[Column.TOTAL_TOKENS])
        self.with_tokens += len(rows) - columns[Column.TOTAL_TOKENS].count(None)
        for value, times in Counter(columns[Column.SCORE]).items():  # 1, 1.0 and true are equal here
            score = _exact(value)
            self.score += score * times
            self.score_squared += score * score * times
        buckets = Counter(columns[Column.LATENCY])
        del buckets[None]  # records without a latency
        self.latency.update(buckets)
        lowest, highest = min(sample_ids), max(sample_ids)
        self.first = min(self.first, lowest) if self.first else lowest
        self.last = max(self.last, highest)

    def __iadd__(self, other: Self) -> Self:
        first, last = min(filter(None, (self.first, other.first)), default=b""), max(self.last, other.last)
        super().__iadd__(other)
        self.first, self.last = first, last
        return self

    def mean_score(self) -> float | None:
        """Return the mean, rounded once; None if it overflows a double."""
        return _rounded(lambda: Fraction(self.score, self.records << _UNIT_BITS))

    def score_standard_error(self) -> float | None:
        """Return the standard error of the mean; None for a single record."""
        n = self.records
        if n < 2:
            return None
        # n times the sum of squared deviations, in units of 2**-2148. It is exact, so it is never negative. The root is
        # an integer too, because the variance of scores such as 1e-200 or 1e200 does not fit a double.
        spread = self.score_squared * n - self.score**2
        root = math.isqrt((spread << 2 * _ROOT_BITS) // (n * n * (n - 1)))
        return _rounded(lambda: Fraction(root, 1 << _UNIT_BITS + _ROOT_BITS))

    def latency_quantile(self, share: float) -> int | None:
        """Return the lowest bucket such that this share of the records lies in or below it."""
        count = sum(self.latency.values())
        rank = max(math.ceil(share * count), 1)
        for bucket in sorted(self.latency):
            rank -= self.latency[bucket]
            if rank <= 0:
                return bucket
        return None


class Tally(Sums):
    """Statistics of a set of kept records."""

    interaction_types: Counter[str] = msgspec.field(default_factory=Counter)
    schema_versions: Counter[str | None] = msgspec.field(default_factory=Counter)
    models: dict[tuple[bytes, bytes], ModelTally] = msgspec.field(default_factory=lambda: defaultdict(ModelTally))
    """By evaluation_name and model_id, encoded as in sort keys."""
    sources: Counter[int] = msgspec.field(default_factory=Counter)  # records by piece of input

    def add(self, fields: Iterable[Sequence[bytes]], rows: Sequence[Sequence[Any]]) -> None:
        """Add records, given their key fields and rows."""
        groups: dict[tuple[bytes, bytes], tuple[list[Sequence[Any]], list[bytes]]] = {}
        for (evaluation, _, model, _, sample_id), row in zip(fields, rows, strict=True):
            group = groups.get((evaluation, model))
            if group is None:
                group = groups[evaluation, model] = ([], [])
            group[0].append(row)
            group[1].append(sample_id)
        for key, (some_rows, sample_ids) in groups.items():
            self.models[key].add_rows(some_rows, sample_ids)
        self.interaction_types.update([row[Column.INTERACTION_TYPE] for row in rows])
        self.schema_versions.update([row[Column.SCHEMA_VERSION] for row in rows])
        self.sources.update([row[Column.SOURCE] for row in rows])

    def add_census_rows(self, rows_by_model: Mapping[bytes, Mapping[bytes, int]]) -> None:
        """Add the number of census rows of the same records."""
        for evaluation, models in rows_by_model.items():
            for model, count in models.items():
                self.models[evaluation, model].census_rows += count

    def packed(self) -> list[Any]:
        """Encode the tally as plain lists that hold integers of any size."""
        models = [[*key, *map(_packed, msgspec.structs.astuple(model))] for key, model in self.models.items()]
        return [self.interaction_types, self.schema_versions, models, self.sources]

    @classmethod
    def unpacked(cls, packed: list[Any]) -> Tally:
        """Decode a tally from what `packed` returns."""
        types, versions, models, sources = packed
        tally = cls(Counter(types), Counter(versions), sources=Counter(sources))
        for evaluation, model, *values in models:
            tally.models[evaluation, model] = ModelTally(*map(_unpacked, values))
        return tally


def _packed(value: Any) -> Any:
    return to_portable(value) if isinstance(value, int) else value


def _unpacked(value: Any) -> Any:
    return Counter(value) if isinstance(value, dict) else from_portable(value)


def _sum(column: Sequence[int | str | None]) -> int:
    """Add up all values but None; integers beyond 64 bits are text."""
    try:
        return sum(filter(None, column))  # type: ignore[arg-type]
    except TypeError:
        return sum(from_portable(count) for count in column if count is not None)


def _exact(score: float | str) -> int:
    """Return a score in units of 2**-1074."""
    if isinstance(score, float):
        numerator, denominator = score.as_integer_ratio()
        return numerator << (_UNIT_BITS + 1 - denominator.bit_length())
    return from_portable(score) << _UNIT_BITS


def _rounded(value: Callable[[], Fraction]) -> float | None:
    try:
        return float(value())
    except OverflowError:
        return None
