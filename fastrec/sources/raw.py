"""The bytes of a compressed shard, with a look ahead: what every decompressor reads from.

    blocks as they come     |........|........|....
    buffer                       [......^.............]
                                        position        offset = place of `position` in the file

Decompressors look at headers with `peek`, pass slices on with `take`, and give back what belongs to the
next frame or member. Since every byte goes through here, errors know where in the file they happened.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastrec.errors import ShardCorruptError, ShardTruncatedError

__all__ = ["RawBytes"]


class RawBytes:
    """A forward reader over raw blocks of any size; only a caller's look ahead is ever buffered."""

    def __init__(self, blocks: Iterator[bytes], path: str) -> None:
        self.path = path
        self._blocks = blocks
        self._buffer = b""
        self._position = 0
        self._start = 0  # the offset of the buffer's first byte

    @property
    def offset(self) -> int:
        """Where in the file the next byte stands."""
        return self._start + self._position

    def need(self, count: int) -> bool:
        """Have `count` more bytes at hand; False if the input ends before."""
        missing = self._position + count - len(self._buffer)
        if missing <= 0:
            return True
        parts = [self._buffer[self._position :]]
        while missing > 0 and (block := next(self._blocks, None)) is not None:
            parts.append(block)
            missing -= len(block)
        self._start += self._position
        self._position = 0
        self._buffer = b"".join(parts)
        return missing <= 0

    def peek(self, count: int, ahead: int = 0) -> bytes:
        """The `count` bytes that stand `ahead` bytes further on, not consumed; fewer only at the end."""
        self.need(ahead + count)
        begin = self._position + ahead
        return self._buffer[begin : begin + count]

    def take(self, limit: int) -> memoryview:
        """Consume up to `limit` of the bytes at hand, reading on if there are none; empty only at the end."""
        while self._position == len(self._buffer) and self.need(1):
            pass
        # A view: the slice goes straight into a library's input, where a copy would buy nothing.
        piece = memoryview(self._buffer)[self._position : self._position + limit]
        self._position += len(piece)
        return piece

    def give_back(self, count: int) -> None:
        """Undo the consumption of the last `count` bytes of the last `take`."""
        self._position -= count

    def skip(self, count: int) -> bool:
        """Pass over `count` bytes without holding them; False if the input ends before."""
        while count > 0 and (piece := self.take(count)):
            count -= len(piece)
        return count == 0

    def skip_zeros(self) -> int:
        """Pass over zero bytes, and say how many there were."""
        skipped = 0
        while piece := self.take(1 << 16):
            rest = len(bytes(piece).lstrip(b"\0"))
            skipped += len(piece) - rest
            if rest:
                self.give_back(rest)
                break
        return skipped

    def truncated(self, reason: str) -> ShardTruncatedError:
        """The error for input that ends too early; its offset is where the input ends."""
        while self.take(1 << 20):
            pass
        return ShardTruncatedError(self.path, reason, self.offset)

    def corrupt(self, reason: str, offset: int | None = None) -> ShardCorruptError:
        """The error for bytes that the format forbids, here unless told where."""
        return ShardCorruptError(self.path, reason, self.offset if offset is None else offset)
