"""The records of a part as sorting needs them: keys, sizes, fingerprints, rows.

They are made from columns. Nothing is decoded, and the text of the part is not read. Columns have a
value of each record; a `PartIndex` says what they lack to be the index of a run, or of a part that
is kept for the next run: where each record comes from.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, compress, islice, pairwise, repeat, starmap
from math import isnan
from operator import eq, sub
from typing import Any

from msgspec import UNSET, Struct, convert

from fastrec.corpus.columns import COLUMNS, ROW_COLUMNS, TOKENS, PartColumns
from fastrec.sorting.files import read_blocks
from fastrec.sorting.gather import OpenedPart
from fastrec.sorting.keys import METRIC, field_encoder
from fastrec.sorting.runs import BLOCK_ROWS, OriginsByPosition
from fastrec.sorting.slices import Bound, RunSlice
from fastrec.summary.rows import USUAL_TYPE, to_portable
from fastrec.summary.rows import Column as RowColumn

# The column of each field that a key may have.
KEY_COLUMNS = {
    "evaluation_name": "evaluation",
    "sample_hash": "hash",
    "model_id": "model",
    "evaluation_id": "run",
    "sample_id": "sample_id",
    METRIC: "metric",
}


class PartIndex(Struct, frozen=True, array_like=True):
    """What the columns of a part lack to be the index of a run, or of a part that is kept."""

    text_hash: str  # 128-bit xxh3 of the text of the part
    sort_fields: tuple[str, ...]
    schema_label: str  # of the records of the target
    # The number of the piece that each record comes from, 32 bits each; one number if all come
    # from it.
    pieces: bytes
    # its line in the piece, 64 bits; empty if each line of the piece is a record of the part
    lines: bytes = b""
    origins: OriginsByPosition = []  # of records with several copies, by position
    chosen: bytes | None = (
        None  # a byte of each record of the part: 1 if the run has it; None if it has all
    )


class PartRecords:
    """Records of a part, numbered from 0 on. Columns are read when they are needed."""

    def __init__(self, columns: PartColumns, index: PartIndex) -> None:
        self._columns = columns
        self._index = index
        self._arrays: dict[str, array[Any]] = {}
        self._names: dict[str, list[str | None]] = {}
        self._pieces = array("I", index.pieces)
        self._lines = array("Q", index.lines)
        self._positions: Sequence[int] = range(columns.records)
        if index.chosen is not None:
            self._positions = array("I", compress(self._positions, index.chosen))

    def __len__(self) -> int:
        return len(self._positions)

    def key(self, number: int) -> bytes:
        return b"".join([table[codes[number]] for table, codes in self._key_fields])

    def keys(self, first: int, end: int) -> list[bytes]:
        fields = [map(table.__getitem__, codes[first:end]) for table, codes in self._key_fields]
        return list(map(b"".join, zip(*fields, strict=True)))

    @property
    def is_complete(self) -> bool:
        return self._index.chosen is None

    @property
    def has_repeats(self) -> bool:
        """Whether neighbours have equal keys."""
        keys = zip(*(codes for _, codes in self._key_fields), strict=True)
        return any(starmap(eq, pairwise(keys)))

    @property
    def sizes(self) -> array[int]:
        return self._array("bytes")

    @property
    def fingerprints(self) -> array[int]:
        return self._array("fingerprint")

    def gaps(self, first: int = 0) -> Iterator[int]:
        """The bytes of text between the records from a number on, and before the first of them."""
        sizes = self._columns.array("bytes")
        if self._index.chosen is None:
            return chain([sum(sizes[:first])], repeat(0))
        ends = list(accumulate(sizes))
        starts = compress(map(sub, ends, sizes), self._index.chosen)
        ends_before = chain([0], islice(compress(ends, self._index.chosen), first, None))
        return map(sub, islice(starts, first, None), ends_before)

    def rows(self, first: int, end: int) -> list[tuple[Any, ...]]:
        """The rows of some records, as `summary.rows` makes them from decoded records."""
        span = slice(first, end)
        is_one_piece = len(self._pieces) == 1
        columns: dict[int, Iterable[Any]] = {
            RowColumn.SOURCE: repeat(self._pieces[0], end - first)
            if is_one_piece
            else self._pieces[span],
            RowColumn.LINE: self._lines[span] or [at + 1 for at in self._positions[span]],
            RowColumn.TOKENS: self._tokens(span),
        }
        for name, place in ROW_COLUMNS.items():
            columns[place] = self._values(name, span)
        return list(zip(*(columns[place] for place in sorted(columns)), strict=True))

    def origins(self, first: int, end: int) -> OriginsByPosition:
        """The origins of records that have several copies, by position among these records."""
        origins = self._index.origins
        chosen = origins[bisect_left(origins, (first,)) : bisect_left(origins, (end,))]
        return [(number - first, each) for number, each in chosen]

    @cached_property
    def _stretches(self) -> list[slice]:
        """Where adjacent records were chosen: copying them together takes less time than alone."""
        chosen = self._index.chosen or b""
        return [slice(*stretch.span()) for stretch in re.finditer(b"\1+", chosen)]

    @cached_property
    def _key_fields(self) -> list[tuple[list[bytes], array[int]]]:
        """For each field of the key, what stands for each code, and the codes."""
        return [
            (self._encoded(field), self._array(KEY_COLUMNS[field]))
            for field in self._index.sort_fields
        ]

    def _encoded(self, field: str) -> list[bytes]:
        values = self._columns.values(KEY_COLUMNS[field])
        if field == METRIC:
            values = [UNSET if metric is None else metric for metric in values]
        return list(map(field_encoder(field), values))

    def _array(self, name: str) -> array[Any]:
        if name not in self._arrays:
            values = self._columns.array(name)
            if self._index.chosen is None:
                self._arrays[name] = values
            else:
                self._arrays[name] = array(values.typecode)
                for stretch in self._stretches:
                    self._arrays[name] += values[stretch]
        return self._arrays[name]

    def _values(self, name: str, span: slice) -> Iterable[Any]:
        """The values of a column as rows have them.

        Texts are None where they are the usual one; integers that an array cannot hold are text.
        """
        numbers = self._array(name)[span]
        if COLUMNS[name].is_coded:
            return map(self._texts(name).__getitem__, numbers)
        if name in ("correct", "error"):
            return map(bool, numbers)
        exact = self._columns.exact(name)
        values = numbers.tolist()
        if name == "latency_ms":
            values = [None if isnan(value) else value for value in values]
        for number, position in enumerate(self._positions[span] if exact else ()):
            if position in exact:
                values[number] = to_portable(exact[position])
        return values

    def _texts(self, name: str) -> list[str | None]:
        if name not in self._names:
            usual = USUAL_TYPE if name == "interaction_type" else self._index.schema_label
            texts = self._columns.values(name)
            self._names[name] = [None if text == usual else text for text in texts]
        return self._names[name]

    def _tokens(self, span: slice) -> list[tuple[Any, ...] | None]:
        has_tokens = self._array("has_tokens")[span]
        if 1 not in has_tokens:
            return [None] * len(has_tokens)
        usages = zip(*(self._values(name, span) for name in TOKENS), strict=True)
        return [usage if known else None for usage, known in zip(usages, has_tokens, strict=True)]


def _blocks_of(
    records: PartRecords, start: int, end: int, *, with_rows: bool
) -> Iterator[tuple[Any, ...]]:
    """Yield records as an index has them, block by block."""
    for first in range(start, end, BLOCK_ROWS):
        stop = min(first + BLOCK_ROWS, end)
        yield (
            records.keys(first, stop),
            records.sizes[first:stop].tolist(),
            records.fingerprints[first:stop].tolist(),
            records.rows(first, stop) if with_rows else [],
            records.origins(first, stop) if with_rows else [],
        )


def read_index(path: str) -> PartIndex:
    """Read an index; DamagedFileError if it is damaged or missing."""
    return convert(next(read_blocks(path)), PartIndex)


def open_part(part: RunSlice, low: Bound, high: Bound, with_rows: bool) -> OpenedPart:
    """Open the records of a part in a range of keys.

    Raises:
        CorpusError: Its columns are damaged.
        DamagedFileError: Its index is damaged.
    """
    index = read_index(part.index)
    records = PartRecords(PartColumns(part.columns, index.text_hash), index)
    numbers = range(len(records))
    first = 0 if low is None else bisect_left(numbers, low, key=records.key)
    end = len(records) if high is None else bisect_left(numbers, high, key=records.key)
    return OpenedPart(
        blocks=_blocks_of(records, first, end, with_rows=with_rows),
        gaps=records.gaps(first),
        is_whole=records.is_complete and end - first == len(records),
    )
