"""gzip, bz2 and xz: one member (or stream) after the other, each checked to its last byte.

All three libraries offer the same decompressor: it takes a slice, returns no more than it was asked for,
and knows whether it needs input, has seen the end of a member, and what was left over. `_member_text`
drives any of them; the functions around it know what may stand before, between and after members.

gzip goes through ISA-L at more than twice zlib's speed, with one precaution: ISA-L (isal 1.8.0) refuses valid
members whose header is spread over several calls if it has a checksum or more than one optional field. So
the header is read here (RFC 1952), and ISA-L gets the rest: deflated text, CRC-32 and length, both of which
it verifies.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Protocol

from isal import igzip_lib

from fastrec.errors import ShardCorruptError, ShardLimitError
from fastrec.sources.raw import RawBytes

__all__ = ["bz2_text", "gzip_text", "xz_text"]

SLICE_BYTES = 64 << 10
TEXT_BYTES = 256 << 10
HEADER_LIMIT = 1 << 20  # a gzip header holds a name and a comment of any length; nobody writes a megabyte

_DEFLATE = 8
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT, _RESERVED = 2, 4, 8, 16, 0xE0
_XZ_PADDING = 4
_XZ_OVERHEAD = 1 << 20  # what the decoder takes besides its dictionary
_XZ_LIMIT_MESSAGE = "Memory usage limit exceeded"  # lzma has one error class; only its text tells this case


class _Decompressor(Protocol):
    """What bz2, lzma and igzip_lib have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: memoryview, max_length: int) -> bytes: ...


def _member_text(
    raw: RawBytes, member: _Decompressor, what: str, start: int, error: type[Exception]
) -> Iterator[bytes]:
    """The text of one member, in pieces of at most TEXT_BYTES; leaves `raw` just behind the member."""
    nothing = memoryview(b"")
    while not member.eof:
        piece = nothing
        if member.needs_input and not (piece := raw.take(SLICE_BYTES)):
            raise raw.truncated(f"ends inside the {what} that starts at byte {start:,}")
        try:
            text = member.decompress(piece, TEXT_BYTES)
        except error as exc:
            reason = f"the {what} that starts at byte {start:,} is corrupt: {exc}"
            raise raw.corrupt(reason, raw.offset - len(piece)) from exc
        if text:
            yield text
    raw.give_back(len(member.unused_data))


def _check_magic(raw: RawBytes, magic: bytes, what: str) -> int:
    """Where a new member begins, if one does; whether it is cut off is left to the decompressor."""
    if not magic.startswith(raw.peek(len(magic))):
        raise raw.corrupt(f"is not {what} should begin")
    return raw.offset


def gzip_text(raw: RawBytes) -> Iterator[bytes]:
    """The text of all members; zero bytes behind a member are padding, as gzip(1) has it."""
    while raw.need(1):
        start = raw.offset
        _skip_gzip_header(raw)
        member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP_NO_HDR_VER)
        error: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]  # its stub says: an instance
        yield from _member_text(raw, member, "gzip member", start, error)
        raw.skip_zeros()


def _skip_gzip_header(raw: RawBytes) -> None:
    """Check a member's header (RFC 1952, 2.3) and pass over it: nothing in it is of use here."""
    start = _check_magic(raw, b"\x1f\x8b", "gzip where a new member")
    fixed = raw.peek(10)
    if len(fixed) < 10:
        raise raw.truncated(f"ends inside the gzip member that starts at byte {start:,}")
    flags = fixed[3]
    if fixed[2] != _DEFLATE or flags & _RESERVED:
        raise raw.corrupt("has a gzip member of an unknown kind")
    length = 10
    if flags & _FEXTRA:
        length += 2 + int.from_bytes(raw.peek(2, length), "little")
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag:
            length = _end_of_string(raw, length)
    if flags & _FHCRC:
        length += 2
    if not raw.need(length):
        raise raw.truncated(f"ends inside the gzip member that starts at byte {start:,}")
    if flags & _FHCRC:
        header = raw.peek(length)
        if zlib.crc32(header[:-2]) & 0xFFFF != int.from_bytes(header[-2:], "little"):
            raise raw.corrupt("has a gzip header that does not match its checksum")
    raw.skip(length)


def _end_of_string(raw: RawBytes, begin: int) -> int:
    """Where a NUL-terminated string ends that begins `begin` bytes ahead, its NUL included."""
    size = 256
    while (end := raw.peek(size, begin).find(b"\0")) < 0:
        if not raw.need(begin + size):
            raise raw.truncated(f"ends inside the gzip member that starts at byte {raw.offset:,}")
        if size > HEADER_LIMIT:
            raise raw.corrupt("has a gzip header without an end")
        size *= 2
    return begin + end + 1


def bz2_text(raw: RawBytes) -> Iterator[bytes]:
    """The text of all streams; nothing may stand between or behind them."""
    import bz2  # noqa: PLC0415 - rarely wanted, so imported late

    while raw.need(1):
        start = _check_magic(raw, b"BZh", "bz2 where a new stream")
        yield from _member_text(raw, bz2.BZ2Decompressor(), "bz2 stream", start, OSError)


def xz_text(raw: RawBytes, max_window: int) -> Iterator[bytes]:
    """The text of all streams; behind each may stand zero bytes, a multiple of four of them."""
    import lzma  # noqa: PLC0415 - rarely wanted, so imported late

    while raw.need(1):
        start = _check_magic(raw, b"\xfd7zXZ\0", "xz where a new stream")
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=max_window + _XZ_OVERHEAD)
        try:
            yield from _member_text(raw, stream, "xz stream", start, lzma.LZMAError)
        except ShardCorruptError as exc:
            if _XZ_LIMIT_MESSAGE not in exc.reason:
                raise
            reason = f"needs an xz dictionary over the limit of {max_window:,} bytes: raise it with --max-window"
            raise ShardLimitError(raw.path, reason, exc.offset) from exc.__cause__
        padding_at = raw.offset
        if raw.skip_zeros() % _XZ_PADDING:
            raise raw.corrupt("has xz padding that is not a multiple of four bytes", padding_at)
