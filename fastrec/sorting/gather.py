"""Gather the records of a key range from runs and parts: merged, without duplicates, window by window.

Each run is read from front to back, its index ahead of its data, so memory stays bounded however many duplicates the
runs hold. A window ends at the lowest key for which some run may have further records. The records that each run
contributes to a window are already sorted, and Python's sort is fast on sorted stretches.

`gather_keys` does the same with keys and sizes alone, and does not read the data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from fastrec.sorting.copies import Copies, SharedSources
from fastrec.sorting.cursors import KeyCursor, RunSlice, TextCursor
from fastrec.sorting.spill import Fence, Run, in_order

__all__ = ["KeyWindow", "RunSlice", "Window", "gather", "gather_keys"]
__all__ += ["part_slice", "slice_merged", "slice_run", "whole_run"]

_key_of = attrgetter("key")


class Window(msgspec.Struct):
    """The records of consecutive keys, sorted, without duplicates."""

    keys: list[bytes]
    rows: list[Any]
    """The piece and line of a record with several copies are those of the source with the lowest piece number."""
    texts: list[memoryview]
    prints: list[int]
    copies: Copies
    """The sources of the records with several copies, by position."""
    groups: list[tuple[int, int]]
    """Where records with equal keys begin and end; a key of one record has no entry."""


class KeyWindow(msgspec.Struct):
    """The keys and sizes of the records of consecutive keys, sorted by key, without duplicates."""

    keys: list[bytes]
    sizes: list[int]


def whole_run(run: Run) -> RunSlice:
    """Return all of a run."""
    return RunSlice(run.path, 0, run.index_bytes, 0, run.data_bytes)


def part_slice(path: str, text_bytes: int, index: str, index_bytes: int, removed: Iterable[int] = ()) -> RunSlice:
    """Return all of a published part, without the records that come from removed pieces alone."""
    return RunSlice(path, 0, index_bytes, 0, text_bytes, index, is_part=True, removed=tuple(sorted(removed)))


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
    return RunSlice(run.path, start.index_offset, end.index_offset, start.data_offset, end.data_offset)


def slice_merged(run: Run, first_region: int, last_region: int) -> RunSlice | None:
    """Find the blocks of a merged run that hold some consecutive regions; None if there are none."""
    bounds = memoryview(run.bounds).cast("Q")
    index_start, data_start = bounds[2 * first_region : 2 * first_region + 2]
    index_end, data_end = bounds[2 * last_region + 2 : 2 * last_region + 4]
    return None if index_start == index_end else RunSlice(run.path, index_start, index_end, data_start, data_end)


def gather(
    slices: Sequence[RunSlice],
    low: bytes | None,
    high: bytes | None,
    window_bytes: int,
    *,
    least_index: int | None = None,
) -> Iterator[Window]:
    """Yield the records of all keys in `[low, high)`, in order, in windows of about `window_bytes`.

    At least `least_index` bytes of an index are read at a time; by default so many that those of all runs are a quarter
    of a window: an index of 100 KB is then read at once, and not in ten steps.

    Raises:
        DamagedFileError: A file is damaged. This may come after all windows, so nothing may be used before.
    """
    # A cursor holds a stretch, and at most a block more.
    stretch = max(window_bytes // max(len(slices), 1), 1)
    if least_index is None:
        least_index = max(window_bytes // 4 // max(len(slices), 1), 64)
    shared = SharedSources()
    cursors = [TextCursor(piece, low, high, stretch, least_index=least_index, shared=shared) for piece in slices]
    while cursors:
        window = _merge(cursors, _limit(cursors), shared)
        cursors = [cursor for cursor in cursors if not cursor.is_finished()]
        if window.keys:
            yield window


def gather_keys(
    slices: Sequence[RunSlice], low: bytes | None, high: bytes | None, window_bytes: int
) -> Iterator[KeyWindow]:
    """Yield keys and sizes of the records that `gather` yields, in windows that take about `window_bytes` of memory.

    Records with equal keys are in no certain order. Those of equal size and print are duplicates.
    """
    stretch = max(window_bytes // max(len(slices), 1), 1)
    cursors = [KeyCursor(piece, low, high, stretch) for piece in slices]
    while cursors:
        window = _merge_keys(cursors, _limit(cursors))
        cursors = [cursor for cursor in cursors if not cursor.is_finished()]
        if window.keys:
            yield window


def _limit(cursors: Sequence[KeyCursor]) -> bytes | None:
    """Read ahead, and return the lowest key of which there may be further records; None if there are no others."""
    for cursor in cursors:
        cursor.read_ahead()
    return min((cursor.keys[-1] for cursor in cursors if not cursor.index.at_end), default=None)


def _merge(cursors: Sequence[TextCursor], limit: bytes | None, shared: SharedSources) -> Window:
    """Merge the records below a key, or all that are left."""
    keys: list[bytes] = []
    rows: list[Any] = []
    texts: list[memoryview] = []
    prints: list[int] = []
    copies: Copies = {}
    for cursor in cursors:
        taken = cursor.take(limit)
        if taken.copies:
            copies |= {len(keys) + position: sources for position, sources in taken.copies.items()}
        keys += taken.keys
        rows += taken.rows
        texts += taken.texts
        prints += taken.prints
    order, copies, groups = in_order(keys, rows, lambda index: bytes(texts[index]), copies, shared)
    return Window(
        [keys[index] for index in order],
        [rows[index] for index in order],
        [texts[index] for index in order],
        [prints[index] for index in order],
        copies,
        groups,
    )


def _merge_keys(cursors: Sequence[KeyCursor], limit: bytes | None) -> KeyWindow:
    """Merge the keys below a key, or all that are left."""
    keys: list[bytes] = []
    sizes: list[int] = []
    prints: list[int] = []
    for cursor in cursors:
        taken = cursor.take(limit)
        keys += taken.keys
        sizes += taken.sizes
        prints += taken.prints
    size_of = dict(zip(keys, sizes, strict=True))
    if len(size_of) == len(keys):
        keys.sort()
        return KeyWindow(keys, [size_of[key] for key in keys])
    distinct = sorted(set(zip(keys, sizes, prints, strict=True)))
    return KeyWindow([key for key, _, _ in distinct], [size for _, size, _ in distinct])
