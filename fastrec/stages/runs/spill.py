"""Spilling: from judged records in memory to a sorted run on disk.

A run is two files. The data file holds the records' normal forms, sorted by key and then by their bytes, exact copies
dropped. The index file holds, in blocks of rows, each record's key, length and row of statistics. The first key of
each block is a `Fence`: whoever holds the fences can find a range of keys with one read of each file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from xxhash import xxh3_128

from fastrec.hashing import fingerprint
from fastrec.stages.runs.copies import in_order
from fastrec.stages.runs.files import pack_block, write_views
from fastrec.storage import open_writer

__all__ = ["BLOCK_ROWS", "SAMPLE_ONE_IN", "Fence", "Run", "Sampled", "spill"]

BLOCK_ROWS: Final = 128
SAMPLE_ONE_IN: Final = 32
"""Of the keys, this fraction is sampled, chosen by the key's own hash, to cut the corpus into even parts."""

Row = Sequence[Any]


class Fence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a block begins."""

    key: bytes
    index_offset: int
    data_offset: int


class Sampled(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A record that was sampled: its key and its size."""

    key: bytes
    size: int


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A sorted run on disk."""

    path: str
    """Of the data file; the index stands beside it with `.index` added."""
    records: int
    data_bytes: int
    index_bytes: int
    fences: list[Fence]
    sample: list[Sampled]
    dropped: list[int]
    """The sources of the exact copies that were dropped."""
    data_hash: str = ""
    """128-bit xxh3 of the data file."""
    index_hash: str = ""
    renumbered: dict[int, int] | None = None
    """By sources as they stand in the index: what they are called now."""


def spill(path: str, text: bytearray, ends: list[int], keys: list[bytes], rows: list[Row]) -> Run:
    """Sort records and write them as a run.

    Args:
        path: Where to put the data file.
        text: The normal forms, one after the other in any order.
        ends: Where each ends.
        keys: The key of each.
        rows: The row of each; its first item is the record's source.
    """
    starts = [0, *ends[:-1]]
    with memoryview(text) as view:
        order, copies = in_order(keys, rows, lambda index: bytes(view[starts[index] : ends[index]]))
        views = [view[starts[index] : ends[index]] for index in order]
        data_hash = write_views(path, views)
        del views  # they keep the buffer from being reused
    fences: list[Fence] = []
    index_offset = data_offset = 0
    index_hash = xxh3_128()
    with open_writer(f"{path}.index") as file:
        for first in range(0, len(order), BLOCK_ROWS):
            block = order[first : first + BLOCK_ROWS]
            fences.append(Fence(keys[block[0]], index_offset, data_offset))
            sizes = [ends[index] - starts[index] for index in block]
            packed = pack_block(([keys[index] for index in block], sizes, [rows[index] for index in block]))
            file.write(packed)
            index_hash.update(packed)
            index_offset += len(packed)
            data_offset += sum(sizes)
    threshold = 2**64 // SAMPLE_ONE_IN
    sample = [
        Sampled(keys[index], ends[index] - starts[index]) for index in order if fingerprint(keys[index]) < threshold
    ]
    return Run(
        path,
        len(order),
        data_offset,
        index_offset,
        fences,
        sample,
        [rows[index][0] for index in copies],
        data_hash,
        index_hash.hexdigest(),
    )
