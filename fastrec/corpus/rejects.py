"""Rejects: lines that are not in the corpus, kept whole with where and why.

Each task writes its own file of them; at the end they are put together by source and line, and compressed.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from fastrec.corpus.writer import ShardWriter, Written
from fastrec.errors import CorpusError
from fastrec.judge.codes import ERRORS
from fastrec.judge.findings import Finding, Reject
from fastrec.sources.lines import LongLine
from fastrec.sources.reader import read_shard, shard_at
from fastrec.storage import storage_of

__all__ = [
    "CODES",
    "Entry",
    "Problem",
    "RejectRange",
    "decode_entry",
    "entry_of",
    "entry_of_conflict",
    "entry_of_long_line",
    "numbered_lines",
    "raw_of",
    "spell",
    "write_rejects",
]

CODES: Final = tuple(row.code for row in ERRORS)
"""The codes that a rejected line may have."""

_SOME_BYTES: Final = 1 << 16
_ALONE_BYTES: Final = 1 << 20  # of a file that is read alone
_HELD_BYTES: Final = 64 << 20  # of all files that are merged

_encode = msgspec.json.Encoder().encode


class Problem(msgspec.Struct, frozen=True):
    """One reason."""

    code: str
    """One of the codes."""
    path: str
    """Where in the record, as `$.evaluation.score`."""
    message: str
    """What was expected, and what was found."""


class Entry(msgspec.Struct):
    """A line of the rejects file; `code`, `path` and `message` are those of the first reason."""

    source: str
    """The shard, as its path was given or found."""
    line: int
    """Number of the line in it, from 1."""
    offset: int | None
    """Of the line's first byte in the source's text; null where the record was rejected for a conflict."""
    code: str
    """One of the codes: the line is counted by it."""
    path: str
    """Where in the record, as `$.evaluation.score`."""
    message: str
    """What was expected, and what was found."""
    errors: list[Problem] | UnsetType = UNSET
    """All reasons, if there are several."""
    raw: str | UnsetType = UNSET
    """The exact bytes of the line, without its newline, if they are UTF-8; after a conflict, the normal form."""
    raw_base64: str | UnsetType = UNSET
    """The exact bytes of the line otherwise."""
    truncated: bool | UnsetType = UNSET
    """The line was too long to be kept: only its head is here, the rest is in the source."""


class RejectRange(msgspec.Struct, frozen=True):
    """Rejects of one piece of a shard, in a task's file."""

    path: str
    start: int
    end: int
    shard: int
    offset: int
    """Where the piece begins in its shard: pieces of a shard are put together by it."""
    line_base: int = 0
    """To be added to line numbers."""


_decode = msgspec.json.Decoder(Entry).decode


def entry_of(source: str, reject: Reject) -> Entry:
    """Make the entry of a reject."""
    return _entry(source, reject.line, reject.offset, reject.findings, reject.raw)


def entry_of_long_line(source: str, line: LongLine, finding: Finding) -> Entry:
    """Make the entry of a line that was too long to be kept."""
    entry = _entry(source, line.line, line.offset, (finding,), line.head)
    entry.truncated = True
    return entry


def entry_of_conflict(source: str, line: int, finding: Finding, text: bytes) -> Entry:
    """Make the entry of a valid record that is left out."""
    return _entry(source, line, None, (finding,), text.removesuffix(b"\n"))


def _entry(source: str, line: int, offset: int | None, findings: Sequence[Finding], raw: bytes) -> Entry:
    first = findings[0]
    entry = Entry(source, line, offset, first.code, first.path, first.message)
    if len(findings) > 1:
        entry.errors = [Problem(finding.code, finding.path, finding.message) for finding in findings]
    try:
        entry.raw = raw.decode()
    except UnicodeDecodeError:
        entry.raw_base64 = base64.b64encode(raw).decode()
    return entry


def raw_of(entry: Entry) -> bytes:
    """Return the exact bytes of a rejected line."""
    if entry.raw_base64 is not UNSET:
        return base64.b64decode(entry.raw_base64)
    assert entry.raw is not UNSET
    return entry.raw.encode()


def spell(entry: Entry) -> bytes:
    """Encode an entry as a line."""
    return _encode(entry) + b"\n"


def numbered_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Give the lines of a rejects file, numbered from 1; ShardError if it cannot be read whole."""
    # No limit: an entry is longer than the line it quotes, by what escapes and the list of reasons take.
    for chunk in read_shard(shard_at(path), max_line_bytes=sys.maxsize):
        assert not isinstance(chunk, LongLine)
        yield from enumerate(chunk.data.removesuffix(b"\n").split(b"\n"), chunk.line)


def decode_entry(path: str, number: int, line: bytes) -> Entry:
    """Decode a line of a rejects file; CorpusError if it is not a whole entry of a code that exists."""
    try:
        entry = _decode(line)
        raw = raw_of(entry) if isinstance(entry.raw, str) != isinstance(entry.raw_base64, str) else None
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:  # base64 and UTF-8 raise kinds of ValueError
        raise CorpusError(path, f"is not an entry: {exc}", number) from exc
    if raw is None:
        raise CorpusError(path, "is not an entry: it needs one of `raw` and `raw_base64`", number)
    if b"\n" in raw:
        raise CorpusError(path, "is not an entry: its raw line holds a newline", number)
    if entry.code not in CODES:
        raise CorpusError(path, f"is not an entry: there is no code {entry.code!r}", number)
    return entry


def write_rejects(
    path: str, ranges: Iterable[RejectRange], conflicts: Iterable[str], names: Sequence[str]
) -> Written | None:
    """Put rejects together by source and line; None if there are none.

    Args:
        path: The rejects file.
        ranges: What pass 1 left, by piece.
        conflicts: Files of what pass 2 left, each sorted by source and line.
        names: The sources, by the number of their shard.
    """
    wanted = [piece for piece in ranges if piece.end > piece.start]
    wanted.sort(key=lambda piece: (names[piece.shard], piece.shard, piece.offset))
    lines: Iterator[bytes] = chain.from_iterable(map(_lines_of, wanted))
    files = list(conflicts)
    if files:
        at_once = min(_SOME_BYTES, _HELD_BYTES // len(files))
        lines = merge(
            lines,
            *(_lines(path, 0, storage_of(path).size_of(path), at_once) for path in files),
            key=_place,
        )
    first = next(lines, None)
    if first is None:
        return None
    with ShardWriter(path, "zst", 3) as writer:
        writer.write([first])
        while more := list(islice(lines, 1_000)):
            writer.write(more)
        return writer.finish()


def _lines_of(piece: RejectRange) -> Iterator[bytes]:
    """Give the lines of a piece, their numbers put right."""
    for line in _lines(piece.path, piece.start, piece.end, _ALONE_BYTES):
        if piece.line_base:
            entry = _decode(line)
            entry.line += piece.line_base
            yield spell(entry)
        else:
            yield line


def _lines(path: str, start: int, end: int, size: int) -> Iterator[bytes]:
    """Give the lines of a stretch of a file, which is open only while some are read: thousands may be merged."""
    begun: list[bytes] = []  # a line may be much longer than what is read at a time
    while start < end:
        *lines, rest = storage_of(path).read_range(path, min(size, end - start), start).split(b"\n")
        start += size
        for line in lines:
            yield b"".join((*begun, line, b"\n"))
            begun = []
        begun.append(rest)


def _place(line: bytes) -> tuple[str, int]:
    entry = _decode(line)
    return entry.source, entry.line
