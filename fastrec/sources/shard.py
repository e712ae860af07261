"""Shards, their slices, and tasks of slices: JSONL, the input format of fastrec, and Parquet.

    names ── discover ──▶ shards ── slice ──▶ slices, grouped into tasks ── read ──▶ chunks of lines

`inputs.find_shards` discovers. Many small shards share a task; a large plain file is cut into byte
ranges, which own the lines that start in them. A compressed shard is one slice, however large. A
slice of Parquet is a byte range, too; it owns the row groups whose share of all row groups begins
there. The tasks depend on the shards only, never on the number of jobs.

Reading a slice, in this order:

1. Open the file, pipe, standard input (`-`) or object.
2. For a byte range, find the lines that start in it.
3. Detect the compression by the first bytes, without seeking, and decompress. Rows of Parquet
   become lines instead.
4. Cut the text into chunks of whole lines.
5. After the last byte, check that the file has not changed since it was found.

Every failure raises a ShardError with the path, possibly after some chunks: a shard counts only
once it is read to its end.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import chain
from typing import Protocol, TypeVar, cast

from msgspec import Struct
from xxhash import xxh3_128

from fastrec.errors import ShardCorruptError, ShardError, ShardMissingError, shown
from fastrec.limits import LIMITS
from fastrec.sources.formats import (
    MAGIC_BYTES,
    MAX_WINDOW,
    Format,
    detect,
    json_lines,
    parquet_module,
    text_of,
)
from fastrec.sources.lines import (
    MAX_LINE_BYTES,
    ChunkOrLine,
    LongLine,
    ReadStats,
    chunks,
    line_start,
)
from fastrec.sources.zstd_frames import TEXT_BYTES
from fastrec.storage import is_url, open_reader
from fastrec.storage.base import Reader
from fastrec.storage.local import LOCAL, why_irregular

STDIN = "-"

_READ_BYTES = 1 << 20
_LITTLE_TEXT = 512 << 10  # text of zstd that is held for a caller who holds little
_SMALLEST = 4 << 20  # bytes of a slice or a task
_FEWEST = 16  # slices of a shard, or tasks, unless they would be smaller than that

# the last tasks have this fraction of the text that is left, and at least of the size of the others
_LAST = 4

# Bytes of text per byte of a file, estimated; real records gave 3.3 to 12.
_EXPANSION = {
    Format.PLAIN: 1,
    Format.ZSTD: 4,
    Format.GZIP: 4,
    Format.BZ2: 5,
    Format.XZ: 5,
    Format.PARQUET: 5,
}


class ListedFile(Struct, frozen=True):
    """What the manifest of a corpus says about a file."""

    file: str
    bytes: int
    sha256: str


class Listed(ListedFile, frozen=True):
    """What the manifest of a corpus says about a part."""

    records: int
    text_bytes: int = 0
    text_xxh3_128: str = ""
    columns: ListedFile | None = None


class Shard(Struct, frozen=True):
    """A file of lines as discovery found it; small, hashable, and picklable."""

    path: str
    size: int  # size of the file in bytes; 0 for a stream
    # The format; None if the first bytes could not be read yet: a stream, or a file that
    # cannot be opened.
    format: Format | None
    version: int = 0  # changes when the file does; 0 if that is not known
    # Standard input, a pipe or a device: it can be read once, from the start, and only by this
    # process.
    stream: bool = False
    file_id: int = 0  # the inode; 0 for a stream and in an object store
    # if it is a part of a corpus: what it must be, which is checked while it is read
    listed: Listed | None = None
    trusted: bool = False  # whether its lines are known to be records in normal form of the target
    # whether a trusted part is read like a run: few other ones have keys in its range
    is_run: bool = False
    # For a trusted part: how this build compressed it, such as `zst 3`; empty if another build may
    # have made it.
    compression: str = ""

    @property
    def signature(self) -> str:
        """The signature of the file as it was found, as in `LocalStorage.signature`.

        Empty for a stream. Of a part, also what its manifest says, by which it may be refused, and
        whether its lines are taken without judging them although another build may have made them.
        """
        if self.stream:
            return ""
        signature = f"{self.size}-{self.version}"
        if not is_url(self.path):
            signature += f"-{self.file_id}"
        if self.listed:
            is_taken = self.trusted and not self.compression
            signature += f"/{self.listed.sha256} {self.listed.records} {is_taken}"
        return signature

    @property
    def splittable(self) -> bool:
        # its checksum is of all bytes
        has_ranges = self.format in (Format.PLAIN, Format.PARQUET)
        return has_ranges and not self.stream and not self.listed

    @property
    def estimated_text(self) -> int:
        return self.size * _EXPANSION[self.format or Format.PLAIN]

    def slices(self, slice_bytes: int) -> Iterator[Slice]:
        """Cut the shard into slices of at most about `slice_bytes`.

        A shard that is not splittable is one slice.

        The cuts depend on this shard only, so that results for its slices stay usable when other
        shards are added.
        """
        slice_bytes = min(slice_bytes, max(self.size // _FEWEST, _SMALLEST))
        if not self.splittable or self.size <= slice_bytes + slice_bytes // 2:
            yield Slice(self)
            return
        count = -(-self.size // slice_bytes)
        cuts = [self.size * number // count for number in range(count)]
        for start, end in zip(cuts, [*cuts[1:], None], strict=True):
            yield Slice(self, start, end)

    def read(
        self,
        start: int = 0,
        end: int | None = None,
        *,
        chunk_bytes: int = LIMITS.chunk_bytes,
        max_line_bytes: int = MAX_LINE_BYTES,
        max_window: int = MAX_WINDOW,
        text_bytes: int = TEXT_BYTES,
        stats: ReadStats | None = None,
    ) -> Iterator[ChunkOrLine]:
        """Read the lines that start in a byte range; only a splittable shard can be read in ranges.

        Zstd is decompressed `text_bytes` at a time: give less to read only the first lines.
        """
        stats = stats or ReadStats()
        before = stats.lines
        with self._opened() as source:
            size = None
            stats.raw_start = 0
            if (start, end) != (0, None):
                assert self.splittable
                stats.raw_start, size = self._own_bytes(source, start, end)
                source.seek(stats.raw_start, size)
            text = self._raw_blocks(source, size, stats)
            if self.format is Format.PARQUET:
                # The bytes are hashed after the rows: who needs only the first ones stops.
                rows = parquet_module(self.path).lines(self.path, source, start, end)
                text = chain(rows, (b"" for _ in text))
            elif stats.raw_start == 0:
                text = json_lines(text_of(text, self.path, max_window, text_bytes), self.path)
            yield from chunks(
                text,
                chunk_bytes=chunk_bytes,
                max_line_bytes=max_line_bytes,
                offset=stats.raw_start,
                stats=stats,
            )
        if self.listed:
            self._compare("records", self.listed.records, stats.lines - before)

    def read_text(self) -> Iterator[bytes]:
        """Read the text in blocks of any size, for callers that need no lines."""
        with self._opened() as source:
            yield from text_of(
                self._raw_blocks(source, None, ReadStats()), self.path, MAX_WINDOW, _LITTLE_TEXT
            )

    def check(self) -> ReadStats:
        """Compare a part of a corpus with what its manifest says, without decompressing it."""
        assert self.listed
        stats = ReadStats(lines=self.listed.records, text_bytes=self.listed.text_bytes)
        with self._opened() as source:
            for _ in self._raw_blocks(source, None, stats):
                pass
        return stats

    def own_bytes(self, start: int, end: int | None) -> tuple[int, int]:
        """Find offset and length of the lines that start in a range of the file as it is now.

        A change of Parquet anywhere may change the rows of all of its slices.
        """
        with self._opened(as_found=self.format is Format.PARQUET) as source:
            return self._own_bytes(source, start, end)

    @contextmanager
    def _opened(self, *, as_found: bool = True) -> Iterator[Reader]:
        """Open the file, and check that it is still as it was found and does not change."""
        if self.path == STDIN:
            if sys.stdin is None:
                raise ShardMissingError(STDIN, "there is no standard input")
            # only `read` is used, since it is not splittable
            yield cast("Reader", sys.stdin.buffer)
            return
        try:
            source = (
                LOCAL.open_reader(self.path, stream=True) if self.stream else open_reader(self.path)
            )
        except (OSError, ValueError) as exc:
            raise ShardMissingError(self.path, _reason("cannot be opened", exc)) from exc
        with source:
            must_match = as_found and not self.stream and self.version
            if must_match and (source.size, source.version) != (self.size, self.version):
                raise ShardError(
                    self.path,
                    "changed after it was found: wait until it is complete, and run again",
                )
            yield source
            if not self.stream and source.has_changed():
                raise ShardError(
                    self.path, "changed while it was read: wait until it is complete, and run again"
                )

    def _own_bytes(self, source: Reader, start: int, end: int | None) -> tuple[int, int]:
        if self.format is Format.PARQUET:
            return start, (source.size if end is None else end) - start
        try:
            first = min(source.size, line_start(source.pread, start))
            if end is None:
                beyond = source.size
            # a range inside one huge line owns nothing: no need to look for that line's end twice
            else:
                beyond = first if first >= end else min(source.size, line_start(source.pread, end))
        except OSError as exc:
            raise ShardError(self.path, _reason("cannot be read", exc), start) from exc
        return first, beyond - first

    def _raw_blocks(self, source: Reader, size: int | None, stats: ReadStats) -> Iterator[bytes]:
        """Read `size` bytes, or up to the end, and count and hash them in `stats`."""
        digest = xxh3_128()
        checksum = sha256() if self.listed else None
        before = stats.raw_bytes
        while size is None or size > 0:
            try:
                block = source.read(_READ_BYTES if size is None else min(size, _READ_BYTES))
            except OSError as exc:
                raise ShardError(
                    self.path, _reason("cannot be read", exc), stats.raw_bytes
                ) from exc
            if not block:
                break
            stats.raw_bytes += len(block)
            digest.update(block)
            if checksum:
                checksum.update(block)
            if size is not None:
                size -= len(block)
            yield block
        stats.raw_hash = digest.hexdigest()
        if checksum and self.listed:
            self._compare("bytes", self.listed.bytes, stats.raw_bytes - before)
            self._compare("SHA-256", self.listed.sha256, checksum.hexdigest())

    def _compare(self, what: str, listed: int | str, actual: int | str) -> None:
        if actual != listed:
            form = "listed {:,}, found {:,}" if isinstance(listed, int) else "listed {}, found {}"
            hint = "`fastrec verify` lists everything that is wrong with a corpus"
            difference = f"{what}: {form.format(listed, actual)}; {hint}"
            raise ShardCorruptError(
                self.path, f"is not the part that its manifest lists: {difference}"
            )


Shards = Sequence[Shard]


class Slice(Struct, frozen=True):
    """A byte range of a shard; the whole shard by default."""

    shard: Shard
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        if (self.start, self.end) == (0, None):
            return shown(self.shard.path)
        end = self.start + self.size
        return f"{shown(self.shard.path)}, bytes {self.start:,} to {end:,}"

    @property
    def size(self) -> int:
        return (self.shard.size if self.end is None else self.end) - self.start

    @property
    def estimated_text(self) -> int:
        return self.size * _EXPANSION[self.shard.format or Format.PLAIN]


def shard_at(path: str, *, may_be_stream: bool = False) -> Shard:
    """Find the shard at a path (`-` is standard input); ShardMissingError if there is none.

    Only a path that the user names may be a stream, such as a FIFO: reading one may wait for ever.
    """
    if path == STDIN:
        return Shard(path, 0, None, stream=True)
    if is_url(path):
        try:
            with open_reader(path) as source:
                return Shard(
                    path, source.size, detect(source.pread(MAGIC_BYTES, 0)), source.version
                )
        except FileNotFoundError as exc:
            raise ShardMissingError(path, _reason("cannot be found", exc)) from exc
        except OSError as exc:
            raise ShardError(path, _reason("cannot be read", exc)) from exc
    try:
        status = os.stat(path)
    except (OSError, ValueError) as exc:
        raise ShardMissingError(path, _reason("cannot be found", exc)) from exc
    if stat.S_ISDIR(status.st_mode):
        raise ShardMissingError(path, "is a directory")
    if reason := why_irregular(status):
        if not may_be_stream:
            raise ShardMissingError(path, reason)
        # reading the first bytes of a pipe would consume them
        return Shard(path, 0, None, stream=True)
    try:
        with LOCAL.open_reader(path) as file:
            format_ = detect(file.read(MAGIC_BYTES))
    except OSError:
        format_ = None  # reading the shard will report the error
    return Shard(path, status.st_size, format_, status.st_mtime_ns, file_id=status.st_ino)


def numbered_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Read the lines of a file of a corpus, however long, numbered from 1.

    ShardError if that is not possible.
    """
    for chunk in shard_at(path).read(max_line_bytes=sys.maxsize):
        assert not isinstance(chunk, LongLine)
        yield from enumerate(chunk.data.removesuffix(b"\n").split(b"\n"), chunk.line)


def _reason(what: str, exc: Exception) -> str:
    return f"{what}: {exc.strerror if isinstance(exc, OSError) and exc.strerror else exc}"


# Tasks


class _Sized(Protocol):
    @property
    def estimated_text(self) -> int: ...


_Piece = TypeVar("_Piece", bound=_Sized)


def total_text(sources: Iterable[_Sized]) -> int:
    return sum(source.estimated_text for source in sources)


class TextEstimate:
    """Estimates the text of all sources, better as they are read.

    Compressed ones expand more or less.
    """

    def __init__(self, sources: Shards) -> None:
        self._whole = 0 if any(source.stream for source in sources) else total_text(sources)
        self._estimated = self._actual = 0

    def add(self, estimated: int, actual: int) -> None:
        self._estimated += estimated
        self._actual += actual

    @property
    def total(self) -> int:
        """The text of all sources; 0 if it is not known, because one of them is a stream."""
        if not self._whole or not self._estimated:
            return self._whole
        return self._whole * self._actual // self._estimated


def tasks_of(sources: Iterable[Shard], task_bytes: int) -> list[tuple[Slice, ...]]:
    return gather_tasks(
        [piece for source in sources for piece in source.slices(task_bytes)], task_bytes
    )


def gather_tasks(slices: Sequence[_Piece], task_bytes: int) -> list[tuple[_Piece, ...]]:
    """Group slices, or other pieces of work, into tasks of about `task_bytes`.

    They are smaller if there would be too few of them to share, and become smaller towards the end,
    so that all workers end at about the same time.
    """
    left = total_text(slices)
    task_bytes = min(task_bytes, max(left // _FEWEST, _SMALLEST))
    tasks: list[list[_Piece]] = []
    size = most = 0
    for piece in slices:
        if not tasks or size + piece.estimated_text > most:
            tasks.append([])
            size = 0
            most = min(task_bytes, max(left // _LAST, task_bytes // _LAST, _SMALLEST))
        tasks[-1].append(piece)
        size += piece.estimated_text
        left -= piece.estimated_text
    return list(map(tuple, tasks))
