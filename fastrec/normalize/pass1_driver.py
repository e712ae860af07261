"""Run pass 1: reuse finished tasks, run the others, repeat those with bad shards, and complete the key sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import msgspec

from fastrec.errors import BadShardsError, ShardError, utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.pass1 import SortTask, sort_pieces
from fastrec.normalize.pass1_tasks import SortTasks
from fastrec.normalize.results import MergedRun, Part, PieceCounts, SortResult
from fastrec.normalize.resume import find_reusable, without_merged
from fastrec.normalize.targets import WrongTargetError
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.sorting.key_sample import KeySample, SampledKey, sample_index
from fastrec.sorting.spill import Run, index_of
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard
from fastrec.storage import storage_of

__all__ = ["SortedShards", "live_runs", "sort_shards"]


class SortedShards(msgspec.Struct, frozen=True):
    """The result of pass 1."""

    results: tuple[SortResult, ...]
    """All tasks, without checksums of their files, and without fences if there are too many runs to use them."""
    durable: frozenset[int]  # tasks that the journal has, and will have as long as the shards are unchanged
    merged: tuple[MergedRun, ...]  # runs that an interrupted run has merged
    skipped: dict[int, ShardError]  # shards that were left out because they are bad
    decompressed: dict[int, ReadStats]  # shards that the driver decompressed

    def with_line_bases(self) -> Iterator[tuple[PieceCounts, int]]:
        """Yield the counts of each piece, with the number of lines of its shard before it."""
        pieces = (counts for result in self.results for counts in result.pieces)
        in_order = sorted(pieces, key=lambda counts: counts.piece.number)
        for shard, group in groupby(in_order, key=lambda counts: counts.piece.shard):
            base = 0
            for counts in group:
                yield counts, base
                # Chunks that the driver decompressed already have line numbers of their shard.
                base += 0 if shard in self.decompressed else counts.lines


def live_runs(results: Iterable[SortResult], merged: Sequence[MergedRun]) -> list[Run]:
    """Return the runs that exist: merged runs, and runs of pass 1 that were not merged."""
    covered = {path for one in merged for path in one.covers}
    return [run for result in results for run in result.runs if run.path not in covered] + [one.run for one in merged]


def sort_shards(shards: Sequence[Shard], context: RunContext) -> tuple[SortedShards, KeySample]:
    """Sort all shards into runs, and sample their keys."""
    return _Pass1(shards, context).run()


class _Pass1:
    """The state of pass 1."""

    def __init__(self, shards: Sequence[Shard], context: RunContext) -> None:
        self._shards = shards
        self._context = context
        self._tasks = SortTasks(shards, context.output.work, context.options, context.streams)
        self._stops = context.may_change and context.options.target is DEFAULT_SCHEMA
        self._is_stopped = False
        self._finished: dict[int, SortResult] = {}
        self._durable: set[int] = set()
        self._skipped: dict[int, ShardError] = {}
        self._sample = KeySample(context.limits)
        self._sampled: set[int] = set()
        self._runs = 0

    def run(self) -> tuple[SortedShards, KeySample]:
        self._context.progress.start("sort", self._tasks.text.total)
        reusable = find_reusable(self._context.journal.entries, self._tasks.pieces(), self._context.engine)
        found = len(reusable.tasks) + len(reusable.chunks)
        self._sweep(reusable.files(), found)
        for task in reusable.tasks:
            self._durable.add(task.task)
            self._add(task, reused=True)
        self._sort(self._tasks.make(reusable))
        for task in self._tasks.reused:
            self._add(task)
        self._check_stopped()
        merged = self._repeat_without_bad_shards(reusable.merged)
        self._settle_target()
        self._complete_sample(merged)
        self._context.progress.finish()
        self._report_marks()
        results, durable = tuple(self._finished.values()), frozenset(self._durable)
        return SortedShards(results, durable, tuple(merged), self._skipped, self._tasks.decompressed), self._sample

    def _check_stopped(self) -> None:
        """Start again if there is a record of a later version than the target."""
        if self._is_stopped:
            self._context.progress.finish()
            raise WrongTargetError(NEWEST_SCHEMA)

    def _settle_target(self) -> None:
        """Start again if there is no record of the target's version, but only of the default one."""
        context = self._context
        if context.may_change and not self._stops and not any(task.is_later for task in self._finished.values()):
            context.progress.finish()
            raise WrongTargetError(DEFAULT_SCHEMA)
        self._release_streams()

    def _release_streams(self) -> None:
        storage_of(self._context.output.work).remove(*self._context.streams.release())

    def _sweep(self, reusable: set[str], count: int) -> None:
        """Remove files of an interrupted run that are not reusable; parts and their files are checked later."""
        context = self._context
        entries = context.journal.take()
        parts = [entry for entry in entries if isinstance(entry, Part)]
        kept = {part.path for part in parts} | {file.path for part in parts for file in part.files}
        context.output.sweep(reusable | kept | context.streams.files())
        if count:
            of = sum(isinstance(entry, SortResult) for entry in entries)
            context.notice(f"resuming an interrupted run: {count:,} of its {of:,} finished tasks are reused")

    def _sort(self, tasks: Iterable[SortTask]) -> None:
        """Run tasks, and write those that succeed to the journal."""

        def started() -> Iterator[SortTask]:
            for task in tasks:
                if self._is_stopped:
                    return
                yield msgspec.structs.replace(
                    task,
                    one_in=self._sample.one_in,
                    fenced=self._runs <= self._context.limits.unmerged_runs,
                    is_auto=self._context.is_auto,
                    stops=self._stops,
                )

        for _, result in self._context.engine.run(sort_pieces, started()):
            self._context.output.check()
            self._is_stopped = self._is_stopped or (self._stops and result.is_later)
            if self._is_stopped:
                continue  # tasks that run already end first; their files are removed when the run starts again
            pieces = [counts.piece for counts in result.pieces]
            chunks = [piece.slice.shard.path for piece in pieces if piece.temporary]
            storage_of(self._context.output.work).remove(*self._context.streams.finish(chunks))
            failed = any(counts.error for counts in result.pieces)
            if not failed:  # else it is repeated without the bad shard, if at all
                for run in result.runs:
                    self._sample.add(run.sample)
            self._sampled.add(result.task)
            task = result.with_runs(sample=[])
            stream = any(piece.slice.shard.stream for piece in pieces)
            if not stream and not failed and self._context.journal.add(task) and not pieces[0].temporary:
                self._durable.add(result.task)
            self._add(task)

    def _add(self, result: SortResult, *, reused: bool = False) -> None:
        """Keep what later steps need of a finished task."""
        self._is_stopped = self._is_stopped or (self._stops and result.is_later)
        if result.is_later and not self._stops and not self._context.options.skip_bad_shards:
            self._release_streams()  # the newest version is certain
        self._finished[result.task] = msgspec.structs.replace(result, files=())
        had_fences = self._runs <= self._context.limits.unmerged_runs
        self._runs += len(result.runs)
        if self._runs > self._context.limits.unmerged_runs:  # they will be merged, which needs no fences
            for number in list(self._finished) if had_fences else [result.task]:
                self._finished[number] = self._finished[number].with_runs(fences=[])
        self._tasks.learn_from(result)
        progress = self._context.progress
        progress.expect(self._tasks.text.total)
        text, lines, rejected = map(
            sum, zip(*((one.read.text_bytes, one.lines, one.rejected) for one in result.pieces), strict=True)
        )
        if reused:
            progress.reuse(text)
        else:
            progress.advance(text, lines, rejected)

    def _repeat_without_bad_shards(self, merged: Sequence[MergedRun]) -> list[MergedRun]:
        """Repeat tasks that read bad shards without these, because a shard counts as a whole or not at all.

        Return the merged runs that none of these tasks is part of.
        """
        bad, left = self._skipped, list(merged)
        while found := self._bad_shards():
            bad |= found
            if not self._context.options.skip_bad_shards:
                raise BadShardsError([error for _, error in sorted(bad.items())])
            spoilt = {
                number
                for number, task in self._finished.items()
                if any(counts.piece.shard in bad for counts in task.pieces)
            }
            left, spoilt = without_merged(left, spoilt)
            again = [self._finished.pop(number) for number in sorted(spoilt)]
            self._sort([task for done in again if (task := self._tasks.without(done, bad.keys()))])
            self._check_stopped()
        return left

    def _bad_shards(self) -> dict[int, ShardError]:
        """Return the bad shards that were not known before."""
        bad = dict(self._tasks.bad)
        for task in self._finished.values():
            bad |= {counts.piece.shard: counts.error for counts in task.pieces if counts.error}
        return {shard: error for shard, error in bad.items() if shard not in self._skipped}

    def _complete_sample(self, merged: Sequence[MergedRun]) -> None:
        """Sample the runs that were not sampled when they were sorted."""
        missing = [task for number, task in self._finished.items() if number not in self._sampled]
        if self._skipped:  # the sample has keys of bad shards, and may have dropped others for them
            self._sample = KeySample(self._context.limits)
            missing = list(self._finished.values())
        if missing:
            runs = live_runs(missing, merged)
            wanted = ((index_of(run.path), run.index_bytes, self._sample.one_in) for run in runs)
            for _, sampled in self._context.engine.run(_sample_run, wanted):
                self._sample.add(sampled)

    def _report_marks(self) -> None:
        read = [(counts.piece.shard, counts.read) for task in self._finished.values() for counts in task.pieces]
        marked = {shard for shard, stats in [*read, *self._tasks.decompressed.items()] if stats.bom}
        for shard in sorted(marked):
            path = utf8(self._shards[shard].path)
            self._context.notice(f"{path} begins with a byte order mark, which was skipped")


def _sample_run(wanted: tuple[str, int, int]) -> list[SampledKey]:
    """Sample the index of a run. Runs in a worker."""
    return sample_index(*wanted)
