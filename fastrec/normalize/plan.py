"""Plan pass 2: where parts begin, and which parts of the base stay as they are.

    runs, base ──▶ regions ──▶ merge runs, if there are too many
                           ──▶ borders of each region, in tasks ──▶ cuts ──▶ ranges of parts

A region is a range of keys that one task can plan. Where regions begin does not matter for the
result. The keys of all records in it are merged without duplicates, which gives the exact size of
each question. Only index files are read. A region that is a part of the base, and has no new or
missing records, is not even read.

Each part reads a range of each run, where its fences say. With thousands of runs and parts, that
would take millions of small reads and gigabytes of fences. So runs are merged, in as many rounds as
necessary. Those of the last round record where each region begins: two numbers per region instead
of a fence per block.
"""

from __future__ import annotations

import os
import secrets
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_128_hexdigest

from fastrec.corpus.part_records import open_part
from fastrec.engine.base import collector_off
from fastrec.limits import current_limits
from fastrec.normalize.context import RunContext
from fastrec.normalize.kept import Base, positions_in, slices_of_part
from fastrec.normalize.pass1 import release_buffer
from fastrec.normalize.pass1_driver import SortedShards
from fastrec.normalize.results import MergedRun, Part, PartsByNumber
from fastrec.sorting.cuts import (
    Border,
    BorderSizes,
    choose_cuts,
    part_size_for,
    prefix_maker,
    read_borders,
    write_borders,
)
from fastrec.sorting.files import ViewsWriter, read_blocks, write_blocks
from fastrec.sorting.gather import gather, gather_keys
from fastrec.sorting.runs import BLOCK_ROWS, IndexWriter, Run, index_of
from fastrec.sorting.slices import Bound, RunSlice, slice_merged, slice_run, whole_run
from fastrec.storage import join, storage_of
from fastrec.summary.part_statistics import read_lines_by_piece

_AT_ONCE = 4  # regions that a task plans, if there are more than 64 runs

# A range of keys: from the first one on, below the second one; None is no limit.
Range = tuple[Bound, Bound]


class Plan(Struct, frozen=True):
    runs: list[Run]  # that parts are made from
    ranges: list[Range]
    # by number of a range, the part of the base that has the same records
    unchanged: PartsByNumber
    regions: list[bytes]
    removed: tuple[int, ...]  # pieces whose records do not count
    base: Base
    is_large: bool  # whether the page cache cannot hold all runs

    def slices(self, number: int) -> list[RunSlice]:
        return self.run_slices(number) + self.base_slices(number)

    def run_slices(self, number: int) -> list[RunSlice]:
        low, high = self.ranges[number]
        first, last = positions_in(self.regions, low, high)
        slices = []
        for run in self.runs:
            merged = run.bounds
            piece = slice_merged(run, first, last) if merged else slice_run(run, low, high)
            if piece:
                slices.append(replace(piece, removed=self.removed) if self.removed else piece)
        return slices

    def base_slices(self, number: int) -> list[RunSlice]:
        base = self.base
        return [
            run_slice
            for part in base.overlapping(*self.ranges[number])
            for run_slice in slices_of_part(base.parts[part], base.removed(part))
        ]

    def part_of(self, number: int) -> int:
        """The part of the base in which a range begins."""
        return positions_in(self.base.cuts, *self.ranges[number])[0]

    def grown(self, number: int) -> Part | None:
        """The part of the base that has all records of a range but new ones.

        None if there is none.
        """
        base = self.base
        parts = base.overlapping(*self.ranges[number])
        if len(parts) != 1:
            return None
        [part] = parts
        is_grown = base.is_within(part, *self.ranges[number]) and not base.removed(part)
        return base.parts[part] if is_grown else None


def plan_parts(context: RunContext, sorted_shards: SortedShards, base: Base) -> Plan:
    part_size = context.options.part_size
    text = sum(run.data_bytes for result in sorted_shards.results for run in result.runs)
    has_runs = any(result.runs for result in sorted_shards.results)
    least, likely = (part_size_for(size, part_size) for size in (0, text))
    region_bytes = max(likely, text // current_limits().most_parts)
    also = [*base.cuts, *_gaps(sorted_shards, base, context.sort_fields)]
    regions = sorted_shards.sample.cuts(text, region_bytes, also=also)
    runs = _merge_runs(context, sorted_shards, regions)
    is_large = 2 * text > _memory()

    def plan(cuts: Sequence[bytes], unchanged: PartsByNumber) -> Plan:
        ranges = list(pairwise([None, *cuts, None])) if has_runs or base.parts else []
        return Plan(runs, ranges, unchanged, regions, sorted_shards.removed, base, is_large)

    if not has_runs and not base.gone:
        return plan(base.cuts, dict(enumerate(base.parts)))
    if not base.parts and 2 * text <= 3 * least:  # a part may be as large as this
        return plan([], {})
    planned = regions
    if len(runs) > 64:  # fewer tasks, which make fewer and larger reads of each run
        planned = sorted({*regions[_AT_ONCE - 1 :: _AT_ONCE], *also})
    return _plan_cuts(context, plan(planned, {}))


def _memory() -> int:
    """The memory of this machine; without limit if the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return sys.maxsize


def _gaps(sorted_shards: SortedShards, base: Base, sort_fields: Sequence[str]) -> list[bytes]:
    """Where gaps between parts begin and end.

    New evaluations there do not change the parts beside them.
    """
    new = [
        counts
        for result in sorted_shards.results
        if result.runs
        for counts in result.pieces
        if counts.first
    ]
    if not new:
        return []
    low = min(counts.first for counts in new)
    high = max(counts.last for counts in new)
    return base.gaps(low, high, prefix_maker(sort_fields[:1]))


# Merging runs


def _merge_runs(
    context: RunContext, sorted_shards: SortedShards, regions: Sequence[bytes]
) -> list[Run]:
    """Merge the runs of pass 1 if there are too many, until every part can read from all of them.

    Return the runs that parts are made from. A merged run is written to the journal. Then it
    replaces the runs that it was made from, which are removed, so merging needs little additional
    disk space.
    """
    limits = current_limits()
    fan_in = context.options.fan_in
    regions_hash = xxh3_128_hexdigest(msgspec.msgpack.encode(regions))
    ready = [merge for merge in sorted_shards.merged if merge.regions == regions_hash]
    loose = _loose_runs(sorted_shards, regions_hash)
    if (
        all(merge.run.fences for merge in loose)
        and len(loose) + len(ready) <= context.unmerged_runs
    ):
        return [merge.run for merge in (*loose, *ready)]
    groups = max(
        min(limits.merged_runs - len(ready), -(-len(loose) // limits.least_merge_fan_in)), 1
    )
    context.progress.start("round", sum(merge.run.data_bytes for merge in loose))
    while len(loose) > groups * fan_in:
        loose = _round(context, sorted_shards, loose, -(-len(loose) // fan_in))
    path = join(context.output.work, f"regions-{regions_hash}")
    write_blocks(path, [regions])
    ready += _round(context, sorted_shards, loose, groups, regions=path, regions_hash=regions_hash)
    context.progress.finish()
    return [merge.run for merge in ready]


def _loose_runs(sorted_shards: SortedShards, regions_hash: str) -> list[MergedRun]:
    """The runs that the last round has not merged yet, those of tasks in the journal first."""
    merged = sorted_shards.merged
    durable = sorted_shards.durable
    covered = {path for merge in merged for path in merge.covers}
    results = sorted(
        sorted_shards.results, key=lambda result: (result.task not in durable, result.task)
    )
    alone = [
        MergedRun(run, [run.path], [result.task], "")
        for result in results
        for run in result.runs
        if run.path not in covered
    ]
    return [*(merge for merge in merged if merge.regions != regions_hash), *alone]


def _round(
    context: RunContext,
    sorted_shards: SortedShards,
    runs: list[MergedRun],
    groups: int,
    *,
    regions: str | None = None,
    regions_hash: str = "",
) -> list[MergedRun]:
    bounds = [len(runs) * number // groups for number in range(groups + 1)]
    grouped = [runs[start:end] for start, end in pairwise(bounds) if start < end]
    options = context.options
    window_bytes = options.window_for(min(options.fan_in, len(runs)))
    tasks = (
        MergeTask(
            [replace(whole_run(merge.run), removed=sorted_shards.removed) for merge in group],
            context.output.work,
            regions,
            window_bytes,
        )
        for group in grouped
    )
    done = {}
    for number, run in context.engine.run(merge_some, tasks):
        context.output.check()
        group = grouped[number]
        merged = MergedRun(
            run,
            [path for merge in group for path in merge.covers],
            sorted({task for merge in group for task in merge.tasks}),
            regions_hash,
        )
        if sorted_shards.durable.issuperset(merged.tasks) and context.journal.add(merged):
            paths = [file.path for merge in group for file in merge.run.files]
            storage_of(run.path).remove(*paths)
        done[number] = merged
        context.progress.advance(run.data_bytes, run.records, 0)
    return [merged for _, merged in sorted(done.items())]


class MergeTask(Struct, frozen=True):
    slices: list[RunSlice]
    directory: str
    # Path of a file with the first key of each region but the first; None if the run will be
    # merged again.
    regions: str | None
    window_bytes: int  # bytes merged at a time

    def __str__(self) -> str:
        return f"merging {len(self.slices):,} runs"


@collector_off()
def merge_some(task: MergeTask) -> Run:
    release_buffer()
    regions = next(read_blocks(task.regions)) if task.regions else []
    # A random name keeps two workers apart if one was wrongly taken for dead.
    path = join(task.directory, f"merged-{secrets.token_hex(8)}")
    return merge_runs(path, task.slices, task.window_bytes, regions)


def merge_runs(
    path: str,
    slices: Sequence[RunSlice],
    window_bytes: int,
    cuts: Sequence[bytes],
    block_rows: int = BLOCK_ROWS,
) -> Run:
    """Merge whole runs into a new one at `path`, with the bounds of the regions between `cuts`."""
    bounds = array("Q", [0, 0])
    left = list(reversed(cuts))
    with ViewsWriter(path) as data, IndexWriter(index_of(path), block_rows) as index:

        def end_region() -> None:
            """Begin a new block of the index."""
            index.end_block()
            bounds.extend((index.size, index.data_offset))

        for window in gather(slices, None, None, window_bytes, open_part=open_part):
            data.append(window.texts)
            keys = window.keys
            columns: Any = keys, window.sizes, window.fingerprints, window.rows, window.origins
            first = 0
            while left and keys[-1] >= left[-1]:
                last = bisect_left(keys, left.pop())
                index.add(*(column[first:last] for column in columns))
                end_region()
                first = last
            index.add(*(column[first:] for column in columns))
        for _ in range(len(left) + 1):
            end_region()
    return Run(
        path,
        index.records,
        data.size,
        index.size,
        [],
        data.hash(),
        index.hash(),
        bounds.tobytes(),
    )


# Choosing cuts


def _plan_cuts(context: RunContext, planned: Plan) -> Plan:
    """Choose cuts by the borders in all ranges, which are regions here."""
    base = planned.base
    tasks = (_region_task(context, planned, number) for number in range(len(planned.ranges)))
    regions = context.engine.in_order(plan_region, tasks)
    lasts: dict[int, bytes] = {}
    cuts = choose_cuts(_borders(regions, lasts), context.options.part_size, context.sort_fields)
    # The new parts that have records of each region, and how many regions each of them has.
    parts_of = {
        number: range(bisect_right(cuts, regions[number].first), bisect_right(cuts, last) + 1)
        for number, last in lasts.items()
    }
    sharing = Counter(chain.from_iterable(parts_of.values()))
    unchanged = {
        new[0]: base.parts[planned.part_of(number)]
        for number, new in parts_of.items()
        if regions[number].is_unchanged and len(new) == sharing[new[0]] == 1
    }
    return replace(planned, ranges=list(pairwise([None, *cuts, None])), unchanged=unchanged)


def _region_task(context: RunContext, planned: Plan, number: int) -> RegionTask:
    base = planned.base
    region = planned.ranges[number]
    slices = planned.run_slices(number)
    base_slices = planned.base_slices(number)
    at = planned.part_of(number)
    is_whole = bool(base.parts) and base.is_within(at, *region)
    return RegionTask(
        low=region[0],
        high=region[1],
        slices=slices,
        base=base_slices,
        part=base.parts[at] if is_whole else None,
        removed=base.removed(at) if is_whole else (),
        path=context.output.working(f"borders-{number:05d}"),
        sort_fields=context.sort_fields,
        window_bytes=context.options.window_for(len(slices) + len(base_slices)),
    )


def _borders(regions: Sequence[Region], lasts: dict[int, bytes]) -> Iterator[Border]:
    """Yield the borders of all regions, and remember the last one of each."""
    for number, region in enumerate(regions):
        if region.borders:
            for border in read_borders(region.borders):
                lasts[number] = border[0]
                yield border


class RegionTask(Struct, frozen=True):
    low: Bound
    high: Bound
    slices: list[RunSlice]  # of the runs of pass 1
    base: list[RunSlice]  # of the part of the base that has this region
    part: Part | None  # that part, if the region is all of it
    removed: tuple[int, ...]  # pieces that are gone and may have records in the part
    path: str  # of the borders
    sort_fields: tuple[str, ...]
    window_bytes: int

    def __str__(self) -> str:
        return "planning the parts of the corpus"


class Region(Struct, frozen=True):
    first: bytes = b""  # its first border, or its first key; empty if it has no records
    borders: str = ""  # path of its borders
    is_unchanged: bool = False  # whether it is a part of the base as it was


@collector_off()
def plan_region(task: RegionTask) -> Region:
    release_buffer()
    part = task.part
    if part:
        keys = gather_keys(task.slices, task.low, task.high, task.window_bytes, open_part)
        has_keys = any(window for window, _ in keys)
        removed = task.removed
        if not has_keys and (
            not removed or read_lines_by_piece(part.statistics_prefix).pieces().isdisjoint(removed)
        ):
            return Region(part.span[0], part.borders, is_unchanged=True)
    sizes = BorderSizes(task.sort_fields)
    slices = [*task.slices, *task.base]
    for window in gather_keys(slices, task.low, task.high, task.window_bytes, open_part):
        sizes.add(*window)
    borders = sizes.borders
    if not borders:
        return Region()
    write_borders(task.path, borders)
    return Region(borders[0][0], task.path)
