"""Write records from memory to disk as a sorted run.

A run is two files. The data file holds the records' normal forms, sorted by key and then by their bytes, without
duplicates. The index file holds, in blocks, each record's key, length, fingerprint, row of statistics and sources. A
`Fence` holds the first key of a block, so a range of keys can be found with one read of each file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice, pairwise
from operator import eq
from typing import Any, Final

import msgspec

from fastrec.sorting.copies import Copies, SharedSources, Sources, union
from fastrec.sorting.files import ViewsWriter
from fastrec.sorting.index import BLOCK_ROWS, Fence, IndexWriter
from fastrec.storage.digests import FileDigest, fingerprint

__all__ = ["BLOCK_ROWS", "Fence", "IndexWriter", "Run", "Sources", "in_order", "index_of", "spill"]

_BATCH_BYTES: Final = 1 << 18  # texts that are still in the cache for their checksum and their fingerprints

Row = Sequence[Any]


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A sorted run on disk."""

    path: str
    """Path of the data file; the index has the same path with `.index` added."""
    records: int
    data_bytes: int
    index_bytes: int
    fences: list[Fence]
    """Empty if there are so many runs that they will be merged before a range of keys is needed."""
    data_hash: str = ""
    """128-bit xxh3 of the data file."""
    index_hash: str = ""
    bounds: bytes = b""
    """For a merged run, instead of fences: the offsets in index and data where each region begins, and where the last
    one ends, 64 bits each."""

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
    keys: Sequence[bytes],
    rows: Sequence[Row],
    text: Callable[[int], bytes],
    copies: Mapping[int, Sources] | None = None,
    shared: SharedSources | None = None,
) -> tuple[list[int], Copies, list[tuple[int, int]]]:
    """Sort records by key, then by their bytes; of duplicates, keep the one of the lowest piece, and of that the first.

    The first two values of a row are the piece and the line. `text` returns the bytes of a record; it is only called
    where keys are equal. `copies` has the sources of records that already have several copies.

    Return the positions of the records to keep, in order; the sources of those with several copies, by position among
    those to keep; and where records with equal keys begin and end among those to keep.
    """
    order = sorted(range(len(keys)), key=keys.__getitem__)
    in_sorted_order = [keys[index] for index in order]
    repeated = compress(range(1, len(order)), map(eq, in_sorted_order, islice(in_sorted_order, 1, None)))
    known, share = copies or {}, (shared or SharedSources()).share
    kept: list[int] = []
    kept_copies: Copies = {}
    groups: list[tuple[int, int]] = []
    done = 0  # records before this position were added
    for start, end in _stretches(repeated):
        kept += order[done:start]
        several = sorted([(text(index), rows[index][0], rows[index][1], index) for index in order[start:end]])
        first = len(kept)
        for equal in _duplicates(several):
            if len(equal) > 1:
                kept_copies[len(kept)] = share(_sources_of(equal, known))
            kept.append(equal[0][3])
        if len(kept) - first > 1:
            groups.append((first, len(kept)))
        done = end
    kept += order[done:]
    if known:
        kept_copies = {to: known[index] for to, index in enumerate(kept) if index in known} | kept_copies
    return kept, kept_copies, groups


def _stretches(repeated: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield where records with equal keys begin and end, given the positions of all that have the key before them."""
    start = end = 0
    for position in repeated:
        if position != end:
            if end:
                yield start, end
            start = position - 1
        end = position + 1
    if end:
        yield start, end


_Found = tuple[bytes, int, int, int]  # the text of a record, its piece, its line, and its position


def _duplicates(several: list[_Found]) -> list[list[_Found]]:
    """Group sorted records of one key by their text."""
    if several[0][0] == several[-1][0]:
        return [several]
    starts = [number for number, (one, other) in enumerate(pairwise(several), 1) if one[0] != other[0]]
    return [several[start:end] for start, end in pairwise([0, *starts, len(several)])]


def _sources_of(equal: list[_Found], known: Mapping[int, Sources]) -> Sources:
    """Return the sources of all copies of a record, sorted by piece and line."""
    if known:
        return union(known.get(index) or ((piece, line, 1),) for _, piece, line, index in equal)
    sources: list[tuple[int, int, int]] = []
    for _, piece, line, _ in equal:
        if sources and sources[-1][0] == piece:
            sources[-1] = (piece, sources[-1][1], sources[-1][2] + 1)
        else:
            sources.append((piece, line, 1))
    return tuple(sources)


def spill(
    path: str,
    text: bytearray,
    ends: list[int],
    keys: list[bytes],
    rows: list[Row],
    *,
    block_rows: int = BLOCK_ROWS,
) -> Run:
    """Sort records and write them as a run: `text` holds their normal forms in any order, `ends` where each ends."""
    starts = [0, *ends[:-1]]
    prints: list[int] = []
    with memoryview(text) as view:
        order, copies, _ = in_order(keys, rows, lambda index: bytes(view[starts[index] : ends[index]]))
        batch = max(_BATCH_BYTES * len(ends) // max(ends[-1], 1), 1) if ends else 1
        with ViewsWriter(path) as data:
            for first in range(0, len(order), batch):
                views = [view[starts[index] : ends[index]] for index in order[first : first + batch]]
                data.write(views)
                prints += map(fingerprint, views)
    with IndexWriter(index_of(path), block_rows) as index:
        index.add(
            [keys[number] for number in order],
            [ends[number] - starts[number] for number in order],
            prints,
            [rows[number] for number in order],
            copies,
        )
    return Run(path, len(order), data.size, index.size, index.fences, data.hash(), index.hash())
