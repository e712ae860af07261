"""Merge runs between the passes, until every part can read from all of them.

Each part reads a range of each run. If there are few runs, their fences say where. With thousands of runs and thousands
of parts, that would take millions of small reads and gigabytes of fences. So runs are merged, in as many rounds as
necessary, and the runs of the last round record where each region begins.

A merged run is written to the journal. Then it replaces the runs that it was made from, which are removed, so merging
needs little additional disk space.
"""

from __future__ import annotations

import secrets
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from xxhash import xxh3_128_hexdigest

from fastrec.engine.base import collector_off
from fastrec.normalize.context import RunContext
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.normalize.pass1_driver import SortedShards, live_runs
from fastrec.normalize.results import MergedRun
from fastrec.sorting.files import ViewsWriter, read_blocks, write_blocks
from fastrec.sorting.gather import RunSlice, Window, gather, whole_run
from fastrec.sorting.runs import BLOCK_ROWS, IndexWriter, Run, index_of
from fastrec.storage import join, storage_of

# @@ merge: Merge several runs into one, without duplicates.
#
# With thousands of runs, each part would have to read a few records from all of them. So runs are merged first. The cuts
# between regions are known by then, and a merged run records where each region begins: two numbers per region instead of
# a fence per block.


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
        origins = window.origins
        if origins and (first or last < len(sizes)):
            origins = {position - first: each for position, each in origins.items() if first <= position < last}
        some = slice(first, last)
        self._index.add(window.keys[some], sizes[some], window.fingerprints[some], window.rows[some], origins)

    def _end_region(self) -> None:
        self._index.end_block()
        self._bounds.extend((self._index.size, self._index.data_offset))


class MergeTask(msgspec.Struct, frozen=True):
    """A task that merges runs."""

    number: int
    slices: list[RunSlice]
    directory: str
    regions: str | None
    """Path of a file with the first key of each region but the first; None if the run will be merged again."""
    options: Options

    def __str__(self) -> str:
        return f"merging {len(self.slices):,} runs"


@collector_off()
def merge_some(task: MergeTask) -> Run:
    """Merge some runs. Runs in a worker."""
    release_buffer()
    regions = None if task.regions is None else next(read_blocks(task.regions))
    # The random suffix keeps two workers apart if one was wrongly taken for dead.
    path = join(task.directory, f"merged-{task.number:06d}-{secrets.token_hex(4)}")
    return merge_runs(path, task.slices, task.options.wide_window_bytes, regions)


def merge_rounds(context: RunContext, sorted_shards: SortedShards, regions: Sequence[bytes]) -> list[Run]:
    """Merge the runs of pass 1 if there are too many; `regions` are the first keys of all regions but the first.

    Returns the runs that parts are made from.
    """
    merged = _Rounds(context, sorted_shards).merge(regions)
    return live_runs(sorted_shards.results, merged)


class _Rounds:
    """The state of the rounds."""

    def __init__(self, context: RunContext, sorted_shards: SortedShards) -> None:
        self._context = context
        self._sorted = sorted_shards
        self._made = 0

    def merge(self, regions: Sequence[bytes]) -> list[MergedRun]:
        """Merge runs if there are too many; return all merged runs, reused ones included."""
        limits, options = self._context.limits, self._context.options
        regions_hash = xxh3_128_hexdigest(msgspec.msgpack.encode(regions))
        ready = [one for one in self._sorted.merged if one.regions == regions_hash]
        loose = self._loose(regions_hash)
        if all(one.run.fences for one in loose) and len(loose) + len(ready) <= limits.unmerged_runs:
            return ready
        fan_in = min(limits.merge_fan_in, options.fan_in)
        groups = max(min(limits.merged_runs - len(ready), -(-len(loose) // limits.least_merge_fan_in)), 1)
        self._context.progress.start("round", sum(one.run.data_bytes for one in loose))
        while len(loose) > groups * fan_in:
            loose = self._round(loose, -(-len(loose) // fan_in), None, "")
        path = join(self._context.output.work, f"regions-{regions_hash}")
        write_blocks(path, [regions])
        ready += self._round(loose, groups, path, regions_hash)
        self._context.progress.finish()
        return ready

    def _loose(self, regions_hash: str) -> list[MergedRun]:
        """Return the runs that the last round has not merged yet, those of tasks in the journal first."""
        merged, durable = self._sorted.merged, self._sorted.durable
        covered = {path for one in merged for path in one.covers}
        results = sorted(self._sorted.results, key=lambda result: (result.task not in durable, result.task))
        alone = [
            MergedRun(run, [run.path], [result.task], "")
            for result in results
            for run in result.runs
            if run.path not in covered
        ]
        return [*(one for one in merged if one.regions != regions_hash), *alone]

    def _round(self, runs: list[MergedRun], groups: int, regions: str | None, regions_hash: str) -> list[MergedRun]:
        """Merge runs in groups, each into one run."""
        bounds = [len(runs) * number // groups for number in range(groups + 1)]
        grouped = [runs[start:end] for start, end in pairwise(bounds) if start < end]
        first, self._made = self._made, self._made + len(grouped)
        context = self._context
        tasks = (
            MergeTask(number, [self._whole(one.run) for one in group], context.output.work, regions, context.options)
            for number, group in enumerate(grouped, first)
        )
        done: dict[int, MergedRun] = {}
        for number, run in context.engine.run(merge_some, tasks):
            context.output.check()
            done[number] = self._replace(run, grouped[number], regions_hash)
            context.progress.advance(run.data_bytes, run.records, 0)
        return [merged for _, merged in sorted(done.items())]

    def _whole(self, run: Run) -> RunSlice:
        return msgspec.structs.replace(whole_run(run), removed=self._sorted.removed.get(run.path, ()))

    def _replace(self, run: Run, group: list[MergedRun], regions_hash: str) -> MergedRun:
        """Write a merged run to the journal, and remove the runs that it replaces."""
        merged = MergedRun(
            run,
            [path for one in group for path in one.covers],
            sorted({task for one in group for task in one.tasks}),
            regions_hash,
        )
        if self._sorted.durable.issuperset(merged.tasks) and self._context.journal.add(merged):
            paths = [file.path for one in group for file in one.run.files]
            storage_of(run.path).remove(*paths)
        return merged
