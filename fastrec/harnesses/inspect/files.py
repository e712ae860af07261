"""The files of Inspect: read `.eval` logs, which are zip archives, and tell them and `.json` logs. One file is one log.

The directory of an archive is at its end:

    members … │ entry │ entry │ … │ [end of directory, 64 bit │ its place] │ end of directory, comment

`zipfile` keeps an object of 500 bytes for each member, and the logs of long runs have hundreds of thousands. Here, one
entry at a time is in memory. `zipfile` also reads zstd members (method 93) from Python 3.14 on only. Inspect appends to
a log: of members with the same name, the last one counts.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from struct import Struct, error
from typing import Any, Final, NamedTuple

import zstandard

from fastrec.errors import LogError, is_out_of_memory
from fastrec.harnesses.log import FoundFile, Grouped, Log
from fastrec.harnesses.values import open_plain, read_at
from fastrec.storage.base import Reader

NAME: Final = "inspect"

_PACKED: Final = Struct("<QQQHL")  # the fields of a Member: 30 bytes, where the object itself takes 250
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


def unpack_members(members: bytes) -> Iterator[Member]:
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
        return self._end - self._position + len(self._block) - self._at

    def take(self, size: int) -> bytes:
        while len(self._block) - self._at < size:
            more = read_at(self._reader, min(_BLOCK, self._end - self._position), self._position)
            if not more:
                raise ValueError("its directory is cut")
            self._block, self._at = self._block[self._at :] + more, 0
            self._position += len(more)
        self._at += size
        return self._block[self._at - size : self._at]


def _place(reader: Reader) -> tuple[int, int, int]:
    """Where the directory begins, its size, and what to add to offsets if something precedes the archive."""
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


MAX_MEMBER_BYTES: Final = 1 << 30
"""A larger member is refused: it has to be in memory as a whole."""

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
    """Tell whether a file is an archive or a document of Inspect; None if it is neither."""
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
    except (ValueError, error):
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
