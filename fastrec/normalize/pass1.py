"""Pass 1: from slices of shards to sorted runs.

    read · split · judge · hash · normalize ──▶ buffer ──▶ sort · drop copies · spill

A task takes pieces of shards and gives back counts, fences of its runs, a sample of keys, and where its rejects are.
Nothing of a record travels but through files.
"""

from __future__ import annotations

import heapq
import secrets
from collections import Counter
from functools import lru_cache
from typing import Any, Final

import msgspec

from fastrec.corpus.rejects import RejectRange, rejected_line
from fastrec.engine.collector import collector_off
from fastrec.errors import ShardError, out_of_memory, shown, utf8
from fastrec.judge.batch import Batch, HashReplaced
from fastrec.judge.judge import Judge
from fastrec.judge.shards import invalid_line, judge_slice
from fastrec.normalize.options import Options
from fastrec.sorting.keys import key_maker
from fastrec.sorting.spill import Run, index_of
from fastrec.sorting.spill import spill as spill_run
from fastrec.sources.lines import LongLine, ReadStats
from fastrec.sources.shard import Slice
from fastrec.storage import storage_of
from fastrec.storage.digests import FileDigest, digest_of
from fastrec.summary.rows import row_of

__all__ = ["HASH_EXAMPLES", "PIECES", "Piece", "PieceCounts", "SortResult", "SortTask", "release_buffer", "sort_pieces"]

HASH_EXAMPLES: Final = 10
PIECES: Final = 1 << 24
"""More pieces than a shard is ever cut into: the number of a piece, divided by it, is that of its shard."""
_RECORD_BYTES: Final = 700  # what a record takes in memory beside its text: key, row, numbers


class Piece(msgspec.Struct, frozen=True):
    """A slice of a shard to be judged; a chunk of a shard that was decompressed elsewhere is one too."""

    number: int
    """Of the piece: pieces count up through the shards and within each."""
    shard: int
    """Of the shard that it belongs to."""
    source: str
    """The name of that shard."""
    slice: Slice
    offset: int = 0
    """What to add to offsets within the slice, if it is a chunk."""
    line: int = 1
    """Number of its first line, if it is a chunk."""
    long_lines: tuple[LongLine, ...] = ()
    """Lines before the chunk that were too long."""
    temporary: bool = False
    """A chunk is deleted by whoever gave the order, once it was carried out."""

    def __str__(self) -> str:
        if not self.temporary:
            return str(self.slice)
        return f"{shown(self.source)}, bytes {self.offset + 1:,} to {self.offset + self.slice.shard.size:,} of its text"


class SortTask(msgspec.Struct, frozen=True):
    """What a worker is told."""

    number: int
    pieces: tuple[Piece, ...]
    directory: str
    options: Options
    large: bool = False
    """Whether runs may be larger than usual."""
    one_in: int = 1
    """Which fraction of the keys is sampled."""
    fenced: bool = True
    """Whether the fences of runs are asked for."""

    def __str__(self) -> str:
        return "reading " + "; ".join(map(str, self.pieces))


class PieceCounts(msgspec.Struct):
    """What became of the lines of a piece. Copies that were dropped here are counted by piece, in `SortResult`."""

    number: int
    shard: int
    start: int
    """Where the piece begins in its shard."""
    lines: int = 0
    blank: int = 0
    rejected: int = 0
    text_bytes: int = 0
    bom: bool = False
    raw_start: int = 0
    raw_bytes: int = 0
    raw_hash: str = ""
    """Of what was read of the shard: where it began, how much, and its 128-bit xxh3."""
    error: ShardError | None = None


class SortResult(msgspec.Struct):
    """What a worker gives back."""

    order: int
    pieces: list[PieceCounts] = msgspec.field(default_factory=list)
    runs: list[Run] = msgspec.field(default_factory=list)
    rejects: list[RejectRange] = msgspec.field(default_factory=list)
    codes: Counter[str] = msgspec.field(default_factory=Counter)
    verified: int = 0
    filled: int = 0
    replaced: int = 0
    replaced_examples: list[HashReplaced] = msgspec.field(default_factory=list)
    kept: list[FileDigest] = msgspec.field(default_factory=list)
    """The files that it left in the work directory."""


@collector_off()
def sort_pieces(order: SortTask) -> SortResult:
    """Judge, sort and spill some pieces. Runs in a worker."""
    return _Sorter(order).run()


@lru_cache(maxsize=4)
def _judge(algorithm: str, mode: Any) -> Judge:
    return Judge(algorithm=algorithm, sample_hash=mode)


@lru_cache(maxsize=1)
def _buffer(size: int) -> bytearray:
    """Give the buffer of this process: memory that is touched once and then used by every task."""
    return bytearray(size)


def release_buffer() -> None:
    """Give the buffer back: pass 2 has no use for it."""
    _buffer.cache_clear()


class _Sorter:
    """The state of a task: the buffer that fills up, and what was given up to disk."""

    def __init__(self, order: SortTask) -> None:
        self._order = order
        self._options = order.options
        self._judge = _judge(order.options.hash, order.options.sample_hash)
        self._key_of = key_maker(order.options.sort_fields)
        self._result = SortResult(order.number)
        # A task may be done twice at the same time, if its first worker was taken for dead: to files of other names.
        self._name = f"{order.number:06d}-{secrets.token_hex(4)}"
        self._run_bytes = order.options.large_run_bytes if order.large else order.options.run_bytes
        self._text = _buffer(self._run_bytes)
        self._size = 0  # of the text in the buffer
        self._ends: list[int] = []
        self._keys: list[bytes] = []
        self._rows: list[Any] = []

    def run(self) -> SortResult:
        rejects_path = f"{self._order.directory}/rejects-{self._name}"
        with storage_of(rejects_path).open_writer(rejects_path) as rejects:
            for piece in self._order.pieces:
                start = rejects.tell()
                books = PieceCounts(piece.number, piece.shard, piece.offset + piece.slice.start)
                self._result.pieces.append(books)
                try:
                    self._take(piece, books, rejects)
                except ShardError as exc:
                    books.error = exc
                except MemoryError:
                    books.error = out_of_memory(piece.source)
                self._result.rejects.append(RejectRange(rejects_path, start, rejects.tell(), piece.shard, books.start))
        self._spill()
        self._result.kept.append(digest_of(rejects_path))
        return self._result

    def _take(self, piece: Piece, books: PieceCounts, rejects: Any) -> None:
        stats, max_line_bytes = ReadStats(), self._options.max_line_bytes
        long_lines = [invalid_line(line, max_line_bytes) for line in piece.long_lines]
        self._add(piece, Batch(lines=len(long_lines), rejected=long_lines), bytearray(), books, rejects)
        for judged in judge_slice(
            self._judge,
            piece.slice,
            max_line_bytes=max_line_bytes,
            max_window=self._options.max_window,
            line=piece.line,
            offset=piece.offset,
            stats=stats,
        ):
            if self._size + len(judged.normal) + len(self._keys) * _RECORD_BYTES > self._run_bytes:
                self._spill()
            self._add(piece, judged.batch, judged.normal, books, rejects)
        books.text_bytes, books.bom = stats.text_bytes, stats.bom
        books.raw_start, books.raw_bytes, books.raw_hash = stats.raw_start, stats.raw_bytes, stats.raw_hash

    def _add(self, piece: Piece, batch: Batch, normal: bytearray, books: PieceCounts, rejects: Any) -> None:
        books.lines += batch.lines
        books.blank += batch.blank
        books.rejected += len(batch.rejected)
        for line in batch.rejected:
            self._result.codes[line.findings[0].code] += 1
            rejects.write(rejected_line(utf8(piece.source), line).to_json())
        result, number, key_of = self._result, piece.number, self._key_of
        result.verified += batch.verified
        result.filled += batch.filled
        if batch.replaced:
            result.replaced += len(batch.replaced)
            result.replaced_examples = heapq.nsmallest(
                HASH_EXAMPLES, result.replaced_examples + batch.replaced, key=HashReplaced.sort_key
            )
        start, self._size = self._size, self._size + len(normal)
        self._text[start : self._size] = normal  # in place: the buffer has the room, unless a line is huge
        self._ends += [start + end for end in batch.ends]
        self._keys += [key_of(record) for record in batch.records]
        self._rows += [row_of(record, number, line) for record, line in zip(batch.records, batch.numbers, strict=True)]

    def _spill(self) -> None:
        if not self._keys:
            return
        path = f"{self._order.directory}/run-{self._name}-{len(self._result.runs):04d}"
        run = spill_run(
            path,
            self._text,
            self._ends,
            self._keys,
            self._rows,
            one_in=self._order.one_in,
            fenced=self._order.fenced,
        )
        self._result.runs.append(run)
        self._result.kept.append(FileDigest(path, run.data_bytes, run.data_hash))
        self._result.kept.append(FileDigest(index_of(path), run.index_bytes, run.index_hash))
        self._size = 0
        self._ends, self._keys, self._rows = [], [], []
