"""Rejected lines: lines that are not in the corpus, kept whole with their location and errors.

Each task writes its own file of rejected lines, in which those of each piece of input are blocks of
their own. At the end they are merged by source and line, and compressed again.
"""

import base64
import sys
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from io import BytesIO
from itertools import chain

from msgspec import UNSET, MsgspecError, Struct, UnsetType

from fastrec.corpus.writer import ShardWriter, Written
from fastrec.errors import CorpusError
from fastrec.judge.batch import InvalidLine
from fastrec.judge.findings import ERRORS, Finding
from fastrec.limits import in_batches
from fastrec.schemas.view import encode_json, json_decoder
from fastrec.sorting.files import ViewsWriter, blocks_between
from fastrec.sources.lines import Chunk, chunks
from fastrec.storage import storage_of

CODES = tuple(ERRORS)  # the codes that a rejected line may have

_BLOCK_BYTES = 1 << 14  # of lines: a merge holds a block of each file
_SOME_BYTES = 1 << 16
_HELD_BYTES = 64 << 20  # to hold of all files of a merge


class RejectedLine(Struct):
    """A line of the rejects file; `code`, `path` and `message` are those of the first error."""

    #: The shard, by the path that was given or found.
    source: str
    #: Number of the line in the shard, from 1.
    line: int
    #: Of the line's first byte in the text of the shard; null if the record was left out in pass 2.
    offset: int | None
    #: The code that the line counts under.
    code: str
    #: The JSON path in the record, such as `$.evaluation.score`.
    path: str
    #: What was expected, and what was found.
    message: str
    #: The schema version of the errors, which the line comes closest to; absent if it has no value.
    version: str | UnsetType = UNSET
    #: If there are several: all, at most 100.
    errors: list[Finding] | UnsetType = UNSET
    #: By code, how many more.
    unlisted: dict[str, int] | UnsetType = UNSET
    #: The exact bytes of the line without its newline, if they are UTF-8; after pass 2, the normal
    #: form.
    raw: str | UnsetType = UNSET
    #: The exact bytes if they are not UTF-8.
    raw_base64: str | UnsetType = UNSET
    #: Whether only the head of a long line is here; the shard has the rest.
    truncated: bool | UnsetType = UNSET
    #: Codes of the repairs with which the line would be kept.
    repairs: list[str] | UnsetType = UNSET

    def exact_bytes(self) -> bytes:
        if self.raw_base64 is not UNSET:
            return base64.b64decode(self.raw_base64)
        assert self.raw is not UNSET
        return self.raw.encode()

    def to_json(self) -> bytes:
        return encode_json(self) + b"\n"


class RejectsWriter(ViewsWriter):
    """Writes rejected lines to a work file, in ranges of blocks."""

    def __init__(self, path: str) -> None:
        super().__init__(path, compressed=True)
        self._start = 0
        self._waiting = bytearray()

    def add(self, line: bytes) -> None:
        self._waiting += line
        if len(self._waiting) >= _BLOCK_BYTES:
            self._write_waiting()

    def end_range(self) -> tuple[int, int]:
        """End the current range.

        Return where it begins and ends, which is the same if it has no lines.
        """
        self._write_waiting()
        start = self._start
        self._start = self.size
        return start, self.size

    def _write_waiting(self) -> None:
        for block in in_batches(self._waiting, _BLOCK_BYTES):
            self.write_block(block)
        self._waiting.clear()


class RejectRange(Struct, frozen=True):
    """The rejected lines of one piece of a shard: a range of a task's file."""

    path: str
    start: int
    end: int
    shard: int
    offset: int  # where the piece begins in its shard; ranges of a shard are sorted by it
    line_base: int = 0  # to add to line numbers


_decode = json_decoder(RejectedLine)


def rejected_line(source: str, line: InvalidLine) -> RejectedLine:
    """Describe an invalid line of a shard, or a record that is left out in pass 2."""
    first = line.findings[0]
    rejected = RejectedLine(
        source,
        line.line,
        line.offset,
        first.code,
        first.path,
        first.message,
        version=line.version or UNSET,
        errors=list(line.findings) if len(line.findings) > 1 else UNSET,
        unlisted=line.unlisted or UNSET,
        truncated=line.truncated or UNSET,
        repairs=list(line.repairs) or UNSET,
    )
    try:
        rejected.raw = line.raw.decode()
    except UnicodeDecodeError:
        rejected.raw_base64 = base64.b64encode(line.raw).decode()
    return rejected


def decode_rejected(path: str, number: int, line: bytes) -> RejectedLine:
    """Decode a line of a rejects file.

    CorpusError if it is incomplete or its code does not exist.
    """
    try:
        rejected = _decode(line)
        if isinstance(rejected.raw, str) == isinstance(rejected.raw_base64, str):
            raise ValueError("it needs either `raw` or `raw_base64`")  # noqa: TRY301
        if b"\n" in rejected.exact_bytes():
            raise ValueError("its raw line contains a newline")  # noqa: TRY301
        if rejected.code not in CODES:
            raise ValueError(f"there is no code {rejected.code!r}")  # noqa: TRY301
    # base64 and UTF-8 raise kinds of ValueError
    except (MsgspecError, ValueError, RecursionError) as exc:
        raise CorpusError(path, f"not a rejected line: {exc}", number) from exc
    return rejected


def write_rejects(
    path: str, ranges: Iterable[RejectRange], left_out: Iterable[str], names: Sequence[str]
) -> Written | None:
    """Merge rejected lines by source and line into one file; return None if there are none.

    `ranges` has the rejected lines of pass 1. `left_out` are files with the records left out in
    pass 2, each one range that is sorted by source and line. `names` are the sources, by the number
    of their shard.
    """
    in_order = sorted(ranges, key=lambda piece: (names[piece.shard], piece.shard, piece.offset))
    lines: Iterator[bytes] = chain.from_iterable(
        _lines_of(piece, names[piece.shard]) for piece in in_order
    )
    if files := list(left_out):
        size = min(_SOME_BYTES, _HELD_BYTES // len(files))
        others = (_lines(file, 0, storage_of(file).size_of(file), size) for file in files)
        lines = merge(lines, *others, key=_location)
    first = next(lines, None)
    if first is None:
        return None
    with ShardWriter(path, "zst", 3) as writer:
        writer.write(chain([first], lines))
        return writer.finish()


def _lines_of(piece: RejectRange, name: str) -> Iterator[bytes]:
    """Read the lines of a range, and correct their line numbers and the name of their source."""
    begin = b'{"source":' + encode_json(name) + b","
    for line in _lines(piece.path, piece.start, piece.end, _SOME_BYTES):
        if piece.line_base or not line.startswith(begin):
            rejected = _decode(line)
            rejected.source = name
            rejected.line += piece.line_base
            line = rejected.to_json()
        yield line


def _lines(path: str, start: int, end: int, size: int) -> Iterator[bytes]:
    """Read the lines of a range of a file. It is open only while reading: thousands are merged."""
    text = blocks_between(path, start, end, size)
    for chunk in chunks(text, chunk_bytes=size, max_line_bytes=sys.maxsize):
        assert isinstance(chunk, Chunk)
        yield from BytesIO(chunk.data).readlines()


def _location(line: bytes) -> tuple[str, int]:
    rejected = _decode(line)
    return rejected.source, rejected.line
