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

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct
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


class ReadStats(Struct):
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
    stats = stats or ReadStats()
    line = 1
    # A line without an end so far. It is held as views into the blocks, so that text is copied only
    # once, when a chunk is joined.
    tail: list[memoryview] = []
    tail_bytes = 0  # more than `tail` holds if the line is too long
    # A step is never longer than the limit, so only a line that began in an earlier step can be too
    # long.
    step = max(1, min(chunk_bytes, max_line_bytes))
    is_start = offset == 0
    for block in _gathered(blocks, max(chunk_bytes // 2, len(_BOM))):
        stats.text_bytes += len(block)
        start = 0
        if is_start and block.startswith(_BOM):
            stats.bom = True
            start = offset = len(_BOM)
        is_start = False
        view = memoryview(block)
        for begin in range(start, len(block), step):
            end = min(begin + step, len(block))
            if tail_bytes + end - begin > max_line_bytes:
                newline = block.find(b"\n", begin, end)
                stop = end if newline < 0 else newline
                if tail_bytes + stop - begin > max_line_bytes:
                    # All but the head of the line is dropped.
                    tail_bytes += stop - begin
                    tail = [memoryview(_head([*tail, view[begin:stop]]))]
                    begin = stop
                    if newline >= 0:
                        stats.lines += 1
                        yield LongLine(offset, line, tail_bytes, bytes(tail[0]))
                        offset += tail_bytes + 1  # with its newline
                        line += 1
                        tail = []
                        tail_bytes = 0
                        begin += 1
            cut = block.rfind(b"\n", begin, end) + 1
            if cut:
                is_whole = cut - begin == len(block) and not tail
                data = block if is_whole else b"".join([*tail, view[begin:cut]])
                tail = []  # before the chunk is used: a long line is held only once
                tail_bytes = 0
                lines = count_newlines(data)
                stats.lines += lines
                yield Chunk(data, offset, line)
                offset += len(data)
                line += lines
                begin = cut
                del data
            if begin < end:
                tail.append(view[begin:end])
                tail_bytes += end - begin
    stats.lines += bool(tail)
    if tail_bytes > max_line_bytes:
        yield LongLine(offset, line, tail_bytes, _head(tail))
    elif tail:
        data = b"".join(tail)
        tail.clear()
        yield Chunk(data, offset, line)


def _head(line: list[memoryview]) -> bytes:
    return b"".join(part[:_HEAD_BYTES] for part in line[:_HEAD_BYTES])[:_HEAD_BYTES]


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
        newline = block.find(b"\n")
        if newline >= 0:
            return offset + newline + 1
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
