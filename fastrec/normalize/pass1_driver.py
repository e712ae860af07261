"""Run pass 1: reuse finished tasks, run the others, and leave out bad shards."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby

import msgspec

from fastrec.errors import BadShardsError, ShardError, utf8
from fastrec.normalize.base import Base
from fastrec.normalize.context import RunContext
from fastrec.normalize.filtered_out import nothing_matches
from fastrec.normalize.line_counts import count_lines
from fastrec.normalize.pass1 import SortTask, sort_pieces
from fastrec.normalize.pass1_tasks import SortTasks
from fastrec.normalize.results import MergedRun, Part, PieceCounts, SortResult
from fastrec.normalize.resume import find_reusable
from fastrec.normalize.targets import WrongTargetError
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.sorting.cuts import RegionSample
from fastrec.sorting.spill import Run
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard
from fastrec.storage import storage_of

__all__ = ["SortedShards", "live_runs", "sort_shards"]


class SortedShards(msgspec.Struct, frozen=True):
    """The result of pass 1."""

    results: tuple[SortResult, ...]
    """All tasks, those of earlier runs included, without the pieces of bad shards and of shards that are gone; without
    checksums of their runs, and without fences if there are too many runs to use them."""
    durable: frozenset[int]
    """Tasks that the journal has, and will have as long as the shards are unchanged; without those that have pieces of
    bad shards, which the next run may be able to read."""
    merged: tuple[MergedRun, ...]  # runs that an interrupted run has merged
    skipped: dict[int, ShardError]  # shards that were left out because they are bad
    removed: dict[str, tuple[int, ...]]  # by path of a run, the numbers of pieces whose records do not count
    decompressed: dict[int, ReadStats]  # shards that the driver decompressed
    sample: RegionSample  # of the keys of all runs
    next_task: int
    next_piece: int

    def pieces(self) -> list[PieceCounts]:
        """Return all pieces in the order of shards, and within each shard."""
        pieces = (counts for result in self.results for counts in result.pieces)
        return sorted(pieces, key=lambda counts: counts.piece.place)

    def with_line_bases(self) -> Iterator[tuple[PieceCounts, int]]:
        """Yield the counts of each piece, with the number of lines of its shard before it."""
        for _, group in groupby(self.pieces(), key=lambda counts: counts.piece.shard):
            base = 0
            for counts in group:
                yield counts, base
                # Chunks that the driver decompressed already have line numbers of their shard.
                base += 0 if counts.piece.temporary else counts.lines


def live_runs(results: Iterable[SortResult], merged: Sequence[MergedRun]) -> list[Run]:
    """Return the runs that exist: merged runs, and runs of pass 1 that were not merged."""
    covered = {path for one in merged for path in one.covers}
    return [run for result in results for run in result.runs if run.path not in covered] + [one.run for one in merged]


def sort_shards(shards: Sequence[Shard], context: RunContext, base: Base) -> SortedShards:
    """Sort all shards into runs that are new or changed since the run that made the base."""
    return _Pass1(shards, context, base).run()


class _Pass1:
    """The state of pass 1."""

    def __init__(self, shards: Sequence[Shard], context: RunContext, base: Base) -> None:
        self._shards = shards
        self._context = context
        self._base = base
        self._tasks = SortTasks(shards, context.output.work, context.options, context.streams, base.unchanged)
        self._stops = context.may_change and context.options.target is DEFAULT_SCHEMA
        self._is_stopped = self._stops and base.is_later
        self._finished: dict[int, SortResult] = {}
        self._durable: set[int] = set()
        self._sample = RegionSample()
        self._runs = 0

    def run(self) -> SortedShards:
        self._check_stopped()
        self._context.progress.start("sort", self._tasks.text.total)
        reusable = find_reusable(self._context.journal.entries, self._tasks.slices(), self._context.engine)
        reusable.next_task = max(reusable.next_task, self._base.next_task)
        reusable.next_piece = max(reusable.next_piece, self._base.next_piece)
        found = len(reusable.tasks) + len(reusable.chunks)
        self._sweep(reusable.files(), found)
        for task in reusable.tasks:
            self._durable.add(task.task)
            self._add(task, reused=True)
        self._sort(self._tasks.make(reusable))
        for task in self._tasks.reused:
            self._add(task)
        self._check_stopped()
        bad = self._bad_shards()
        if bad and not self._context.options.skip_bad_shards:
            raise BadShardsError([error for _, error in sorted(bad.items())])
        removed = self._removed(bad, reusable.merged)
        self._durable -= {
            number for number, task in self._finished.items() if any(one.piece.shard in bad for one in task.pieces)
        }
        self._finished = {number: task.without(bad) for number, task in self._finished.items()}
        self._check_matches()
        self._settle_target()
        self._context.progress.finish()
        self._report_marks()
        return SortedShards(
            results=(*self._base.tasks, *self._finished.values()),
            durable=frozenset(self._durable),
            merged=tuple(reusable.merged),
            skipped=bad,
            removed=removed,
            decompressed=self._base.decompressed | self._tasks.decompressed,
            sample=self._sample,
            next_task=self._tasks.next_task,
            next_piece=self._tasks.next_piece,
        )

    def _check_stopped(self) -> None:
        """Start again if there is a record of a later version than the target."""
        if self._is_stopped:
            self._context.progress.finish()
            raise WrongTargetError(NEWEST_SCHEMA)

    def _check_matches(self) -> None:
        """Check that a record matches the filters, if there are any."""
        options, results = self._context.options, [*self._base.tasks, *self._finished.values()]
        if not options.filters or options.may_be_empty:
            return
        pieces = [counts for result in results for counts in result.pieces]
        if all(one.lines == one.blank + one.rejected + one.filtered for one in pieces):
            lines = count_lines(results, self._context.engine, options.limits.part_counts_per_task)
            raise nothing_matches(options.filters, lines.filtered_out)

    def _settle_target(self) -> None:
        """Start again if there is no record of the target's version, but only of the default one."""
        context = self._context
        is_later = self._base.is_later or any(task.is_later for task in self._finished.values())
        if context.may_change and not self._stops and not is_later:
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
        kept |= {part.sources.path for part in parts if part.sources}
        context.output.sweep(reusable | kept | self._base.files | context.streams.files())
        if count and context.is_first:  # a further attempt reuses what the run itself has finished
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
            stream = any(piece.slice.shard.stream for piece in pieces)
            if not stream and not failed and self._context.journal.add(result) and not pieces[0].temporary:
                self._durable.add(result.task)
            self._add(result)

    def _add(self, result: SortResult, *, reused: bool = False) -> None:
        """Keep what later steps need of a finished task."""
        self._is_stopped = self._is_stopped or (self._stops and result.is_later)
        if result.is_later and not self._stops and not self._context.options.skip_bad_shards:
            self._release_streams()  # the newest version is certain
        for run in result.runs:
            self._sample.add(run.fences, run.data_bytes)
        files = tuple(file for file in result.files if file.path in (result.rejects, result.statistics))
        self._finished[result.task] = msgspec.structs.replace(result, files=files)
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

    def _bad_shards(self) -> dict[int, ShardError]:
        bad = dict(self._tasks.bad)
        for task in self._finished.values():
            bad |= {counts.piece.shard: counts.error for counts in task.pieces if counts.error}
        return bad

    def _removed(self, bad: Container[int], merged: Iterable[MergedRun]) -> dict[str, tuple[int, ...]]:
        """Return the pieces of bad shards in each run: a shard counts as a whole or not at all."""
        removed: dict[str, tuple[int, ...]] = {}
        by_task = {
            number: [counts.piece.number for counts in task.pieces if counts.piece.shard in bad]
            for number, task in self._finished.items()
        }
        for number, task in self._finished.items():
            removed |= {run.path: tuple(by_task[number]) for run in task.runs if by_task[number]}
        for one in merged:
            if numbers := [piece for task in one.tasks for piece in by_task[task]]:
                removed[one.run.path] = tuple(numbers)
        return removed

    def _report_marks(self) -> None:
        read = [(counts.piece.shard, counts.read) for task in self._finished.values() for counts in task.pieces]
        marked = {shard for shard, stats in [*read, *self._tasks.decompressed.items()] if stats.bom}
        for shard in sorted(marked):
            path = utf8(self._shards[shard].path)
            self._context.notice(f"{path} begins with a byte order mark, which was skipped")
