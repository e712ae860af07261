"""Pieces of input, and the results of the tasks of both passes. These results are also the entries of the journal."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fastrec.corpus.writer import Written
from fastrec.errors import ShardError, shown
from fastrec.judge.batch import HashReplaced
from fastrec.normalize.repairs import RepairCounts
from fastrec.sorting.spill import Run
from fastrec.sources.lines import LongLine, ReadStats
from fastrec.sources.shard import Slice
from fastrec.storage.digests import FileDigest

__all__ = ["PIECES", "MergedRun", "Part", "Piece", "PieceCounts", "SortResult", "hash_examples", "stopped_result"]

PIECES: Final = 1 << 24
"""More pieces than a shard is ever cut into. The number of a piece divided by this is the number of its shard."""
_EXAMPLES: Final = 10


class Piece(msgspec.Struct, frozen=True):
    """A slice of a shard, or a chunk of a shard that the driver decompressed."""

    number: int  # pieces are numbered in the order of shards and within each shard
    shard: int  # number of its shard
    source: str  # path of its shard
    slice: Slice  # what to read: a slice of the shard, or the temporary file of the chunk
    offset: int = 0  # for a chunk: added to offsets in its file
    line: int = 1  # for a chunk: number of its first line
    long_lines: tuple[LongLine, ...] = ()  # for a chunk: lines before it that were too long
    temporary: bool = False
    """Whether it is a chunk. The driver deletes its file when the task is done."""

    def __str__(self) -> str:
        if not self.temporary:
            return str(self.slice)
        return f"{shown(self.source)}, bytes {self.offset + 1:,} to {self.offset + self.slice.shard.size:,} of its text"


class PieceCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Line counts of a piece. Duplicates are counted in its runs."""

    piece: Piece
    read: ReadStats = msgspec.field(default_factory=ReadStats)
    blank: int = 0
    rejected: int = 0
    repaired: dict[str, int] = {}  # repaired lines by code
    rejects: tuple[int, int] = (0, 0)  # where its rejected lines begin and end in the file of the task
    error: ShardError | None = None
    """Why the piece could not be read completely. All counts are 0 then."""

    @property
    def lines(self) -> int:
        """All lines, including those that were too long."""
        return self.read.lines + len(self.piece.long_lines)


def hash_examples(wrong: Iterable[HashReplaced]) -> list[HashReplaced]:
    """Return the first records whose `sample_hash` was wrong, as examples."""
    return heapq.nsmallest(_EXAMPLES, wrong, key=HashReplaced.sort_key)


class SortResult(msgspec.Struct, frozen=True, tag="task"):
    """The result of a task of pass 1. The journal has it without the key sample, which is read from the runs again."""

    task: int
    pieces: tuple[PieceCounts, ...]
    runs: tuple[Run, ...]
    rejects: str  # path of the rejected lines
    codes: dict[str, int]  # rejected lines by code
    wrong_hashes: list[HashReplaced]  # the first records whose `sample_hash` was wrong
    versions: dict[str, int]  # valid lines by their schema version
    notes: dict[str, int]  # valid lines by the code of a note
    recipes: str  # path of the valid lines by evaluation, model and recipe of the given hash; empty if there are none
    is_later: bool  # whether a line is a record of a later version than the default one
    files: tuple[FileDigest, ...]  # all files that the task wrote
    repairs: RepairCounts = msgspec.field(default_factory=RepairCounts)

    @property
    def numbers(self) -> list[int]:
        """The numbers of its pieces."""
        return [counts.piece.number for counts in self.pieces]

    def with_runs(self, **changes: Any) -> SortResult:
        """Return the result with some fields of all runs changed."""
        runs = tuple(msgspec.structs.replace(run, **changes) for run in self.runs)
        return msgspec.structs.replace(self, runs=runs)


def stopped_result(task: int) -> SortResult:
    """Return the result of a task that stopped because of a record of a later version."""
    return SortResult(
        task=task,
        pieces=(),
        runs=(),
        rejects="",
        codes={},
        wrong_hashes=[],
        versions={},
        notes={},
        recipes="",
        is_later=True,
        files=(),
    )


class MergedRun(msgspec.Struct, frozen=True, tag="merge"):
    """A run that replaces several runs of pass 1, which may be gone."""

    run: Run  # its dropped duplicates include those of all merges that led to it
    covers: list[str]  # paths of the runs of pass 1 that it replaces
    pieces: dict[int, list[int]]  # by task of pass 1: the numbers of its pieces, as in the index
    cuts_hash: str  # hash of the cuts that its bounds belong to; empty if it has no bounds


class Part(msgspec.Struct, frozen=True, tag="part"):
    """The result of a task of pass 2."""

    number: int
    made_of: str  # fingerprint of everything that determines its content
    written: Written
    records: int
    first: bytes  # key of the first record
    last: bytes  # key of the last record
    left_out: dict[str, int]  # records that options left out, by code
    files: tuple[FileDigest, ...]  # the files of its statistics
    path: str  # of the part before it is published
    census: str  # path prefix of its statistics
