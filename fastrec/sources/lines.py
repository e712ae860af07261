r"""From blocks of text to chunks of whole lines, without parsing: a line is what ends with a newline byte.

    blocks      ...}\n{"a": 1}\n{"a" | : 2}\n{"a": 3}\n{ | "a": 4}\n
    chunks      ...}\n{"a": 1}\n       {"a": 2}\n{"a": 3}\n  {"a": 4}\n

1. Blocks that are too small to be worth a step are joined.
2. A UTF-8 byte order mark is dropped at byte 0 of the text, and nowhere else; its three bytes still count
   in offsets.
3. In each step the last newline is found from behind. What stands before it joins `whole`, the rest is the
   `tail`.
4. When they fill a chunk, `whole` is joined: the one copy that a byte of text undergoes here.

A line over `max_line_bytes` comes out as a `LongLine`: it is measured to its end, but never held.

A plain file can be read in byte ranges. A range owns the lines that start in it, so `line_start` of a
range's two ends tells exactly which bytes are its own, and any cut of a file into ranges gives every line
to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

import msgspec
from stringzilla import count

__all__ = [
    "CHUNK_BYTES",
    "HEAD_BYTES",
    "MAX_LINE_BYTES",
    "Chunk",
    "LongLine",
    "ReadStats",
    "chunks",
    "line_start",
]

CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 30
HEAD_BYTES = 1 << 10
SMALL_BLOCK = 64 << 10
SCAN_BYTES = 64 << 10
BOM = b"\xef\xbb\xbf"


class Chunk(NamedTuple):
    """Whole lines of a shard; only the last chunk may lack its last newline."""

    data: bytes
    offset: int
    """Where `data` stands in the text; a byte order mark counts as text."""
    line: int
    """The number of its first line, from 1; in a byte range, from the first line that the range owns."""


class LongLine(NamedTuple):
    """A line over the limit, which was passed over."""

    offset: int
    line: int
    length: int
    """In bytes, without the newline."""
    head: bytes
    """Its first HEAD_BYTES."""


class ReadStats(msgspec.Struct):
    """What was read so far; complete once the iterator it was given to is exhausted."""

    bom: bool = False
    lines: int = 0
    text_bytes: int = 0
    raw_bytes: int = 0
    """As stored in the file: the same as `text_bytes` if it is plain."""
    raw_start: int = 0
    """Where they begin in the file."""
    raw_hash: str = ""
    """Their 128-bit xxh3."""


def chunks(
    blocks: Iterable[bytes],
    *,
    chunk_bytes: int = CHUNK_BYTES,
    max_line_bytes: int = MAX_LINE_BYTES,
    offset: int = 0,
    stats: ReadStats | None = None,
) -> Iterator[Chunk | LongLine]:
    """Cut text into chunks of about `chunk_bytes`, at least one line each; the text starts at `offset`."""
    cutter = _Cutter(chunk_bytes, max_line_bytes, offset, ReadStats() if stats is None else stats)
    for block in _gathered(blocks):
        yield from cutter.feed(block)
    yield from cutter.finish()


def line_start(read_at: Callable[[int, int], bytes], position: int) -> int:
    """The offset of the first line that starts at or after `position`, or where the text ends.

    `read_at(offset, size)` gives up to `size` bytes of the text, none at its end.
    """
    if position == 0:
        return 0
    offset = position - 1  # a newline just before `position` means that a line starts right there
    while block := read_at(offset, SCAN_BYTES):
        found = block.find(b"\n")
        if found >= 0:
            return offset + found + 1
        offset += len(block)
    return offset


def _gathered(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Join small blocks: a line made of millions of tiny ones must not cost an object for each."""
    small: list[bytes] = []
    size = 0
    for block in blocks:
        if not small and len(block) >= SMALL_BLOCK:
            yield block
            continue
        small.append(block)
        size += len(block)
        if size >= SMALL_BLOCK:
            yield b"".join(small)
            small = []
            size = 0
    if small:
        yield b"".join(small)


class _Cutter:
    """The state between blocks: `whole` lines that wait to be a chunk; the `tail`, a line with no end yet.

    Views into the blocks are kept instead of slices, so that text is copied once, when a chunk is joined.
    """

    def __init__(self, chunk_bytes: int, max_line_bytes: int, offset: int, stats: ReadStats) -> None:
        self.chunk_bytes = chunk_bytes
        self.max_line_bytes = max_line_bytes
        # No step is longer than a line may be: only a line that began in an earlier step can be too long.
        self.step = max(1, min(chunk_bytes, max_line_bytes))
        self.stats = stats
        self.offset = offset  # of the first byte of `whole`
        self.at_start = offset == 0
        self.line = 1
        self.whole: list[memoryview] = []
        self.whole_bytes = 0
        self.tail: list[memoryview] = []
        self.tail_bytes = 0  # of a line that is too long, more than `tail` holds

    def feed(self, block: bytes) -> Iterator[Chunk | LongLine]:
        """Take the next block, and give what it completes."""
        start = 0
        if self.at_start:
            start = self._drop_bom(block)
        self.stats.text_bytes += len(block)
        view = memoryview(block)
        for begin in range(start, len(block), self.step):
            end = min(begin + self.step, len(block))
            if self.tail_bytes + end - begin > self.max_line_bytes:
                begin = yield from self._pass_long_line(block, view, begin, end)
            cut = block.rfind(b"\n", begin, end) + 1
            if cut:
                self._end_tail()
                self.whole.append(view[begin:cut])
                self.whole_bytes += cut - begin
                begin = cut
            if begin < end:
                self.tail.append(view[begin:end])
                self.tail_bytes += end - begin
            if self.whole and self.whole_bytes + self.tail_bytes >= self.chunk_bytes:
                yield self._chunk()

    def finish(self) -> Iterator[Chunk | LongLine]:
        """Give what is left: the last line may do without its newline."""
        if self.tail_bytes > self.max_line_bytes:
            if self.whole:
                yield self._chunk()
            yield self._long_line()
            return
        self.stats.lines += bool(self.tail)
        self._end_tail()
        if self.whole:
            yield self._chunk()

    def _drop_bom(self, block: bytes) -> int:
        self.at_start = False
        if not block.startswith(BOM):
            return 0
        self.stats.bom = True
        self.offset = len(BOM)
        return len(BOM)

    def _pass_long_line(
        self, block: bytes, view: memoryview, begin: int, end: int
    ) -> Generator[Chunk | LongLine, None, int]:
        """If the line that the tail began is too long, drop all but its head; say where to go on."""
        newline = block.find(b"\n", begin, end)
        stop = end if newline < 0 else newline
        if self.tail_bytes + stop - begin <= self.max_line_bytes:
            return begin
        self.tail.append(view[begin:stop])
        self.tail_bytes += stop - begin
        self.tail = [memoryview(self._head())]
        if newline < 0:
            return end
        if self.whole:
            yield self._chunk()
        yield self._long_line()
        self.offset += 1  # its newline
        return newline + 1

    def _head(self) -> bytes:
        return b"".join(part[:HEAD_BYTES] for part in self.tail[:HEAD_BYTES])[:HEAD_BYTES]

    def _long_line(self) -> LongLine:
        long_line = LongLine(self.offset, self.line, self.tail_bytes, self._head())
        self.offset += self.tail_bytes
        self.line += 1
        self.stats.lines += 1
        self.tail = []
        self.tail_bytes = 0
        return long_line

    def _end_tail(self) -> None:
        self.whole += self.tail
        self.whole_bytes += self.tail_bytes
        self.tail = []
        self.tail_bytes = 0

    def _chunk(self) -> Chunk:
        data = b"".join(self.whole)
        chunk = Chunk(data, self.offset, self.line)
        lines = count(data, b"\n")
        self.line += lines
        self.stats.lines += lines
        self.offset += self.whole_bytes
        self.whole = []
        self.whole_bytes = 0
        return chunk
