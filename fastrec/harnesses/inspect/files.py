"""The files of Inspect: read `.eval` logs, which are zip archives, and tell them and `.json` logs. One file is one log.

`zipfile` reads the directory of an archive, but zstd members (method 93) from Python 3.14 on only: so members are read
here. Inspect appends to a log: of members with the same name, the last one counts.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from struct import Struct, error
from typing import Any, Final, NamedTuple
from zipfile import BadZipFile, ZipFile

import zstandard

from fastrec.errors import LogError, is_out_of_memory
from fastrec.harnesses.log import FoundFile, Grouped, Log
from fastrec.harnesses.values import ReaderFile, open_plain, read_at
from fastrec.storage.base import Reader

NAME: Final = "inspect"

_PACKED: Final = Struct("<QQQHL")  # the fields of a Member: 30 bytes, where the object itself takes 250
_ENCRYPTED: Final = 1


class Member(NamedTuple):
    offset: int  # where its local header begins
    compressed: int
    size: int
    method: int
    checksum: int


def unpack_members(members: bytes) -> Iterator[Member]:
    return map(Member._make, _PACKED.iter_unpack(members))


def members_of(reader: Reader) -> list[tuple[str, Member]]:
    """Name and description of each member; ValueError if there is no directory, or it is damaged."""
    try:
        with ZipFile(ReaderFile(reader)) as archive:
            found = archive.infolist()
    except (BadZipFile, NotImplementedError, ValueError, error) as exc:
        if isinstance(exc.__context__, OSError) and exc.__context__.errno is not None:
            raise exc.__context__ from None  # reading failed
        raise ValueError(f"{exc}; perhaps the file is cut") from exc
    if secret := next((one for one in found if one.flag_bits & _ENCRYPTED), None):
        raise ValueError(f"its member {secret.orig_filename} is encrypted")
    return [
        (one.orig_filename, Member(one.header_offset, one.compress_size, one.file_size, one.compress_type, one.CRC))
        for one in found
    ]


MAX_MEMBER_BYTES: Final = 1 << 30  # a larger member is refused: it has to be in memory as a whole

_READ_AHEAD: Final = 1 << 20
_INFLATED_AT_ONCE: Final = 1 << 16
_MAX_NAME: Final = 200  # of an error message
_MAX_WINDOW: Final = 1 << 27

# Signature, versions and flags, method, time, checksum and sizes, length of the name, length of the extra field.
_LOCAL_HEADER: Final = Struct("<4s4sH16sHH")
_SIGNATURE: Final = b"PK\x03\x04"


def directory_of(path: str) -> dict[str, bytes]:
    """The members of an archive by name, packed, in the order of the directory."""
    members: dict[str, bytes] = {}
    with open_plain(path) as reader:
        try:
            for name, member in members_of(reader):
                members.pop(name, None)
                members[name] = _PACKED.pack(*member)
        except ValueError as exc:
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
        """Read and decompress a member; its size is checked before and meanwhile, its checksum afterwards."""
        if max(member.size, member.compressed) > MAX_MEMBER_BYTES:
            raise self.error(member, f"has {member.size:,} bytes, too many to read")
        decompress = _METHODS.get(member.method)
        if decompress is None:
            raise self.error(member, f"has the unknown compression {member.method}")
        try:
            content = decompress(self._compressed(member), member.size)
        except (zlib.error, zstandard.ZstdError, ValueError) as exc:
            if is_out_of_memory(exc):
                raise MemoryError from exc
            raise self.error(member, f"is damaged: {exc}") from exc
        if zlib.crc32(content) != member.checksum:
            raise self.error(member, "is damaged: the checksum does not match")
        return content

    def error(self, member: Member, reason: str) -> LogError:
        """The error for a member, with its name, which is in its local header."""
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
        """The bytes from `offset`: at least `size`, unless the file ends."""
        skipped = offset - self._start
        if skipped < 0 or skipped + size > len(self._window):
            self._window = memoryview(b"")  # freed before the next one is read
            self._window = memoryview(read_at(self._reader, max(size, _READ_AHEAD), offset))
            self._start, skipped = offset, 0
        return self._window[skipped:]


def _stored(data: memoryview, size: int) -> bytes:
    if len(data) != size:
        raise ValueError("header and directory disagree on the size")
    return bytes(data)


def _inflate(data: memoryview, size: int) -> bytearray:
    """Inflate step by step: in one call, zlib collects blocks and joins them, which takes the size twice."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    content, filled = bytearray(size), 0
    for start in range(0, len(data), _INFLATED_AT_ONCE):
        step: bytes | memoryview = data[start : start + _INFLATED_AT_ONCE]
        while step and not inflater.eof and filled <= size:
            block = inflater.decompress(step, _READ_AHEAD)
            content[filled : filled + len(block)] = block
            filled, step = filled + len(block), inflater.unconsumed_tail
    block = inflater.flush()
    if filled + len(block) != size or not inflater.eof:
        raise ValueError(f"it does not have the {size:,} bytes that the directory says")
    content[filled:] = block
    return content


def _unzstd(data: memoryview, size: int) -> bytes | bytearray:
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


ARCHIVE: Final = "eval"
_DOCUMENT: Final = "json"

_FIRST: Final = re.compile(
    rb"(?:_journal/(?:start\.json|summaries/.*)|(?:header|summaries|reductions)\.json|samples/.*_epoch_\d+(?:\.json|/.*))\Z",
    re.DOTALL,
)
_STATUSES: Final = rb'"(?:started|success|cancelled|error)"'
_USUAL: Final = re.compile(
    rb'\s*\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*' + _STATUSES + rb'\s*,\s*"eval"\s*:\s*\{'
)
_TOKEN: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*:)?|[{}\[\]]', re.DOTALL)
_OTHERS: Final = (b"version", b"status", b"plan", b"results", b"stats")


def role_of(head: bytes, path: str) -> str | None:
    if head.startswith(_SIGNATURE):
        return ARCHIVE if _is_archive(head, path) else None
    if head[:1] == b"{" or head.lstrip()[:1] == b"{":
        return _DOCUMENT if _USUAL.match(head) or _has_keys(head) else None
    return None


def _is_archive(head: bytes, path: str) -> bool:
    """Tell an archive by its first member, which even a cut one has, or by its directory."""
    if len(head) >= _LOCAL_HEADER.size:
        length = _LOCAL_HEADER.unpack_from(head)[-2]
        if _FIRST.match(head[_LOCAL_HEADER.size : _LOCAL_HEADER.size + length]):
            return True
    try:
        with open_plain(path) as reader:
            return any(name in ("header.json", "_journal/start.json") for name, _ in members_of(reader))
    except ValueError:
        return path.endswith(".eval")  # damaged: reading it says where


def _has_keys(head: bytes) -> bool:
    """Tell whether the top-level keys of a document, in any order, are those of a log."""
    if b'"eval"' not in head:
        return False
    keys, depth = set(), 0
    for token in _TOKEN.finditer(head):
        if token[1] is not None:
            if depth == 1 and token[2] is not None:
                keys.add(token[1])
        elif token[0] in b"{[":
            depth += 1
        else:
            depth -= 1
    return b"eval" in keys and any(key in keys for key in _OTHERS) and b'"task"' in head and b'"model"' in head


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    return Grouped(logs=[Log(NAME, file.path, (file,)) for file in files])
