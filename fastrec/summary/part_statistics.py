"""Statistics of parts: each part writes its counts and its census to files, and the driver adds them up.

The counts name every model and every piece of input in the part, so the driver holds only their sum. The census is two
lists of rows, which are merged and counted:

    few parts ──▶ merge and count all lists
    many parts ──▶ a task per group of parts partitions its lists by question ──▶ a task per partition counts

All rows of one question are in one partition, and so are all rows of one sample_id, so the counts of partitions add up.
"""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import nsmallest
from itertools import repeat
from typing import Final, Self

import msgspec

from fastrec.engine.base import Engine
from fastrec.limits import Limits
from fastrec.sorting.files import ViewsWriter, read_blocks, write_blocks
from fastrec.storage import join, storage_of
from fastrec.storage.digests import FileDigest, fingerprint
from fastrec.summary.census import (
    CONFLICT_EXAMPLES,
    CensusRow,
    Conflict,
    QuestionCounts,
    census_of_part,
    count_conflicts,
    count_questions,
    merge_rows,
)
from fastrec.summary.means import NO_OUTCOME, Outcome
from fastrec.summary.sums import Sums
from fastrec.summary.tally import Tally

__all__ = [
    "Census",
    "PartCounts",
    "add_part_counts",
    "count_census",
    "read_census",
    "read_part_counts",
    "write_census",
    "write_statistics",
]

Fields = Sequence[bytes]

_BLOCK_ROWS: Final = 512
_BLOCK_BYTES: Final = 64 << 10  # of packed answers

_LISTS: Final = ("hash", "id")


class PartCounts(Sums):
    """What was counted while one or several parts were made."""

    tally: Tally = msgspec.field(default_factory=Tally)
    copies: Counter[int] = msgspec.field(default_factory=Counter)  # duplicates dropped, by piece
    left_out: Counter[int] = msgspec.field(default_factory=Counter)  # records left out by `--conflicts`, by piece


class Census(Sums):
    """The census of a corpus, or of one partition of it."""

    questions: dict[bytes, QuestionCounts] = msgspec.field(default_factory=lambda: defaultdict(QuestionCounts))
    """By evaluation."""
    identities: int = 0  # identities with several records
    records: int = 0  # records of these identities
    examples: list[Conflict] = msgspec.field(default_factory=list)
    across_hashes: list[Conflict] = msgspec.field(default_factory=list)
    """All conflicts whose records differ in hash, and so in key; empty unless requested."""

    def __iadd__(self, other: Self) -> Self:
        super().__iadd__(other)
        self.examples = nsmallest(CONFLICT_EXAMPLES, self.examples, key=Conflict.sort_key)
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
    lists = zip(_LISTS, (by_hash, by_id), strict=True)
    return [_write_rows([f"{prefix}-{name}"], rows, lambda _: 0)[0] for name, rows in lists]


def _write_rows(
    paths: Sequence[str], rows: Iterable[CensusRow], choose: Callable[[CensusRow], int]
) -> list[FileDigest]:
    """Write each row to the file that `choose` says, in small blocks: a merge holds one block of each file."""
    waiting: list[list[CensusRow]] = [[] for _ in paths]
    sizes = [0] * len(paths)
    with ExitStack() as stack:
        files = [stack.enter_context(ViewsWriter(path)) for path in paths]
        for row in rows:
            number = choose(row)
            block = waiting[number]
            block.append(row)
            sizes[number] += len(row[-1])
            if len(block) >= _BLOCK_ROWS or sizes[number] >= _BLOCK_BYTES:
                files[number].write_block(block)
                waiting[number], sizes[number] = [], 0
        for file, block in zip(files, waiting, strict=True):
            if block:
                file.write_block(block)
    return [FileDigest(path, file.size, file.hash()) for path, file in zip(paths, files, strict=True)]


def count_census(
    prefixes: Sequence[str], directory: str, engine: Engine, limits: Limits, *, across_hashes: bool
) -> Census:
    """Count the census of all parts; if there are many, in tasks that write partitions to `directory`.

    With `across_hashes`, the result lists all conflicts whose records differ in hash.
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
        paths = [f"{target}-{number:03d}-{name}" for number in range(task.partitions)]
        rows = merge_rows(_rows(f"{prefix}-{name}") for prefix in task.prefixes)
        _write_rows(paths, rows, lambda row: fingerprint(row[0] + b"\0" + row[1]) % task.partitions)
    return target


def _count(task: _CountTask) -> Census:
    """Count some lists. Runs in a worker."""
    return read_census(task.prefixes, across_hashes=task.across_hashes)


def read_census(prefixes: Sequence[str], *, across_hashes: bool) -> Census:
    """Merge and count census files."""
    census = Census()
    # The second list has ids of evaluations that the first may lack: nothing of them was kept, or another partition
    # has their hashes.
    census.questions = count_questions(_rows(f"{prefix}-hash") for prefix in prefixes)
    for conflict in count_conflicts((_rows(f"{prefix}-id") for prefix in prefixes), census.questions):
        census.identities += 1
        census.records += conflict.records
        if len(census.examples) < CONFLICT_EXAMPLES:
            census.examples.append(conflict)
        if across_hashes and len(conflict.hashes) > 1:
            census.across_hashes.append(conflict)
    return census


def _rows(path: str) -> Iterator[CensusRow]:
    for block in read_blocks(path):
        yield from block


def write_statistics(
    prefix: str,
    counts: PartCounts,
    kept: Iterable[Fields],
    outcomes: Iterable[Outcome],
    seen: Iterable[Fields] | None = None,
) -> list[FileDigest]:
    """Write the census and the counts of a part.

    The key fields and outcomes of the records that are `kept` determine its questions; the key fields of all records
    that were `seen`, including records left out, determine its conflicts.
    """
    by_hash, by_id = census_of_part(kept, outcomes)
    if seen is not None:
        seen = list(seen)
        _, by_id = census_of_part(seen, repeat(NO_OUTCOME, len(seen)))
    files = write_census(prefix, by_hash, by_id)
    path = f"{prefix}-counts"
    block = (counts.tally.packed(), counts.copies, counts.left_out)
    return [*files, FileDigest(path, *write_blocks(path, [block]))]


def add_part_counts(prefixes: Sequence[str], engine: Engine, at_once: int) -> PartCounts:
    """Add up the counts of all parts; if there are more than `at_once`, in tasks of as many."""
    if len(prefixes) <= at_once:
        return read_part_counts(prefixes)
    total = PartCounts()
    groups = (prefixes[first : first + at_once] for first in range(0, len(prefixes), at_once))
    for _, counts in engine.run(read_part_counts, groups):
        total += counts
    return total


def read_part_counts(prefixes: Sequence[str]) -> PartCounts:
    """Add up the counts of some parts. Runs in a worker if there are many."""
    total = PartCounts()
    for prefix in prefixes:
        tally, copies, left_out = next(read_blocks(f"{prefix}-counts"))
        total += PartCounts(Tally.unpacked(tally), Counter(copies), Counter(left_out))
    return total
