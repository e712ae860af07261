r"""Cut blocks of text into chunks of whole lines, without parsing: a line ends with a newline byte.

    blocks      ...}\n{"a": 1}\n{"a" | : 2}\n{"a": 3}\n{ | "a": 4}\n
    chunks      ...}\n{"a": 1}\n       {"a": 2}\n{"a": 3}\n  {"a": 4}\n

1. Blocks of less than half a chunk are joined.
2. A UTF-8 byte order mark at byte 0 of the text is dropped; its three bytes still count in offsets.
3. Each step goes through a piece of a block that is not larger than a chunk. It searches for the
   last newline backwards. The bytes up to it, after `tail`, are a chunk, and the rest is the next
   `tail`. This is the only copy of the text here. A block of whole lines becomes a chunk as it is:
   the reader of zstd makes such blocks.

A line longer than `max_line_bytes` is yielded as a `LongLine`: it is measured to its end, but never
held.

A plain file can be read in byte ranges. A range owns the lines that start in it, so `line_start` of
its two ends gives exactly its bytes, and any cut of a file into ranges assigns every line to one
range.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

import msgspec
from stringzilla import bytesum, count, translate

from fastrec.limits import LIMITS

MAX_LINE_BYTES = 1 << 30
_HEAD_BYTES = 1 << 10
_BOM = b"\xef\xbb\xbf"
_SCAN_BYTES = 64 << 10
_IS_NEWLINE = bytes(byte == ord("\n") for byte in range(256))


class Chunk(NamedTuple):
    """Whole lines of a shard; only the last chunk may lack its last newline."""

    data: bytes
    offset: int  # offset of `data` in the text; a byte order mark counts as text
    # number of its first line, from 1; in a byte range, counted from the first line that the range
    # owns
    line: int


class LongLine(NamedTuple):
    """A line that is longer than the limit."""

    offset: int
    line: int
    length: int  # length in bytes, without the newline
    head: bytes


ChunkOrLine = Chunk | LongLine


class ReadStats(msgspec.Struct):
    """Statistics of reading; complete once the iterator that fills them is exhausted."""

    bom: bool = False
    lines: int = 0
    text_bytes: int = 0
    raw_bytes: int = 0  # bytes read from the file; equal to `text_bytes` if it is plain
    raw_start: int = 0  # offset of the first of them in the file
    raw_hash: str = ""  # their 128-bit xxh3


def chunks(
    blocks: Iterable[bytes],
    *,
    chunk_bytes: int = LIMITS.chunk_bytes,
    max_line_bytes: int = MAX_LINE_BYTES,
    offset: int = 0,
    stats: ReadStats | None = None,
) -> Iterator[ChunkOrLine]:
    """Cut text that starts at `offset` into chunks of about `chunk_bytes`, of whole lines."""
    stats = ReadStats() if stats is None else stats
    cutter = _Cutter(chunk_bytes, max_line_bytes, offset, stats)
    for number, block in enumerate(_gathered(blocks, max(chunk_bytes // 2, len(_BOM)))):
        stats.text_bytes += len(block)
        start = 0
        if number == offset == 0 and block.startswith(_BOM):
            stats.bom = True
            start = cutter.offset = len(_BOM)
        yield from cutter.feed(block, start)
    yield from cutter.finish()


def count_newlines(text: bytes | memoryview) -> int:
    """Count newlines at memory speed: by searching where there are few, else byte by byte."""
    few = bytes(text[::251]).count(b"\n") <= len(text) >> 13  # at most one byte in 32, by a sample
    newlines: int = count(text, b"\n") if few else bytesum(translate(text, _IS_NEWLINE))
    return newlines


def line_start(
    pread: Callable[[int, int], bytes], position: int, scan_bytes: int = _SCAN_BYTES
) -> int:
    """Find the offset of the first line that starts at or after `position`.

    If there is none, it is the end of the text.

    `pread(size, offset)` reads up to `size` bytes of the text, and none at its end.
    """
    if position == 0:
        return 0
    offset = position - 1  # after a newline just before `position`, a line starts at `position`
    while block := pread(scan_bytes, offset):
        found = block.find(b"\n")
        if found >= 0:
            return offset + found + 1
        offset += len(block)
    return offset


def _gathered(blocks: Iterable[bytes], small_block: int) -> Iterator[bytes]:
    """Join small blocks, since a line of millions of tiny ones would cost an object for each."""
    small: list[bytes] = []
    size = 0
    for block in blocks:
        if not small and len(block) >= small_block:
            yield block
            continue
        small.append(block)
        size += len(block)
        if size >= small_block:
            yield b"".join(small)
            small = []
            size = 0
    if small:
        yield b"".join(small)


class _Cutter(msgspec.Struct):
    """The state between two blocks: `tail` is a line without an end so far.

    It holds views into the blocks instead of slices, so that text is copied only once, when a chunk
    is joined.
    """

    chunk_bytes: int
    max_line_bytes: int
    offset: int  # of the first byte of the tail
    stats: ReadStats
    line: int = 1
    tail: list[memoryview] = []
    tail_bytes: int = 0  # more than `tail` holds if the line is too long

    def feed(self, block: bytes, start: int) -> Iterator[ChunkOrLine]:
        """Process the next block from `start` on, and yield the chunks that it completes."""
        view = memoryview(block)
        # A step is never longer than the limit, so only a line that began in an earlier step can be
        # too long.
        step = max(1, min(self.chunk_bytes, self.max_line_bytes))
        for begin in range(start, len(block), step):
            end = min(begin + step, len(block))
            if self.tail_bytes + end - begin > self.max_line_bytes:
                begin = yield from self._pass_long_line(block, view, begin, end)
            cut = block.rfind(b"\n", begin, end) + 1
            if cut:
                is_whole = cut - begin == len(block) and not self.tail
                yield self._chunk(block if is_whole else b"".join([*self.tail, view[begin:cut]]))
                begin = cut
            if begin < end:
                self.tail.append(view[begin:end])
                self.tail_bytes += end - begin

    def finish(self) -> Iterator[ChunkOrLine]:
        """Yield the rest, a line without a newline."""
        if self.tail_bytes > self.max_line_bytes:
            yield self._long_line()
        elif self.tail:
            self.stats.lines += 1
            yield self._chunk(b"".join(self.tail))

    def _pass_long_line(
        self, block: bytes, view: memoryview, begin: int, end: int
    ) -> Generator[ChunkOrLine, None, int]:
        """Drop all but the head of the current line if it is too long.

        Return where to continue in the block.
        """
        newline = block.find(b"\n", begin, end)
        stop = end if newline < 0 else newline
        if self.tail_bytes + stop - begin <= self.max_line_bytes:
            return begin
        self.tail.append(view[begin:stop])
        self.tail_bytes += stop - begin
        self.tail = [memoryview(self._head())]
        if newline < 0:
            return end
        yield self._long_line()
        return newline + 1

    def _head(self) -> bytes:
        return b"".join(part[:_HEAD_BYTES] for part in self.tail[:_HEAD_BYTES])[:_HEAD_BYTES]

    def _long_line(self) -> LongLine:
        """The tail, a line that is too long."""
        line = LongLine(self.offset, self.line, self.tail_bytes, self._head())
        self._pass(self.tail_bytes + 1, 1)  # with its newline
        return line

    def _chunk(self, data: bytes) -> Chunk:
        """Make a chunk of the tail and what completes it."""
        chunk = Chunk(data, self.offset, self.line)
        self._pass(len(data), count_newlines(data))
        return chunk

    def _pass(self, size: int, lines: int) -> None:
        self.offset += size
        self.line += lines
        self.stats.lines += lines
        self.tail = []
        self.tail_bytes = 0
