"""Gathering: the records of a range of keys from all runs, merged, exact copies dropped, window by window.

Each run is read from front to back, a stretch of its index ahead of a stretch of its data, so memory stays bounded
however many copies the runs hold. A window reaches up to the lowest key that some run may still add records to. What a
run gives for it is sorted already, which is what Python's sort is best at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from fastrec.sorting.copies import in_order
from fastrec.sorting.files import missing_of, unpack_blocks
from fastrec.sorting.spill import Run, index_of
from fastrec.storage import storage_of

__all__ = ["RunSlice", "Window", "gather", "slice_merged", "slice_run", "whole_run"]

_LEAST_INDEX: Final = 64  # bytes of an index that are read at a time
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
    """The records of some consecutive keys, sorted, each once."""

    keys: list[bytes]
    rows: list[Any]
    texts: list[memoryview]
    copies: list[Any]
    """The rows of the exact copies that were dropped."""


def whole_run(run: Run) -> RunSlice:
    """Take all of a run."""
    return RunSlice(run.path, 0, run.index_bytes, 0, run.data_bytes, run.renumbered)


def slice_run(run: Run, low: bytes | None, high: bytes | None) -> RunSlice | None:
    """Find the blocks of a run that may hold keys in `[low, high)`, by its fences; None if there are none."""
    fences = run.fences
    # The block before the first fence that is not below `low` may still reach into the range.
    first = 0 if low is None else max(bisect_left(fences, low, key=_key_of) - 1, 0)
    beyond = bisect_left(fences, high, key=_key_of) if high is not None else len(fences)
    if first >= beyond:
        return None
    index_end, data_end = run.index_bytes, run.data_bytes
    if beyond < len(fences):
        index_end, data_end = fences[beyond].index_offset, fences[beyond].data_offset
    return RunSlice(
        run.path, fences[first].index_offset, index_end, fences[first].data_offset, data_end, run.renumbered
    )


def slice_merged(run: Run, part: int) -> RunSlice | None:
    """Find the blocks of a merged run that hold a part; None if there are none."""
    index_start, data_start, index_end, data_end = memoryview(run.bounds).cast("Q")[2 * part : 2 * part + 4]
    if index_start == index_end:
        return None
    return RunSlice(run.path, index_start, index_end, data_start, data_end, run.renumbered)


def gather(slices: Sequence[RunSlice], low: bytes | None, high: bytes | None, window_bytes: int) -> Iterator[Window]:
    """Give the records of all keys in `[low, high)`, in order, in windows of about `window_bytes`."""
    # What is known of a run is between one and two stretches.
    stretch = max(window_bytes * 2 // 3 // max(len(slices), 1), 1)
    cursors = [_Cursor(piece, low, high, stretch) for piece in slices]
    while cursors:
        for cursor in cursors:
            cursor.read_ahead()
        limit = min((cursor.keys[-1] for cursor in cursors if not cursor.at_end), default=None)
        window = _merge([cursor.take(limit) for cursor in cursors])
        cursors = [cursor for cursor in cursors if cursor.keys or not cursor.at_end]
        if window.keys:
            yield window


class _Cursor:
    """Reads a slice of a run from front to back."""

    def __init__(self, piece: RunSlice, low: bytes | None, high: bytes | None, stretch: int) -> None:
        self._path = piece.path
        self._renumbered = piece.renumbered
        self._low, self._high = low, high
        self._stretch = stretch
        self._index_position, self._index_end = piece.index_start, piece.index_end
        self._data_position, self._data_end = piece.data_start, piece.data_end
        index_bytes, data_bytes = piece.index_end - piece.index_start, piece.data_end - piece.data_start
        self._index_stretch = max(stretch * index_bytes // max(data_bytes, 1), _LEAST_INDEX)
        self._cut_off = b""  # the beginning of a block whose end was not read yet
        self._ahead = memoryview(b"")  # data from the position on that was read
        self._known = 0  # bytes of data from the position on whose index was read
        self.keys: list[bytes] = []  # read but not yet taken
        self._sizes: list[int] = []
        self._rows: list[Any] = []

    @property
    def at_end(self) -> bool:
        """Whether the index was read to its end."""
        return self._index_position == self._index_end

    def read_ahead(self) -> None:
        """Read the index of the next stretch of data, and on until it has two keys: all below the last is known."""
        while not self.at_end and (self._known < self._stretch or self.keys[0] == self.keys[-1]):
            left = self._index_end - self._index_position
            # A block that was cut off is read to its end, and a small rest is not left for another time.
            size = max(self._index_stretch, missing_of(self._cut_off))
            size = left if left < size + size // 2 else size
            data = storage_of(self._path).read_range(index_of(self._path), size, self._index_position)
            blocks, self._cut_off = unpack_blocks(self._cut_off + data)
            self._index_position += size
            for keys, sizes, rows in blocks:
                self.keys += keys
                self._sizes += sizes
                self._rows += rows if self._renumbered is None else self._renumber(rows)
                self._known += sum(sizes)
            if self._low is not None and self.keys:
                self._skip(bisect_left(self.keys, self._low))
        if self.at_end and self._high is not None:
            self._end_at(bisect_left(self.keys, self._high))
            self._high = None

    def take(self, limit: bytes | None) -> tuple[list[bytes], list[Any], list[int], memoryview]:
        """Take the records of all keys before `limit`, or all that are left."""
        count = len(self.keys) if limit is None else bisect_left(self.keys, limit)
        keys, rows, sizes = self.keys[:count], self._rows[:count], self._sizes[:count]
        data = self._read_data(sum(sizes)) if count else self._ahead[:0]
        self._skip(count)
        return keys, rows, sizes, data

    def _read_data(self, size: int) -> memoryview:
        """Read so many bytes of data, and a stretch if that is more: what is not taken now will be soon."""
        missing = size - len(self._ahead)
        if missing > 0:
            start = self._data_position + len(self._ahead)
            left = self._known - len(self._ahead) if self.at_end else self._data_end - start
            data = storage_of(self._path).read_range(self._path, max(missing, min(self._stretch, left)), start)
            self._ahead = memoryview(bytes(self._ahead) + data if self._ahead else data)
        return self._ahead[:size]

    def _skip(self, count: int) -> None:
        """Go on behind some records."""
        if not count:
            return
        size = sum(self._sizes[:count])
        self._data_position += size
        self._known -= size
        self._ahead = self._ahead[size:]
        del self.keys[:count], self._rows[:count], self._sizes[:count]

    def _end_at(self, count: int) -> None:
        """Forget all but some records."""
        self._known -= sum(self._sizes[count:])
        del self.keys[count:], self._rows[count:], self._sizes[count:]

    def _renumber(self, rows: list[Any]) -> list[Any]:
        assert self._renumbered is not None
        return [[self._renumbered[source], *rest] for source, *rest in rows]


def _merge(taken: list[tuple[list[bytes], list[Any], list[int], memoryview]]) -> Window:
    """Merge what the runs gave for one window."""
    keys: list[bytes] = []
    rows: list[Any] = []
    texts: list[memoryview] = []
    for some_keys, some_rows, sizes, data in taken:
        keys += some_keys
        rows += some_rows
        start = 0
        for size in sizes:
            end = start + size
            texts.append(data[start:end])
            start = end
    order, copies = in_order(keys, rows, lambda index: bytes(texts[index]))
    return Window(
        [keys[index] for index in order],
        [rows[index] for index in order],
        [texts[index] for index in order],
        [rows[index] for index in copies],
    )
