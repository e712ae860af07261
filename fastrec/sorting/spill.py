"""Write records from memory to disk as a sorted run.

A run is two files. The data file holds the records' normal forms, sorted by key and then by their bytes, without
duplicates. The index file holds, in blocks, each record's key, length and row of statistics. A `Fence` holds the first
key of a block, so a range of keys can be found with one read of each file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from fastrec.sorting.files import ViewsWriter
from fastrec.sorting.key_sample import SampledKey, sample_of
from fastrec.storage.digests import FileDigest

__all__ = ["BLOCK_ROWS", "Fence", "Run", "in_order", "index_of", "spill"]

BLOCK_ROWS: Final = 128

Row = Sequence[Any]


class Fence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first key of a block, and where the block begins."""

    key: bytes
    index_offset: int
    data_offset: int


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A sorted run on disk."""

    path: str
    """Path of the data file; the index has the same path with `.index` added."""
    records: int
    data_bytes: int
    index_bytes: int
    fences: list[Fence]
    """Empty if there are so many runs that they will be merged before a range of keys is needed."""
    sample: list[SampledKey]
    dropped: dict[int, int]
    """Duplicates dropped, by source."""
    data_hash: str = ""
    """128-bit xxh3 of the data file."""
    index_hash: str = ""
    renumbered: dict[int, int] | None = None
    """Current numbers of the sources, by their numbers in the index; None if these are still right."""
    bounds: bytes = b""
    """For a merged run, instead of fences: the offsets in index and data where each part begins, and where the last one
    ends, 64 bits each."""

    @property
    def files(self) -> tuple[FileDigest, FileDigest]:
        """Its two files, with their checksums."""
        return (
            FileDigest(self.path, self.data_bytes, self.data_hash),
            FileDigest(index_of(self.path), self.index_bytes, self.index_hash),
        )


def index_of(path: str) -> str:
    """Return the path of the index of a data file."""
    return f"{path}.index"


def in_order(
    keys: Sequence[bytes], rows: Sequence[Row], text: Callable[[int], bytes]
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Sort records by key, then by their bytes; of duplicates, keep the one of the lowest source.

    The source of a record is the first value of its row. `text` returns the bytes of a record; it is only called where
    keys are equal. Return the positions of the records to keep, in order, those of the duplicates, and where records
    with equal keys begin and end among those to keep.
    """
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if len(set(keys)) == len(keys):
        return order, [], []
    kept: list[int] = []
    copies: list[int] = []
    groups: list[tuple[int, int]] = []
    position = 0
    while position < len(order):  # faster than itertools.groupby, because most keys are different
        end = position + 1
        key = keys[order[position]]
        while end < len(order) and keys[order[end]] == key:
            end += 1
        if end - position == 1:
            kept.append(order[position])
        else:
            first, last = len(kept), None
            for body, _, index in sorted((text(index), rows[index][0], index) for index in order[position:end]):
                (copies if body == last else kept).append(index)
                last = body
            if len(kept) - first > 1:
                groups.append((first, len(kept)))
        position = end
    return kept, copies, groups


def spill(
    path: str,
    text: bytearray,
    ends: list[int],
    keys: list[bytes],
    rows: list[Row],
    *,
    one_in: int,
    fenced: bool = True,
    block_rows: int = BLOCK_ROWS,
) -> Run:
    """Sort records and write them as a run: `text` holds their normal forms in any order, and `ends` where each ends.

    Without `fenced`, the run has no fences. Keys are sampled at a rate of one in `one_in`.
    """
    starts = [0, *ends[:-1]]
    with memoryview(text) as view:
        order, copies, _ = in_order(keys, rows, lambda index: bytes(view[starts[index] : ends[index]]))
        with ViewsWriter(path) as data:
            data.write([view[starts[index] : ends[index]] for index in order])
    keys = [keys[index] for index in order]
    sizes = [ends[index] - starts[index] for index in order]
    dropped = Counter([rows[index][0] for index in copies])
    fences: list[Fence] = []
    data_offset = 0
    with ViewsWriter(index_of(path)) as index:
        for first in range(0, len(order), block_rows):
            last = first + block_rows
            if fenced:
                fences.append(Fence(keys[first], index.size, data_offset))
            index.write_block((keys[first:last], sizes[first:last], [rows[number] for number in order[first:last]]))
            data_offset += sum(sizes[first:last])
    sample = sample_of(keys, sizes, one_in)
    return Run(path, len(order), data.size, index.size, fences, sample, dict(dropped), data.hash(), index.hash())
