"""Make the tasks of pass 1 from the shards, as fast as workers take them.

A large compressed shard and a stream can only be read from front to back, by one process. The driver decompresses such
a shard and makes tasks from chunks of whole lines, so that one huge shard keeps all workers busy. If there are many
large shards, each is a task of its own, because the driver could not decompress them all as fast as workers sort them.

Finished tasks of an interrupted run are not repeated: their slices are skipped, and chunks with the same text too.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

from xxhash import xxh3_128_hexdigest

from fastrec.errors import ShardError
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import SortTask
from fastrec.normalize.results import PIECES, Piece, SortResult
from fastrec.normalize.resume import Reusable
from fastrec.sources.formats import Format
from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import Shard, Slice
from fastrec.sources.tasks import gather_tasks, growth, total_text
from fastrec.storage import join, storage_of

__all__ = ["SortTasks"]

_SHARE: Final = 16
"""A shard that is at most this fraction of the work of a job is not too large for one worker."""


class SortTasks:
    """Makes the tasks of pass 1."""

    def __init__(self, shards: Sequence[Shard], directory: str, options: Options) -> None:
        self._shards = shards
        self._directory = directory
        self._options = options
        self._text = total_text(shards)
        self._task_bytes = min(options.limits.task_bytes, options.run_bytes)
        self._growth = growth(self._text, options.limits.task_bytes)
        self._next = 0
        self.decompressed: dict[int, ReadStats] = {}  # shards that the driver decompressed
        self.bad: dict[int, ShardError] = {}  # those of them that could not be read completely
        self.reused: list[SortResult] = []  # chunks that an interrupted run has sorted

    def pieces(self) -> dict[tuple[str, int, int | None], Piece]:
        """Return all slices that workers read, by path and range."""
        return {
            (piece.path, slice_.start, slice_.end): Piece(shard * PIECES + count, shard, piece.path, slice_)
            for shard, piece in enumerate(self._shards)
            if not self._is_decompressed_here(piece)
            for count, slice_ in enumerate(piece.slices(self._task_bytes))
        }

    def make(self, reusable: Reusable) -> Iterator[SortTask]:
        """Yield the tasks that an interrupted run has not finished, those with decompressed chunks first."""
        self._next = reusable.next_task
        for number, shard in enumerate(self._shards):
            if self._is_decompressed_here(shard):
                yield from self._decompress(number, reusable)
        pieces = {piece.slice: piece for piece in self.pieces().values() if piece.number not in reusable.covered}
        # A stream can be read only once, so it must not share a task that may be repeated.
        for slice_ in [slice_ for slice_ in pieces if slice_.shard.stream]:
            yield self._task((pieces.pop(slice_),))
        for slices in gather_tasks(list(pieces), self._task_bytes * self._growth):
            yield self._task(tuple(pieces[slice_] for slice_ in slices))

    def without(self, done: SortResult, bad: Container[int]) -> SortTask | None:
        """Make a task of the pieces whose shards are not bad; None if there are none."""
        rest = tuple(counts.piece for counts in done.pieces if counts.piece.shard not in bad)
        return self._task(rest) if rest else None

    def _is_decompressed_here(self, shard: Shard) -> bool:
        options = self._options
        if options.jobs == 1 and options.engine == "pool":
            return False  # the driver does all the work itself
        large = max(2 * options.limits.task_bytes, self._text // (options.jobs * _SHARE))
        return shard.stream or (not shard.splittable and shard.estimated_text > large)

    def _task(self, pieces: tuple[Piece, ...]) -> SortTask:
        self._next += 1
        return SortTask(self._next - 1, pieces, self._directory, self._options, large=self._growth > 1)

    def _decompress(self, shard: int, reusable: Reusable) -> Iterator[SortTask]:
        """Decompress a shard, and make a task of each chunk."""
        long_lines: list[LongLine] = []
        stats = self.decompressed[shard] = ReadStats()
        count = 0
        try:
            for chunk in self._shards[shard].read(
                chunk_bytes=self._options.limits.decompressed_chunk_bytes,
                max_line_bytes=self._options.max_line_bytes,
                max_window=self._options.max_window,
                stats=stats,
            ):
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
        number, source = shard * PIECES + count, self._shards[shard].path
        piece = Piece(number, shard, source, slice_, chunk.offset - 1, chunk.line, long_lines, temporary=True)
        if reusable.chunks and (done := reusable.take_chunk(piece, xxh3_128_hexdigest(chunk.data))):
            self.reused.append(done)
            return
        with storage_of(path).create(path, for_work=True) as file:
            file.write(b"\n")
            file.write(chunk.data)
        yield self._task((piece,))
