"""The records of a part as sorting needs them: keys, sizes, fingerprints, rows.

They are made from columns. Nothing is decoded, and the text of the part is not read. Columns have a
value of each record; a `PartIndex` says what they lack to be the index of a run, or of a part that
is kept for the next run: where each record comes from.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, compress, islice, repeat
from math import isnan
from operator import eq, sub
from typing import Any

import msgspec
from msgspec import UNSET

from fastrec.corpus.columns import PartColumns
from fastrec.sorting.files import read_blocks
from fastrec.sorting.gather import RunSlice
from fastrec.sorting.keys import METRIC, field_encoder
from fastrec.sorting.runs import BLOCK_ROWS, Origins
from fastrec.summary.rows import USUAL_TYPE, to_portable

# The column of each field that a key may have.
KEY_COLUMNS = {
    "evaluation_name": "evaluation",
    "sample_hash": "hash",
    "model_id": "model",
    "evaluation_id": "run",
    "sample_id": "sample_id",
    METRIC: "metric",
}

_TOKENS = ("input_tokens", "output_tokens", "total_tokens")


class PartIndex(msgspec.Struct, frozen=True, array_like=True):
    """What the columns of a part lack to be the index of a run, or of a part that is kept."""

    text_hash: str  # 128-bit xxh3 of the text of the part
    sort_fields: tuple[str, ...]
    schema_label: str  # of the records of the target
    # The number of the piece that each record comes from, 32 bits each; one number if all come
    # from it.
    pieces: bytes
    # its line in the piece, 64 bits; empty if each line of the piece is a record of the part
    lines: bytes = b""
    origins: list[tuple[int, Origins]] = []  # of records with several copies, by position
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
    def has_repeats(self) -> bool:
        """Whether neighbours have equal keys."""
        codes = [codes for _, codes in self._key_fields]
        return any(map(eq, zip(*codes, strict=True), islice(zip(*codes, strict=True), 1, None)))

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
        return map(
            sub,
            islice(starts, first, None),
            [0, *islice(compress(ends, self._index.chosen), first, None)],
        )

    def rows(self, first: int, end: int) -> list[tuple[Any, ...]]:
        """The rows of some records, as `summary.rows` makes them from decoded records."""
        some = slice(first, end)
        numbers = self._array
        columns = (
            repeat(self._pieces[0], end - first) if len(self._pieces) == 1 else self._pieces[some],
            self._lines[some]
            if self._lines
            else [position + 1 for position in self._positions[some]],
            self._texts("interaction_type", USUAL_TYPE, some),
            self._texts("schema_version", self._index.schema_label, some),
            map(bool, numbers("correct")[some]),
            self._exact("score", some),
            map(bool, numbers("error")[some]),
            numbers("turns")[some],
            numbers("tool_calls")[some],
            self._tokens(some),
            self._latencies(some),
            numbers("notes")[some],
            numbers("input_characters")[some],
            numbers("response_characters")[some],
        )
        return list(zip(*columns, strict=True))

    def origins(self, first: int, end: int) -> list[tuple[int, Origins]]:
        """The origins of records that have several copies, by position among these records."""
        origins = self._index.origins
        some = origins[bisect_left(origins, (first,)) : bisect_left(origins, (end,))]
        return [(number - first, each) for number, each in some]

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
            found = self._columns.array(name)
            if self._index.chosen is not None:
                found = array(found.typecode, compress(found, self._index.chosen))
            self._arrays[name] = found
        return self._arrays[name]

    def _texts(self, name: str, usual: str, some: slice) -> Iterator[str | None]:
        """The values of a column; None where they are the usual one."""
        if name not in self._names:
            self._names[name] = [
                None if value == usual else value for value in self._columns.values(name)
            ]
        return map(self._names[name].__getitem__, self._array(name)[some])

    def _exact(self, name: str, some: slice) -> list[Any]:
        """The values of a column as rows have them: integers that an array cannot hold are text."""
        values: list[Any] = self._array(name)[some].tolist()
        if exact := self._columns.exact(name):
            for number, position in enumerate(self._positions[some]):
                if position in exact:
                    values[number] = to_portable(exact[position])
        return values

    def _latencies(self, some: slice) -> list[Any]:
        is_unknown = map(isnan, self._array("latency_ms")[some])
        latencies = zip(self._exact("latency_ms", some), is_unknown, strict=True)
        return [None if unknown else latency for latency, unknown in latencies]

    def _tokens(self, some: slice) -> list[tuple[Any, ...] | None]:
        has_tokens = self._array("has_tokens")[some]
        if 1 not in has_tokens:
            return [None] * len(has_tokens)
        usages = zip(*(self._exact(name, some) for name in _TOKENS), strict=True)
        return [usage if known else None for usage, known in zip(usages, has_tokens, strict=True)]


class ColumnsReader:
    """Reads the records of a part in a range of keys, block by block (`gather.PartReader`)."""

    def __init__(
        self, records: PartRecords, low: bytes | None, high: bytes | None, *, with_rows: bool
    ) -> None:
        self._records = records
        self._with_rows = with_rows
        numbers = range(len(records))
        self._next = 0 if low is None else bisect_left(numbers, low, key=records.key)
        self._end = len(records) if high is None else bisect_left(numbers, high, key=records.key)
        self.is_whole = (self._next, self._end) == (0, len(records))
        self.gaps = records.gaps(self._next)

    @property
    def at_end(self) -> bool:
        return self._next >= self._end

    def stop(self) -> None:
        self._next = self._end

    def read(
        self,
    ) -> Iterator[tuple[list[bytes], list[int], list[int], list[Any], list[tuple[int, Origins]]]]:
        records = self._records
        while self._next < self._end:
            first = self._next
            self._next = end = min(first + BLOCK_ROWS, self._end)
            rows = records.rows(first, end) if self._with_rows else []
            origins = records.origins(first, end) if self._with_rows else []
            sizes = records.sizes[first:end].tolist()
            yield (
                records.keys(first, end),
                sizes,
                records.fingerprints[first:end].tolist(),
                rows,
                origins,
            )


def read_index(path: str) -> PartIndex:
    """Read an index; DamagedFileError if it is damaged or missing."""
    return msgspec.convert(next(read_blocks(path)), PartIndex)


def open_part(
    part: RunSlice, low: bytes | None, high: bytes | None, with_rows: bool
) -> ColumnsReader:
    """Open the records of a part in a range of keys.

    Raises:
        CorpusError: Its columns are damaged.
        DamagedFileError: Its index is damaged.
    """
    index = read_index(part.index)
    columns = PartColumns(part.columns, index.text_hash)
    return ColumnsReader(PartRecords(columns, index), low, high, with_rows=with_rows)
