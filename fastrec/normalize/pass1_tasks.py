"""Make the tasks of pass 1 from the shards, as fast as workers take them.

A large compressed shard and a stream can only be read from front to back, by one process. The driver decompresses such
a shard and makes tasks from chunks of whole lines, so that one huge shard keeps all workers busy. If there are many
large shards, some are tasks of their own, because the driver could not decompress them all as fast as workers sort
them. How many depends on the number of workers; the bytes of the corpus do not.

Finished tasks of an interrupted run are not repeated: their slices are skipped, and chunks with the same text too.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

import msgspec
from xxhash import xxh3_128_hexdigest

from fastrec.errors import ShardError
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import SortTask
from fastrec.normalize.results import Piece, SortResult
from fastrec.normalize.resume import Reusable
from fastrec.normalize.streams import Streams, read_chunks
from fastrec.sources.formats import Format
from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import Shard, Slice
from fastrec.sources.tasks import TextEstimate, gather_tasks, growth, total_text
from fastrec.storage import join, storage_of

__all__ = ["SortTasks"]

_SHARE: Final = 16
"""A shard that is at most this fraction of the work of a worker is not too large for one."""
_FEEDS: Final = 3
"""The driver decompresses as fast as this many workers sort: measured 247 to 286 MB/s and 94 to 95 MB/s of text."""


class SortTasks:
    """Makes the tasks of pass 1."""

    def __init__(
        self,
        shards: Sequence[Shard],
        directory: str,
        options: Options,
        streams: Streams | None = None,
        unchanged: Container[int] = (),
    ) -> None:
        """Plan the tasks of all shards but those that are `unchanged` since the last run, given by number."""
        self._shards = shards
        self._unchanged = unchanged
        self._wanted = [shard for number, shard in enumerate(shards) if number not in unchanged]
        self._streams = streams or Streams()
        self._directory = directory
        self._options = options
        self._text = total_text(self._wanted)
        self._task_bytes = min(options.limits.task_bytes, options.run_bytes)
        self._growth = growth(self._text, options.limits.task_bytes)
        self._here = self._choose()
        self._next = self._next_piece = 0
        self.text = TextEstimate(self._wanted)
        self._chunks: dict[int, tuple[int, int]] = {}  # text of finished chunks by shard: found, and estimated
        self.decompressed: dict[int, ReadStats] = {}  # shards that the driver decompressed
        self.bad: dict[int, ShardError] = {}  # those of them that could not be read completely
        self.reused: list[SortResult] = []  # chunks that an interrupted run has sorted

    def slices(self) -> dict[tuple[str, int, int | None], tuple[int, Slice]]:
        """Return all slices that workers read, each with the number of its shard, by path and range."""
        return {
            (shard.path, slice_.start, slice_.end): (number, slice_)
            for number, shard in enumerate(self._shards)
            if number not in self._here and number not in self._unchanged
            for slice_ in shard.slices(self._task_bytes)
        }

    def make(self, reusable: Reusable) -> Iterator[SortTask]:
        """Yield the tasks that an interrupted run has not finished.

        Tasks with decompressed chunks and others come in turns, such that both end at the same time: while the driver
        decompresses, workers have other tasks to do.
        """
        self._next, self._next_piece = reusable.next_task, reusable.next_piece
        others = self._groups(reusable)
        text = total_text(self._shards[number] for number in self._here)
        step = text // (len(others) + 1) or self._options.limits.decompressed_chunk_bytes  # a stream has no known size
        done = 0
        for number in sorted(self._here):
            for task in self._decompress(number, reusable):
                yield task
                done += total_text(piece.slice for piece in task.pieces)
                while others and done >= step:
                    yield self._task(others.pop())
                    done -= step
        while others:
            yield self._task(others.pop())

    def _groups(self, reusable: Reusable) -> list[tuple[Piece, ...]]:
        """Group the slices that workers read into tasks; the last task comes first."""
        found = {slice_: number for key, (number, slice_) in self.slices().items() if key not in reusable.covered}
        # A stream can be read only once, so it must not share a task that may be repeated.
        streams = [(slice_,) for slice_ in found if slice_.shard.stream]
        slices = [slice_ for slice_ in found if not slice_.shard.stream]
        groups = [*streams, *gather_tasks(slices, self._task_bytes * self._growth)]
        pieces = [
            tuple(Piece(self._piece_number(), found[slice_], slice_.shard.path, slice_) for slice_ in group)
            for group in groups
        ]
        return pieces[::-1]

    def _piece_number(self) -> int:
        self._next_piece += 1
        return self._next_piece - 1

    @property
    def next_piece(self) -> int:
        """The first number that no piece has."""
        return self._next_piece

    @property
    def next_task(self) -> int:
        """The first number that no task has."""
        return self._next

    def learn_from(self, result: SortResult) -> None:
        """Compare the text of a finished task with its estimate: compressed shards expand more or less than usual."""
        for counts in result.pieces:
            piece, text = counts.piece, counts.read.text_bytes
            estimated = piece.slice.estimated_text
            if piece.temporary:  # a chunk of a shard: its share follows from what the driver has read so far
                shard, read = self._shards[piece.shard], self.decompressed[piece.shard]
                before, known = self._chunks.get(piece.shard, (0, 0))
                share = (before + text) / max(read.text_bytes, 1) * read.raw_bytes / max(shard.size, 1)
                estimated = int(shard.estimated_text * share) - known
                self._chunks[piece.shard] = before + text, known + estimated
            self.text.add(estimated, text)

    def _choose(self) -> frozenset[int]:
        """Choose the shards that the driver decompresses."""
        options = self._options
        if options.jobs == 1 and options.engine == "pool":
            # The driver does all the work itself. A stream that may be read again has to be kept in chunks.
            return frozenset(n for n, shard in enumerate(self._shards) if shard.stream and self._streams.kept)
        wanted = [(number, shard) for number, shard in enumerate(self._shards) if number not in self._unchanged]
        share = self._text // options.jobs
        least = max(2 * options.limits.task_bytes, share // _SHARE)
        sizes = [(shard.estimated_text, number) for number, shard in wanted if not shard.splittable]
        chosen, text = {number for number, shard in wanted if shard.stream}, 0
        for size, number in sorted(sizes, reverse=True):
            # The driver must not take longer than one worker with this shard, or than all workers with all shards.
            if number not in chosen and size > least and text + size <= _FEEDS * max(size, share):
                chosen.add(number)
                text += size
        return frozenset(chosen)

    def _task(self, pieces: tuple[Piece, ...]) -> SortTask:
        self._next += 1
        return SortTask(self._next - 1, pieces, self._directory, self._options, large=self._growth > 1)

    def _decompress(self, shard: int, reusable: Reusable) -> Iterator[SortTask]:
        """Decompress a shard, and make a task of each chunk."""
        long_lines: list[LongLine] = []
        if self._shards[shard].stream:
            stats = self._streams.open(shard, self._shards[shard], self._options)
            chunks = self._streams.chunks(shard)
        else:
            stats = ReadStats()
            chunks = read_chunks(self._shards[shard], self._options, stats)
        self.decompressed[shard] = stats
        count = 0
        try:
            for chunk in chunks:
                if isinstance(chunk, LongLine):
                    long_lines.append(chunk)
                    continue
                yield from self._chunk_task(shard, count, chunk, tuple(long_lines), reusable)
                long_lines.clear()
                count += 1
        except ShardError as exc:
            self.bad[shard] = exc
            return
        if long_lines:
            chunk = Chunk(b"", stats.text_bytes, stats.lines)
            yield from self._chunk_task(shard, count, chunk, tuple(long_lines), reusable)

    def _chunk_task(
        self, shard: int, count: int, chunk: Chunk, long_lines: tuple[LongLine, ...], reusable: Reusable
    ) -> Iterator[SortTask]:
        path = join(self._directory, f"chunk-{shard:06d}-{count:06d}")
        # The file begins with a newline, and reading starts after it. So bytes from the middle of the text cannot be
        # taken for a byte order mark or for the header of a compressed file.
        slice_ = Slice(Shard(path, len(chunk.data) + 1, Format.PLAIN), start=1)
        source = self._shards[shard].path
        piece = Piece(-1, shard, source, slice_, chunk.offset - 1, chunk.line, long_lines, temporary=True)
        done = reusable.take_chunk(piece, xxh3_128_hexdigest(chunk.data)) if reusable.chunks else None
        if done and not (self._streams.kept and self._shards[shard].stream):
            self.reused.append(done)
            return
        with storage_of(path).create(path, for_work=True) as file:
            file.write(b"\n")
            file.write(chunk.data)
        self._streams.keep(shard, chunk, path)
        if done:
            self._streams.finish([path])
            self.reused.append(done)
        else:
            yield self._task((msgspec.structs.replace(piece, number=self._piece_number()),))
