"""Gathering: the records of a range of keys from all runs, merged, exact copies dropped, window by window.

A window is a range of keys that holds about so many bytes over all runs, so memory stays bounded however many copies
the runs hold. Within a window each run gives a stretch of its index and of its data, one read each; the stretches are
sorted runs already, which is what Python's sort is best at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from fastrec.stages.runs.copies import in_order
from fastrec.stages.runs.spill import Fence, Run
from fastrec.storage import read_range

__all__ = ["RunSlice", "Window", "gather", "slice_run"]

_HEAD: Final = 4  # bytes that say how long a block is
_decode = msgspec.msgpack.Decoder(tuple[list[bytes], list[int], list[Any]]).decode


class RunSlice(msgspec.Struct, frozen=True, array_like=True):
    """The blocks of a run that may hold keys of a range, closed by a fence behind the last of them."""

    path: str
    fences: list[Fence]
    renumbered: dict[int, int] | None = None


class Window(msgspec.Struct):
    """The records of some consecutive keys, sorted, each once."""

    keys: list[bytes]
    rows: list[Any]
    texts: list[memoryview]
    copies: list[Any]
    """The rows of the exact copies that were dropped."""


def slice_run(run: Run, low: bytes | None, high: bytes | None) -> RunSlice | None:
    """Find the blocks of a run that may hold keys in `[low, high)`; None if there are none."""
    keys = [fence.key for fence in run.fences]
    # The block before the first fence that is not below `low` may still reach into the range.
    first = 0 if low is None else max(bisect_left(keys, low) - 1, 0)
    beyond = bisect_left(keys, high) if high is not None else len(keys)
    if first >= beyond:
        return None
    end = run.fences[beyond] if beyond < len(keys) else Fence(b"", run.index_bytes, run.data_bytes)
    return RunSlice(run.path, [*run.fences[first:beyond], end], run.renumbered)


def gather(slices: Sequence[RunSlice], low: bytes | None, high: bytes | None, window_bytes: int) -> Iterator[Window]:
    """Give the records of all keys in `[low, high)`, in order, in windows of about `window_bytes`."""
    cursors = [_Cursor(piece, low) for piece in slices]
    for limit in [*_window_limits(slices, window_bytes), high]:
        window = _merge([cursor.take(limit) for cursor in cursors])
        if window.keys:
            yield window


def _window_limits(slices: Sequence[RunSlice], window_bytes: int) -> list[bytes]:
    """Choose keys at which to end windows, from the blocks' first keys and sizes."""
    blocks = sorted(
        (fence.key, following.data_offset - fence.data_offset)
        for piece in slices
        for fence, following in zip(piece.fences, piece.fences[1:], strict=False)
    )
    limits: list[bytes] = []
    size = 0
    for key, block_bytes in blocks:
        if size >= window_bytes and (not limits or key > limits[-1]):
            limits.append(key)
            size = 0
        size += block_bytes
    return limits


class _Cursor:
    """Reads a slice of a run from front to back."""

    def __init__(self, piece: RunSlice, low: bytes | None) -> None:
        self._path = piece.path
        self._fences = piece.fences
        self._renumbered = piece.renumbered
        self._block = 0
        self._keys: list[bytes] = []  # read but not yet taken
        self._sizes: list[int] = []
        self._rows: list[Any] = []
        self._offset = piece.fences[0].data_offset
        if low is not None:
            self._read_index(1)
            self._skip(bisect_left(self._keys, low))

    def take(self, limit: bytes | None) -> tuple[list[bytes], list[Any], list[int], bytes]:
        """Take the records of all keys before `limit`, or all that are left."""
        fences = self._fences
        until = self._block
        while until < len(fences) - 1 and (limit is None or fences[until].key < limit):
            until += 1
        self._read_index(until)
        count = len(self._keys) if limit is None else bisect_left(self._keys, limit)
        keys, rows, sizes = self._keys[:count], self._rows[:count], self._sizes[:count]
        data = b""
        if count:
            data = read_range(self._path, sum(sizes), self._offset)
            self._skip(count)
        return keys, rows, sizes, data

    def _skip(self, count: int) -> None:
        self._offset += sum(self._sizes[:count])
        del self._keys[:count], self._rows[:count], self._sizes[:count]

    def _renumber(self, rows: list[Any]) -> list[Any]:
        assert self._renumbered is not None
        return [[self._renumbered[source], *rest] for source, *rest in rows]

    def _read_index(self, until: int) -> None:
        """Read the index up to a block."""
        if until <= self._block:
            return
        begin, end = self._fences[self._block].index_offset, self._fences[until].index_offset
        data = memoryview(read_range(f"{self._path}.index", end - begin, begin))
        position = 0
        while position < len(data):
            size = int.from_bytes(data[position : position + _HEAD], "big")
            keys, sizes, rows = _decode(data[position + _HEAD : position + _HEAD + size])
            self._keys += keys
            self._sizes += sizes
            self._rows += rows if self._renumbered is None else self._renumber(rows)
            position += _HEAD + size
        self._block = until


def _merge(taken: list[tuple[list[bytes], list[Any], list[int], bytes]]) -> Window:
    """Merge what the runs gave for one window."""
    keys: list[bytes] = []
    rows: list[Any] = []
    texts: list[memoryview] = []
    for some_keys, some_rows, sizes, data in taken:
        keys += some_keys
        rows += some_rows
        view = memoryview(data)
        start = 0
        for size in sizes:
            end = start + size
            texts.append(view[start:end])
            start = end
    order, copies = in_order(keys, rows, lambda index: bytes(texts[index]))
    return Window(
        [keys[index] for index in order],
        [rows[index] for index in order],
        [texts[index] for index in order],
        [rows[index] for index in copies],
    )
