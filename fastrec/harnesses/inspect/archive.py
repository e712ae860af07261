"""The members of a `.eval` log, which is a zip archive: list them, and read one at a time.

    directory_of(path)       member by name
    Archive(path, reader)    reads members: stored, deflate, or zstd in any number of frames

`zipfile` reads zstd members (method 93) from Python 3.14 on only. Inspect appends to a log: of members with the same
name, the last one counts. Sizes are checked before and while a member is decompressed.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from struct import Struct, error
from typing import Any, Final

import zstandard

from fastrec.errors import LogError
from fastrec.harnesses.files import read_at
from fastrec.harnesses.inspect.directory import Member, members_of
from fastrec.storage import storage_of
from fastrec.storage.base import Reader

__all__ = ["MAX_MEMBER_BYTES", "Archive", "directory_of"]

MAX_MEMBER_BYTES: Final = 1 << 30
"""A larger member is refused: it has to be in memory as a whole."""

_READ_AHEAD: Final = 1 << 20
_MAX_NAME: Final = 200  # of an error message
_MAX_WINDOW: Final = 1 << 27

# Signature, versions and flags, method, time, checksum and sizes, length of the name, length of the extra field.
_LOCAL_HEADER: Final = Struct("<4s4sH16sHH")
_SIGNATURE: Final = b"PK\x03\x04"


def directory_of(path: str) -> dict[str, bytes]:
    """Return the members of an archive by name, packed, in the order of the directory."""
    members: dict[str, bytes] = {}
    with storage_of(path).open_reader(path) as reader:
        try:
            for name, member in members_of(reader):
                members.pop(name, None)
                members[name] = member.pack()
        except (ValueError, error) as exc:
            raise LogError(path, f"is not a whole zip archive: {exc}") from exc
    return members


class Archive:
    """Reads members of an archive. Reading in the order of the file takes few requests."""

    def __init__(self, path: str, reader: Reader) -> None:
        self._path = path
        self._reader = reader
        self._start = 0
        self._window = memoryview(b"")

    def read(self, member: Member) -> bytes | bytearray:
        """Return the content of a member, after checking its size and checksum."""
        if max(member.size, member.compressed) > MAX_MEMBER_BYTES:
            raise self.error(member, f"has {member.size:,} bytes, too many to read")
        decompress = _METHODS.get(member.method)
        if decompress is None:
            raise self.error(member, f"has the unknown compression {member.method}")
        try:
            content = decompress(self._compressed(member), member.size)
        except (zlib.error, zstandard.ZstdError, ValueError) as exc:
            raise self.error(member, f"is damaged: {exc}") from exc
        if zlib.crc32(content) != member.checksum:
            raise self.error(member, "is damaged: the checksum does not match")
        return content

    def error(self, member: Member, reason: str) -> LogError:
        """Return the error for a member, with its name, which is in its local header."""
        header = bytes(self._bytes(member.offset, _LOCAL_HEADER.size + _MAX_NAME))
        name = f"at byte {member.offset:,}"
        if len(header) >= _LOCAL_HEADER.size and header.startswith(_SIGNATURE):
            length = _LOCAL_HEADER.unpack_from(header)[-2]
            name = header[_LOCAL_HEADER.size :][: min(length, _MAX_NAME)].decode(errors="replace")
        return LogError(self._path, f"its member {name} {reason}")

    def _compressed(self, member: Member) -> memoryview:
        # Name and extra field are seldom longer than this: one request fetches header and content.
        usual = _LOCAL_HEADER.size + 512 + member.compressed
        header = self._bytes(member.offset, usual)[: _LOCAL_HEADER.size]
        if len(header) < _LOCAL_HEADER.size or bytes(header[:4]) != _SIGNATURE:
            raise ValueError("it is not where the directory says")
        *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
        start = member.offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
        data = self._bytes(start, member.compressed)[: member.compressed]
        if len(data) < member.compressed:
            raise ValueError("the file ends before it does")
        return data

    def _bytes(self, offset: int, size: int) -> memoryview:
        """Return the bytes from `offset`: at least `size`, unless the file ends."""
        skipped = offset - self._start
        if skipped < 0 or skipped + size > len(self._window):
            self._window = memoryview(b"")  # freed before the next one is read
            self._window = memoryview(read_at(self._reader, max(size, _READ_AHEAD), offset))
            self._start, skipped = offset, 0
        return self._window[skipped:]


def _stored(data: memoryview, size: int) -> bytes:
    if len(data) != size:
        raise ValueError("the directory says two sizes")
    return bytes(data)


def _inflate(data: memoryview, size: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    content = inflater.decompress(data, size + 1)
    if len(content) != size or not inflater.eof:
        raise ValueError(f"it does not have the {size:,} bytes that the directory says")
    return content


def _unzstd(data: memoryview, size: int) -> bytes | bytearray:
    """Decompress all frames."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    if zstandard.frame_content_size(data) == size:  # the usual case, and the fastest: a single frame
        with contextlib.suppress(zstandard.ZstdError):  # or damage, which is found below
            return decompressor.decompress(data, allow_extra_data=False)
    content = bytearray(size)
    view = memoryview(content)
    filled = 0
    with decompressor.stream_reader(data, read_across_frames=True) as frames:
        while filled < size and (count := frames.readinto(view[filled:])):
            filled += count
        if filled != size or frames.read(1):
            raise ValueError(f"it does not have the {size:,} bytes that the directory says")
    return content


_METHODS: Final[dict[int, Callable[[Any, int], bytes | bytearray]]] = {0: _stored, 8: _inflate, 93: _unzstd}
