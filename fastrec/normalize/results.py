"""Pieces of input, and the results of the tasks of both passes. These results are also the entries of the journal."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable
from typing import Any, Final

import msgspec

from fastrec.corpus.writer import Written
from fastrec.errors import ShardError, shown
from fastrec.judge.batch import HashReplaced
from fastrec.normalize.filtered_out import FilteredOutNames
from fastrec.normalize.repairs import RepairCounts
from fastrec.sorting.keys import encode_sample_id
from fastrec.sorting.spill import Run
from fastrec.sources.lines import LongLine, ReadStats
from fastrec.sources.shard import Slice
from fastrec.storage.digests import FileDigest

__all__ = [
    "Aside",
    "MergedRun",
    "Part",
    "PartSources",
    "Piece",
    "PieceCounts",
    "PieceStatistics",
    "SortResult",
    "WrongHash",
    "examples_of",
    "hash_examples",
    "stopped_result",
]

_EXAMPLES: Final = 10


class Piece(msgspec.Struct, frozen=True):
    """A slice of a shard, or a chunk of a shard that the driver decompressed."""

    number: int
    """No other piece of this work directory ever has the same number, whichever shards come and go."""
    shard: int  # number of its shard in this run
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

    @property
    def place(self) -> tuple[int, int]:
        """Its shard, and where it begins in it: the order of all pieces."""
        return self.shard, self.offset + self.slice.start


class PieceCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Line counts of a piece. Duplicates are counted in pass 2."""

    piece: Piece
    read: ReadStats = msgspec.field(default_factory=ReadStats)
    blank: int = 0
    rejected: int = 0
    filtered: int = 0  # records that the filters remove
    repaired: dict[str, int] = {}  # repaired lines by code
    rejects: tuple[int, int] = (0, 0)  # where its rejected lines begin and end in the file of the task
    is_later: bool = False  # whether a line is a record of a later version than the default one
    first: bytes = b""  # the lowest key of its records
    last: bytes = b""  # the highest key
    error: ShardError | None = None
    """Why the piece could not be read completely. All counts are 0 then."""

    @property
    def lines(self) -> int:
        """All lines, including those that were too long and those that the filters remove."""
        return self.read.lines + len(self.piece.long_lines)


class WrongHash(msgspec.Struct, frozen=True, order=True):
    """A record whose `sample_hash` was wrong. Such records are sorted by evaluation, model and sample."""

    evaluation_name: str
    model_id: str
    sample_id: bytes
    """Encoded as in a key, because JSON has no integers of any length. Integers come before strings."""
    given: str
    computed: str


class PieceStatistics(msgspec.Struct):
    """What the summary needs to know of a piece. It is in a file, so that the driver's memory does not grow with it."""

    number: int  # of the piece
    codes: dict[str, int] = msgspec.field(default_factory=dict)  # rejected lines by code
    wrong_hashes: list[WrongHash] = msgspec.field(default_factory=list)
    """The first records whose `sample_hash` was wrong."""
    versions: dict[str, int] = msgspec.field(default_factory=dict)  # valid lines by their schema version
    notes: dict[str, int] = msgspec.field(default_factory=dict)  # valid lines by the code of a note
    recipes: list[tuple[str, str, str, int]] = msgspec.field(default_factory=list)
    """Valid lines by evaluation, model and recipe of the given hash."""
    repairs: RepairCounts = msgspec.field(default_factory=RepairCounts)
    filtered_out: FilteredOutNames = msgspec.field(default_factory=FilteredOutNames)


def hash_examples(wrong: Iterable[WrongHash]) -> list[WrongHash]:
    """Return the first records whose `sample_hash` was wrong, as examples."""
    return heapq.nsmallest(_EXAMPLES, wrong)


def examples_of(replaced: Iterable[HashReplaced]) -> list[WrongHash]:
    """Return the first records of a chunk whose `sample_hash` was wrong."""
    first = heapq.nsmallest(_EXAMPLES, replaced, key=HashReplaced.sort_key)
    return [
        WrongHash(one.evaluation_name, one.model_id, encode_sample_id(one.sample_id), one.given, one.computed)
        for one in first
    ]


class SortResult(msgspec.Struct, frozen=True, tag="task"):
    """The result of a task of pass 1."""

    task: int
    pieces: tuple[PieceCounts, ...]
    """Its pieces; after pass 1, without those of bad shards and of shards that are gone."""
    runs: tuple[Run, ...]
    rejects: str  # path of the rejected lines
    statistics: str  # path of the statistics of all pieces, a JSON document each
    files: tuple[FileDigest, ...]  # all files that the task wrote
    is_stopped: bool = False  # whether it stopped at a record of a later version

    @property
    def is_later(self) -> bool:
        """Whether a line is a record of a later version than the default one."""
        return self.is_stopped or any(counts.is_later for counts in self.pieces)

    @property
    def numbers(self) -> list[int]:
        """The numbers of its pieces."""
        return [counts.piece.number for counts in self.pieces]

    def without(self, shards: Container[int]) -> SortResult:
        """Return the result without the pieces of some shards."""
        pieces = tuple(counts for counts in self.pieces if counts.piece.shard not in shards)
        return msgspec.structs.replace(self, pieces=pieces)

    def with_runs(self, **changes: Any) -> SortResult:
        """Return the result with some fields of all runs changed."""
        runs = tuple(msgspec.structs.replace(run, **changes) for run in self.runs)
        return msgspec.structs.replace(self, runs=runs)


def stopped_result(task: int) -> SortResult:
    """Return the result of a task that stopped because of a record of a later version."""
    return SortResult(task, (), (), "", "", (), is_stopped=True)


class MergedRun(msgspec.Struct, frozen=True, tag="merge"):
    """A run that replaces several runs of pass 1, which may be gone."""

    run: Run
    covers: list[str]  # paths of the runs of pass 1 that it replaces
    tasks: list[int]  # the tasks of pass 1 behind it
    regions: str  # hash of the regions that its bounds belong to; empty if it has no bounds


class Aside(msgspec.Struct, frozen=True):
    """Records that options left out of a part: sorted, in a compressed file, with their index in another one."""

    path: str
    text_bytes: int
    index: str
    index_bytes: int


class PartSources(msgspec.Struct, frozen=True):
    """The file with the sources of the records of a part."""

    path: str  # before it is published
    bytes: int
    sha256: str
    names: str  # fingerprint of the names and the order of the pieces of input of the part


class Part(msgspec.Struct, frozen=True, tag="part"):
    """The result of a task of pass 2."""

    number: int
    made_of: str  # fingerprint of everything that determines its content
    low: bytes | None  # no key of the range is lower; None if there is no limit
    written: Written
    records: int
    first: bytes  # key of the first record
    last: bytes  # key of the last record
    left_out: dict[str, int]  # records that options left out, by code
    files: tuple[FileDigest, ...]  # the files of its statistics, and of its index if it is kept
    path: str  # of the part before it is published
    census: str  # path prefix of its statistics
    losers: tuple[str, str] = ("", "")
    """Fingerprints of the losers that it leaves out because of other runs, and because of other repeats."""
    names: str = ""  # fingerprint of the names of the pieces of input that its left-out records come from
    index_bytes: int = 0
    """Size of its index, the file `census` + `-index`; 0 if work is not kept for the next run."""
    aside: Aside | None = None
    """The records of its range that options left out, which the next run may need; None if there are none, or if work
    is not kept."""
    border: bytes = b""
    """The first border of its range, if work is kept."""
    sources: PartSources | None = None
    """The sources of its records, with `--track-sources`."""

    @property
    def index(self) -> str:
        """The path of its index."""
        return f"{self.census}-index"

    @property
    def borders(self) -> str:
        """The path of its borders."""
        return f"{self.census}-borders"
