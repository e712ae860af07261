"""The files of Inspect, each a log: `.eval` files, which are zip archives, and `.json` files.

`zipfile` decompresses zstd (method 93) from Python 3.14 on only: here, its members are read as if
they were not compressed. Inspect appends to a log: of members with the same name, the last one
counts.

A slice is members of an archive, or items of a JSON document. A chunked sample has several members.
`sample.json` is the sample without its messages; `messages/N.json` is the part of the sequence of
all messages that begins with message N, and `message_refs` says which of them the sample has.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from io import BufferedReader
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import zstandard
from msgspec import Raw, Struct

from fastrec.errors import LogError, is_out_of_memory
from fastrec.harnesses.files import open_plain
from fastrec.harnesses.inspect.messages import Attachments, LoggedMessage
from fastrec.harnesses.inspect.sample import LoggedSample, Parts, Scoring, sample_of
from fastrec.harnesses.log import Log, RunInfo, Sample
from fastrec.harnesses.values import (
    Buffer,
    LogObject,
    Names,
    OptionalText,
    Texts,
    decode_object,
    decoder,
    explaining,
)
from fastrec.schemas.view import REFUSALS, json_decoder
from fastrec.storage.base import Reader, ReaderFile, read_at

MAX_MEMBER_BYTES = 1 << 30  # a larger member is refused: it has to be in memory as a whole

_READ_AHEAD = 1 << 20
_MAX_WINDOW = 1 << 27
_ENCRYPTED = 1
_ZSTD = 93
_METHODS = (ZIP_STORED, ZIP_DEFLATED, _ZSTD)
_SIGNATURE = b"PK\x03\x04"


class Archive:
    """Reads members of an archive. Reading in the order of the file takes few requests.

    ValueError if there is no directory, or it is damaged.
    """

    def __init__(self, path: str, reader: Reader) -> None:
        self._path = path
        self.members: dict[str, ZipInfo] = {}  # in the order of the directory
        try:
            self._zip = ZipFile(BufferedReader(ReaderFile(reader), _READ_AHEAD))
        except (BadZipFile, NotImplementedError, ValueError, struct.error) as exc:
            if isinstance(exc.__context__, OSError) and exc.__context__.errno is not None:
                raise exc.__context__ from None  # reading failed
            raise ValueError(f"{exc}; perhaps the file is cut") from exc
        for member in self._zip.infolist():
            self.members.pop(member.orig_filename, None)
            self.members[member.orig_filename] = member

    def read(self, name: str) -> bytearray:
        """Read and decompress a member; its size and its checksum are checked."""
        member = self.members[name]
        size = member.file_size
        if max(size, member.compress_size) > MAX_MEMBER_BYTES:
            raise self.error(name, f"has {size:,} bytes, too many to read")
        if member.flag_bits & _ENCRYPTED:
            raise self.error(name, "is encrypted")
        if member.compress_type not in _METHODS:
            raise self.error(name, f"has the unknown compression {member.compress_type}")
        if member.compress_type == ZIP_STORED and member.compress_size != size:
            raise self.error(name, "is damaged: header and directory disagree on the size")
        try:
            content = self._content(member)
        except (BadZipFile, EOFError, ValueError, zlib.error, zstandard.ZstdError) as exc:
            if is_out_of_memory(exc):
                raise MemoryError from exc
            raise self.error(name, f"is damaged: {exc}") from exc
        if zlib.crc32(content) != member.CRC:
            raise self.error(name, "is damaged: the checksum does not match")
        return content

    def error(self, name: str, reason: str) -> LogError:
        return LogError(self._path, f"its member {name} {reason}")

    def _content(self, member: ZipInfo) -> bytearray:
        """Decompress a member; `read` checks its checksum, for all methods alike."""
        stored = copy(member)
        del stored.CRC
        stored.file_size += 1  # so that `zipfile` does not hide what comes after the end
        if member.compress_type == _ZSTD:
            stored.compress_type = ZIP_STORED
            stored.file_size = member.compress_size
        with self._zip.open(stored) as file:
            content: Any = file
            if member.compress_type == _ZSTD:
                decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
                content = decompressor.stream_reader(file, read_across_frames=True)
            return _filled(member.file_size, content)


def _filled(size: int, file: Any) -> bytearray:
    """Read step by step: a decompressor would hold all of the content twice."""
    content = bytearray(size)
    view = memoryview(content)
    filled = 0
    while filled < size and (count := file.readinto(view[filled : filled + _READ_AHEAD])):
        filled += count
    if filled != size or file.read(1):
        raise ValueError(f"it does not have the {size:,} bytes that the directory says")
    return content


@contextmanager
def opened_archive(path: str) -> Iterator[Archive]:
    with open_plain(path) as reader:
        with explaining(path, "is not a whole zip archive"):
            archive = Archive(path, reader)
        yield archive


ARCHIVE = "eval"
# Members with the header of a log, each with what its use says about the log.
HEADERS = {"header.json": [], "_journal/start.json": ["the log has no header.json"]}


def role_of(head: bytes, path: str) -> OptionalText:
    """Tell an archive by its directory, if its first member is not one that only logs have."""
    if head.startswith(_SIGNATURE):
        with suppress(LogError), opened_archive(path) as archive:
            if not archive.members.keys().isdisjoint(HEADERS):
                return ARCHIVE
    return None


# Parts of a sample that are needed seldom. They are long, so they are decoded in a second pass if
# they are needed.


class _Transcript(LogObject):
    content: Texts | None = None


class SampleAttachments(LogObject):
    attachments: Texts | None = None
    transcript: _Transcript | None = None  # instead of `attachments`, in logs of 2024


class _Event(LogObject):
    event: str = ""
    output: Any = None
    events: list[_Event] | None = None


class SampleEvents(LogObject):
    """The calls of models, which have the tokens of a sample without `model_usage`."""

    events: list[_Event] | None = None
    transcript: SampleEvents | None = None


_CHUNK = re.compile(
    r"(samples/.+_epoch_\d+)/"
    r"(sample|metadata|skeleton|(?:messages|events|calls|attachments)/(?:stats|uuids|(?=\d)))"
    r"(\d*)\.json",
    re.DOTALL,
)
_decode_sample = decoder(LoggedSample)
_decode_messages = decoder(list[LoggedMessage])
_decode_texts = decoder(list[str])
_decode_attachments = decoder(SampleAttachments)
_decode_events = decoder(SampleEvents)
_decode_fields = json_decoder(dict[str, Raw])
_DECODED = {*LoggedSample.__struct_fields__, "attachments"} - {"events", "store"}

# What a sample may need while it is converted, besides what the process has anyway.
MAX_SAMPLE_MEMORY = 1_400_000_000
_LARGE_SAMPLE = 8 << 20  # the memory of a smaller one is not estimated
# copies of the text of values, as measured: in the sample, in its record, in lines …
_WIDTH = 7
_WIDE = 5  # more bytes of text, as measured, where a character takes four
# of an object in memory, as measured with short messages and nested lists
_VALUE_BYTES = 160


class SampleMembers(Struct, frozen=True):
    """The names of the members of a sample; only a chunked sample has more than the first."""

    sample: str
    size: int  # of all that is read
    messages: Names = ()
    attachments: Names = ()
    metadata: Names = ()
    has_events: bool = False


def sample_members(members: Mapping[str, ZipInfo]) -> tuple[list[SampleMembers], int]:
    """Return the members of each sample, and the number of chunked samples cut short."""
    # by sample and kind: the members, each with its number if they are a sequence
    kinds: defaultdict[str, defaultdict[str, dict[int, str]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for name in members:
        chunk = _CHUNK.fullmatch(name)
        if chunk:
            sample, kind, number = chunk.groups()
            kinds[sample][kind][int(number or 0)] = name
        elif name.startswith("samples/") and name.endswith(".json"):
            kinds[name]["sample"][0] = name
    samples = []
    for parts in kinds.values():
        if parts["sample"]:
            messages, attachments, metadata = (
                tuple(part for _, part in sorted(parts[kind].items()))
                for kind in ("messages/", "attachments/", "metadata")
            )
            (name,) = parts["sample"].values()
            read = (name, *messages, *attachments, *metadata)
            size = sum(members[part].file_size for part in read)
            has_events = bool(parts["events/"])
            samples.append(SampleMembers(name, size, messages, attachments, metadata, has_events))
    return samples, len(kinds) - len(samples)


class LogSlice(Struct, frozen=True):
    """Samples of an archive, or start and size of adjacent samples of a document."""

    scoring: Scoring = Scoring()
    members: tuple[SampleMembers, ...] = ()
    items: tuple[tuple[int, int], ...] = ()


Logged = tuple[LoggedSample, Parts]


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has it
    for sample, parts in logged_samples(log.path, log_slice):
        try:
            yield sample_of(sample, parts, log_slice.scoring)
        except (ValueError, RecursionError) as exc:
            raise LogError(log.path, f"sample {sample.id} cannot be read: {exc}") from exc


def logged_samples(path: str, log_slice: LogSlice) -> Iterator[Logged]:
    return (
        samples_in_archive(path, log_slice.members)
        if log_slice.members
        else samples_in_document(path, log_slice.items)
    )


def samples_in_archive(path: str, samples: Iterable[SampleMembers]) -> Iterator[Logged]:
    with opened_archive(path) as archive:
        for members in samples:
            name = members.sample
            text = archive.read(name)
            try:
                sample = decode_sample(text)
                if sample.message_refs is None:
                    yield sample, _parts_of(text)
                else:
                    yield _chunked(sample, archive, members)
            except _TooLargeError as exc:
                raise archive.error(name, str(exc)) from exc
            except ValueError as exc:
                raise archive.error(name, f"is not a sample: {exc}") from exc


def _chunked(sample: LoggedSample, archive: Archive, members: SampleMembers) -> Logged:
    texts = [archive.read(name) for name in members.messages]
    _check_memory(b",".join(texts))
    pool = []
    for text in texts:
        pool += _decode_messages(text)
    for name in members.metadata:
        sample.metadata = decode_object(archive.read(name))
    if members.has_events:
        sample.events = Raw(b"[0]")  # they are not read
    for start, end in sample.message_refs or ():
        if not 0 <= start <= end <= len(pool):
            raise ValueError(f"it refers to messages {start} to {end}, and there are {len(pool)}")
        sample.messages += pool[start:end]

    def attachments() -> Texts:
        contents = []
        for name in members.attachments:
            contents += _decode_texts(archive.read(name))
        return {str(index): text for index, text in enumerate(contents)}

    return sample, (Attachments(attachments), list)


def samples_in_document(path: str, items: Sequence[tuple[int, int]]) -> Iterator[Logged]:
    first = items[0][0]
    end = sum(items[-1])
    with open_plain(path) as reader:
        text = memoryview(read_at(reader, end - first, first))
    for start, size in items:
        item = text[start - first : start - first + size]
        place = f"between byte {start:,} and byte {start + size:,}"
        with explaining(path, f"has a damaged sample {place}"):
            yield decode_sample(item), _parts_of(item)


class _TooLargeError(ValueError):
    """A sample that is refused because of the memory that it would need."""


def _check_memory(text: Buffer) -> None:
    """Refuse a sample that would need too much memory, before it is decoded.

    A value takes far more memory than its text. Each one has a comma or an opening bracket before
    it or in it. Fields that are skipped do not count, above all `events`.
    """
    if len(text) < _LARGE_SAMPLE:
        return
    fields = [text]
    with suppress(*REFUSALS):
        fields = [
            memoryview(value) for name, value in _decode_fields(text).items() if name in _DECODED
        ]
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
    return _decode_sample(text)


def _parts_of(text: Buffer) -> Parts:
    def attachments() -> Texts:
        decoded = _decode_attachments(text)
        old = decoded.transcript.content if decoded.transcript else None
        return (old or {}) | (decoded.attachments or {})

    def events() -> Any:
        try:
            decoded = _decode_events(text)
        except ValueError:  # events of an unknown kind: the output has the tokens of the last call
            return None
        old = decoded.transcript.events if decoded.transcript else None
        return decoded.events or old

    return Attachments(attachments), events
