r"""Skimming a part of a corpus: whole lines in a buffer that is used again and again.

    buffer   {"a": 1}\n{"a": 2}\n{"a":           lines to look at, and one that was begun
             {"a": 3}\n{"a": 4}\n                 which is moved to the front before more is read

A small buffer stays in the cache, and no text is copied but the line at its end. The price: the library's reader takes
a shard that is cut for a whole one. Therefore both sizes must be known, as they are of a part; where they do not agree
with what is found, a second, careful look says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import IO, cast

import zstandard

from fastrec.errors import CorpusError
from fastrec.sources.formats import Format
from fastrec.sources.reader import Shard, read_text
from fastrec.storage import storage_of

__all__ = ["skim_lines"]

SKIM_BYTES = 1 << 18  # small enough for the cache; two shards that are read in turns take longer with larger ones

# Each keeps a window of some MiB. Windows that come and go leave holes in the heap, so they are used again.
_idle: list[zstandard.ZstdDecompressor] = []


def skim_lines(shard: Shard, file_bytes: int, text_bytes: int) -> Generator[tuple[bytearray, int]]:
    """Give whole lines: a buffer, and how many of its bytes count until the next lines take their place."""
    total = 0
    if shard.size == file_bytes:
        try:
            for buffer, size in _shard_lines(shard, text_bytes):
                total += size
                yield buffer, size
        except (OSError, zstandard.ZstdError):
            total = -1
        if total == text_bytes:
            return
    size = sum(map(len, read_text(shard)))
    if size != text_bytes:
        reason = f"holds {size:,} bytes of text, and its manifest says {text_bytes:,}"
    elif shard.size == file_bytes and total >= 0:
        reason = "does not end with a newline"
    else:
        reason = "is not the file that its manifest names"
    raise CorpusError(shard.path, f"{reason}: `fastrec verify` names all that is wrong with a corpus")


def _shard_lines(shard: Shard, text_bytes: int) -> Iterator[tuple[bytearray, int]]:
    if shard.format is not Format.ZSTD:
        yield from _lines(_into(read_text(shard)), text_bytes)
        return
    try:
        decompressor = _idle.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        with storage_of(shard.path).open_reader(shard.path) as file:
            reader = decompressor.stream_reader(cast("IO[bytes]", file), read_across_frames=True)
            yield from _lines(reader.readinto, text_bytes)
    finally:
        _idle.append(decompressor)


def _lines(readinto: Callable[[memoryview], int], longest: int) -> Iterator[tuple[bytearray, int]]:
    buffer = bytearray(SKIM_BYTES)
    begun = 0  # bytes of a line whose end is still to come
    while begun <= longest:
        if begun == len(buffer):
            buffer = buffer + bytes(len(buffer))  # another one, since views of this one may be about
        size = readinto(memoryview(buffer)[begun:])
        if not size:
            return
        filled = begun + size
        end = buffer.rfind(b"\n", begun, filled) + 1
        begun = filled - end
        if end:  # else a long line would be moved again and again
            yield buffer, end
            buffer[:begun] = buffer[end:filled]


def _into(blocks: Iterator[bytes]) -> Callable[[memoryview], int]:
    """Hand blocks out as a reader does."""
    rest = memoryview(b"")

    def readinto(view: memoryview) -> int:
        nonlocal rest
        rest = rest or memoryview(next(blocks, b""))
        size = min(len(rest), len(view))
        view[:size] = rest[:size]
        rest = rest[size:]
        return size

    return readinto
