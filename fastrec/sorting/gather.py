"""Gather the records of a key range from all runs: merged, without duplicates, window by window.

Each run is read from front to back, its index ahead of its data, so memory stays bounded however many duplicates the
runs hold. A window ends at the lowest key for which some run may have further records. The records that each run
contributes to a window are already sorted, and Python's sort is fast on sorted stretches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any

import msgspec

from fastrec.sorting.files import BlockReader
from fastrec.sorting.spill import Fence, Run, in_order, index_of
from fastrec.storage import storage_of

__all__ = ["RunSlice", "Window", "gather", "slice_merged", "slice_run", "whole_run"]

_key_of = attrgetter("key")


class RunSlice(msgspec.Struct, frozen=True, array_like=True):
    """The blocks of a run that may hold keys of a range."""

    path: str
    index_start: int
    index_end: int
    data_start: int
    data_end: int
    renumbered: dict[int, int] | None = None


class Window(msgspec.Struct):
    """The records of consecutive keys, sorted, without duplicates."""

    keys: list[bytes]
    rows: list[Any]
    texts: list[memoryview]
    copies: list[Any]
    """Rows of the duplicates that were dropped."""
    groups: list[tuple[int, int]]
    """Where records with equal keys begin and end; a key of one record has no entry."""


def whole_run(run: Run) -> RunSlice:
    """Return all of a run."""
    return RunSlice(run.path, 0, run.index_bytes, 0, run.data_bytes, run.renumbered)


def slice_run(run: Run, low: bytes | None, high: bytes | None) -> RunSlice | None:
    """Find the blocks of a run that may hold keys in `[low, high)` by its fences; None if there are none."""
    fences = run.fences
    # The block before the first fence at or above `low` may reach into the range.
    first = 0 if low is None else max(bisect_left(fences, low, key=_key_of) - 1, 0)
    beyond = bisect_left(fences, high, key=_key_of) if high is not None else len(fences)
    if first >= beyond:
        return None
    start = fences[first]
    end = fences[beyond] if beyond < len(fences) else Fence(b"", run.index_bytes, run.data_bytes)
    return RunSlice(run.path, start.index_offset, end.index_offset, start.data_offset, end.data_offset, run.renumbered)


def slice_merged(run: Run, part: int) -> RunSlice | None:
    """Find the blocks of a merged run that hold a part; None if there are none."""
    index_start, data_start, index_end, data_end = memoryview(run.bounds).cast("Q")[2 * part : 2 * part + 4]
    if index_start == index_end:
        return None
    return RunSlice(run.path, index_start, index_end, data_start, data_end, run.renumbered)


def gather(
    slices: Sequence[RunSlice], low: bytes | None, high: bytes | None, window_bytes: int, *, least_index: int = 64
) -> Iterator[Window]:
    """Yield the records of all keys in `[low, high)`, in order, in windows of about `window_bytes`.

    At least `least_index` bytes of an index are read at a time.
    """
    # A cursor holds between one and two stretches.
    stretch = max(window_bytes * 2 // 3 // max(len(slices), 1), 1)
    cursors = [_Cursor(piece, low, high, stretch, least_index) for piece in slices]
    while cursors:
        for cursor in cursors:
            cursor.read_ahead()
        limit = min((cursor.keys[-1] for cursor in cursors if not cursor.index.at_end), default=None)
        window = _merge([cursor.take(limit) for cursor in cursors])
        cursors = [cursor for cursor in cursors if cursor.keys or not cursor.index.at_end]
        if window.keys:
            yield window


class _DataReader:
    """Reads the data of a slice from front to back."""

    def __init__(self, piece: RunSlice, stretch: int) -> None:
        self._path = piece.path
        self._position, self._end = piece.data_start, piece.data_end
        self._stretch = stretch
        self._ahead = memoryview(b"")  # data from the position on that was read

    def read(self, size: int, known: int | None) -> memoryview:
        """Return the next bytes; read a whole stretch if that is more, but no more than is `known` to be needed."""
        missing = size - len(self._ahead)
        if missing > 0:
            start = self._position + len(self._ahead)
            left = self._end - start if known is None else known - len(self._ahead)
            data = storage_of(self._path).read_range(self._path, max(missing, min(self._stretch, left)), start)
            self._ahead = memoryview(bytes(self._ahead) + data if self._ahead else data)
        return self._ahead[:size]

    def skip(self, size: int) -> None:
        self._position += size
        self._ahead = self._ahead[size:]


class _Cursor:
    """The next records of a slice: those whose index was read and that were not taken yet."""

    def __init__(self, piece: RunSlice, low: bytes | None, high: bytes | None, stretch: int, least_index: int) -> None:
        index_bytes, data_bytes = piece.index_end - piece.index_start, piece.data_end - piece.data_start
        index_stretch = max(stretch * index_bytes // max(data_bytes, 1), least_index)
        self.index = BlockReader(index_of(piece.path), piece.index_start, piece.index_end, index_stretch)
        self._renumbered = piece.renumbered
        self._data = _DataReader(piece, stretch)
        self._low, self._high = low, high
        self._stretch = stretch
        self._known = 0  # bytes of data of these records
        self.keys: list[bytes] = []
        self._sizes: list[int] = []
        self._rows: list[Any] = []

    def read_ahead(self) -> None:
        """Read the index of the next stretch of data, and on until it has two keys: all below the last are complete."""
        while not self.index.at_end and (self._known < self._stretch or self.keys[0] == self.keys[-1]):
            for keys, sizes, rows in self.index.read():
                self.keys += keys
                self._sizes += sizes
                if (numbers := self._renumbered) is not None:
                    rows = [[numbers[source], *rest] for source, *rest in rows]
                self._rows += rows
                self._known += sum(sizes)
            if self._low is not None and self.keys:
                self._skip(bisect_left(self.keys, self._low))
        if self.index.at_end and self._high is not None:
            beyond = bisect_left(self.keys, self._high)
            self._known -= sum(self._sizes[beyond:])
            del self.keys[beyond:], self._rows[beyond:], self._sizes[beyond:]
            self._high = None

    def take(self, limit: bytes | None) -> tuple[list[bytes], list[Any], list[int], memoryview]:
        """Take the records of all keys below `limit`, or all that are left."""
        count = len(self.keys) if limit is None else bisect_left(self.keys, limit)
        keys, rows, sizes = self.keys[:count], self._rows[:count], self._sizes[:count]
        data = self._data.read(sum(sizes), self._known if self.index.at_end else None)
        self._skip(count)
        return keys, rows, sizes, data

    def _skip(self, count: int) -> None:
        if count:
            size = sum(self._sizes[:count])
            self._data.skip(size)
            self._known -= size
            del self.keys[:count], self._rows[:count], self._sizes[:count]


def _merge(taken: list[tuple[list[bytes], list[Any], list[int], memoryview]]) -> Window:
    """Merge the records that the runs contribute to one window."""
    keys: list[bytes] = []
    rows: list[Any] = []
    texts: list[memoryview] = []
    for some_keys, some_rows, sizes, data in taken:
        keys += some_keys
        rows += some_rows
        texts += [data[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
    order, copies, groups = in_order(keys, rows, lambda index: bytes(texts[index]))
    return Window(
        [keys[index] for index in order],
        [rows[index] for index in order],
        [texts[index] for index in order],
        [rows[index] for index in copies],
        groups,
    )
