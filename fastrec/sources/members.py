"""Decompress gzip, bz2 and xz.

One member (or stream) after the other, each checked to its last byte.

All three libraries have the same kind of decompressor: it limits its output, and knows whether it
needs input, whether the member has ended, and which bytes are left over. `_member_text` drives any
of them. The functions around it know what may come before, between and after members. All
decompressors, that of zstd too, read from `RawBytes`: they look ahead with `peek`, consume with
`take`, and give back the bytes of the next frame or member. Since every byte goes through it,
errors know their offset in the file.

    blocks as they come     |........|........|....
    buffer                       [......^.............]
                                        position        offset = `position` as an offset in the file

gzip uses ISA-L, which is more than twice as fast as zlib. But ISA-L (isal 1.8.0) refuses valid
members if their header is spread over several calls and has a checksum or more than one optional
field. So the first slice of a member is a full one, however small the blocks are that come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from isal import igzip_lib
from msgspec import Struct

from fastrec.errors import ShardCorruptError, ShardLimitError, ShardTruncatedError

if TYPE_CHECKING:
    from bz2 import BZ2Decompressor
    from lzma import LZMADecompressor

    _Decompressor = BZ2Decompressor | LZMADecompressor | igzip_lib.IgzipDecompressor


class RawBytes(Struct):
    """A forward reader over raw blocks of any size.

    It buffers only as much as a caller looks ahead.
    """

    _blocks: Iterator[bytes]
    path: str
    _buffer: bytes = b""
    _position: int = 0
    _start: int = 0  # the offset of the buffer's first byte

    @property
    def offset(self) -> int:
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
        """Return `count` bytes from `ahead` bytes further on without consuming them.

        Fewer only at the end.
        """
        self.need(ahead + count)
        begin = self._position + ahead
        return self._buffer[begin : begin + count]

    def take(self, limit: int) -> memoryview:
        """Consume up to `limit` buffered bytes, reading more if there are none.

        Empty only at the end.
        """
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
        start = self.offset
        while (piece := self.take(1 << 16)) and not (rest := len(bytes(piece).lstrip(b"\0"))):
            pass
        if piece:
            self.give_back(rest)
        return self.offset - start

    def truncated(self, inside: str) -> ShardTruncatedError:
        """Make the error for input that ends too early, with the offset of its end."""
        while self.take(1 << 20):
            pass
        return ShardTruncatedError(self.path, f"ends inside {inside}", self.offset)

    def corrupt(self, reason: str, offset: int | None = None) -> ShardCorruptError:
        """Make the error for bytes that the format forbids, at the current offset by default."""
        return ShardCorruptError(self.path, reason, self.offset if offset is None else offset)


SLICE_BYTES = 64 << 10
_TEXT_BYTES = 256 << 10
_XZ_OVERHEAD = 1 << 20  # memory of the decoder besides its dictionary
# lzma has one error class: only the message distinguishes this case
_XZ_LIMIT_MESSAGE = "Memory usage limit exceeded"


def _member_text(
    raw: RawBytes, member: _Decompressor, name: str, error: type[Exception]
) -> Iterator[bytes]:
    """Yield the text of one member in blocks of at most TEXT_BYTES.

    `raw` is then just after the member.
    """
    nothing = memoryview(b"")
    while not member.eof:
        piece = nothing
        if member.needs_input and not (piece := raw.take(SLICE_BYTES)):
            raise raw.truncated(name)
        try:
            text = member.decompress(piece, _TEXT_BYTES)
        except error as exc:
            raise raw.corrupt(f"{name} is corrupt: {exc}", raw.offset - len(piece)) from exc
        if text:
            yield text
    raw.give_back(len(member.unused_data))


def _new_member(raw: RawBytes, magic: bytes, kind: str) -> str:
    """Check that a new member begins here, and return its name.

    The decompressor detects whether it is truncated.
    """
    if not magic.startswith(raw.peek(len(magic))):
        format_, _, member = kind.partition(" ")
        raise raw.corrupt(f"is not {format_} where a new {member} should begin")
    return f"the {kind} that starts at byte {raw.offset:,}"


def gzip_text(raw: RawBytes) -> Iterator[bytes]:
    """Yield the text of all members; zero bytes after a member are padding, as in gzip(1)."""
    error: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]  # its stub declares an instance
    while raw.need(1):
        name = _new_member(raw, b"\x1f\x8b", "gzip member")
        raw.need(SLICE_BYTES)  # so that the first slice has the whole header
        member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        yield from _member_text(raw, member, name, error)
        raw.skip_zeros()


def bz2_text(raw: RawBytes) -> Iterator[bytes]:
    """Yield the text of all streams; nothing may come between or after them."""
    import bz2  # noqa: PLC0415 - rarely needed

    while raw.need(1):
        name = _new_member(raw, b"BZh", "bz2 stream")
        yield from _member_text(raw, bz2.BZ2Decompressor(), name, OSError)


def xz_text(raw: RawBytes, max_window: int) -> Iterator[bytes]:
    """Yield the text of all streams; each may be followed by zero bytes, a multiple of four."""
    import lzma  # noqa: PLC0415 - rarely needed

    while raw.need(1):
        name = _new_member(raw, b"\xfd7zXZ\0", "xz stream")
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=max_window + _XZ_OVERHEAD)
        try:
            yield from _member_text(raw, stream, name, lzma.LZMAError)
        except ShardCorruptError as exc:
            if _XZ_LIMIT_MESSAGE not in exc.reason:
                raise
            reason = (
                f"needs an xz dictionary over the limit of {max_window:,} bytes: raise it "
                "with --max-window"
            )
            raise ShardLimitError(raw.path, reason, exc.offset) from exc.__cause__
        padding_at = raw.offset
        if raw.skip_zeros() % 4:
            raise raw.corrupt("has xz padding that is not a multiple of four bytes", padding_at)
