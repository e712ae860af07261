"""Reading a shard: the one way from a path to chunks of lines.

1. Open it: a file, a pipe by its path, standard input (`-`), or an object of a store.
2. If a byte range is asked for, find the lines that it owns.
3. Tell the format by the first bytes, without seeking, and decompress.
4. Cut the text into chunks of whole lines.
5. Behind the last byte, make sure that the file is still the one that was opened.

Whatever goes wrong raises a ShardError with the path, possibly after some chunks were handed out: a shard
counts only once its iterator is exhausted.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import cast

import msgspec
from xxhash import xxh3_128

from fastrec.errors import ShardCorruptError, ShardError, ShardMissingError
from fastrec.sources.decompress import MAX_WINDOW, decompress
from fastrec.sources.formats import MAGIC_BYTES, Format, detect, format_of_name, is_text
from fastrec.sources.lines import CHUNK_BYTES, MAX_LINE_BYTES, Chunk, LongLine, ReadStats, chunks, line_start
from fastrec.storage import storage_of
from fastrec.storage.base import Reader
from fastrec.storage.paths import is_url

__all__ = ["STDIN", "Shard", "own_bytes", "read_shard", "read_text", "shard_at"]

STDIN = "-"
READ_BYTES = 1 << 20
TEXT_SAMPLE = 1 << 12


class Shard(msgspec.Struct, frozen=True):
    """An input file as it was found; small, hashable, and picklable for the way to a worker."""

    path: str
    size: int
    """In bytes, as stored; 0 for a stream."""
    format: Format | None
    """None if the first bytes could not be looked at yet: a stream, or a file that may not be opened."""
    version: int = 0
    """Changes when the file does; 0 if that is not known."""
    stream: bool = False
    """Standard input, a pipe or a device: can be read once, from the start, and only by this process."""

    @property
    def splittable(self) -> bool:
        """Whether byte ranges of it can be read on their own."""
        return self.format is Format.PLAIN and not self.stream


def shard_at(path: str) -> Shard:
    """Look at what stands at a path (`-`: standard input); ShardMissingError if nothing readable does."""
    if path == STDIN:
        return Shard(path, 0, None, stream=True)
    if is_url(path):
        return _object_at(path)
    try:
        status = os.stat(path)  # noqa: PTH116 - paths stay the str that was given
    except (OSError, ValueError) as exc:
        raise ShardMissingError(path, _reason("cannot be found", exc)) from exc
    if stat.S_ISDIR(status.st_mode):
        raise ShardMissingError(path, "is a directory")
    if not stat.S_ISREG(status.st_mode):
        return Shard(path, 0, None, stream=True)  # looking at a pipe's first bytes would take them away
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - paths stay the str that was given
            format_ = detect(file.read(MAGIC_BYTES))
    except OSError:
        format_ = None  # reading it will say why
    return Shard(path, status.st_size, format_, status.st_mtime_ns)


def _object_at(path: str) -> Shard:
    try:
        with storage_of(path).open_reader(path) as source:
            return Shard(path, source.size, detect(source.pread(MAGIC_BYTES, 0)), source.version)
    except FileNotFoundError as exc:
        raise ShardMissingError(path, _reason("cannot be found", exc)) from exc
    except OSError as exc:
        raise ShardError(path, _reason("cannot be read", exc)) from exc


def read_shard(
    shard: Shard,
    *,
    start: int = 0,
    end: int | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_window: int = MAX_WINDOW,
    stats: ReadStats | None = None,
) -> Iterator[Chunk | LongLine]:
    """The lines of a shard that start in the byte range; only a splittable shard can be read in part."""
    if (start, end) != (0, None) and not shard.splittable:
        raise ValueError(f"{shard.path}: only plain files can be read in ranges")
    stats = ReadStats() if stats is None else stats

    def read() -> Iterator[Chunk | LongLine]:  # apart, so that a wrong range is refused at the call
        with _opened(shard) as source:
            first, size = 0, None
            if (start, end) != (0, None):
                first, size = _own_bytes(shard.path, source, start, end)
                source.seek(first, size)
            stats.raw_start = first
            text = _raw_blocks(source.read, shard.path, size, stats)
            if first == 0:
                text = _text(text, shard.path, max_window)
            yield from chunks(text, chunk_bytes=chunk_bytes, max_line_bytes=max_line_bytes, offset=first, stats=stats)

    return read()


def read_text(shard: Shard, *, max_window: int = MAX_WINDOW) -> Iterator[bytes]:
    """The text of a shard in blocks that are cut anywhere: for those who need no lines."""
    with _opened(shard) as source:
        yield from _text(_raw_blocks(source.read, shard.path, None, ReadStats()), shard.path, max_window)


@contextlib.contextmanager
def _opened(shard: Shard) -> Iterator[Reader]:
    """Open a shard, and see that it stays what it was found as."""
    if shard.path == STDIN:
        if sys.stdin is None:
            raise ShardMissingError(STDIN, "there is no standard input")
        yield cast("Reader", sys.stdin.buffer)  # read from front to back, which is all that a stream can do
        return
    try:
        source = storage_of(shard.path).open_reader(shard.path)
    except (OSError, ValueError) as exc:
        raise ShardMissingError(shard.path, _reason("cannot be opened", exc)) from exc
    with source:
        if not shard.stream and shard.version and (source.size, source.version) != (shard.size, shard.version):
            raise ShardError(shard.path, "changed after it was found: wait until it is complete, and run again")
        yield source
        if not shard.stream and source.has_changed():
            raise ShardError(shard.path, "changed while it was read: wait until it is complete, and run again")


def own_bytes(shard: Shard, start: int, end: int | None) -> tuple[int, int]:
    """Where the bytes begin that belong to a range of a shard as it is now, and how many there are."""
    with _opened(msgspec.structs.replace(shard, version=0)) as source:
        if (start, end) == (0, None):
            return 0, source.size
        return _own_bytes(shard.path, source, start, end)


def _own_bytes(path: str, source: Reader, start: int, end: int | None) -> tuple[int, int]:
    """Where the lines of a range begin and how many bytes they take."""
    try:

        def boundary(position: int) -> int:
            return min(source.size, line_start(lambda offset, count: source.pread(count, offset), position))

        first = boundary(start)
        # A range in the middle of one huge line owns nothing: no need to look for that line's end twice.
        beyond = first if end is not None and first >= end else source.size if end is None else boundary(end)
    except OSError as exc:
        raise ShardError(path, _reason("cannot be read", exc), start) from exc
    return first, beyond - first


def _raw_blocks(read: Callable[[int], bytes], path: str, size: int | None, stats: ReadStats) -> Iterator[bytes]:
    """Blocks of `size` bytes in all, or up to the end, counted and hashed in `stats`."""
    digest = xxh3_128()
    while size is None or size > 0:
        try:
            block = read(READ_BYTES if size is None else min(size, READ_BYTES))
        except OSError as exc:
            raise ShardError(path, _reason("cannot be read", exc), stats.raw_bytes) from exc
        if not block:
            break
        stats.raw_bytes += len(block)
        digest.update(block)
        if size is not None:
            size -= len(block)
        yield block
    stats.raw_hash = digest.hexdigest()


def _text(raw: Iterator[bytes], path: str, max_window: int) -> Iterator[bytes]:
    """Tell the format by the first bytes, and decompress."""
    head = b""
    while len(head) < MAGIC_BYTES and (block := next(raw, b"")):  # a pipe may give a byte at a time
        head = head + block if head else block
    format_ = detect(head)
    if format_ is Format.PLAIN and head:
        _refuse_broken_magic(path, head)
    return decompress(format_, chain((head,), raw), path=path, max_window=max_window)


def _refuse_broken_magic(path: str, head: bytes) -> None:
    """A file that is called compressed and is not must be text, else its very first bytes are damaged."""
    promised = format_of_name(path)
    if promised not in (None, Format.PLAIN) and not is_text(head[:TEXT_SAMPLE]):
        assert promised is not None
        raise ShardCorruptError(path, f"is neither {promised.value}, as its name says, nor text", 0)


def _reason(what: str, exc: Exception) -> str:
    return f"{what}: {exc.strerror if isinstance(exc, OSError) and exc.strerror else exc}"
