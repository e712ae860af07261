"""The census files that parts leave behind: written by each task, merged and counted when all parts are there.

    parts ──▶ lists by hash and by sample_id ──▶ count
    many parts ──▶ lists ──▶ a task per group of parts deals them out by sample ──▶ a task per deal counts

Entries of one sample and of one sample_id go to one deal, so what the deals count adds up.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import merge, nsmallest
from operator import itemgetter
from typing import Any, Final, Self

import msgspec

from fastrec.engine import Engine
from fastrec.sorting.files import ViewsWriter, pack_block, read_blocks
from fastrec.storage import join, remove
from fastrec.storage.digests import fingerprint
from fastrec.storage.kept import Kept
from fastrec.summary.census import (
    CONFLICT_EXAMPLES,
    CensusRow,
    Conflict,
    QuestionCounts,
    count_conflicts,
    count_questions,
)

__all__ = ["DEALS", "MOST_LISTS", "Census", "count_census", "read_census", "write_census"]

MOST_LISTS: Final = 256
"""So many lists are merged at a time."""
DEALS: Final = 32
"""So many tasks count, if there are more."""
_BLOCK: Final = 512  # entries in a block
_BLOCK_BYTES: Final = 64 << 10  # of what they say who answered, after which a block is full

_LISTS: Final = ("hash", "id")


class Census(msgspec.Struct):
    """What the census says of the whole corpus, or of a deal of it."""

    samples: dict[bytes, QuestionCounts] = msgspec.field(default_factory=dict)
    identities: int = 0
    records: int = 0
    examples: list[Conflict] = msgspec.field(default_factory=list)
    across_hashes: list[Conflict] = msgspec.field(default_factory=list)
    """Conflicts whose records have different hashes, and so different keys; only gathered if asked for."""

    def add(self, other: Census) -> None:
        """Add what another deal says."""
        for evaluation, samples in other.samples.items():
            if evaluation in self.samples:
                self.samples[evaluation] += samples
            else:
                self.samples[evaluation] = samples
        self.identities += other.identities
        self.records += other.records
        self.examples = nsmallest(CONFLICT_EXAMPLES, self.examples + other.examples, key=Conflict.sort_key)
        self.across_hashes += other.across_hashes


class _Deal(msgspec.Struct, frozen=True):
    """An order to deal out what some parts have listed."""

    prefixes: list[str]
    to: str
    deals: int

    def __str__(self) -> str:
        return f"dealing out the census of {len(self.prefixes):,} parts"


class _Count(msgspec.Struct, frozen=True):
    """An order to count what is in some lists."""

    prefixes: list[str]
    gather_across: bool

    def __str__(self) -> str:
        return f"counting the census of {len(self.prefixes):,} lists"


def write_census(prefix: str, by_hash: Iterable[CensusRow], by_id: Iterable[CensusRow]) -> list[Kept]:
    """Write the two lists of a part."""
    kept: list[Kept] = []
    for name, entries in zip(_LISTS, (by_hash, by_id), strict=True):
        path = f"{prefix}-{name}"
        with _Blocks(path) as blocks:
            for entry in entries:
                blocks.add(entry)
        kept.append(Kept(path, blocks.file.size, blocks.file.hash()))
    return kept


class _Blocks:
    """A list, written in blocks of bounded size: whoever merges lists holds one block of each."""

    def __init__(self, path: str) -> None:
        self.file = ViewsWriter(path)
        self._entries: list[CensusRow] = []
        self._bytes = 0

    def add(self, entry: CensusRow) -> None:
        self._entries.append(entry)
        self._bytes += len(entry[5])
        if len(self._entries) >= _BLOCK or self._bytes >= _BLOCK_BYTES:
            self._write()

    def _write(self) -> None:
        if self._entries:
            self.file.write([memoryview(pack_block(self._entries))])
        self._entries, self._bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._write()
        except BaseException as exc:
            self.file.__exit__(type(exc))
            raise
        self.file.__exit__(kind)


def count_census(prefixes: Sequence[str], directory: str, engine: Engine, *, gather_across: bool) -> Census:
    """Count the census of all parts; if there are many, by tasks.

    Args:
        prefixes: Of the lists that the parts left.
        directory: For what is dealt out.
        engine: Who carries out the tasks.
        gather_across: Whether to name all conflicts whose records have different hashes.
    """
    if len(prefixes) <= MOST_LISTS:
        return read_census(prefixes, gather_across=gather_across)
    groups = [list(prefixes[first : first + MOST_LISTS]) for first in range(0, len(prefixes), MOST_LISTS)]
    orders = (_Deal(group, join(directory, f"deal-{number:05d}"), DEALS) for number, group in enumerate(groups))
    dealt = [to for _, to in sorted(engine.run(_deal, orders))]
    lists = [[f"{to}-{deal:03d}" for to in dealt] for deal in range(DEALS)]
    census = Census()
    for number, counted in engine.run(_count, (_Count(some, gather_across) for some in lists)):
        census.add(counted)
        for prefix in lists[number]:
            for name in _LISTS:
                remove(f"{prefix}-{name}")
    return census


def _deal(order: _Deal) -> str:
    """Merge the lists of some parts and deal them out by sample. Runs in a worker."""
    to = f"{order.to}-{secrets.token_hex(4)}"
    for name in _LISTS:
        with ExitStack() as stack:
            lists = [stack.enter_context(_Blocks(f"{to}-{deal:03d}-{name}")) for deal in range(order.deals)]
            for entry in _merged(f"{prefix}-{name}" for prefix in order.prefixes):
                lists[fingerprint(entry[0] + b"\0" + entry[1]) % order.deals].add(entry)
    return to


def _count(order: _Count) -> Census:
    """Count what is in some lists. Runs in a worker."""
    return read_census(order.prefixes, gather_across=order.gather_across)


def read_census(prefixes: Sequence[str], *, gather_across: bool) -> Census:
    """Merge census files, and count."""
    census = Census(count_questions([_entries(f"{prefix}-hash") for prefix in prefixes]))
    # An evaluation of which nothing was kept, or whose hashes are in another deal, has ids all the same.
    counted = _Defaults(census.samples)
    for conflict in count_conflicts([_entries(f"{prefix}-id") for prefix in prefixes], counted):
        census.identities += 1
        census.records += conflict.records
        if len(census.examples) < CONFLICT_EXAMPLES:
            census.examples.append(conflict)
        if gather_across and len(conflict.hashes) > 1:
            census.across_hashes.append(conflict)
    census.samples = dict(counted)
    return census


class _Defaults(dict[bytes, QuestionCounts]):
    def __missing__(self, key: bytes) -> QuestionCounts:
        self[key] = samples = QuestionCounts()
        return samples


def _merged(paths: Iterable[str]) -> Iterator[Any]:
    return merge(*map(_entries, paths), key=itemgetter(0, 1, 2))


def _entries(path: str) -> Iterator[CensusRow]:
    for block in read_blocks(path):
        yield from block
