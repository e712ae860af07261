"""Merge runs between the passes, until every part can read from all of them.

Each part reads a range of each run. If there are few runs, their fences say where. With thousands of runs and thousands
of parts, that would take millions of small reads and gigabytes of fences. So runs are merged, in as many rounds as
necessary, and the runs of the last round record where each part begins.

A merged run is written to the journal. Then it replaces the runs that it was made from, which are removed, so merging
needs little additional disk space.
"""

from __future__ import annotations

import secrets
from collections import Counter
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
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.gather import RunSlice, whole_run
from fastrec.sorting.merge import merge_runs
from fastrec.sorting.spill import Run
from fastrec.storage import join, storage_of

__all__ = ["MergeTask", "merge_rounds", "merge_some"]


class MergeTask(msgspec.Struct, frozen=True):
    """A task that merges runs."""

    number: int
    slices: list[RunSlice]
    directory: str
    cuts: str | None
    """Path of a file with the first key of each part but the first; None if the run will be merged again."""
    options: Options

    def __str__(self) -> str:
        return f"merging {len(self.slices):,} runs"


@collector_off()
def merge_some(task: MergeTask) -> Run:
    """Merge some runs. Runs in a worker."""
    release_buffer()
    cuts = None if task.cuts is None else next(read_blocks(task.cuts))
    # The random suffix keeps two workers apart if one was wrongly taken for dead.
    path = join(task.directory, f"merged-{task.number:06d}-{secrets.token_hex(4)}")
    return merge_runs(path, task.slices, task.options.wide_window_bytes, cuts)


def merge_rounds(
    context: RunContext, sorted_shards: SortedShards, cuts: Sequence[bytes]
) -> tuple[list[Run], Counter[int]]:
    """Merge the runs of pass 1 if there are too many; `cuts` are the first keys of all parts but the first.

    Returns the runs that parts are made from, and the duplicates dropped by merges, by piece.
    """
    merged = _Rounds(context, sorted_shards.durable).merge(sorted_shards, cuts)
    dropped: Counter[int] = Counter()
    for one in merged:
        dropped.update(one.run.dropped)
    return live_runs(sorted_shards.results, merged), dropped


class _Rounds:
    """The state of the rounds."""

    def __init__(self, context: RunContext, durable: frozenset[int]) -> None:
        self._context = context
        self._durable = durable
        self._made = 0

    def merge(self, sorted_shards: SortedShards, cuts: Sequence[bytes]) -> list[MergedRun]:
        """Merge runs if there are too many; return all merged runs, reused ones included."""
        limits, options = self._context.limits, self._context.options
        cuts_hash = xxh3_128_hexdigest(msgspec.msgpack.encode(cuts))
        ready = [one for one in sorted_shards.merged if one.cuts_hash == cuts_hash]
        loose = self._loose(sorted_shards, cuts_hash)
        if all(one.run.fences for one in loose) and len(loose) + len(ready) <= limits.unmerged_runs:
            return ready
        fan_in = min(limits.merge_fan_in, options.fan_in)
        groups = max(min(limits.merged_runs - len(ready), -(-len(loose) // limits.least_merge_fan_in)), 1)
        self._context.progress.start("round", sum(one.run.data_bytes for one in loose))
        while len(loose) > groups * fan_in:
            loose = self._round(loose, -(-len(loose) // fan_in), None, "")
        path = join(self._context.output.work, f"cuts-{cuts_hash}")
        write_blocks(path, [cuts])
        ready += self._round(loose, groups, path, cuts_hash)
        self._context.progress.finish()
        return ready

    def _loose(self, sorted_shards: SortedShards, cuts_hash: str) -> list[MergedRun]:
        """Return the runs that the last round has not merged yet, those of tasks in the journal first."""
        covered = {path for one in sorted_shards.merged for path in one.covers}
        results = sorted(sorted_shards.results, key=lambda result: (result.task not in self._durable, result.task))
        alone = [
            MergedRun(msgspec.structs.replace(run, dropped={}), [run.path], {result.task: result.numbers}, "")
            for result in results
            for run in result.runs
            if run.path not in covered
        ]
        return [*(one for one in sorted_shards.merged if one.cuts_hash != cuts_hash), *alone]

    def _round(self, runs: list[MergedRun], groups: int, cuts: str | None, cuts_hash: str) -> list[MergedRun]:
        """Merge runs in groups, each into one run."""
        bounds = [len(runs) * number // groups for number in range(groups + 1)]
        grouped = [runs[start:end] for start, end in pairwise(bounds) if start < end]
        first, self._made = self._made, self._made + len(grouped)
        context = self._context
        tasks = (
            MergeTask(number, [whole_run(one.run) for one in group], context.output.work, cuts, context.options)
            for number, group in enumerate(grouped, first)
        )
        done: dict[int, MergedRun] = {}
        for number, run in context.engine.run(merge_some, tasks):
            context.output.check()
            done[number] = self._replace(run, grouped[number], cuts_hash)
            context.progress.advance(run.data_bytes, run.records, 0)
        return [merged for _, merged in sorted(done.items())]

    def _replace(self, run: Run, group: list[MergedRun], cuts_hash: str) -> MergedRun:
        """Write a merged run to the journal, and remove the runs that it replaces."""
        dropped = Counter(run.dropped)
        for one in group:
            dropped.update(one.run.dropped)
        merged = MergedRun(
            msgspec.structs.replace(run, dropped=dict(dropped)),
            [path for one in group for path in one.covers],
            {task: numbers for one in group for task, numbers in sorted(one.pieces.items())},
            cuts_hash,
        )
        if self._durable.issuperset(merged.pieces) and self._context.journal.add(merged):
            paths = [file.path for one in group for file in one.run.files]
            storage_of(run.path).remove(*paths)
        return merged
