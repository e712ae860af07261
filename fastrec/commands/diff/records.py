"""The records of a range: their columns, as codes common to both corpora, and their lines.

Rows are numbers of records: first those of OLD, then those of NEW, each in the order of the lines.

    field        OLD            NEW
    model_id     0 0 1 1 2 2    0 0 2 2 3        one code for each value
    bytes        …              …                the sizes of lines tell where they are
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from fastrec.commands.diff.document import RecordName
from fastrec.corpus.columns import PartColumns
from fastrec.corpus.manifest import MANIFEST, KeyEntry
from fastrec.corpus.scan import PartFile, Position, PositionOf, lines_at, position_maker
from fastrec.errors import CorpusError
from fastrec.sorting.keys import METRIC
from fastrec.storage import file_in, join, parent_and_name
from fastrec.summary.document import filled, json_safe

Array = np.ndarray[Any, Any]
"""A value of each row, or some rows."""

Bounds = tuple[Position | None, Position | None]
"""The positions of a range: the first, and the first after it; None is no bound."""

_CODED: Final = {
    "evaluation_name": "evaluation",
    METRIC: "metric",
    "model_id": "model",
    "sample_hash": "hash",
    "evaluation_id": "run",
    "sample_id": "sample_id",
}
_NUMBERS: Final = ("correct", "error", "score", "bytes", "fingerprint")


class Records:
    """The records of both corpora whose positions by some sort fields are in a range.

    Raises:
        CorpusError: A file of columns is damaged or missing, or a line is not the one that the
            columns describe.
    """

    def __init__(
        self,
        old: Sequence[PartFile],
        new: Sequence[PartFile],
        chosen: Mapping[str, bytes],
        bounds: Bounds,
        fields: Sequence[str],
    ) -> None:
        """`chosen` has bits of the records of parts that count; without it, all records do."""
        self._parts = [*old, *new]
        self._chosen = chosen
        self._codes: dict[str, dict[Any, int]] = {field: {} for field in _CODED}
        self.exact_scores: dict[int, int] = {}  # by row, those that a double cannot hold
        self._ends = [0]
        position_of = position_maker(fields)
        parts = [self._read(part, bounds, position_of) for part in self._parts]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        self._values = {field: list(codes) for field, codes in self._codes.items()}
        self.codes: dict[str, Array] = {field: columns[field] for field in _CODED}
        self.is_new = np.arange(self._ends[-1]) >= self._ends[len(old)]
        self.correct = columns["correct"].astype(bool)
        self.error = columns["error"].astype(bool)
        self.score = columns["score"]
        for row, score in self.exact_scores.items():
            self.score[row] = _nearest(score)
        self.bytes = columns["bytes"]
        self.fingerprint = columns["fingerprint"]
        self._places = [columns[name] for name in ("start", "bytes", "fingerprint")]

    def _read(self, part: PartFile, bounds: Bounds, position_of: PositionOf) -> dict[str, Array]:
        """Read the columns of a part, as far as it is in the range."""
        folder, _ = parent_and_name(part.path)
        path = file_in(folder, part.entry.columns.file, join(folder, MANIFEST))
        file = PartColumns(path, part.entry.text_xxh3_128)
        try:
            return self._columns(file, self._chosen.get(part.path), bounds, position_of)
        except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as exc:
            raise CorpusError(path, f"is damaged: {exc!r}. Normalize again") from exc

    def _columns(
        self, file: PartColumns, chosen: bytes | None, bounds: Bounds, position_of: PositionOf
    ) -> dict[str, Array]:
        values = {field: file.values(name) for field, name in _CODED.items()}
        columns = {field: file.numbers(name) for field, name in _CODED.items()}
        rows = range(file.records)

        def row_at(position: Position | None) -> int | None:
            if position is None:
                return None
            return bisect_left(
                rows, position, key=lambda row: position_of(_key(values, columns, row))
            )

        begin, end = map(row_at, bounds)
        for field, found in values.items():
            codes = self._codes[field]
            numbers = [codes.setdefault(value, len(codes)) for value in found]
            columns[field] = np.array(numbers, dtype=np.int64)[columns[field]]
        columns |= {name: file.numbers(name) for name in _NUMBERS}
        columns["start"] = np.cumsum(columns["bytes"]) - columns["bytes"]
        first = self._ends[-1]
        in_range = np.arange(file.records)[begin:end]
        if chosen is not None:
            bits = np.unpackbits(np.frombuffer(chosen, dtype=np.uint8), count=file.records)
            in_range = in_range[bits[in_range] > 0]
        for row, score in file.exact("score").items():
            place = int(np.searchsorted(in_range, row))
            if place < len(in_range) and in_range[place] == row:
                self.exact_scores[first + place] = score
        self._ends.append(first + len(in_range))
        return {name: column[in_range] for name, column in columns.items()}

    def names(self, ids: Array, fields: Sequence[str]) -> list[Any]:
        """The values of some fields that the records of each id have in common."""
        rows = np.zeros(int(ids.max(initial=-1)) + 1, dtype=np.int64)
        rows[ids] = np.arange(len(ids))
        columns = [
            [self._values[field][code] for code in self.codes[field][rows].tolist()]
            for field in fields
        ]
        return list(zip(*columns, strict=True))

    def name(self, row: int, fields: list[str] | msgspec.UnsetType = msgspec.UNSET) -> RecordName:
        key = _key(self._values, self.codes, row)
        metric = key.evaluation_result_id
        return filled(
            RecordName, key, metric=metric, sample_id=json_safe(key.sample_id), fields=fields
        )

    def lines(self, rows: Array) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of some rows, which must be sorted, each after its row."""
        cuts = np.searchsorted(rows, self._ends)
        for part, begin, end in zip(self._parts, cuts, cuts[1:], strict=False):
            if begin < end:
                some = rows[begin:end]
                places = zip(*(column[some].tolist() for column in self._places), strict=True)
                yield from zip(some.tolist(), lines_at(part, places), strict=True)


def _key(values: Mapping[str, list[Any]], codes: Mapping[str, Array], row: int) -> KeyEntry:
    return KeyEntry(**{field: found[codes[field][row]] for field, found in values.items()})


def _nearest(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
