"""Merge several runs into one, without duplicates.

With thousands of runs, each part would have to read a few records from all of them. So runs are merged first. The cuts
between parts are known by then, and a merged run records where each part begins: two numbers per part instead of a
fence per block.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from fastrec.sorting.files import ViewsWriter
from fastrec.sorting.gather import RunSlice, Window, gather
from fastrec.sorting.spill import BLOCK_ROWS, Run, index_of

__all__ = ["merge_runs"]


def merge_runs(
    path: str, slices: Sequence[RunSlice], window_bytes: int, cuts: Sequence[bytes] | None, block_rows: int = BLOCK_ROWS
) -> Run:
    """Merge whole runs into a new one at `path`. Without `cuts`, it will be merged again, and has no bounds."""
    dropped: Counter[int] = Counter()
    records = 0
    with ViewsWriter(path) as data, ViewsWriter(index_of(path)) as index:
        merged = _MergedIndex(index, cuts or (), block_rows)
        for window in gather(slices, None, None, window_bytes):
            data.write(window.texts)
            merged.add(window)
            records += len(window.keys)
            dropped.update([row[0] for row in window.copies])
        bounds = merged.finish()
    run = Run(path, records, data.size, index.size, [], [], dict(dropped), data.hash(), index.hash())
    return run if cuts is None else msgspec.structs.replace(run, bounds=bounds)


class _MergedIndex:
    """Writes the index of a merged run in blocks that are full or end where a part begins."""

    def __init__(self, index: ViewsWriter, cuts: Sequence[bytes], block_rows: int) -> None:
        self._index = index
        self._block_rows = block_rows
        self._cuts = list(reversed(cuts))
        self._bounds = array("Q", [0, 0])
        self._data_offset = 0  # end of the records in blocks
        self._keys: list[bytes] = []
        self._sizes: list[int] = []
        self._rows: list[Any] = []

    def add(self, window: Window) -> None:
        sizes = list(map(len, window.texts))
        first = 0
        while self._cuts and window.keys[-1] >= self._cuts[-1]:
            last = bisect_left(window.keys, self._cuts.pop())
            self._append(window, sizes, slice(first, last))
            self._end_part()
            first = last
        self._append(window, sizes, slice(first, None))
        self._write_blocks(self._block_rows)

    def finish(self) -> bytes:
        """Write the remaining rows; return the bounds of all parts."""
        for _ in range(len(self._cuts) + 1):
            self._end_part()
        return self._bounds.tobytes()

    def _append(self, window: Window, sizes: list[int], some: slice) -> None:
        self._keys += window.keys[some]
        self._sizes += sizes[some]
        self._rows += window.rows[some]

    def _end_part(self) -> None:
        self._write_blocks(1)
        self._bounds.extend((self._index.size, self._data_offset))

    def _write_blocks(self, least: int) -> None:
        """Write full blocks, and the rest too if it has at least `least` rows."""
        position = 0
        while len(self._keys) - position >= least:
            end = position + self._block_rows
            sizes = self._sizes[position:end]
            self._index.write_block((self._keys[position:end], sizes, self._rows[position:end]))
            self._data_offset += sum(sizes)
            position = min(end, len(self._keys))
        del self._keys[:position], self._sizes[:position], self._rows[:position]
