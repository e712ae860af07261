"""Slices: the blocks of a run, or the part, that may have records of a range of keys."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter

from msgspec import Struct

from fastrec.sorting.runs import Fence, Run, index_of

Bound = bytes | None  # of a range of keys; None is no limit

_key_of = attrgetter("key")  # of a fence


class RunSlice(Struct, frozen=True, array_like=True):
    """The blocks of a run that may hold keys of a range, or a whole part."""

    path: str
    index_start: int
    index_end: int
    data_start: int
    data_end: int
    index: str = ""  # path of the index; that of the run if empty
    is_part: bool = False  # whether the path is that of a published part, compressed as a whole
    removed: tuple[int, ...] = ()  # pieces whose copies do not count any more
    # path of the columns of a part, which are its index; the other index says what they lack
    columns: str = ""
    has_repeats: bool = False  # whether records of a part of a trusted corpus have equal keys
    first: bytes = b""  # the lowest key, if it is known


def whole_run(run: Run) -> RunSlice:
    return RunSlice(
        path=run.part or run.path,
        index_start=0,
        index_end=run.index_bytes,
        data_start=0,
        data_end=run.data_bytes,
        index=index_of(run.path),
        is_part=bool(run.part),
        columns=run.columns,
        has_repeats=run.has_repeats,
        first=run.first,
    )


def slice_run(run: Run, low: Bound, high: Bound) -> RunSlice | None:
    """Find the blocks of a run that may hold keys in `[low, high)`, by its fences.

    None if there are none.
    """
    fences = run.fences
    if run.part:
        is_in_range = (low is None or low <= run.last) and (not high or run.first < high)
        return whole_run(run) if is_in_range else None
    # the block before the first fence at or above `low` may reach into the range
    first = max(bisect_left(fences, low or b"", key=_key_of) - 1, 0)
    beyond = len(fences) if high is None else bisect_left(fences, high, key=_key_of)
    if first >= beyond:
        return None
    start = fences[first]
    end = fences[beyond] if beyond < len(fences) else Fence(b"", run.index_bytes, run.data_bytes)
    return RunSlice(
        run.path, start.index_offset, end.index_offset, start.data_offset, end.data_offset
    )


def slice_merged(run: Run, first_region: int, last_region: int) -> RunSlice | None:
    """Find the blocks of a merged run that hold some consecutive regions.

    None if there are none.
    """
    bounds = memoryview(run.bounds).cast("Q")
    index_start, data_start = bounds[2 * first_region : 2 * first_region + 2]
    index_end, data_end = bounds[2 * last_region + 2 : 2 * last_region + 4]
    return (
        None
        if index_start == index_end
        else RunSlice(run.path, index_start, index_end, data_start, data_end)
    )
