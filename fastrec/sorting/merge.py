"""Merging: from some runs to one, read from front to back, exact copies dropped as everywhere.

Where a corpus takes thousands of runs, each part would have to look into all of them for a few records. So they are
merged first. Where the parts will be cut is known by then: a merged run notes where each of them begins, two numbers
instead of a fence for every block.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastrec.sorting.files import ViewsWriter
from fastrec.sorting.gather import RunSlice, Window, gather
from fastrec.sorting.spill import BLOCK_ROWS, Run, index_of, write_index

__all__ = ["merge_runs"]


def merge_runs(path: str, slices: Sequence[RunSlice], window_bytes: int, cuts: Sequence[bytes] | None) -> Run:
    """Merge runs into one.

    Args:
        path: Where to put the data file.
        slices: The runs, whole.
        window_bytes: How much is merged at a time.
        cuts: The first keys of all parts but the first; None if the run will be merged again.
    """
    dropped: Counter[int] = Counter()
    with ViewsWriter(path) as data, ViewsWriter(index_of(path)) as index:
        merged = _Merged(index, cuts)
        for window in gather(slices, None, None, window_bytes):
            data.write(window.texts)
            merged.add(window)
            dropped.update([row[0] for row in window.copies])
        bounds = merged.finish()
    return Run(
        path,
        merged.records,
        data.size,
        index.size,
        fences=[],
        sample=[],
        dropped=dict(dropped),
        data_hash=data.hash(),
        index_hash=index.hash(),
        bounds=bounds,
    )


class _Merged:
    """The index of a merged run: blocks that are full, or end where a part begins."""

    def __init__(self, index: ViewsWriter, cuts: Sequence[bytes] | None) -> None:
        self._index = index
        self._bounded = cuts is not None
        self._cuts = iter(cuts or ())
        self._cut = next(self._cuts, None)
        self._bounds = array("Q", [0, 0])
        self._data_offset = 0  # behind all records that are in blocks
        self._keys: list[bytes] = []
        self._sizes: list[int] = []
        self._rows: list[Any] = []
        self.records = 0

    def add(self, window: Window) -> None:
        first = 0
        sizes = list(map(len, window.texts))
        while self._cut is not None and window.keys[-1] >= self._cut:
            last = bisect_left(window.keys, self._cut)
            self._append(window.keys[first:last], sizes[first:last], window.rows[first:last])
            self._write_blocks(1)
            self._bound()
            self._cut = next(self._cuts, None)
            first = last
        self._append(window.keys[first:], sizes[first:], window.rows[first:])
        self._write_blocks(BLOCK_ROWS)

    def finish(self) -> bytes:
        """Write what is left; give the bounds, if any part is to be found by them."""
        self._write_blocks(1)
        for _ in [] if self._cut is None else [self._cut, *self._cuts]:
            self._bound()
        self._bound()
        return self._bounds.tobytes() if self._bounded else b""

    def _append(self, keys: list[bytes], sizes: list[int], rows: list[Any]) -> None:
        self._keys += keys
        self._sizes += sizes
        self._rows += rows
        self.records += len(keys)

    def _bound(self) -> None:
        self._bounds.extend((self._index.size, self._data_offset))

    def _write_blocks(self, least: int) -> None:
        """Write full blocks, and what is left if it has at least so many rows."""
        position = 0
        while len(self._keys) - position >= least:
            end = position + BLOCK_ROWS
            sizes = self._sizes[position:end]
            write_index(self._index, self._keys[position:end], sizes, self._rows[position:end])
            self._data_offset += sum(sizes)
            position = min(end, len(self._keys))
        del self._keys[:position], self._sizes[:position], self._rows[:position]
