"""Census files: each part writes two lists of rows, and the lists of all parts are merged and counted.

    few parts ──▶ merge and count all lists
    many parts ──▶ a task per group of parts partitions its lists by question ──▶ a task per partition counts

All rows of one question are in one partition, and so are all rows of one sample_id, so the counts of partitions add up.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import nsmallest
from typing import Final, Self

import msgspec

from fastrec.engine.base import Engine
from fastrec.limits import Limits
from fastrec.sorting.files import ViewsWriter, read_blocks
from fastrec.storage import join, storage_of
from fastrec.storage.digests import FileDigest, fingerprint
from fastrec.summary.census import (
    CONFLICT_EXAMPLES,
    CensusRow,
    Conflict,
    QuestionCounts,
    count_conflicts,
    count_questions,
    merge_rows,
)

__all__ = ["Census", "count_census", "read_census", "write_census"]

_BLOCK_ROWS: Final = 512
_BLOCK_BYTES: Final = 64 << 10  # of packed answers

_LISTS: Final = ("hash", "id")


class Census(msgspec.Struct):
    """The census of a corpus, or of one partition of it."""

    questions: dict[bytes, QuestionCounts] = msgspec.field(default_factory=dict)
    """By evaluation."""
    identities: int = 0
    """Identities with several records."""
    records: int = 0
    """Records of these identities."""
    examples: list[Conflict] = msgspec.field(default_factory=list)
    across_hashes: list[Conflict] = msgspec.field(default_factory=list)
    """All conflicts whose records differ in hash, and so in key; empty unless requested."""

    def __iadd__(self, other: Census) -> Self:
        for evaluation, counts in other.questions.items():
            if evaluation in self.questions:
                self.questions[evaluation] += counts
            else:
                self.questions[evaluation] = counts
        self.identities += other.identities
        self.records += other.records
        self.examples = nsmallest(CONFLICT_EXAMPLES, self.examples + other.examples, key=Conflict.sort_key)
        self.across_hashes += other.across_hashes
        return self


class _PartitionTask(msgspec.Struct, frozen=True):
    """A task that partitions the lists of some parts."""

    prefixes: list[str]
    target: str
    partitions: int

    def __str__(self) -> str:
        return f"partitioning the census of {len(self.prefixes):,} parts"


class _CountTask(msgspec.Struct, frozen=True):
    """A task that counts some lists."""

    prefixes: list[str]
    across_hashes: bool

    def __str__(self) -> str:
        return f"counting the census of {len(self.prefixes):,} lists"


def write_census(prefix: str, by_hash: Iterable[CensusRow], by_id: Iterable[CensusRow]) -> list[FileDigest]:
    """Write the two lists of a part."""
    files: list[FileDigest] = []
    for name, rows in zip(_LISTS, (by_hash, by_id), strict=True):
        path = f"{prefix}-{name}"
        with _RowWriter(path) as writer:
            for row in rows:
                writer.add(row)
        files.append(FileDigest(path, writer.file.size, writer.file.hash()))
    return files


class _RowWriter:
    """Writes a list in blocks of bounded size, because a merge holds one block of each list."""

    def __init__(self, path: str) -> None:
        self.file = ViewsWriter(path)
        self._rows: list[CensusRow] = []
        self._bytes = 0

    def add(self, row: CensusRow) -> None:
        self._rows.append(row)
        self._bytes += len(row[5])
        if len(self._rows) >= _BLOCK_ROWS or self._bytes >= _BLOCK_BYTES:
            self._write()

    def _write(self) -> None:
        if self._rows:
            self.file.write_block(self._rows)
        self._rows, self._bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.file.__exit__(kind)
            return
        with self.file:
            self._write()


def count_census(
    prefixes: Sequence[str], directory: str, engine: Engine, limits: Limits, *, across_hashes: bool
) -> Census:
    """Count the census of all parts; if there are many, in tasks.

    Args:
        prefixes: Path prefixes of the lists, one per part.
        directory: Where to write partitions.
        engine: Runs the tasks.
        limits: How many lists are merged at a time, and the number of partitions.
        across_hashes: Whether to list all conflicts whose records differ in hash.
    """
    at_once = limits.census_fan_in
    if len(prefixes) <= at_once:
        return read_census(prefixes, across_hashes=across_hashes)
    groups = [list(prefixes[first : first + at_once]) for first in range(0, len(prefixes), at_once)]
    count = limits.census_partitions
    tasks = (
        _PartitionTask(group, join(directory, f"partition-{number:05d}"), count) for number, group in enumerate(groups)
    )
    targets = [target for _, target in sorted(engine.run(_partition, tasks))]
    partitions = [[f"{target}-{number:03d}" for target in targets] for number in range(count)]
    census = Census()
    for number, counted in engine.run(_count, (_CountTask(lists, across_hashes) for lists in partitions)):
        census += counted
        storage_of(directory).remove(*(f"{prefix}-{name}" for prefix in partitions[number] for name in _LISTS))
    return census


def _partition(task: _PartitionTask) -> str:
    """Merge the lists of some parts and partition them by question. Runs in a worker."""
    target = f"{task.target}-{secrets.token_hex(4)}"
    for name in _LISTS:
        with ExitStack() as stack:
            paths = [f"{target}-{number:03d}-{name}" for number in range(task.partitions)]
            writers = [stack.enter_context(_RowWriter(path)) for path in paths]
            for row in merge_rows(_rows(f"{prefix}-{name}") for prefix in task.prefixes):
                writers[fingerprint(row[0] + b"\0" + row[1]) % task.partitions].add(row)
    return target


def _count(task: _CountTask) -> Census:
    """Count some lists. Runs in a worker."""
    return read_census(task.prefixes, across_hashes=task.across_hashes)


def read_census(prefixes: Sequence[str], *, across_hashes: bool) -> Census:
    """Merge and count census files."""
    census = Census()
    # The second list has ids of evaluations that the first may lack: nothing of them was kept, or another partition
    # has their hashes.
    counted = defaultdict(QuestionCounts, count_questions([_rows(f"{prefix}-hash") for prefix in prefixes]))
    for conflict in count_conflicts([_rows(f"{prefix}-id") for prefix in prefixes], counted):
        census.identities += 1
        census.records += conflict.records
        if len(census.examples) < CONFLICT_EXAMPLES:
            census.examples.append(conflict)
        if across_hashes and len(conflict.hashes) > 1:
            census.across_hashes.append(conflict)
    census.questions = dict(counted)
    return census


def _rows(path: str) -> Iterator[CensusRow]:
    for block in read_blocks(path):
        yield from block
