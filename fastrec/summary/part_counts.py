"""Counts of a part: its tally, and how many duplicates and left-out records each piece of input has in it.

The counts name every model and every piece of input in the part, so each part writes them to a file, and the driver
holds only their sum. The counts of many parts are added up in tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

import msgspec

from fastrec.engine.base import Engine
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.storage.digests import FileDigest
from fastrec.summary.census import census_of_part
from fastrec.summary.census_files import write_census
from fastrec.summary.tally import Tally

__all__ = ["PartCounts", "add_part_counts", "read_part_counts", "write_statistics"]

Fields = Sequence[bytes]


class PartCounts(msgspec.Struct):
    """What was counted while one or several parts were made."""

    tally: Tally = msgspec.field(default_factory=Tally)
    copies: Counter[int] = msgspec.field(default_factory=Counter)
    """Duplicates dropped, by piece."""
    left_out: Counter[int] = msgspec.field(default_factory=Counter)
    """Records left out by `--conflicts`, by piece."""

    def __iadd__(self, other: PartCounts) -> Self:
        self.tally += other.tally
        self.copies.update(other.copies)
        self.left_out.update(other.left_out)
        return self


def write_statistics(
    prefix: str, counts: PartCounts, kept: Iterable[Fields], seen: Iterable[Fields] | None = None
) -> list[FileDigest]:
    """Write the census and the counts of a part.

    Args:
        prefix: The path of the files begins with it.
        counts: What was counted. The number of census rows of each model is added to its tally.
        kept: Key fields of the records of the part. They determine its questions.
        seen: Key fields of these and of all records left out. They determine its conflicts.
    """
    by_hash, by_id, rows_by_model = census_of_part(kept)
    if seen is not None:
        _, by_id, _ = census_of_part(seen)
    counts.tally.add_census_rows(rows_by_model)
    files = write_census(prefix, by_hash, by_id)
    path = f"{prefix}-counts"
    block = (counts.tally.packed(), list(counts.copies.items()), list(counts.left_out.items()))
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
        total += PartCounts(Tally.unpacked(tally), Counter(dict(copies)), Counter(dict(left_out)))
    return total
