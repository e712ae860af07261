"""Spilling: from judged records in memory to a sorted run on disk.

A run is two files. The data file holds the records' normal forms, sorted by key and then by their bytes, exact copies
dropped. The index file holds, in blocks of rows, each record's key, length and row of statistics. The first key of
each block is a `Fence`: whoever holds the fences can find a range of keys with one read of each file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fastrec.sorting.copies import in_order
from fastrec.sorting.files import ViewsWriter, pack_block
from fastrec.sorting.key_sample import SampledKey, sample_of

__all__ = ["BLOCK_ROWS", "Fence", "Run", "index_of", "spill", "write_index"]

BLOCK_ROWS: Final = 128

Row = Sequence[Any]


class Fence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a block begins."""

    key: bytes
    index_offset: int
    data_offset: int


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A sorted run on disk."""

    path: str
    """Of the data file; the index stands beside it with `.index` added."""
    records: int
    data_bytes: int
    index_bytes: int
    fences: list[Fence]
    """None if there are so many runs that they will be merged before a range of keys is looked for."""
    sample: list[SampledKey]
    dropped: dict[int, int]
    """How many exact copies of each source were dropped."""
    data_hash: str = ""
    """128-bit xxh3 of the data file."""
    index_hash: str = ""
    renumbered: dict[int, int] | None = None
    """By sources as they stand in the index: what they are called now."""
    bounds: bytes = b""
    """Of a run that was merged, instead of fences: offsets in index and data at which each part begins, 64 bits each,
    and at which the last one ends."""


def index_of(path: str) -> str:
    """Name the index that stands beside a data file."""
    return f"{path}.index"


def spill(
    path: str, text: bytearray, ends: list[int], keys: list[bytes], rows: list[Row], *, one_in: int, fenced: bool = True
) -> Run:
    """Sort records and write them as a run.

    Args:
        path: Where to put the data file.
        text: The normal forms, one after the other in any order.
        ends: Where each ends.
        keys: The key of each.
        rows: The row of each; its first item is the record's source.
        one_in: Which fraction of the keys is sampled.
        fenced: Whether somebody will look for a range of keys.
    """
    starts = [0, *ends[:-1]]
    with memoryview(text) as view:
        order, copies = in_order(keys, rows, lambda index: bytes(view[starts[index] : ends[index]]))
        with ViewsWriter(path) as data:
            data.write([view[starts[index] : ends[index]] for index in order])
    keys = [keys[index] for index in order]
    sizes = [ends[index] - starts[index] for index in order]
    dropped = Counter([rows[index][0] for index in copies])
    fences: list[Fence] = []
    data_offset = 0
    with ViewsWriter(index_of(path)) as index:
        for first in range(0, len(order), BLOCK_ROWS):
            last = first + BLOCK_ROWS
            if fenced:
                fences.append(Fence(keys[first], index.size, data_offset))
            write_index(index, keys[first:last], sizes[first:last], [rows[number] for number in order[first:last]])
            data_offset += sum(sizes[first:last])
    sample = sample_of(keys, sizes, one_in)
    return Run(path, len(order), data.size, index.size, fences, sample, dict(dropped), data.hash(), index.hash())


def write_index(index: ViewsWriter, keys: list[bytes], sizes: list[int], rows: list[Row]) -> None:
    """Append a block to an index."""
    index.write([memoryview(pack_block((keys, sizes, rows)))])
