"""Feeding: from the plan to orders for pass 1, made as fast as workers take them.

A large compressed shard, and a stream, can only be read in one place and from front to back. It is decompressed here,
in the process that gives the orders, and handed on in chunks of whole lines, so that one huge shard keeps all workers
busy. Of many large ones each is a task of its own: this process could not decompress them all as fast as they work.

What an earlier run has done is not ordered again: slices of shards are left out of the plan; of a shard that is fed,
the chunks whose text was met before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xxhash import xxh3_128_hexdigest

from fastrec.errors import ShardError
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import PIECES, Piece, SortResult, SortTask
from fastrec.normalize.resume import Reusable
from fastrec.sources.formats import Format
from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import Shard, Slice
from fastrec.sources.tasks import TASK_BYTES, gather_tasks, growth, total_text
from fastrec.storage import storage_of
from fastrec.storage.paths import join

__all__ = ["SortTasks"]

_FED_BYTES: Final = 16 << 20
"""Text per chunk that is handed on."""
_SHARE: Final = 16
"""Shards that are no more than this fraction of the work of a job keep all workers busy as they are."""


class SortTasks:
    """Makes the orders of pass 1. What turns out to be unreadable while feeding is noted in `bad`."""

    def __init__(self, shards: Sequence[Shard], directory: str, options: Options) -> None:
        self._shards = shards
        self._directory = directory
        self._options = options
        self._orders = 0
        self._text = total_text(shards)
        self._growth = growth(self._text)
        self._slices = self._cut()
        self._earlier = Reusable()
        self.bad: dict[int, ShardError] = {}
        self.fed: dict[int, ReadStats] = {}
        """What was read of the shards that were fed."""
        self.met_again: list[tuple[SortTask, SortResult]] = []
        """Of the chunks that were fed: those that an earlier run has done."""

    def pieces(self) -> dict[tuple[str, int, int | None], Piece]:
        """Give all slices of shards that are read by workers, by path and range."""
        return {
            (piece.shard.path, piece.start, piece.end): self._piece(number, piece)
            for number, piece in self._slices.items()
        }

    def go_on_from(self, earlier: Reusable) -> None:
        """Leave out what an earlier run has done."""
        self._earlier = earlier
        self._orders = earlier.next_order

    def orders(self) -> Iterator[SortTask]:
        """Give the orders, the shards to be fed first: they take longest."""
        for number, shard in enumerate(self._shards):
            if self._must_feed(shard):
                yield from self._feed(number)
        numbers = {piece: number for number, piece in self._slices.items() if number not in self._earlier.covered}
        # A stream can be read only once, so it does not share a task that may have to be done again.
        for piece in (piece for piece in numbers if piece.shard.stream):
            yield self._order((self._piece(numbers[piece], piece),))
        rest = [piece for piece in numbers if not piece.shard.stream]
        for slices in gather_tasks(rest, self._task_bytes() * self._growth):
            yield self._order(tuple(self._piece(numbers[piece], piece) for piece in slices))

    def without(self, order: SortTask, bad: set[int]) -> SortTask | None:
        """Give an order again, without the pieces of some shards; None if nothing is left of it."""
        pieces = tuple(piece for piece in order.pieces if piece.shard not in bad)
        return self._order(pieces) if pieces else None

    def _task_bytes(self) -> int:
        return min(TASK_BYTES, self._options.run_bytes)

    def _must_feed(self, shard: Shard) -> bool:
        if self._options.jobs == 1 and self._options.engine == "pool":
            return False  # this process does all the work itself
        large = max(2 * TASK_BYTES, self._text // (self._options.jobs * _SHARE))
        return shard.stream or (not shard.splittable and shard.estimated_text > large)

    def _cut(self) -> dict[int, Slice]:
        """Cut into slices what is not fed; pieces count up through the shards and within each."""
        return {
            number * PIECES + count: piece
            for number, shard in enumerate(self._shards)
            if not self._must_feed(shard)
            for count, piece in enumerate(shard.slices(self._task_bytes()))
        }

    def _order(self, pieces: tuple[Piece, ...]) -> SortTask:
        self._orders += 1
        return SortTask(self._orders - 1, pieces, self._directory, self._options, large=self._growth > 1)

    def _piece(self, number: int, piece: Slice) -> Piece:
        return Piece(number, number // PIECES, piece.shard.path, piece)

    def _feed(self, shard: int) -> Iterator[SortTask]:
        """Decompress a shard into chunks, each a temporary plain file, and order each to be sorted."""
        long_lines: list[LongLine] = []
        stats = self.fed[shard] = ReadStats()
        count = 0
        try:
            for chunk in self._shards[shard].read(
                chunk_bytes=_FED_BYTES,
                max_line_bytes=self._options.max_line_bytes,
                max_window=self._options.max_window,
                stats=stats,
            ):
                if isinstance(chunk, LongLine):
                    long_lines.append(chunk)
                    continue
                yield from self._chunk_order(shard, count, chunk, tuple(long_lines))
                long_lines.clear()
                count += 1
        except ShardError as exc:
            self.bad[shard] = exc
            return
        if long_lines:
            yield from self._chunk_order(shard, count, Chunk(b"", stats.text_bytes, stats.lines), tuple(long_lines))

    def _chunk_order(
        self, shard: int, count: int, chunk: Chunk, long_lines: tuple[LongLine, ...]
    ) -> Iterator[SortTask]:
        path = join(self._directory, f"chunk-{shard:06d}-{count:06d}")
        # A newline in front, and reading from behind it: the chunk is the middle of a text, so no bytes of it may be
        # taken for a byte order mark or for the head of a compressed file.
        slice_ = Slice(Shard(path, len(chunk.data) + 1, Format.PLAIN), start=1)
        number, source = shard * PIECES + count, self._shards[shard].path
        offset, line = chunk.offset - 1, chunk.line
        piece = Piece(number, shard, source, slice_, offset, line, long_lines, temporary=True)
        if self._earlier.chunks and (done := self._earlier.take_chunk(piece, xxh3_128_hexdigest(chunk.data))):
            self.met_again.append(done)
            return
        with storage_of(path).open_writer(path) as file:
            file.write(b"\n")
            file.write(chunk.data)
        yield self._order((piece,))
