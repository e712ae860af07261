r"""Skimming a part of a corpus: whole lines in a buffer that is reused for the whole part.

    buffer   {"a": 1}\n{"a": 2}\n{"a":           two whole lines, and the beginning of a third
             {"a": 3}\n{"a": 4}\n                that beginning moves to the front before more is read

A small buffer stays in the processor's cache, and the only text copied is the incomplete line at its end. The price:
zstandard's reader does not notice a truncated file. So the sizes in the manifest are compared with what was read. If
they differ, the part is read again by the reader that checks everything, to find out what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import IO, cast

import zstandard

from fastrec.corpus.scan import VERIFY_HINT, PartFile
from fastrec.errors import CorpusError
from fastrec.limits import LIMITS, Limits
from fastrec.sources.formats import Format
from fastrec.sources.shard import Shard, shard_at
from fastrec.storage import storage_of

__all__ = ["skim_lines"]

# Each decompressor has a window of some MiB. Reusing them avoids holes in the heap.
_idle: list[zstandard.ZstdDecompressor] = []


def skim_lines(part: PartFile, limits: Limits = LIMITS) -> Generator[tuple[bytearray, int]]:
    """Yield whole lines: a buffer, and how many of its bytes are valid until the next step overwrites them."""
    shard = shard_at(part.path)
    file_bytes, text_bytes = part.entry.bytes, part.entry.text_bytes
    total = 0
    if shard.size == file_bytes:
        try:
            for buffer, size in _shard_lines(shard, text_bytes, limits.skim_bytes):
                total += size
                yield buffer, size
        except (OSError, zstandard.ZstdError):
            total = -1
        if total == text_bytes:
            return
    size = sum(map(len, shard.read_text()))
    if size != text_bytes:
        reason = f"has {size:,} bytes of text, but the manifest says {text_bytes:,}"
    elif shard.size == file_bytes and total >= 0:
        reason = "does not end with a newline"
    else:
        reason = "is not the file that the manifest describes"
    raise CorpusError(shard.path, f"{reason}; {VERIFY_HINT}")


def _shard_lines(shard: Shard, text_bytes: int, buffer_bytes: int) -> Iterator[tuple[bytearray, int]]:
    if shard.format is not Format.ZSTD:
        yield from _lines(_readinto(shard.read_text()), text_bytes, buffer_bytes)
        return
    decompressor = _idle.pop() if _idle else zstandard.ZstdDecompressor()
    try:
        with storage_of(shard.path).open_reader(shard.path) as file:
            reader = decompressor.stream_reader(cast("IO[bytes]", file), read_across_frames=True)
            yield from _lines(reader.readinto, text_bytes, buffer_bytes)
    finally:
        _idle.append(decompressor)


def _lines(readinto: Callable[[memoryview], int], longest: int, buffer_bytes: int) -> Iterator[tuple[bytearray, int]]:
    buffer = bytearray(buffer_bytes)
    begun = 0  # bytes of an incomplete line at the start of the buffer
    while begun <= longest:
        if begun == len(buffer):
            buffer = buffer + bytes(len(buffer))  # a new object: a caller may still hold a view of the old one
        size = readinto(memoryview(buffer)[begun:])
        if not size:
            return
        filled = begun + size
        end = buffer.rfind(b"\n", begun, filled) + 1
        begun = filled - end
        if end:  # without a newline nothing moves: moving a long line on every read would take quadratic time
            yield buffer, end
            buffer[:begun] = buffer[end:filled]


def _readinto(blocks: Iterator[bytes]) -> Callable[[memoryview], int]:
    """Return a function that copies blocks into a buffer, like the `readinto` of a file."""
    rest = memoryview(b"")

    def readinto(view: memoryview) -> int:
        nonlocal rest
        rest = rest or memoryview(next(blocks, b""))
        size = min(len(rest), len(view))
        view[:size] = rest[:size]
        rest = rest[size:]
        return size

    return readinto
