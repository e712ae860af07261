"""The books of a part: its tally, and what became of the other records that met in it, by piece.

They name every model and every piece of input that the part has records of, so there is a file of them beside each
part, and the driver holds no more than their sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from fastrec.jobs.normalize.kept import Kept
from fastrec.stages.runs import read_blocks, write_blocks
from fastrec.stages.summary import Tally

__all__ = ["PartBooks", "read_part_books", "write_part_books"]


class PartBooks(msgspec.Struct):
    """What was counted while parts were made."""

    tally: Tally = msgspec.field(default_factory=Tally)
    copies: Counter[int] = msgspec.field(default_factory=Counter)
    """Exact copies that were dropped, by piece."""
    left_out: Counter[int] = msgspec.field(default_factory=Counter)
    """Records that `--conflicts` left out, by piece."""


def write_part_books(prefix: str, books: PartBooks) -> Kept:
    """Write the books of a part."""
    path = f"{prefix}-books"
    block = (books.tally.packed(), list(books.copies.items()), list(books.left_out.items()))
    size, digest = write_blocks(path, [block])
    return Kept(path, size, digest)


def read_part_books(prefixes: Iterable[str]) -> PartBooks:
    """Add up the books of parts."""
    total = PartBooks()
    for prefix in prefixes:
        tally, copies, left_out = next(read_blocks(f"{prefix}-books"))
        total.tally += Tally.unpacked(tally)
        total.copies.update(dict(copies))
        total.left_out.update(dict(left_out))
    return total
