"""Read the samples of a slice: members of an archive, or groups of items of a JSON document.

    sample_members(directory)            the members of each sample of a `.eval` log
    samples_in_archive(path, samples)    reads them, one at a time
    samples_in_document(path, groups)    reads the samples of a `.json` log

A chunked sample has several members. `sample.json` is the sample without its messages; `messages/N.json` is the part of
the sequence of all messages that begins with message N, and `message_refs` says which of them the sample has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fastrec.errors import LogError
from fastrec.harnesses.inspect.files import Archive, unpack_members
from fastrec.harnesses.inspect.sample import LazyParts, Scoring, sample_of
from fastrec.harnesses.inspect.structs import LoggedMessage, LoggedSample, SampleAttachments, SampleEvents
from fastrec.harnesses.log import Log, RunInfo, Sample
from fastrec.harnesses.values import REFUSALS, decoder, read_at
from fastrec.storage import storage_of

_SAMPLES: Final = "samples/"
_SHELL: Final = "sample.json"
_CHUNK: Final = re.compile(
    r"(samples/.+_epoch_\d+)/(?:sample|metadata|skeleton|(messages|events|calls|attachments)/(\d+|stats|uuids))\.json",
    re.DOTALL,
)
# A quote without a backslash before it is not inside a text, so this is the value of a key.
_NOT_FINITE: Final = re.compile(rb'(?<!\\)"(\s*+:\s*+)(NaN|-?Infinity)(?=\s*+[,}])')

Buffer = bytes | bytearray | memoryview

_decode_sample: Final = decoder(LoggedSample)
_decode_messages: Final = decoder(list[LoggedMessage])
_decode_texts: Final = decoder(list[str])
_decode_attachments: Final = decoder(SampleAttachments)
_decode_events: Final = decoder(SampleEvents)
_decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_fast: Final = msgspec.json.Decoder(LoggedSample).decode


class SampleMembers(msgspec.Struct, frozen=True):
    """The members of one sample, packed; only a chunked sample has more than the first."""

    sample: bytes
    messages: bytes = b""
    attachments: bytes = b""

    @property
    def size(self) -> int:
        return sum(
            member.size for part in (self.sample, self.messages, self.attachments) for member in unpack_members(part)
        )


def sample_members(directory: Mapping[str, bytes]) -> tuple[list[SampleMembers], int]:
    """Return the members of each sample in the order of the directory, and the number of chunked ones cut short."""
    whole: dict[str, bytes] = {}
    chunks: dict[str, dict[str, dict[int, bytes]]] = {}
    for name, member in directory.items():
        if not name.startswith(_SAMPLES):
            continue
        chunk = _CHUNK.fullmatch(name)
        if chunk is not None:
            sequences = chunks.setdefault(chunk[1], {"messages": {}, "attachments": {}})
            if chunk[2] in sequences and chunk[3].isdecimal():
                sequences[chunk[2]][int(chunk[3])] = member
            if name.endswith(f"/{_SHELL}"):
                whole[chunk[1]] = member
        elif name.endswith(".json"):
            whole[name] = member
    samples = []
    for name, member in whole.items():
        sequences = chunks.pop(name, {})
        parts = (sequences.get(key, {}) for key in ("messages", "attachments"))
        samples.append(SampleMembers(member, *(b"".join(part[start] for start in sorted(part)) for part in parts)))
    return samples, len(chunks)


class LogSlice(msgspec.Struct, frozen=True):
    """A slice of a log: samples of an archive, or groups of samples of a document."""

    scoring: Scoring
    members: tuple[SampleMembers, ...] = ()
    groups: tuple[tuple[int, int, int], ...] = ()


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has it
    path = log.files[0].path
    logged = (
        samples_in_archive(path, log_slice.members)
        if log_slice.members
        else samples_in_document(path, log_slice.groups)
    )
    for sample, parts in logged:
        try:
            yield sample_of(sample, parts, log_slice.scoring)
        except (ValueError, RecursionError) as exc:
            raise LogError(path, f"sample {sample.id} cannot be read: {exc}") from exc


def samples_in_archive(path: str, samples: Iterable[SampleMembers]) -> Iterator[tuple[LoggedSample, LazyParts]]:
    with storage_of(path).open_reader(path) as reader:
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
            except ValueError as exc:
                raise archive.error(member, f"is not a sample: {exc}") from exc


def _chunked(sample: LoggedSample, archive: Archive, members: SampleMembers) -> tuple[LoggedSample, LazyParts]:
    chunks = [_decode_messages(memoryview(archive.read(member))) for member in unpack_members(members.messages)]
    pool = [message for chunk in chunks for message in chunk]
    for start, end in sample.message_refs or ():
        if not 0 <= start <= end <= len(pool):
            raise ValueError(f"it refers to messages {start} to {end}, and there are {len(pool)}")
        sample.messages += pool[start:end]

    def attachments() -> dict[str, str]:
        chunks = [_decode_texts(memoryview(archive.read(member))) for member in unpack_members(members.attachments)]
        return {str(index): text for index, text in enumerate(text for chunk in chunks for text in chunk)}

    return sample, LazyParts(attachments, list)


def samples_in_document(path: str, groups: Iterable[tuple[int, int, int]]) -> Iterator[tuple[LoggedSample, LazyParts]]:
    with storage_of(path).open_reader(path) as reader:
        for start, end, _ in groups:
            text = b"[%b]" % read_at(reader, end - start, start)
            try:
                for item in _items(text):
                    yield decode_sample(item), _parts_of(item)
            except ValueError as exc:
                raise LogError(path, f"has a damaged sample between byte {start:,} and byte {end:,}: {exc}") from exc


def _items(text: bytes) -> Iterator[Buffer]:
    try:
        items = _decode_items(text)
    except REFUSALS:
        try:
            items = _decode_items(_finite(text))
        except REFUSALS:
            try:
                slow = json.loads(text)
            except RecursionError:
                raise ValueError("it is nested too deeply") from None
            for item in slow:
                yield json.dumps(item).encode()
            return
    for raw in items:
        yield memoryview(raw)


def decode_sample(text: Buffer) -> LoggedSample:
    try:
        return _decode_fast(text)
    except REFUSALS:
        pass
    try:
        return _decode_fast(_finite(text))
    except REFUSALS:
        return _decode_sample(memoryview(text))


def _finite(text: Buffer) -> bytes:
    """Put quotes around NaN and Infinity where they are the value of a key: msgspec is much faster than `json`."""
    return _NOT_FINITE.sub(rb'"\1"\2"', text)


def _parts_of(text: Buffer) -> LazyParts:

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

    return LazyParts(attachments, events)
