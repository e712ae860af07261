"""Pieces of input, the results of the tasks of both passes, and the statistics of lines.

Results are small: the driver holds them, and they are the entries of the journal. What the summary
needs to know of the lines of a piece is in a file of its task, so that the driver's memory does not
grow with it (`LineStatistics`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from heapq import nsmallest
from itertools import groupby, islice
from typing import Any

from msgspec import Struct, convert, field
from msgspec.structs import replace

from fastrec.corpus.writer import Written
from fastrec.engine.base import Engine
from fastrec.errors import ShardError, shown
from fastrec.filters import LISTED_NAMES, Filters, similar
from fastrec.json_documents import CountsByName, sorted_counts
from fastrec.judge.batch import Batch, FilteredOut, HashReplaced
from fastrec.limits import current_limits, in_batches
from fastrec.schemas.view import NO_COUNTS
from fastrec.sorting.files import read_blocks
from fastrec.sorting.keys import encode_sample_id, sample_id_of
from fastrec.sorting.runs import Run
from fastrec.sources.lines import LongLine, ReadStats
from fastrec.sources.shard import Slice
from fastrec.storage import FileDigest
from fastrec.summary.document import (
    Repairable,
    Repaired,
    RepairExample,
    filled,
    json_safe,
)
from fastrec.summary.rows import Sums


class Piece(Struct, frozen=True):
    """A slice of a shard, or a chunk of a shard that the driver decompressed."""

    # no other piece of this work directory ever has the same number, whichever shards come and go
    number: int
    shard: int  # number of its shard in this run
    source: str  # path of its shard
    slice: Slice  # what to read: a slice of the shard, or the temporary file of the chunk
    offset: int = 0  # for a chunk: added to offsets in its file
    line: int = 1  # for a chunk: number of its first line
    long_lines: tuple[LongLine, ...] = ()  # for a chunk: lines before it that were too long
    # Whether it is a chunk; the driver deletes its file when the task is done.
    temporary: bool = False

    def __str__(self) -> str:
        if not self.temporary:
            return str(self.slice)
        return (
            f"{shown(self.source)}, bytes {self.offset + 1:,} to "
            f"{self.offset + self.slice.shard.size:,} of its text"
        )

    @property
    def estimated_text(self) -> int:
        return self.slice.estimated_text

    @property
    def place(self) -> tuple[int, int]:
        """Its shard, and where it begins in it: the order of all pieces."""
        return self.shard, self.offset + self.slice.start


class PieceCounts(Struct, frozen=True):
    """Line counts of a piece. Duplicates are counted in pass 2."""

    piece: Piece
    read: ReadStats = field(default_factory=ReadStats)
    blank: int = 0
    rejected: int = 0
    filtered: int = 0  # records that the filters remove
    repaired: CountsByName = {}  # repaired lines by code
    # Where its rejected lines begin and end in the file of the task.
    rejects: tuple[int, int] = 0, 0
    is_newer_version: bool = False  # whether a line is a record that decides for the newest version
    first: bytes = b""  # the lowest key of its records
    last: bytes = b""  # the highest key
    # Why the piece could not be read completely; all counts are 0 then.
    error: ShardError | None = None

    @property
    def lines(self) -> int:
        """All lines, including those that were too long and those that the filters remove."""
        return self.read.lines + len(self.piece.long_lines)


class SortResult(Struct, frozen=True, tag="task"):
    task: int
    # Its pieces; after pass 1, without those of bad shards and of shards that are gone.
    pieces: tuple[PieceCounts, ...]
    runs: tuple[Run, ...]
    rejects: str  # path of the rejected lines
    statistics: str  # path of the statistics of all pieces, each with its number
    files: tuple[FileDigest, ...]  # all files that the task wrote

    @property
    def is_newer_version(self) -> bool:
        return any(counts.is_newer_version for counts in self.pieces)

    @property
    def numbers(self) -> list[int]:
        return [counts.piece.number for counts in self.pieces]

    @property
    def shards(self) -> set[int]:
        return {counts.piece.shard for counts in self.pieces}

    def without(self, shards: Container[int]) -> SortResult:
        pieces = tuple(counts for counts in self.pieces if counts.piece.shard not in shards)
        return replace(self, pieces=pieces)


class MergedRun(Struct, frozen=True, tag="merge"):
    """A run that replaces several runs of pass 1, which may be gone."""

    run: Run
    covers: list[str]  # paths of the runs of pass 1 that it replaces
    tasks: list[int]  # the tasks of pass 1 behind it
    regions: str  # hash of the regions that its bounds belong to; empty if it has no bounds


class PartSources(FileDigest, frozen=True):
    """The file of the sources of a part, with its SHA-256."""

    names: str  # fingerprint of the names and the order of the pieces of input of the part


class Part(Struct, frozen=True, tag="part"):
    number: int
    fingerprint: str  # fingerprint of everything that determines its content
    low: bytes | None  # no key of the range is lower; None if there is no limit
    written: Written
    records: int
    first: bytes  # key of the first record
    last: bytes  # key of the last record
    files: tuple[FileDigest, ...]  # the files of its statistics, and of its index if it is kept
    path: str  # of the part before it is published
    statistics_prefix: str  # path prefix of its statistics
    left_out: CountsByName = {}  # records that options left out, by code
    # Fingerprints of the superseded records that it leaves out, because of other runs, and because
    # of other repeats.
    superseded: tuple[str, ...] = ()
    # Fingerprint of the names of the pieces of input that its left-out records come from.
    names: str = ""
    # Size of its index, the file `statistics_prefix` + `-index`; 0 if work is not kept.
    index_bytes: int = 0
    # The records of its range that options left out, which the next run may need; None if there
    # are none, or if work is not kept. Their texts are in a compressed file.
    excluded: Run | None = None
    # The lowest and the highest key of all records of its range, those left out too, if work is
    # kept.
    span: tuple[bytes, bytes] = b"", b""
    columns: FileDigest | None = None  # with SHA-256; None if it has no records
    sources: PartSources | None = None
    # If work is kept, for the first part of a group: the census of all parts of the group
    # (`parts._groups`).
    census: FileDigest | None = None

    @property
    def made(self) -> list[FileDigest]:
        """The part and the files beside it, with their SHA-256."""
        own = FileDigest(self.path, self.written.bytes, self.written.sha256)
        return [file for file in (own, self.columns, self.sources) if file]

    @property
    def all_files(self) -> list[FileDigest]:
        """All files that the next run needs of it. A part without records is not published."""
        files = (*(self.made if self.records else ()), *self.files, self.census)
        return [file for file in files if file]

    def at(self, path: str, columns: str, sources: str = "") -> Part:
        """The same part with its files at other paths."""
        return replace(
            self,
            path=path,
            columns=replace(self.columns, path=columns) if self.columns else None,
            sources=replace(self.sources, path=sources) if self.sources else None,
        )

    @property
    def index(self) -> str:
        return f"{self.statistics_prefix}-index"

    @property
    def borders(self) -> str:
        return f"{self.statistics_prefix}-borders"


# Statistics of lines

PartsByNumber = dict[int, Part]

_MOST_SEEN = 10_000  # names that were filtered out and are not looked at again
_HASH_EXAMPLES = 10  # of records whose `sample_hash` was wrong
# Examples of each repair: the first ones by names, which do not depend on the order of lines.
_REPAIR_EXAMPLES = 3


class _Repair(Struct, frozen=True, order=True):
    code: str
    evaluation_name: str
    model_id: str
    sample_id: bytes  # encoded as in a key; integers come before strings
    path: str
    message: str


class WrongHash(Struct, frozen=True, order=True):
    """A record whose `sample_hash` was wrong.

    Such records are sorted by evaluation, model and sample.
    """

    evaluation_name: str
    model_id: str
    sample_id: bytes
    given: str
    computed: str


class LineStatistics(Sums):
    """What the summary needs to know of the lines of a piece, or of all pieces."""

    codes: Counter[str] = NO_COUNTS  # rejected lines by the code of their first error
    versions: Counter[str] = NO_COUNTS  # valid lines by their schema version
    notes: Counter[str] = NO_COUNTS  # valid lines by the code of a note
    renamed: Counter[str] = NO_COUNTS  # valid lines by the rule of `--map`
    # Valid lines by label, whether it changed the record, and record.
    labelled: Counter[Any] = NO_COUNTS
    fixed: Counter[str] = NO_COUNTS  # lines of `--fixes`: fixed, or rejected again
    # Valid lines by evaluation, model and recipe of the given hash.
    recipes: Counter[tuple[str, str, str]] = NO_COUNTS
    wrong_hashes: list[WrongHash] = []  # examples
    repaired: int = 0
    repaired_by_code: Counter[str] = NO_COUNTS
    repairs: list[_Repair] = []  # examples
    repairable: int = 0  # rejected lines that repairs would keep
    repairable_by_code: Counter[str] = NO_COUNTS
    # of records that are filtered out: the first ones, one more than is listed
    evaluations: list[str] = []
    metrics: list[str] = []  # the same
    models: list[str] = []  # the same
    similar: list[str] = []  # names of them that a filter would match if it ignored case

    def add(self, batch: Batch, filters: Filters, seen: set[FilteredOut]) -> None:
        """Add the lines of a chunk, but for the codes of rejected ones.

        `seen` are names that were filtered out.
        """
        self.versions.update(batch.versions)
        self.notes.update(batch.notes)
        batch.count_recipes(self.recipes)
        if batch.replaced:
            first = nsmallest(_HASH_EXAMPLES, batch.replaced, key=HashReplaced.sort_key)
            self.wrong_hashes += [
                filled(WrongHash, replaced, sample_id=encode_sample_id(replaced.sample_id))
                for replaced in first
            ]
        for line in batch.repaired:
            self.repaired += 1
            self.repaired_by_code.update(finding.code for finding in line.findings)
            names = line.evaluation_name, line.model_id, encode_sample_id(line.sample_id)
            self.repairs += [
                _Repair(finding.code, *names, finding.path, finding.message)
                for finding in line.findings
            ]
        for invalid in batch.rejected:
            if invalid.repairs:
                self.repairable += 1
                self.repairable_by_code.update(invalid.repairs)
        if new := batch.filtered_out.keys() - seen:
            if len(seen) > _MOST_SEEN:
                seen.clear()
            seen |= new
            self.evaluations += [names.evaluation_name for names in new]
            self.metrics += [names.metric for names in new if names.metric]
            self.models += [names.model_id for names in new]
            self.similar += similar(filters.evaluation, self.evaluations)
            self.similar += similar(filters.metric, self.metrics) + similar(
                filters.model, self.models
            )
        if batch.replaced or batch.repaired or new:
            self._shorten()

    def _shorten(self) -> None:
        self.wrong_hashes = nsmallest(_HASH_EXAMPLES, self.wrong_hashes)
        groups = groupby(sorted(set(self.repairs)), key=lambda example: example.code)
        self.repairs = [
            example for _, group in groups for example in islice(group, _REPAIR_EXAMPLES)
        ]
        for name in ("evaluations", "metrics", "models", "similar"):
            setattr(self, name, sorted(set(getattr(self, name)))[: LISTED_NAMES + 1])


def repair_documents(total: LineStatistics) -> tuple[Repaired, Repairable]:
    examples = [
        filled(RepairExample, example, sample_id=json_safe(sample_id_of(example.sample_id)))
        for example in total.repairs
    ]
    return (
        Repaired(
            lines=total.repaired,
            by_code=sorted_counts(total.repaired_by_code),
            examples=examples,
        ),
        Repairable(lines=total.repairable, by_code=sorted_counts(total.repairable_by_code)),
    )


def count_lines(results: Sequence[SortResult], engine: Engine) -> LineStatistics:
    """Add up the statistics of all pieces; many files are read in tasks of some."""
    wanted = [(result.statistics, frozenset(result.numbers)) for result in results if result.pieces]
    at_once = current_limits().part_counts_per_task
    total = LineStatistics()
    for _, counted in engine.run(_read_statistics, in_batches(wanted, at_once)):
        total += counted
    return total


def _read_statistics(wanted: Iterable[tuple[str, frozenset[int]]]) -> LineStatistics:
    """Add up the statistics of some pieces, given the files and the numbers.

    Runs in a worker if there are many.
    """
    total = LineStatistics()
    for path, numbers in wanted:
        for number, statistics in read_blocks(path):
            if number in numbers:
                total += convert(
                    statistics, LineStatistics, dec_hook=lambda counter, counts: counter(counts)
                )
    total.versions = +total.versions  # without versions that were only tried
    return total
