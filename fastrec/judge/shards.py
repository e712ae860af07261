"""Judge a slice of a shard: read it and judge it chunk by chunk. Every command that reads records does it here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fastrec.errors import out_of_memory
from fastrec.judge.batch import Batch, InvalidLine
from fastrec.judge.findings import Finding
from fastrec.judge.judge import Judge
from fastrec.limits import LIMITS
from fastrec.sources.formats import MAX_WINDOW
from fastrec.sources.lines import MAX_LINE_BYTES, LongLine, ReadStats
from fastrec.sources.shard import Slice

__all__ = ["JudgedChunk", "invalid_line", "judge_slice"]


class JudgedChunk(NamedTuple):
    """A chunk of lines and what the judge made of it; a line that is too long comes as a chunk of its own."""

    batch: Batch
    normal: bytearray
    """The normal forms of the records. The next chunk overwrites them."""
    data: bytes
    """The lines as they were read; empty if the line was too long to be held."""
    line: int
    """Number of the first line."""


def judge_slice(
    judge: Judge,
    piece: Slice,
    *,
    chunk_bytes: int = LIMITS.chunk_bytes,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_window: int = MAX_WINDOW,
    line: int = 1,
    offset: int = 0,
    stats: ReadStats | None = None,
    source: str | None = None,
) -> Iterator[JudgedChunk]:
    """Read a slice and judge its lines, about `chunk_bytes` at a time.

    The first line gets the number `line`, and `offset` is added to all offsets. A line longer than `max_line_bytes` is
    invalid, and never held in memory. ShardError if the slice cannot be read to its end; then none of it may be used.
    If memory runs out, the error names `source`, the original of a temporary file.
    """
    normal = bytearray()
    try:
        for chunk in piece.shard.read(
            piece.start,
            piece.end,
            chunk_bytes=chunk_bytes,
            max_line_bytes=max_line_bytes,
            max_window=max_window,
            stats=stats,
        ):
            normal.clear()
            first, start = line - 1 + chunk.line, offset + chunk.offset
            if isinstance(chunk, LongLine):
                rejected = invalid_line(chunk._replace(line=first, offset=start), max_line_bytes)
                yield JudgedChunk(Batch(lines=1, rejected=[rejected]), normal, b"", first)
            else:
                batch = judge.judge_chunk(chunk.data, normal, line=first, offset=start)
                yield JudgedChunk(batch, normal, chunk.data, first)
    except MemoryError as exc:
        raise out_of_memory(source or piece.shard.path) from exc


def invalid_line(line: LongLine, max_line_bytes: int) -> InvalidLine:
    """Describe a line that is too long as an invalid line; only its head is kept."""
    message = f"expected at most {max_line_bytes:,} bytes in a line, found {line.length:,}"
    finding = Finding("line.too_long", "$", message)
    return InvalidLine(line.line, line.offset, (finding,), line.head, truncated=True)
