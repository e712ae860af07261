"""Merge several runs into one, without duplicates.

With thousands of runs, each part would have to read a few records from all of them. So runs are merged first. The cuts
between regions are known by then, and a merged run records where each region begins: two numbers per region instead of
a fence per block.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from fastrec.sorting.copies import Copies
from fastrec.sorting.files import ViewsWriter
from fastrec.sorting.gather import RunSlice, Window, gather
from fastrec.sorting.spill import BLOCK_ROWS, IndexWriter, Run, index_of

__all__ = ["merge_runs"]


def merge_runs(
    path: str, slices: Sequence[RunSlice], window_bytes: int, cuts: Sequence[bytes] | None, block_rows: int = BLOCK_ROWS
) -> Run:
    """Merge whole runs into a new one at `path`. Without `cuts`, it will be merged again, and has no bounds."""
    with ViewsWriter(path) as data, IndexWriter(index_of(path), block_rows, fenced=False) as index:
        regions = _Regions(index, cuts or ())
        for window in gather(slices, None, None, window_bytes):
            data.write(window.texts)
            regions.add(window)
        bounds = regions.finish()
    run = Run(path, index.records, data.size, index.size, [], data.hash(), index.hash())
    return run if cuts is None else msgspec.structs.replace(run, bounds=bounds)


class _Regions:
    """Writes the index of a merged run in blocks that end where a region begins."""

    def __init__(self, index: IndexWriter, cuts: Sequence[bytes]) -> None:
        self._index = index
        self._cuts = list(reversed(cuts))
        self._bounds = array("Q", [0, 0])

    def add(self, window: Window) -> None:
        sizes = list(map(len, window.texts))
        first = 0
        while self._cuts and window.keys[-1] >= self._cuts[-1]:
            last = bisect_left(window.keys, self._cuts.pop())
            self._append(window, sizes, first, last)
            self._end_region()
            first = last
        self._append(window, sizes, first, len(sizes))

    def finish(self) -> bytes:
        """Write the remaining rows; return the bounds of all regions."""
        for _ in range(len(self._cuts) + 1):
            self._end_region()
        return self._bounds.tobytes()

    def _append(self, window: Window, sizes: list[int], first: int, last: int) -> None:
        copies: Copies = window.copies
        if copies and (first or last < len(sizes)):
            copies = {position - first: each for position, each in copies.items() if first <= position < last}
        some = slice(first, last)
        self._index.add(window.keys[some], sizes[some], window.prints[some], window.rows[some], copies)

    def _end_region(self) -> None:
        self._index.end_block()
        self._bounds.extend((self._index.size, self._index.data_offset))
