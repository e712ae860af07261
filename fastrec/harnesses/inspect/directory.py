"""The directory of a zip archive, which is at its end: all members, one after the other.

    members … │ entry │ entry │ … │ [end of directory, 64 bit │ its place] │ end of directory, comment

`zipfile` keeps an object of 500 bytes for each member, and the logs of long runs have hundreds of thousands. Here, one
entry at a time is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from fastrec.harnesses.files import read_at
from fastrec.storage.base import Reader

__all__ = ["Member", "members_of", "unpack_members"]

_PACKED: Final = Struct("<QQQHL")
_BLOCK: Final = 1 << 20
_MAX_COMMENT: Final = (1 << 16) - 1

# Signature, disks and counts, size and offset of the directory, length of the comment.
_END: Final = Struct("<4s8xLLH")
_END_64: Final = Struct("<4s36xQQ")
_PLACE_64: Final = Struct("<4s4xQ4x")
# Signature, versions, flags, method, time, checksum, sizes, lengths of name, extra field and comment, …, offset.
_ENTRY: Final = Struct("<4s4xHH4xLLLHHH8xL")
_EXTRA: Final = Struct("<HH")
_LONG: Final = Struct("<Q")
_EXTRA_64: Final = 1
_IN_EXTRA: Final = 0xFFFFFFFF
_ENCRYPTED: Final = 1
_UTF8: Final = 0x800


class Member(NamedTuple):
    """A member of an archive, as the directory describes it."""

    offset: int
    """Where its local header begins."""
    compressed: int
    size: int
    method: int
    checksum: int

    def pack(self) -> bytes:
        """Return it as bytes: 30, where the object itself takes 250."""
        return _PACKED.pack(*self)


def unpack_members(members: bytes) -> Iterator[Member]:
    """Yield the members that were packed, one after the other."""
    return map(Member._make, _PACKED.iter_unpack(members))


def members_of(reader: Reader) -> Iterator[tuple[str, Member]]:
    """Yield name and description of each member; raise ValueError if there is no directory, or it is damaged."""
    start, size, shift = _place(reader)
    entries = _Bytes(reader, start, start + size)
    while entries.left:
        fields = _ENTRY.unpack(entries.take(_ENTRY.size))
        signature, flags, method, checksum, compressed, plain, name_bytes, extra_bytes, comment_bytes, offset = fields
        if signature != b"PK\x01\x02":
            raise ValueError("an entry of its directory is damaged")
        name = entries.take(name_bytes).decode("utf-8" if flags & _UTF8 else "cp437", errors="replace")
        extra = entries.take(extra_bytes)
        entries.take(comment_bytes)
        if flags & _ENCRYPTED:
            raise ValueError(f"its member {name} is encrypted")
        if _IN_EXTRA in (compressed, plain, offset):
            plain, compressed, offset = _long_values(extra, plain, compressed, offset)
        yield name, Member(offset + shift, compressed, plain, method, checksum)


class _Bytes:
    """A part of a file, read from its start to its end in blocks."""

    def __init__(self, reader: Reader, start: int, end: int) -> None:
        self._reader = reader
        self._position = start
        self._end = end
        self._block = b""
        self._at = 0

    @property
    def left(self) -> int:
        """The number of bytes that are not taken."""
        return self._end - self._position + len(self._block) - self._at

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        while len(self._block) - self._at < size:
            more = read_at(self._reader, min(_BLOCK, self._end - self._position), self._position)
            if not more:
                raise ValueError("its directory is cut")
            self._block, self._at = self._block[self._at :] + more, 0
            self._position += len(more)
        self._at += size
        return self._block[self._at - size : self._at]


def _place(reader: Reader) -> tuple[int, int, int]:
    """Return where the directory begins, its size, and what to add to offsets if something precedes the archive."""
    tail_start = max(0, reader.size - _END.size - _MAX_COMMENT)
    tail = read_at(reader, reader.size - tail_start, tail_start)
    found = tail.rfind(b"PK\x05\x06")
    if found < 0 or len(tail) - found < _END.size:
        raise ValueError("it has no directory at its end: the file is cut")
    _, size, offset, _ = _END.unpack_from(tail, found)
    end = tail_start + found
    place = read_at(reader, _PLACE_64.size, end - _PLACE_64.size) if end >= _PLACE_64.size else b""
    if len(place) == _PLACE_64.size and place.startswith(b"PK\x06\x07"):
        for position in (_PLACE_64.unpack(place)[1], end - _PLACE_64.size - _END_64.size):
            record = read_at(reader, _END_64.size, position) if position < end else b""
            if len(record) == _END_64.size and record.startswith(b"PK\x06\x06"):
                _, size, offset = _END_64.unpack(record)
                end = position
                break
    start = end - size
    if start < 0 or start < offset:
        raise ValueError("its directory is not at its end: the file is cut")
    return start, size, start - offset


def _long_values(extra: bytes, *values: int) -> Iterator[int]:
    """Yield sizes and offset; those that do not fit into 32 bits are in the extra field."""
    at, longs = 0, b""
    while at + _EXTRA.size <= len(extra):
        kind, length = _EXTRA.unpack_from(extra, at)
        if kind == _EXTRA_64:
            longs = extra[at + _EXTRA.size : at + _EXTRA.size + length]
            break
        at += _EXTRA.size + length
    at = 0
    for value in values:
        if value == _IN_EXTRA:
            if at + _LONG.size > len(longs):
                raise ValueError("an entry of its directory is damaged")
            (value,) = _LONG.unpack_from(longs, at)
            at += _LONG.size
        yield value
