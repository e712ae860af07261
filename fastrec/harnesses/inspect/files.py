"""The files of Inspect, each a log: `.eval` files, which are zip archives, and `.json` files.

`zipfile` reads the directory of an archive, but zstd members (method 93) from Python 3.14 on only:
so members are read here. Inspect appends to a log: of members with the same name, the last one
counts.

A slice is members of an archive, or items of a JSON document. A chunked sample has several members.
`sample.json` is the sample without its messages; `messages/N.json` is the part of the sequence of
all messages that begins with message N, and `message_refs` says which of them the sample has.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from struct import Struct, error
from typing import Any, Final, NamedTuple
from zipfile import BadZipFile, ZipFile

import msgspec
import zstandard

from fastrec.errors import LogError, is_out_of_memory
from fastrec.harnesses.files import ReaderFile, open_plain, read_at
from fastrec.harnesses.inspect.messages import Attachments, LoggedMessage, LogObject
from fastrec.harnesses.inspect.sample import LoggedSample, Parts, Scoring, SlowSample, sample_of
from fastrec.harnesses.log import FoundFile, Grouped, Log, RunInfo, Sample
from fastrec.harnesses.values import REFUSALS, decoder
from fastrec.storage.base import Reader

_PACKED: Final = Struct(
    "<QQQHL"
)  # the fields of a Member: 30 bytes, where the object itself takes 250
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
    """Name and description of each member.

    ValueError if there is no directory, or it is damaged.
    """
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
        (
            one.orig_filename,
            Member(one.header_offset, one.compress_size, one.file_size, one.compress_type, one.CRC),
        )
        for one in found
    ]


MAX_MEMBER_BYTES: Final = 1 << 30  # a larger member is refused: it has to be in memory as a whole

_READ_AHEAD: Final = 1 << 20
_INFLATED_AT_ONCE: Final = 1 << 16
_MAX_NAME: Final = 200  # of an error message
_MAX_WINDOW: Final = 1 << 27

# Signature, versions and flags, method, time, checksum and sizes, length of the name, length of the
# extra field.
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
        """Read and decompress a member.

        Its size is checked before and meanwhile, its checksum afterwards.
        """
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
            self._start = offset
            skipped = 0
        return self._window[skipped:]


def _stored(data: memoryview, size: int) -> bytes:
    if len(data) != size:
        raise ValueError("header and directory disagree on the size")
    return bytes(data)


def _inflate(data: memoryview, size: int) -> bytearray:
    """Inflate step by step: in one call, zlib would hold the content twice."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    content = bytearray(size)
    filled = 0
    for start in range(0, len(data), _INFLATED_AT_ONCE):
        step: bytes | memoryview = data[start : start + _INFLATED_AT_ONCE]
        while step and not inflater.eof and filled <= size:
            block = inflater.decompress(step, _READ_AHEAD)
            content[filled : filled + len(block)] = block
            filled = filled + len(block)
            step = inflater.unconsumed_tail
    block = inflater.flush()
    if filled + len(block) != size or not inflater.eof:
        raise ValueError(f"it does not have the {size:,} bytes that the directory says")
    content[filled:] = block
    return content


def _unzstd(data: memoryview, size: int) -> bytes | bytearray:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    if (
        zstandard.frame_content_size(data) == size
    ):  # the usual case, and the fastest: a single frame
        with suppress(zstandard.ZstdError):  # or damage, which is found below
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


_METHODS: Final[dict[int, Callable[[Any, int], bytes | bytearray]]] = {
    0: _stored,
    8: _inflate,
    93: _unzstd,
}


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
            return any(
                name in ("header.json", "_journal/start.json") for name, _ in members_of(reader)
            )
    except ValueError:
        return path.endswith(".eval")  # damaged: reading it says where


def _has_keys(head: bytes) -> bool:
    """Tell whether the top-level keys of a document, in any order, are those of a log."""
    if b'"eval"' not in head:
        return False
    keys = set()
    depth = 0
    for token in _TOKEN.finditer(head):
        if token[1] is not None:
            if depth == 1 and token[2] is not None:
                keys.add(token[1])
        elif token[0] in b"{[":
            depth += 1
        else:
            depth -= 1
    return (
        b"eval" in keys
        and any(key in keys for key in _OTHERS)
        and b'"task"' in head
        and b'"model"' in head
    )


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    return Grouped(logs=[Log("inspect", file.path, (file,)) for file in files])


# Parts of a sample that are needed seldom. They are long, so they are decoded in a second pass if
# they are needed.


class _Transcript(LogObject):
    content: dict[str, str] | None = None


class SampleAttachments(LogObject):
    attachments: dict[str, str] | None = None
    transcript: _Transcript | None = None  # instead of `attachments`, in logs of 2024


class _Event(LogObject):
    event: str = ""
    output: Any = None
    events: list[_Event] | None = None


class SampleEvents(LogObject):
    """The calls of models, which have the tokens of a sample without `model_usage`."""

    events: list[_Event] | None = None
    transcript: SampleEvents | None = None


_CHUNK: Final = re.compile(
    r"(samples/.+_epoch_\d+)/(?:sample|metadata|skeleton|(messages|events|calls|attachments)/(\d+|stats|uuids))\.json",
    re.DOTALL,
)
_SEQUENCES: Final = ("messages", "attachments", "events", "metadata")
# A quote without a backslash before it is not inside a text, so this is the value of a key.
_NOT_FINITE: Final = re.compile(rb'(?<!\\)"(\s*+:\s*+)(NaN|-?Infinity)(?=\s*+[,}])')

Buffer = bytes | bytearray | memoryview

_decode_object: Final = decoder(LogObject)
_decode_sample: Final = decoder(SlowSample)
_decode_messages: Final = decoder(list[LoggedMessage])
_decode_metadata: Final = decoder(dict[str, Any])
_decode_texts: Final = decoder(list[str])
_decode_attachments: Final = decoder(SampleAttachments)
_decode_events: Final = decoder(SampleEvents)
_decode_skipped: Final = msgspec.json.Decoder(msgspec.Raw).decode
_decode_fast: Final = msgspec.json.Decoder(LoggedSample).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_DECODED: Final = {*LoggedSample.__struct_fields__, "attachments"} - {"events", "store"}

MAX_SAMPLE_MEMORY: Final = 1_400_000_000
"""What a sample may need while it is converted, besides what the process has anyway."""
_LARGE_SAMPLE: Final = 8 << 20  # the memory of a smaller one is not estimated
_WIDTH: Final = (
    7  # copies of the text of values, as measured: in the sample, in its record, in lines …
)
_WIDE: Final = 5  # more bytes of text, as measured, where a character takes four
_VALUE_BYTES: Final = (
    160  # of an object in memory, as measured with short messages and nested lists
)


class SampleMembers(msgspec.Struct, frozen=True):
    """The members of one sample, packed; only a chunked sample has more than the first."""

    sample: bytes
    messages: bytes = b""
    attachments: bytes = b""
    events: bytes = b""
    metadata: bytes = b""

    @property
    def size(self) -> int:
        parts = (self.sample, self.messages, self.attachments, self.metadata)
        return sum(member.size for part in parts for member in unpack_members(part))


def sample_members(directory: Mapping[str, bytes]) -> tuple[list[SampleMembers], int]:
    """Return the members of each sample, and the number of chunked samples cut short."""
    whole: dict[str, bytes] = {}
    chunks: dict[str, dict[str, dict[int, bytes]]] = {}
    for name, member in directory.items():
        if not name.startswith("samples/"):
            continue
        chunk = _CHUNK.fullmatch(name)
        if chunk is not None:
            sequences = chunks.setdefault(chunk[1], {name: {} for name in _SEQUENCES})
            if chunk[2] in sequences and chunk[3].isdecimal():
                sequences[chunk[2]][int(chunk[3])] = member
            if name.endswith("/metadata.json"):
                sequences["metadata"][0] = member
            if name.endswith("/sample.json"):
                whole[chunk[1]] = member
        elif name.endswith(".json"):
            whole[name] = member
    samples = []
    for name, member in whole.items():
        sequences = chunks.pop(name, {})
        parts = (sequences.get(key, {}) for key in _SEQUENCES)
        samples.append(
            SampleMembers(
                member, *(b"".join(part[start] for start in sorted(part)) for part in parts)
            )
        )
    return samples, len(chunks)


class LogSlice(msgspec.Struct, frozen=True):
    """Samples of an archive, or start and size of adjacent samples of a document."""

    scoring: Scoring = Scoring()
    members: tuple[SampleMembers, ...] = ()
    items: tuple[tuple[int, int], ...] = ()


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has it
    path = log.files[0].path
    for sample, parts in logged_samples(path, log_slice):
        try:
            yield sample_of(sample, parts, log_slice.scoring)
        except (ValueError, RecursionError) as exc:
            raise LogError(path, f"sample {sample.id} cannot be read: {exc}") from exc


def logged_samples(path: str, log_slice: LogSlice) -> Iterator[tuple[LoggedSample, Parts]]:
    members = log_slice.members
    items = log_slice.items
    return samples_in_archive(path, members) if members else samples_in_document(path, items)


def samples_in_archive(
    path: str, samples: Iterable[SampleMembers]
) -> Iterator[tuple[LoggedSample, Parts]]:
    with open_plain(path) as reader:
        archive = Archive(path, reader)
        for members in samples:
            (member,) = unpack_members(members.sample)
            text = archive.read(member)
            try:
                sample = decode_sample(text)
                if sample.message_refs is None:
                    yield sample, _parts_of(text)
                else:
                    yield _chunked(sample, archive, members)
            except _TooLargeError as exc:
                raise archive.error(member, str(exc)) from exc
            except ValueError as exc:
                raise archive.error(member, f"is not a sample: {exc}") from exc


def _chunked(
    sample: LoggedSample, archive: Archive, members: SampleMembers
) -> tuple[LoggedSample, Parts]:
    texts = [archive.read(member) for member in unpack_members(members.messages)]
    _check_memory(b",".join(texts))
    chunks = [_decode_messages(memoryview(text)) for text in texts]
    pool = [message for chunk in chunks for message in chunk]
    for member in unpack_members(members.metadata):
        sample.metadata = _decode_metadata(memoryview(archive.read(member)))
    if members.events:
        sample.events = msgspec.Raw(b"[0]")  # they are not read
    for start, end in sample.message_refs or ():
        if not 0 <= start <= end <= len(pool):
            raise ValueError(f"it refers to messages {start} to {end}, and there are {len(pool)}")
        sample.messages += pool[start:end]

    def attachments() -> dict[str, str]:
        chunks = [
            _decode_texts(memoryview(archive.read(member)))
            for member in unpack_members(members.attachments)
        ]
        return {
            str(index): text
            for index, text in enumerate(text for chunk in chunks for text in chunk)
        }

    return sample, (Attachments(attachments), list)


def samples_in_document(
    path: str, items: Sequence[tuple[int, int]]
) -> Iterator[tuple[LoggedSample, Parts]]:
    first = items[0][0]
    end = sum(items[-1])
    with open_plain(path) as reader:
        text = memoryview(read_at(reader, end - first, first))
    for start, size in items:
        item = text[start - first : start - first + size]
        try:
            yield decode_sample(item), _parts_of(item)
        except ValueError as exc:
            place = f"between byte {start:,} and byte {start + size:,}"
            raise LogError(path, f"has a damaged sample {place}: {exc}") from exc


class _TooLargeError(ValueError):
    """A sample that is refused because of the memory that it would need."""


def _check_memory(text: Buffer) -> None:
    """Refuse a sample that would need too much memory, before it is decoded.

    A value takes far more memory than its text. Each one has a comma or an opening bracket before
    it or in it. Fields that are skipped do not count, above all `events`.
    """
    if len(text) < _LARGE_SAMPLE:
        return
    fields: Sequence[Buffer] = [text]
    with suppress(*REFUSALS):
        found = _decode_fields(text)
        fields = [memoryview(value) for name, value in found.items() if name in _DECODED]
    need = len(text) + _WIDTH * sum(map(len, fields))
    for value in fields:
        if need > MAX_SAMPLE_MEMORY:
            break  # without a copy of the text
        part = bytes(value)
        if not part.isascii() or b"\\u" in part:  # then a character takes up to four bytes
            need += _WIDE * len(part)
        need += _VALUE_BYTES * sum(map(part.count, (b",", b"{", b"[")))
    if need > MAX_SAMPLE_MEMORY:
        most = f"{MAX_SAMPLE_MEMORY / 1e9:.1f} GB"
        raise _TooLargeError(
            f"needs {need / 1e9:,.1f} GB of memory or more to convert, and the limit is {most}"
        )


def decode_sample(text: Buffer) -> LoggedSample:
    _check_memory(text)
    with suppress(*REFUSALS):
        return _decode_fast(text)
    with suppress(*REFUSALS):
        return _decode_fast(_finite(text))
    return _decode_sample(memoryview(text))


def _finite(text: Buffer) -> bytes:
    """Put quotes around NaN and Infinity, so that msgspec decodes them: `json` is much slower."""
    return _NOT_FINITE.sub(rb'"\1"\2"', bytes(text))


def _parts_of(text: Buffer) -> Parts:
    def attachments() -> dict[str, str]:
        found = _decode_attachments(memoryview(text))
        old = found.transcript.content if found.transcript else None
        return (old or {}) | (found.attachments or {})

    def events() -> Any:
        try:
            found = _decode_events(memoryview(text))
        except ValueError:  # events of an unknown kind: the output has the tokens of the last call
            return None
        old = found.transcript.events if found.transcript else None
        return found.events or old

    return Attachments(attachments), events


def check_item(text: memoryview) -> None:
    """Raise ValueError if a text is not the whole of an item."""
    try:
        _decode_skipped(text)
    except REFUSALS:
        _decode_object(_finite(text))
