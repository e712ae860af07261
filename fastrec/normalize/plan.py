"""Plan pass 2: where parts begin, and which parts of the base stay as they are.

    runs, base ──▶ regions ──▶ merge runs, if there are too many
                           ──▶ borders of each region, in tasks ──▶ cuts ──▶ ranges of parts

A region is a range of keys that one task can plan. Where regions begin does not matter for the result. The keys of all
records in it are merged without duplicates, which gives the exact size of each question. Only index files are read. A
region that is a part of the base, and has no new or missing records, is not even read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from fastrec.engine.base import collector_off
from fastrec.normalize.base import Base, slices_of_part
from fastrec.normalize.context import RunContext
from fastrec.normalize.pass1 import release_buffer
from fastrec.normalize.pass1_driver import SortedShards
from fastrec.normalize.results import Part
from fastrec.normalize.rounds import merge_rounds
from fastrec.sorting.cuts import (
    Border,
    BorderSizes,
    choose_cuts,
    part_size_for,
    prefix_maker,
    read_borders,
    write_borders,
)
from fastrec.sorting.gather import RunSlice, gather_keys, slice_merged, slice_run
from fastrec.sorting.runs import Run
from fastrec.summary.part_statistics import read_lines_by_piece

_AT_ONCE: Final = 4  # regions that a task plans, if there are many runs

Range = tuple[bytes | None, bytes | None]
"""A range of keys: from the first one on, below the second one; None is no limit."""


class RegionTask(msgspec.Struct, frozen=True):
    """A task that finds the borders of a region."""

    low: bytes | None
    high: bytes | None
    slices: list[RunSlice]  # of the runs of pass 1
    base: list[RunSlice]  # of the part of the base that has this region
    statistics_prefix: str  # path prefix of the statistics of this part, if the region is all of it; else empty
    removed: tuple[int, ...]  # pieces that are gone and may have records in the part
    path: str  # of the borders
    sort_fields: tuple[str, ...]
    window_bytes: int

    def __str__(self) -> str:
        return "planning the parts of the corpus"


class Region(msgspec.Struct, frozen=True):
    """What is known of a region."""

    first: bytes = b""  # its first border; empty if it has no records
    borders: str = ""  # path of its borders
    is_unchanged: bool = False  # whether it is a part of the base as it was


@collector_off()
def plan_region(task: RegionTask) -> Region:
    """Find the borders of a region. Runs in a worker."""
    release_buffer()
    if task.statistics_prefix and not _has_keys(task) and not _has_removed(task):
        return Region(is_unchanged=True)
    sizes = BorderSizes(task.sort_fields)
    for window in gather_keys([*task.slices, *task.base], task.low, task.high, task.window_bytes):
        sizes.add(*window)
    borders = sizes.borders
    if not borders:
        return Region()
    write_borders(task.path, borders)
    return Region(borders[0][0], task.path)


def _has_keys(task: RegionTask) -> bool:
    return any(keys for keys, _ in gather_keys(task.slices, task.low, task.high, task.window_bytes))


def _has_removed(task: RegionTask) -> bool:
    return bool(task.removed) and not read_lines_by_piece(task.statistics_prefix).pieces().isdisjoint(task.removed)


class Plan(msgspec.Struct, frozen=True):
    """The result of planning."""

    runs: list[Run]  # that parts are made from
    ranges: list[Range]
    unchanged: dict[int, Part]  # by number of a range, the part of the base that has the same records
    regions: list[bytes]
    removed: dict[str, tuple[int, ...]]  # by path of a run, pieces whose records do not count
    base: Base

    def slices(self, number: int) -> list[RunSlice]:
        """Return what a range is gathered from."""
        low, high = self.ranges[number]
        first = 0 if low is None else bisect_right(self.regions, low)
        last = len(self.regions) if high is None else bisect_left(self.regions, high)
        found = [*self._slices_of_runs(low, high, first, last), *self._slices_of_base(low, high)]
        return [piece for piece in found if piece]

    def estimated_text(self, number: int) -> int:
        """Return the size of what a range is gathered from, which may include some neighbours and duplicates."""
        return sum(piece.data_end - piece.data_start for piece in self.slices(number))

    def _slices_of_runs(
        self, low: bytes | None, high: bytes | None, first: int, last: int
    ) -> Iterator[RunSlice | None]:
        for run in self.runs:
            piece = slice_merged(run, first, last) if run.bounds else slice_run(run, low, high)
            removed = self.removed.get(run.path)
            yield msgspec.structs.replace(piece, removed=removed) if piece and removed else piece

    def _slices_of_base(self, low: bytes | None, high: bytes | None) -> Iterator[RunSlice]:
        cuts = self.base.cuts
        first = 0 if low is None else bisect_right(cuts, low)
        last = len(cuts) if high is None else bisect_left(cuts, high)
        for number in range(first, last + 1 if self.base.parts else 0):
            if self.base.overlaps(number, low, high):
                yield from slices_of_part(self.base.parts[number], self.base.removed(number))


def plan_parts(context: RunContext, sorted_shards: SortedShards, base: Base) -> Plan:
    """Choose where parts begin."""
    options = context.options
    text = sum(run.data_bytes for result in sorted_shards.results for run in result.runs)
    has_runs = any(result.runs for result in sorted_shards.results)
    least, likely = (part_size_for(size, options.part_size, context.limits) for size in (0, text))
    region_bytes = max(likely, text // context.limits.most_parts)
    also = [*base.cuts, *_gaps(sorted_shards, base, options.sort_fields)]
    regions = sorted_shards.sample.cuts(text, region_bytes, also=also)
    runs = merge_rounds(context, sorted_shards, regions)

    def plan(cuts: Sequence[bytes], unchanged: dict[int, Part]) -> Plan:
        ranges = list(pairwise([None, *cuts, None])) if has_runs or base.parts else []
        return Plan(runs, ranges, unchanged, regions, sorted_shards.removed, base)

    if not has_runs and not base.gone:
        return plan(base.cuts, dict(enumerate(base.parts)))
    if not base.parts and 2 * text <= 3 * least:  # a part may be as large as this
        return plan([], {})
    planned = regions
    if any(run.bounds for run in runs):  # fewer tasks, which make fewer and larger reads of each of many runs
        planned = sorted({*regions[_AT_ONCE - 1 :: _AT_ONCE], *also})
    return _Planner(context, plan(planned, {})).plan()


def _gaps(sorted_shards: SortedShards, base: Base, sort_fields: Sequence[str]) -> list[bytes]:
    """Return where gaps between parts begin and end: new evaluations there do not change the parts beside them."""
    new = [counts for result in sorted_shards.results if result.runs for counts in result.pieces if counts.first]
    if not new:
        return []
    low, high = min(counts.first for counts in new), max(counts.last for counts in new)
    return base.gaps(low, high, prefix_maker(sort_fields[:1]))


class _Planner:
    """Finds the borders of all regions, and chooses the cuts."""

    def __init__(self, context: RunContext, regions: Plan) -> None:
        self._context = context
        self._regions = regions
        self._base = regions.base

    def plan(self) -> Plan:
        options = self._context.options
        tasks = (self._task(number) for number in range(len(self._regions.ranges)))
        found = dict(self._context.engine.run(plan_region, tasks))
        regions = [found[number] for number in range(len(found))]
        for number, region in enumerate(regions):
            if region.is_unchanged:
                part = self._base.parts[self._part_of(number)]
                regions[number] = Region(part.border, part.borders, is_unchanged=True)
        lasts: dict[int, bytes] = {}
        cuts = choose_cuts(_borders(regions, lasts), options.part_size, options.sort_fields, self._context.limits)
        return msgspec.structs.replace(
            self._regions,
            ranges=list(pairwise([None, *cuts, None])),
            unchanged=self._unchanged(regions, lasts, cuts),
        )

    def _part_of(self, number: int) -> int:
        """Return the number of the part of the base that a region belongs to."""
        low, _ = self._regions.ranges[number]
        return 0 if low is None else bisect_right(self._base.cuts, low)

    def _task(self, number: int) -> RegionTask:
        context, base, region = self._context, self._base, self._regions.ranges[number]
        slices = self._regions.slices(number)
        at = self._part_of(number)
        is_whole = bool(base.parts) and base.is_within(at, *region)
        return RegionTask(
            low=region[0],
            high=region[1],
            slices=[piece for piece in slices if not piece.is_part],
            base=[piece for piece in slices if piece.is_part],
            statistics_prefix=base.parts[at].statistics_prefix if is_whole else "",
            removed=base.removed(at) if is_whole else (),
            path=context.output.working(f"borders-{number:05d}"),
            sort_fields=context.options.sort_fields,
            window_bytes=context.options.window_for(len(slices)),
        )

    def _unchanged(
        self, regions: Sequence[Region], lasts: Mapping[int, bytes], cuts: Sequence[bytes]
    ) -> dict[int, Part]:
        """Find the new parts that have exactly the records of a part of the base; `lasts` are the last borders."""
        unchanged: dict[int, Part] = {}
        ends = [None, *cuts, None]
        filled = sorted(lasts)
        for before, number, after in zip([None, *filled], filled, [*filled[1:], None], strict=False):
            new = bisect_right(cuts, regions[number].first)
            low, high = ends[new], ends[new + 1]
            # A cut may be lower than the border that follows it, but not as low as the one before.
            begins = before is None or (low is not None and lasts[before] < low)
            if high is None or after is None:
                is_end = high is None and after is None
            else:
                is_end = lasts[number] < high <= regions[after].first
            if regions[number].is_unchanged and begins and is_end:
                unchanged[new] = self._base.parts[self._part_of(number)]
        return unchanged


def _borders(regions: Sequence[Region], lasts: dict[int, bytes]) -> Iterator[Border]:
    """Yield the borders of all regions, and remember the last one of each."""
    for number, region in enumerate(regions):
        if region.borders:
            for border in read_borders(region.borders):
                lasts[number] = border[0]
                yield border
