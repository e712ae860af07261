"""Sorted lists that parts write, and how they are counted: merged, or first partitioned if there are many parts.

    few parts ──▶ merge and count all lists
    many parts ──▶ a task per group of parts partitions its lists ──▶ a task per partition merges and counts

A row is a tuple of bytes and counts that ends with bytes. Lists are sorted and merged by the first three values of
their rows. Rows whose first two values are equal are in one partition, so counts of partitions add up.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from operator import itemgetter
from typing import Any, Final, TypeVar

import msgspec

from fastrec.engine.base import Engine
from fastrec.limits import Limits
from fastrec.sorting.files import ViewsWriter, read_blocks
from fastrec.storage import join, storage_of
from fastrec.storage.digests import FileDigest, fingerprint

__all__ = ["CountTask", "count_lists", "merge_lists", "merge_rows", "read_rows", "write_rows"]

_BLOCK_ROWS: Final = 512
_BLOCK_BYTES: Final = 64 << 10  # of the last values of rows

Row = tuple[Any, ...]
Counted = TypeVar("Counted")


class CountTask(msgspec.Struct, frozen=True):
    """A task that merges and counts lists of parts, or of partitions."""

    prefixes: list[str]
    rule: Any  # what else the task needs to know

    def __str__(self) -> str:
        return f"counting the census of {len(self.prefixes):,} lists"


class _PartitionTask(msgspec.Struct, frozen=True):
    """A task that partitions the lists of some parts."""

    prefixes: list[str]
    names: tuple[str, ...]
    target: str
    partitions: int

    def __str__(self) -> str:
        return f"partitioning the census of {len(self.prefixes):,} parts"


def write_rows(path: str, rows: Iterable[Row], *, compressed: bool = False) -> FileDigest:
    """Write a sorted list."""
    return _write_rows([path], rows, lambda _: 0, compressed=compressed)[0]


def _write_rows(
    paths: Sequence[str], rows: Iterable[Row], choose: Callable[[Row], int], *, compressed: bool = False
) -> list[FileDigest]:
    """Write each row to the file that `choose` says, in small blocks: a merge holds one block of each file."""
    waiting: list[list[Row]] = [[] for _ in paths]
    sizes = [0] * len(paths)
    with ExitStack() as stack:
        files = [stack.enter_context(ViewsWriter(path, compressed=compressed)) for path in paths]
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


def count_lists(
    count: Callable[[CountTask], Counted],
    rule: Any,
    prefixes: Sequence[str],
    names: tuple[str, ...],
    *,
    directory: str,
    engine: Engine,
    limits: Limits,
) -> Iterator[Counted]:
    """Count the lists of all parts, and yield what to add up.

    Args:
        count: Merges and counts lists.
        rule: What `count` needs to know besides their paths.
        prefixes: Path prefixes of the lists of each part.
        names: What follows after a prefix and a hyphen.
        directory: Where partitions are written, if there are many parts.
        engine: Runs tasks, if there are many parts.
        limits: How many lists are merged at a time.
    """
    at_once = limits.census_fan_in
    if len(prefixes) <= at_once:
        yield count(CountTask(list(prefixes), rule))
        return
    groups = [list(prefixes[first : first + at_once]) for first in range(0, len(prefixes), at_once)]
    partitions = limits.census_partitions
    tasks = (
        _PartitionTask(group, names, join(directory, f"partition-{number:05d}"), partitions)
        for number, group in enumerate(groups)
    )
    targets = [target for _, target in sorted(engine.run(_partition, tasks))]
    lists = [[f"{target}-{number:03d}" for target in targets] for number in range(partitions)]
    for number, counted in engine.run(count, (CountTask(some, rule) for some in lists)):
        yield counted
        storage_of(directory).remove(*(f"{prefix}-{name}" for prefix in lists[number] for name in names))


def _partition(task: _PartitionTask) -> str:
    """Merge the lists of some parts and partition them. Runs in a worker."""
    target = f"{task.target}-{secrets.token_hex(4)}"
    for name in task.names:
        paths = [f"{target}-{number:03d}-{name}" for number in range(task.partitions)]
        rows = merge_lists(task.prefixes, name)
        _write_rows(paths, rows, lambda row: fingerprint(row[0] + b"\0" + row[1]) % task.partitions)
    return target


def merge_lists(prefixes: Iterable[str], name: str) -> Iterator[Any]:
    """Read and merge the lists of one name."""
    return merge_rows(read_rows(f"{prefix}-{name}") for prefix in prefixes)


def merge_rows(lists: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """Merge sorted lists."""
    return merge(*lists, key=itemgetter(0, 1, 2))


def read_rows(path: str) -> Iterator[Any]:
    """Read a list."""
    for block in read_blocks(path):
        yield from block
