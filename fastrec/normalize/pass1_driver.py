"""Run pass 1: make its tasks, reuse finished ones, run the others, and leave out bad shards.

Tasks are made as fast as workers take them. A large compressed shard and a stream can only be read
from front to back, by one process. The driver decompresses such a shard and makes tasks from chunks
of whole lines, so that one huge shard keeps all workers busy. If there are many large shards, some
are tasks of their own, because the driver could not decompress them all as fast as workers sort
them. How many depends on the number of workers; the bytes of the corpus do not.

Finished tasks of an interrupted run are not repeated: their slices are skipped, and chunks with the
same text too.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import count, groupby

from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_128_hexdigest

from fastrec.errors import BadShardsError, NothingValidError, ShardError, utf8
from fastrec.filters import nothing_matches
from fastrec.limits import current_limits
from fastrec.normalize.context import RunContext
from fastrec.normalize.inputs import Decompressed, Streams, check_fields
from fastrec.normalize.kept import Base
from fastrec.normalize.options import AUTO, FEW_FENCES, Options
from fastrec.normalize.pass1 import SortTask, WrongTargetError, sort_pieces
from fastrec.normalize.results import MergedRun, Part, Piece, PieceCounts, SortResult, count_lines
from fastrec.normalize.resume import Reusable, find_reusable
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.schemas.schema import Schema
from fastrec.sorting.cuts import RegionSample
from fastrec.sources.formats import Format
from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import Shard, Shards, Slice, TextEstimate, gather_tasks, total_text
from fastrec.storage import join, storage_of

# A shard that is at most this fraction of the work of a worker is not too large for one.
_SHARE = 16
# The driver decompresses as fast as this many workers sort.
#
# Measured: 247 to 286 MB/s, and 94 to 95 MB/s of text.
_FEEDS = 3


class SortTasks:
    def __init__(
        self,
        shards: Shards,
        directory: str,
        options: Options,
        target: Schema,
        *,
        workers: int,
        streams: Streams | None = None,
        unchanged: Container[int] = (),
        indexes_parts: bool = False,
    ) -> None:
        """Plan the tasks of all shards but the `unchanged` ones, given by number."""
        self._indexes_parts = indexes_parts
        self._shards = shards
        self._wanted = {
            number: shard for number, shard in enumerate(shards) if number not in unchanged
        }
        self._streams = streams or Streams()
        self._directory = directory
        self._options = options
        self._lines = options.line_settings(target)
        self._text = total_text(self._wanted.values())
        self._at_once = options.slices_per_task(self._text)
        self._chunk_bytes = current_limits().decompressed_chunk_bytes * self._at_once
        self._here = self._choose(workers)
        self._task_numbers = count()
        self._piece_numbers = count()
        self.text = TextEstimate(list(self._wanted.values()))
        self.decompressed: dict[int, ReadStats] = {}  # shards that the driver decompressed
        self.bad: dict[int, ShardError] = {}  # those of them that could not be read completely
        self.reused: list[SortResult] = []  # chunks that an interrupted run has sorted

    def slices(self) -> dict[tuple[str, int, int | None], tuple[int, Slice]]:
        """All slices that workers read, each with the number of its shard, by path and range."""
        return {
            (shard.path, slice_.start, slice_.end): (number, slice_)
            for number, shard in self._wanted.items()
            if number not in self._here
            for slice_ in shard.slices(self._options.slice_bytes)
        }

    def make(self, reusable: Reusable) -> Iterator[SortTask]:
        """Yield the tasks that an interrupted run has not finished.

        Tasks with decompressed chunks and others come in turns, such that both end at the same
        time: while the driver decompresses, workers have other tasks to do.
        """
        self._task_numbers = count(reusable.next_task)
        self._piece_numbers = count(reusable.next_piece)
        others = self._groups(reusable)
        text = total_text(self._shards[number] for number in self._here)
        step = text // (len(others) + 1) or self._chunk_bytes  # a stream has no known size
        done = 0
        for number in sorted(self._here):
            for task in self._decompress(number, reusable):
                yield task
                done += total_text(task.pieces)
                while others and done >= step:
                    yield self._task(others.pop())
                    done -= step
        while others:
            yield self._task(others.pop())

    def _groups(self, reusable: Reusable) -> list[tuple[Piece, ...]]:
        """Group the slices that workers read into tasks; the last task comes first."""
        pieces = [
            Piece(next(self._piece_numbers), number, slice_.shard.path, slice_)
            for key, (number, slice_) in self.slices().items()
            if key not in reusable.covered
        ]
        return gather_tasks(pieces, self._options.slice_bytes * self._at_once)[::-1]

    def learn_from(self, result: SortResult) -> None:
        """Correct the estimate of all text by that of a finished task.

        Compressed shards expand more or less than usual.
        """
        for counts in result.pieces:
            if not counts.piece.temporary:  # else it was counted when it was decompressed
                self.text.add(counts.piece.estimated_text, counts.read.text_bytes)

    def _choose(self, workers: int) -> frozenset[int]:
        chosen = {number for number, shard in self._wanted.items() if shard.stream}
        if not workers:  # the driver does all the work itself
            return frozenset(chosen)
        share = self._text // workers
        least = max(2 * current_limits().task_bytes, share // _SHARE)
        sizes = [
            (shard.estimated_text, number)
            for number, shard in self._wanted.items()
            if not shard.splittable and not shard.trusted
        ]
        text = 0
        for size, number in sorted(sizes, reverse=True):
            # The driver must not take longer than one worker with this shard, or than all workers
            # with all shards.
            if size > least and text + size <= _FEEDS * max(size, share):
                chosen.add(number)
                text += size
        return frozenset(chosen)

    def _task(self, pieces: tuple[Piece, ...]) -> SortTask:
        return SortTask(
            number=next(self._task_numbers),
            pieces=pieces,
            directory=self._directory,
            lines=self._lines,
            run_bytes=self._options.run_bytes(self._text),
            most_fences=self._options.most_fences(self._text),
            indexes_parts=self._indexes_parts,
        )

    def _chunk_task(self, piece: Piece) -> SortTask:
        return self._task((replace(piece, number=next(self._piece_numbers)),))

    def _open(self, number: int) -> Decompressed:
        shard = self._shards[number]
        stats = ReadStats()
        source = Decompressed(self._lines.read(shard, self._chunk_bytes, stats), stats)
        if shard.stream:
            self._streams.opened[number] = source
        return source

    def _decompress(self, shard: int, reusable: Reusable) -> Iterator[SortTask]:
        source = self._streams.opened.get(shard) or self._open(shard)
        stats = self.decompressed[shard] = source.stats
        yield from map(self._chunk_task, tuple(source.pieces))
        whole = self._shards[shard]
        text = estimated = 0
        try:
            for chunk in source.chunks:
                share = whole.estimated_text * stats.raw_bytes // max(whole.size, 1)
                self.text.add(share - estimated, stats.text_bytes - text)
                estimated = share
                text = stats.text_bytes
                if isinstance(chunk, LongLine):
                    source.long_lines.append(chunk)
                else:
                    yield from self._split(shard, source, chunk, reusable)
        except ShardError as exc:
            source.error = exc
        if source.error:
            self.bad[shard] = source.error
        elif source.long_lines:
            chunk = Chunk(b"", stats.text_bytes, stats.lines)
            yield from self._split(shard, source, chunk, reusable)

    def _split(
        self, shard: int, source: Decompressed, chunk: Chunk, reusable: Reusable
    ) -> Iterator[SortTask]:
        path = join(self._directory, f"chunk-{shard:06d}-{source.count:06d}")
        long_lines = tuple(source.long_lines)
        source.count += 1
        source.long_lines.clear()
        # The file begins with a newline, and reading starts after it. So bytes from the middle of
        # the text cannot be taken for a byte order mark or for the header of a compressed file.
        whole = self._shards[shard]
        slice_ = Slice(Shard(path, len(chunk.data) + 1, Format.PLAIN), start=1)
        piece = Piece(
            -1, shard, whole.path, slice_, chunk.offset - 1, chunk.line, long_lines, temporary=True
        )
        done = (
            reusable.take_chunk(piece, xxh3_128_hexdigest(chunk.data)) if reusable.chunks else None
        )
        is_kept = self._streams.kept and whole.stream
        if is_kept or not done:
            with storage_of(path).create(path, for_work=True) as file:
                file.write(b"\n")
                file.write(chunk.data)
        if is_kept:
            source.pieces.append(piece)
        if done:
            self.reused.append(done)
        else:
            yield self._chunk_task(piece)


class SortedShards(Struct, frozen=True):
    # All tasks, those of earlier runs included. They lack the pieces of bad shards and of shards
    # that are gone, checksums of their runs, and fences if there are too many runs to use them.
    results: tuple[SortResult, ...]
    # Tasks that the journal has, and will have as long as the shards are unchanged. Tasks with
    # pieces of bad shards are not among them: the next run may be able to read these.
    durable: frozenset[int]
    merged: tuple[MergedRun, ...]  # runs that an interrupted run has merged
    skipped: dict[int, ShardError]  # shards that were left out because they are bad
    removed: tuple[int, ...]  # the numbers of pieces of these shards, whose records do not count
    decompressed: dict[int, ReadStats]  # shards that the driver decompressed
    sample: RegionSample  # of the keys of all runs

    def pieces(self) -> list[PieceCounts]:
        """All pieces in the order of shards, and within each shard."""
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


def sort_shards(shards: Shards, context: RunContext, base: Base) -> SortedShards:
    """Sort all shards into runs that are new or changed since the run that made the base."""
    return _Pass1(shards, context, base).run()


class _Pass1:
    def __init__(self, shards: Shards, context: RunContext, base: Base) -> None:
        self._shards = shards
        self._context = context
        self._base = base
        self._tasks = SortTasks(
            shards,
            context.output.work,
            context.options,
            context.target,
            workers=context.workers,
            streams=context.streams,
            unchanged=base.changes.unchanged,
            indexes_parts=sum(shard.is_run for shard in shards) <= context.unmerged_runs,
        )
        self._target_is_guess = context.options.schema == AUTO and not context.is_settled
        # Whether there is a later record, as far as is known.
        self._is_newer_version = base.is_newer_version
        self._finished: list[SortResult] = []
        self._durable = set[int]()
        self._sample = RegionSample()
        self._runs = 0

    def run(self) -> SortedShards:
        context = self._context
        self._check_guess()
        context.progress.start("sort", self._tasks.text.total)
        reusable = find_reusable(context.journal.entries, self._tasks.slices(), context.engine)
        reusable.next_piece = max(reusable.next_piece, self._base.next_piece)
        self._sweep(reusable)
        for task in reusable.tasks:
            self._durable.add(task.task)
            self._add(task, reused=True)
        self._sort(self._tasks.make(reusable))
        for task in self._tasks.reused:
            self._add(task)
        self._check_guess()
        pieces = [counts for task in self._finished for counts in task.pieces]
        errors = {counts.piece.shard: counts.error for counts in pieces if counts.error}
        bad = dict(sorted((self._tasks.bad | errors).items()))
        if bad and not context.options.skip_bad_shards:
            raise BadShardsError(list(bad.values()))
        lost = {task.task for task in self._finished if not task.shards.isdisjoint(bad)}
        finished = [task.without(bad) for task in self._finished]
        results = (*self._base.tasks, *finished)
        decompressed = self._base.decompressed | self._tasks.decompressed
        self._check_records(results, bad)
        self._settle_target(results)
        context.progress.finish()
        self._report_marks()
        return SortedShards(
            results=results,
            durable=frozenset(self._durable - lost),
            merged=tuple(reusable.merged),
            skipped=bad,
            removed=tuple(counts.piece.number for counts in pieces if counts.piece.shard in bad),
            decompressed={shard: read for shard, read in decompressed.items() if shard not in bad},
            sample=self._sample,
        )

    @property
    def _keeps_fences(self) -> bool:
        """Whether there are few runs; many will be merged, which needs no fences."""
        return self._runs <= self._context.unmerged_runs

    @property
    def _is_refuted(self) -> bool:
        """Whether the target was guessed to be the default version, and there is a later record."""
        return (
            self._target_is_guess
            and self._is_newer_version
            and self._context.target is DEFAULT_SCHEMA
        )

    def _check_guess(self) -> None:
        if self._is_refuted:
            self._context.progress.finish()
            raise WrongTargetError(NEWEST_SCHEMA)

    def _check_records(self, results: Sequence[SortResult], bad: Mapping[int, ShardError]) -> None:
        """Refuse to make a corpus without records, before pass 2."""
        context = self._context
        pieces = [counts for result in results for counts in result.pieces]
        if context.options.allow_empty or any(
            counts.lines > counts.blank + counts.rejected + counts.filtered for counts in pieces
        ):
            return
        context.progress.finish()
        if self._shards and len(bad) == len(self._shards):
            raise BadShardsError(list(bad.values()))
        lines = count_lines(results, context.engine)
        filters = context.options.filters
        if filters and (not self._shards or any(counts.filtered for counts in pieces)):
            check_fields(self._shards, filters.where, nothing_matches=True)
            names = {
                "evaluations": lines.evaluations,
                "metrics": lines.metrics,
                "models": lines.models,
            }
            raise nothing_matches(filters, names, lines.similar)
        total = sum(counts.lines for counts in pieces)
        rejected = sum(counts.rejected for counts in pieces)
        shard = utf8(self._shards[0].path) if rejected else ""
        raise NothingValidError(shard, total, rejected, lines.codes.most_common())

    def _settle_target(self, results: Sequence[SortResult]) -> None:
        """Start again if all records are of the default version, and the target is another.

        Else streams are not read again, unless kept work turns out to be damaged.
        """
        context = self._context
        is_newer_version = any(result.is_newer_version for result in results)
        if self._target_is_guess and context.target is not DEFAULT_SCHEMA and not is_newer_version:
            context.progress.finish()
            raise WrongTargetError(DEFAULT_SCHEMA)
        if not self._base.files:
            storage_of(context.output.work).remove(*context.streams.files)

    def _sweep(self, reusable: Reusable) -> None:
        """Remove files of an interrupted run that are not reusable.

        Parts and their files are checked later.
        """
        context = self._context
        entries = context.journal.take()
        parts = [entry for entry in entries if isinstance(entry, Part)]
        kept = {file.path for part in parts for file in (*part.made, *part.files)}
        kept.update(context.journal.files, reusable.files(), self._base.files)
        context.output.sweep(kept | context.streams.files)
        finished = len(reusable.tasks) + len(reusable.chunks)
        if finished and context.is_first:  # a further attempt reuses what the run has finished
            of = sum(isinstance(entry, SortResult) for entry in entries)
            context.notice(
                f"resuming an interrupted run: {finished:,} of its {of:,} finished tasks are reused"
            )

    def _sort(self, tasks: Iterable[SortTask]) -> None:
        """Run tasks, and write those that succeed to the journal."""
        context = self._context

        def started() -> Iterator[SortTask]:
            for task in tasks:
                if self._is_refuted:
                    return  # the run starts again; tasks that run already end first
                yield (task if self._keeps_fences else replace(task, most_fences=FEW_FENCES))

        for _, result in context.engine.run(sort_pieces, started()):
            context.output.check()
            pieces = [counts.piece for counts in result.pieces]
            chunks = {piece.slice.shard.path for piece in pieces if piece.temporary}
            storage_of(context.output.work).remove(*(chunks - context.streams.files))
            has_failed = any(counts.error for counts in result.pieces)
            if not has_failed and context.journal.add(result) and not chunks:
                self._durable.add(result.task)
            self._add(result)

    def _add(self, result: SortResult, *, reused: bool = False) -> None:
        self._is_newer_version = self._is_newer_version or result.is_newer_version
        is_certain = result.is_newer_version and not self._is_refuted
        if is_certain and not self._context.options.skip_bad_shards and not self._base.files:
            self._context.streams.kept = False
        for run in result.runs:
            self._sample.add(run.fences, run.data_bytes)
        own = (result.rejects, result.statistics)
        files = tuple(file for file in result.files if file.path in own)
        self._finished.append(replace(result, files=files))
        had_fences = self._keeps_fences
        self._runs += len(result.runs)
        if not self._keeps_fences:
            first = 0 if had_fences else -1
            self._finished[first:] = map(_without_fences, self._finished[first:])
        self._tasks.learn_from(result)
        progress = self._context.progress
        progress.expect(self._tasks.text.total)
        text = sum(counts.read.text_bytes for counts in result.pieces)
        if reused:
            progress.reuse(text)
        else:
            lines = sum(counts.lines for counts in result.pieces)
            progress.advance(text, lines, sum(counts.rejected for counts in result.pieces))

    def _report_marks(self) -> None:
        marked = {shard for shard, stats in self._tasks.decompressed.items() if stats.bom}
        for task in self._finished:
            marked.update(counts.piece.shard for counts in task.pieces if counts.read.bom)
        for shard in sorted(marked):
            path = utf8(self._shards[shard].path)
            self._context.notice(f"{path} begins with a byte order mark, which was skipped")


def _without_fences(result: SortResult) -> SortResult:
    return replace(result, runs=tuple(replace(run, fences=[]) for run in result.runs))
