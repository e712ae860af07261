"""Feeding: from the plan to orders for pass 1, made as fast as workers take them.

A large compressed shard, and a stream, can only be read in one place and from front to back. It is decompressed here,
in the process that gives the orders, and handed on in chunks of whole lines, so that one huge shard keeps all workers
busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fastrec.errors import ShardError
from fastrec.jobs.normalize.options import Options
from fastrec.jobs.normalize.pass1 import Order, Piece
from fastrec.jobs.plan import TASK_BYTES, Slice, estimated_text, tasks_of
from fastrec.stages.shards import Chunk, Format, LongLine, ReadStats, Shard, read_shard

__all__ = ["PIECES", "Feeder"]

_FED_BYTES: Final = 16 << 20
"""Text per chunk that is handed on."""
PIECES: Final = 1 << 24
"""More pieces than a shard is ever cut into."""


class Feeder:
    """Makes the orders of pass 1. What turns out to be unreadable while feeding is noted in `bad`."""

    def __init__(self, shards: Sequence[Shard], directory: str, options: Options) -> None:
        self._shards = shards
        self._directory = directory
        self._options = options
        self._orders = 0
        self.bad: dict[int, ShardError] = {}
        self.fed: dict[int, ReadStats] = {}
        """What was read of the shards that were fed."""

    def orders(self) -> Iterator[Order]:
        """Give the orders, the shards to be fed first: they take longest."""
        feedable = [number for number, shard in enumerate(self._shards) if self._must_feed(shard)]
        for number in feedable:
            yield from self._feed(number)
        numbers = {shard: number for number, shard in enumerate(self._shards) if number not in set(feedable)}
        pieces: dict[int, int] = {}
        # A stream can be read only once, so it does not share a task that may have to be done again.
        for shard in (shard for shard in numbers if shard.stream):
            yield self._order((self._piece(numbers[shard], Slice(shard), pieces),))
        rest = [shard for shard in numbers if not shard.stream]
        for slices in tasks_of(rest, min(TASK_BYTES, self._options.run_bytes)):
            yield self._order(tuple(self._piece(numbers[piece.shard], piece, pieces) for piece in slices))

    def without(self, order: Order, bad: set[int]) -> Order | None:
        """Give an order again, without the pieces of some shards; None if nothing is left of it."""
        pieces = tuple(piece for piece in order.pieces if piece.shard not in bad)
        return self._order(pieces) if pieces else None

    def _must_feed(self, shard: Shard) -> bool:
        if self._options.jobs == 1:
            return False
        return shard.stream or (not shard.splittable and estimated_text(shard) > 2 * TASK_BYTES)

    def _order(self, pieces: tuple[Piece, ...]) -> Order:
        self._orders += 1
        return Order(self._orders - 1, pieces, self._directory, self._options)

    def _piece(self, shard: int, piece: Slice, counts: dict[int, int]) -> Piece:
        counts[shard] = counts.get(shard, -1) + 1
        return Piece(shard * PIECES + counts[shard], shard, self._shards[shard].path, piece)

    def _feed(self, shard: int) -> Iterator[Order]:
        """Decompress a shard into chunks, each a temporary plain file, and order each to be sorted."""
        long_lines: list[LongLine] = []
        stats = self.fed[shard] = ReadStats()
        count = 0
        try:
            for chunk in read_shard(
                self._shards[shard],
                chunk_bytes=_FED_BYTES,
                max_line_bytes=self._options.max_line_bytes,
                max_window=self._options.max_window,
                stats=stats,
            ):
                if isinstance(chunk, LongLine):
                    long_lines.append(chunk)
                    continue
                yield self._chunk_order(shard, count, chunk, tuple(long_lines))
                long_lines.clear()
                count += 1
        except ShardError as exc:
            self.bad[shard] = exc
            return
        if long_lines:
            yield self._chunk_order(shard, count, Chunk(b"", stats.text_bytes, stats.lines), tuple(long_lines))

    def _chunk_order(self, shard: int, count: int, chunk: Chunk, long_lines: tuple[LongLine, ...]) -> Order:
        path = f"{self._directory}/chunk-{shard:06d}-{count:06d}"
        # A newline in front, and reading from behind it: the chunk is the middle of a text, so no bytes of it may be
        # taken for a byte order mark or for the head of a compressed file.
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(b"\n")
            file.write(chunk.data)
        piece = Slice(Shard(path, len(chunk.data) + 1, Format.PLAIN), start=1)
        number, source = shard * PIECES + count, self._shards[shard].path
        offset, line = chunk.offset - 1, chunk.line
        return self._order((Piece(number, shard, source, piece, offset, line, long_lines, temporary=True),))
