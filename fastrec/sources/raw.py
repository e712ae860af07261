"""A reader over the bytes of a compressed shard that can look ahead. All decompressors read from it.

    blocks as they come     |........|........|....
    buffer                       [......^.............]
                                        position        offset = `position` as an offset in the file

Decompressors read headers with `peek`, consume bytes with `take`, and give back the bytes of the next frame or member.
Since every byte goes through here, errors know their offset in the file.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastrec.errors import ShardCorruptError, ShardTruncatedError

__all__ = ["RawBytes"]


class RawBytes:
    """A forward reader over raw blocks of any size; it buffers only as much as a caller looks ahead."""

    def __init__(self, blocks: Iterator[bytes], path: str) -> None:
        self.path = path
        self._blocks = blocks
        self._buffer = b""
        self._position = 0
        self._start = 0  # the offset of the buffer's first byte

    @property
    def offset(self) -> int:
        """Offset of the next byte in the file."""
        return self._start + self._position

    def need(self, count: int) -> bool:
        """Buffer at least `count` bytes; return False if the input ends before."""
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

    def require(self, count: int, inside: str) -> None:
        """Buffer at least `count` bytes; ShardTruncatedError if the input ends before."""
        if not self.need(count):
            raise self.truncated(inside)

    def peek(self, count: int, ahead: int = 0) -> bytes:
        """Return `count` bytes from `ahead` bytes further on without consuming them; fewer only at the end."""
        self.need(ahead + count)
        begin = self._position + ahead
        return self._buffer[begin : begin + count]

    def take(self, limit: int) -> memoryview:
        """Consume up to `limit` buffered bytes, reading more if there are none; empty only at the end."""
        while self._position == len(self._buffer) and self.need(1):
            pass
        # A view, because the bytes go straight to a library: this saves a copy.
        piece = memoryview(self._buffer)[self._position : self._position + limit]
        self._position += len(piece)
        return piece

    def give_back(self, count: int) -> None:
        """Undo the consumption of the last `count` bytes of the last `take`."""
        self._position -= count

    def skip(self, count: int) -> bool:
        """Skip `count` bytes without holding them; return False if the input ends before."""
        while count > 0 and (piece := self.take(count)):
            count -= len(piece)
        return count == 0

    def skip_zeros(self) -> int:
        """Skip zero bytes, and return their number."""
        start = self.offset
        while (piece := self.take(1 << 16)) and not (rest := len(bytes(piece).lstrip(b"\0"))):
            pass
        if piece:
            self.give_back(rest)
        return self.offset - start

    def truncated(self, inside: str) -> ShardTruncatedError:
        """Return the error for input that ends too early, with the offset of its end."""
        while self.take(1 << 20):
            pass
        return ShardTruncatedError(self.path, f"ends inside {inside}", self.offset)

    def corrupt(self, reason: str, offset: int | None = None) -> ShardCorruptError:
        """Return the error for bytes that the format forbids, at the current offset by default."""
        return ShardCorruptError(self.path, reason, self.offset if offset is None else offset)
