"""The books of a part: its tally, and what became of the other records that met in it, by piece.

They name every model and every piece of input that the part has records of, so there is a file of them beside each
part, and the driver holds no more than their sum. Those of many parts are added up by tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from fastrec.engine import Engine
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.storage.kept import Kept
from fastrec.summary.tally import Tally

__all__ = ["MOST_COUNTS", "PartCounts", "add_up", "read_part_counts", "write_part_counts"]

MOST_COUNTS: Final = 256
"""So many are added up by one task."""


class PartCounts(msgspec.Struct):
    """What was counted while parts were made."""

    tally: Tally = msgspec.field(default_factory=Tally)
    copies: Counter[int] = msgspec.field(default_factory=Counter)
    """Exact copies that were dropped, by piece."""
    left_out: Counter[int] = msgspec.field(default_factory=Counter)
    """Records that `--conflicts` left out, by piece."""

    def add(self, other: PartCounts) -> None:
        """Add the books of other parts."""
        self.tally += other.tally
        self.copies.update(other.copies)
        self.left_out.update(other.left_out)


def write_part_counts(prefix: str, books: PartCounts) -> Kept:
    """Write the books of a part."""
    path = f"{prefix}-books"
    block = (books.tally.packed(), list(books.copies.items()), list(books.left_out.items()))
    size, digest = write_blocks(path, [block])
    return Kept(path, size, digest)


def add_up(prefixes: Sequence[str], engine: Engine) -> PartCounts:
    """Add up the books of all parts; if there are many, by tasks."""
    if len(prefixes) <= MOST_COUNTS:
        return read_part_counts(prefixes)
    total = PartCounts()
    groups = (prefixes[first : first + MOST_COUNTS] for first in range(0, len(prefixes), MOST_COUNTS))
    for _, books in engine.run(read_part_counts, groups):
        total.add(books)
    return total


def read_part_counts(prefixes: Sequence[str]) -> PartCounts:
    """Add up the books of some parts. Runs in a worker, if there are many."""
    total = PartCounts()
    for prefix in prefixes:
        tally, copies, left_out = next(read_blocks(f"{prefix}-books"))
        total.add(PartCounts(Tally.unpacked(tally), Counter(dict(copies)), Counter(dict(left_out))))
    return total
