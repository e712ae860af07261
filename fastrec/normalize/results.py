"""Pieces of input, the results of the tasks of both passes, and the statistics of lines.

Results are small: the driver holds them, and they are the entries of the journal. What the summary needs to know of the
lines of a piece is in a file of its task (`PieceStatistics`). `count_lines` adds these up (`LineStatistics`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, Self

import msgspec
from msgspec.structs import asdict

from fastrec.corpus.writer import Written
from fastrec.engine.base import Engine
from fastrec.errors import NoMatchError, ShardError, shown
from fastrec.filters import Filters, did_you_mean, similar
from fastrec.judge.batch import Batch, FilteredOut, HashReplaced
from fastrec.sorting.files import read_blocks
from fastrec.sorting.keys import encode_sample_id, sample_id_of
from fastrec.sorting.runs import Run
from fastrec.sources.lines import LongLine, ReadStats
from fastrec.sources.shard import Slice
from fastrec.storage import FileDigest
from fastrec.summary.document import Repairable, Repaired, RepairExample, json_safe
from fastrec.summary.rows import Sums


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
    is_newer_version: bool = False  # whether a line is a record of a later version than the default one
    first: bytes = b""  # the lowest key of its records
    last: bytes = b""  # the highest key
    error: ShardError | None = None
    """Why the piece could not be read completely. All counts are 0 then."""

    @property
    def lines(self) -> int:
        """All lines, including those that were too long and those that the filters remove."""
        return self.read.lines + len(self.piece.long_lines)


class SortResult(msgspec.Struct, frozen=True, tag="task"):
    task: int
    pieces: tuple[PieceCounts, ...]
    """Its pieces; after pass 1, without those of bad shards and of shards that are gone."""
    runs: tuple[Run, ...]
    rejects: str  # path of the rejected lines
    statistics: str  # path of the statistics of all pieces, a JSON document each
    files: tuple[FileDigest, ...]  # all files that the task wrote

    @property
    def is_newer_version(self) -> bool:
        return any(counts.is_newer_version for counts in self.pieces)

    @property
    def numbers(self) -> list[int]:
        return [counts.piece.number for counts in self.pieces]

    def without(self, shards: Container[int]) -> SortResult:
        pieces = tuple(counts for counts in self.pieces if counts.piece.shard not in shards)
        return msgspec.structs.replace(self, pieces=pieces)

    def without_fences(self) -> SortResult:
        runs = tuple(msgspec.structs.replace(run, fences=[]) for run in self.runs)
        return msgspec.structs.replace(self, runs=runs)


class MergedRun(msgspec.Struct, frozen=True, tag="merge"):
    """A run that replaces several runs of pass 1, which may be gone."""

    run: Run
    covers: list[str]  # paths of the runs of pass 1 that it replaces
    tasks: list[int]  # the tasks of pass 1 behind it
    regions: str  # hash of the regions that its bounds belong to; empty if it has no bounds


class Excluded(msgspec.Struct, frozen=True):
    """Records that options left out of a part: sorted, in a compressed file, with their index in another one."""

    path: str
    text_bytes: int
    index: str
    index_bytes: int


class PartSources(msgspec.Struct, frozen=True):
    path: str  # before it is published
    bytes: int
    sha256: str
    names: str  # fingerprint of the names and the order of the pieces of input of the part


class Part(msgspec.Struct, frozen=True, tag="part"):
    number: int
    fingerprint: str  # fingerprint of everything that determines its content
    low: bytes | None  # no key of the range is lower; None if there is no limit
    written: Written
    records: int
    first: bytes  # key of the first record
    last: bytes  # key of the last record
    left_out: dict[str, int]  # records that options left out, by code
    files: tuple[FileDigest, ...]  # the files of its statistics, and of its index if it is kept
    path: str  # of the part before it is published
    statistics_prefix: str  # path prefix of its statistics
    superseded: tuple[str, str] = ("", "")
    """Fingerprints of the superseded records that it leaves out because of other runs, and because of other repeats."""
    names: str = ""  # fingerprint of the names of the pieces of input that its left-out records come from
    index_bytes: int = 0
    """Size of its index, the file `statistics_prefix` + `-index`; 0 if work is not kept for the next run."""
    excluded: Excluded | None = None
    """The records of its range that options left out, which the next run may need; None if there are none, or if work
    is not kept."""
    border: bytes = b""
    """The first border of its range, if work is kept."""
    sources: PartSources | None = None

    @property
    def index(self) -> str:
        return f"{self.statistics_prefix}-index"

    @property
    def borders(self) -> str:
        return f"{self.statistics_prefix}-borders"


# Statistics of lines

_LISTED_NAMES: Final = 10  # in the error if no record matches the filters
_HASH_EXAMPLES: Final = 10  # of records whose `sample_hash` was wrong
_REPAIR_EXAMPLES: Final = 3
"""Examples of each repair: the first ones by names, so that they do not depend on the order of lines."""


class _Repair(msgspec.Struct, frozen=True, order=True):
    code: str
    evaluation_name: str
    model_id: str
    sample_id: bytes  # encoded as in a key; integers come before strings
    path: str
    message: str


class RepairCounts(msgspec.Struct):
    lines: int = 0  # repaired lines
    by_code: dict[str, int] = msgspec.field(default_factory=dict)  # the journal cannot decode a Counter
    examples: list[_Repair] = msgspec.field(default_factory=list)
    repairable: int = 0  # rejected lines that repairs would keep
    repairable_by_code: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, batch: Batch) -> Counter[str]:
        """Add the lines of a chunk, and return its repaired lines by code."""
        by_code: Counter[str] = Counter()
        for line in batch.repaired:
            by_code.update(finding.code for finding in line.findings)
        self.lines += len(batch.repaired)
        if batch.repaired:
            self.by_code = _sum(self.by_code, by_code)
            new = (
                _Repair(one.code, line.evaluation_name, line.model_id, sample_id, one.path, one.message)
                for line in batch.repaired
                for sample_id in [encode_sample_id(line.sample_id)]
                for one in line.findings
            )
            self.examples = _first_examples((*self.examples, *new))
        for invalid in batch.rejected:
            if invalid.repairs:
                self.repairable += 1
                self.repairable_by_code = _sum(self.repairable_by_code, dict.fromkeys(invalid.repairs, 1))
        return by_code

    def __iadd__(self, other: Self) -> Self:
        self.lines += other.lines
        self.by_code = _sum(self.by_code, other.by_code)
        self.examples = _first_examples((*self.examples, *other.examples))
        self.repairable += other.repairable
        self.repairable_by_code = _sum(self.repairable_by_code, other.repairable_by_code)
        return self


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {code: one.get(code, 0) + other.get(code, 0) for code in {**one, **other}}


def _first_examples(examples: Iterable[_Repair]) -> list[_Repair]:
    in_order = sorted(set(examples))
    groups = groupby(in_order, key=lambda example: example.code)
    return [example for _, group in groups for example in islice(group, _REPAIR_EXAMPLES)]


def repair_documents(total: RepairCounts) -> tuple[Repaired, Repairable]:
    examples = [
        RepairExample(**asdict(example) | {"sample_id": json_safe(sample_id_of(example.sample_id))})
        for example in total.examples
    ]
    return (
        Repaired(lines=total.lines, by_code=dict(sorted(total.by_code.items())), examples=examples),
        Repairable(lines=total.repairable, by_code=dict(sorted(total.repairable_by_code.items()))),
    )


class FilteredOutNames(msgspec.Struct):
    """The first evaluations, metrics and models of records that are filtered out, sorted: one more than is listed.

    `similar` has names that a filter would match if it ignored case.
    """

    evaluations: list[str] = msgspec.field(default_factory=list)
    metrics: list[str] = msgspec.field(default_factory=list)
    models: list[str] = msgspec.field(default_factory=list)
    similar: list[str] = msgspec.field(default_factory=list)

    def add(self, records: Iterable[FilteredOut], filters: Filters) -> None:
        found = list(records)
        self.evaluations = _first_names([*self.evaluations, *(one.evaluation_name for one in found)])
        self.metrics = _first_names([*self.metrics, *(one.metric for one in found if one.metric)])
        self.models = _first_names([*self.models, *(one.model_id for one in found)])
        like = similar(filters.evaluation, {one.evaluation_name for one in found})
        like += similar(filters.metric, {one.metric for one in found})
        like += similar(filters.model, {one.model_id for one in found})
        self.similar = _first_names([*self.similar, *like])

    def __iadd__(self, other: Self) -> Self:
        for name in self.__struct_fields__:
            setattr(self, name, _first_names([*getattr(self, name), *getattr(other, name)]))
        return self


def nothing_matches(filters: Filters, names: FilteredOutNames) -> NoMatchError:
    lists = [(kind, getattr(names, kind)) for kind in ("evaluations", "metrics", "models")]
    available = "; ".join(f"{kind}: {_some(found)}" for kind, found in lists if found)
    hint = did_you_mean(names.similar) or f"; {available or 'there are no records'}"
    return NoMatchError(f"no record matches {filters}{hint}")


def _first_names(names: Iterable[str]) -> list[str]:
    return sorted(set(names))[: _LISTED_NAMES + 1]


def _some(names: list[str]) -> str:
    return ", ".join(names[:_LISTED_NAMES]) + (", …" if len(names) > _LISTED_NAMES else "")


class WrongHash(msgspec.Struct, frozen=True, order=True):
    """A record whose `sample_hash` was wrong. Such records are sorted by evaluation, model and sample."""

    evaluation_name: str
    model_id: str
    sample_id: bytes
    """Encoded as in a key, because JSON has no integers of any length. Integers come before strings."""
    given: str
    computed: str


def hash_examples(wrong: Iterable[WrongHash]) -> list[WrongHash]:
    return heapq.nsmallest(_HASH_EXAMPLES, wrong)


def examples_of(replaced: Iterable[HashReplaced]) -> list[WrongHash]:
    first = heapq.nsmallest(_HASH_EXAMPLES, replaced, key=HashReplaced.sort_key)
    return [
        WrongHash(one.evaluation_name, one.model_id, encode_sample_id(one.sample_id), one.given, one.computed)
        for one in first
    ]


class PieceStatistics(msgspec.Struct):
    """What the summary needs to know of a piece. It is in a file, so that the driver's memory does not grow with it."""

    number: int  # of the piece
    codes: dict[str, int] = msgspec.field(default_factory=dict)  # rejected lines by code
    wrong_hashes: list[WrongHash] = msgspec.field(default_factory=list)
    versions: dict[str, int] = msgspec.field(default_factory=dict)  # valid lines by their schema version
    notes: dict[str, int] = msgspec.field(default_factory=dict)  # valid lines by the code of a note
    renamed: dict[str, int] = msgspec.field(default_factory=dict)  # valid lines by the rule of `--map`
    labelled: dict[str, int] = msgspec.field(default_factory=dict)  # valid lines by label and record
    fixed: dict[str, int] = msgspec.field(default_factory=dict)  # lines of `--fixes`: fixed, or rejected again
    recipes: list[tuple[str, str, str, int]] = msgspec.field(default_factory=list)
    """Valid lines by evaluation, model and recipe of the given hash."""
    repairs: RepairCounts = msgspec.field(default_factory=RepairCounts)
    filtered_out: FilteredOutNames = msgspec.field(default_factory=FilteredOutNames)


class LineStatistics(Sums):
    codes: Counter[str] = msgspec.field(default_factory=Counter)  # rejected lines by the code of their first error
    versions: Counter[str] = msgspec.field(default_factory=Counter)  # valid lines by their schema version
    notes: Counter[str] = msgspec.field(default_factory=Counter)  # valid lines by the code of a note
    renamed: Counter[str] = msgspec.field(default_factory=Counter)  # valid lines by the rule of `--map`
    labelled: Counter[str] = msgspec.field(default_factory=Counter)
    fixed: Counter[str] = msgspec.field(default_factory=Counter)
    recipes: Counter[tuple[str, str, str]] = msgspec.field(default_factory=Counter)
    wrong_hashes: list[WrongHash] = msgspec.field(default_factory=list)
    repairs: RepairCounts = msgspec.field(default_factory=RepairCounts)
    filtered_out: FilteredOutNames = msgspec.field(default_factory=FilteredOutNames)

    def __iadd__(self, other: Self) -> Self:
        super().__iadd__(other)
        self.wrong_hashes = hash_examples(self.wrong_hashes)
        return self


def count_lines(results: Sequence[SortResult], engine: Engine, at_once: int) -> LineStatistics:
    """Add up the statistics of all pieces; many files are read in tasks of some."""
    wanted = [(result.statistics, frozenset(result.numbers)) for result in results if result.pieces]
    if len(wanted) <= at_once:
        return _read_statistics(wanted)
    total = LineStatistics()
    groups = (wanted[first : first + at_once] for first in range(0, len(wanted), at_once))
    for _, counted in engine.run(_read_statistics, groups):
        total += counted
    return total


def _read_statistics(wanted: Iterable[tuple[str, frozenset[int]]]) -> LineStatistics:
    """Add up the statistics of some pieces, given the files and the numbers. Runs in a worker if there are many."""
    total = LineStatistics()
    for path, numbers in wanted:
        for block in read_blocks(path):
            one = _decode(block)
            if one.number in numbers:
                total.codes.update(one.codes)
                total.versions.update(one.versions)
                total.notes.update(one.notes)
                total.renamed.update(one.renamed)
                total.labelled.update(one.labelled)
                total.fixed.update(one.fixed)
                for evaluation, model, recipe, count in one.recipes:
                    total.recipes[evaluation, model, recipe] += count
                total.wrong_hashes = hash_examples(total.wrong_hashes + one.wrong_hashes)
                total.repairs += one.repairs
                total.filtered_out += one.filtered_out
    total.versions = +total.versions  # without versions that were only tried
    return total


_decode = msgspec.json.Decoder(PieceStatistics).decode
