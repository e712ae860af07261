"""Runs: records in normal form on disk, sorted by key and then by their bytes, without duplicates.

A run is two files. The data file holds the texts of its records. The index holds the rest, in
blocks, so that keys can be read without texts. A part that is kept for the next run has such an
index, too. A part of a trusted corpus can be the data file of a run, and its columns the index.

    block    keys | sizes | fingerprints of the texts | rows, encoded | origins, if several copies

Rows are encoded apart, so a reader of keys need not decode them. A `Fence` is the first key of a
block. With fences, a range of keys is found with one read of each file.

A record with one copy has its origin, a piece and a line, in its row. If there are several copies,
it also has an entry in `origins`. Nothing is forgotten when duplicates are merged, so a record
stays when one of its shards goes.

    origins  {position of the record: ((piece, first line in it, copies in it), …)}
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, compress, groupby, islice
from operator import eq, itemgetter
from struct import pack, unpack
from typing import Any

import msgspec

from fastrec.limits import in_batches
from fastrec.sorting.files import ViewsWriter, blocks_between
from fastrec.storage import FileDigest, fingerprint

Row = Sequence[Any]  # the row of a record: its piece, its line, and values for statistics

# A piece, the first line in it that has the record, and the number of copies in it.
Origin = tuple[int, int, int]

Origins = tuple[Origin, ...]  # the origins of a record, sorted by piece
OriginsByPosition = list[tuple[int, Origins]]  # of records with several copies

_MOST_SHARED = 1 << 14


def origins_sharer() -> Callable[[Origins], Origins]:
    """Make a function that returns one object for equal origins.

    Thousands of records may have the same hundreds of origins.
    """
    return lru_cache(_MOST_SHARED)(lambda origins: origins)


def union(several: Iterable[Origins]) -> Origins:
    """Unite the origins of duplicates: of each piece the lowest line, and all its copies."""
    by_piece: dict[int, Origin] = {}
    for piece, line, count in chain.from_iterable(several):
        _, first, known = by_piece.get(piece, (piece, line, 0))
        by_piece[piece] = (piece, min(line, first), known + count)
    return tuple(sorted(by_piece.values()))


def by_position(origins: Iterable[Origins | None]) -> OriginsByPosition:
    """The origins of the records that have several copies, each with the position of its record."""
    return [(position, each) for position, each in enumerate(origins) if each]


BLOCK_ROWS = 128

_encode_rows = msgspec.msgpack.Encoder().encode
decode_rows = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode
_decode_block = msgspec.msgpack.Decoder(
    tuple[list[bytes], list[int], bytes, bytes, OriginsByPosition]
).decode


class Fence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first key of a block, and where the block begins."""

    key: bytes
    index_offset: int
    data_offset: int


class IndexWriter(ViewsWriter):
    """Writes an index."""

    def __init__(
        self, path: str, block_rows: int = BLOCK_ROWS, *, compressed: bool = False
    ) -> None:
        super().__init__(path, compressed=compressed)
        self._block_rows = block_rows
        self.fences: list[Fence] = []  # the first keys of all blocks
        self.records = 0
        self.data_offset = 0
        self._waiting: tuple[list[Any], ...] = ([], [], [], [], [])  # columns, as `add` gets them

    def add(
        self,
        keys: Sequence[bytes],
        sizes: Sequence[int],
        fingerprints: Sequence[int],
        rows: Sequence[Any],
        origins: Sequence[Origins | None],
    ) -> None:
        self.records += len(keys)
        columns = keys, sizes, fingerprints, rows, origins
        for waiting, column in zip(self._waiting, columns, strict=True):
            waiting.extend(column)
        self._write_blocks(self._block_rows)

    def end_block(self) -> None:
        """Write the waiting records: a new block begins with the next one."""
        self._write_blocks(1)

    def _write_blocks(self, least: int) -> None:
        """Write full blocks, and the rest too if it has at least `least` records."""
        first = 0
        count = len(self._waiting[0])
        while count - first >= least:
            end = min(first + self._block_rows, count)
            keys, sizes, fingerprints, rows, origins = (
                column[first:end] for column in self._waiting
            )
            self.fences.append(Fence(keys[0], self.size, self.data_offset))
            packed = pack(f"<{end - first}Q", *fingerprints)
            self.write_block((keys, sizes, packed, _encode_rows(rows), by_position(origins)))
            self.data_offset += sum(sizes)
            first = end
        for column in self._waiting:
            del column[:first]

    def finish(self) -> None:
        self.end_block()
        super().finish()


def index_blocks(path: str, start: int, end: int, stretch: int) -> Iterator[Any]:
    return blocks_between(path, start, end, stretch, _decode_block)


def decode_fingerprints(fingerprints: bytes) -> tuple[int, ...]:
    return unpack(f"<{len(fingerprints) // 8}Q", fingerprints)


# texts that are still in the cache for their checksum and their fingerprints
_BATCH_BYTES = 1 << 18


class Run(msgspec.Struct, frozen=True, array_like=True):
    path: str  # Path of the data file; the index has the same path with `.index` added.
    records: int
    data_bytes: int
    index_bytes: int
    # Empty if there are so many runs that they will be merged before a range of keys is needed.
    fences: list[Fence]
    data_hash: str = ""  # 128-bit xxh3 of the data file.
    index_hash: str = ""
    # For a merged run, instead of fences: the offsets in index and data where each region begins,
    # and where the last
    # one ends, 64 bits each.
    bounds: bytes = b""
    # Path of the part of a trusted corpus that has the texts, instead of a data file.
    part: str = ""
    # Path of the columns of this part. The index only says which of its records the run has.
    columns: str = ""
    first: bytes = b""  # the lowest and the highest key, if there is a `part`
    last: bytes = b""
    has_repeats: bool = False  # whether records of the part have equal keys

    @property
    def files(self) -> tuple[FileDigest, ...]:
        index = FileDigest(index_of(self.path), self.index_bytes, self.index_hash)
        return (
            (index,)
            if self.part
            else (FileDigest(self.path, self.data_bytes, self.data_hash), index)
        )


def index_of(path: str) -> str:
    return f"{path}.index"


def in_order(
    keys: Sequence[bytes],
    rows: Sequence[Row],
    text: Callable[[int], bytes],
    origins: list[Origins | None],
    share: Callable[[Origins], Origins],
) -> tuple[list[int], list[tuple[int, int]]]:
    """Sort records by key, then by their bytes.

    Of duplicates, keep the one of the lowest piece, and of that the first; it gets the origins of
    all of them.

    `text` returns the bytes of a record; it is only called where keys are equal. `origins` are of
    records that already have several copies.

    Return the positions of the records to keep, in order; and where records with equal keys begin
    and end among those to keep.
    """
    order = sorted(range(len(keys)), key=keys.__getitem__)
    in_sorted_order = [keys[index] for index in order]
    repeated = compress(
        range(1, len(order)), map(eq, in_sorted_order, islice(in_sorted_order, 1, None))
    )
    kept = []
    groups = []
    done = 0  # records before this position were added
    for start, end in _stretches(repeated):
        kept += order[done:start]
        first = len(kept)
        same_key = [(text(index), *rows[index][:2], index) for index in order[start:end]]
        for _, group in groupby(sorted(same_key), key=itemgetter(0)):
            copies = [
                (index, origins[index] or ((piece, line, 1),)) for _, piece, line, index in group
            ]
            first_copy = copies[0][0]
            if len(copies) > 1:
                origins[first_copy] = share(union(each for _, each in copies))
            kept.append(first_copy)
        if len(kept) - first > 1:
            groups.append((first, len(kept)))
        done = end
    kept += order[done:]
    return kept, groups


def _stretches(repeated: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield where records with equal keys begin and end.

    `repeated` has the positions of all records whose key is that of the record before.
    """
    start = end = 0
    for position in repeated:
        if position != end:
            if end:
                yield start, end
            start = position - 1
        end = position + 1
    if end:
        yield start, end


def spill(
    path: str,
    text: bytearray,
    ends: list[int],
    keys: list[bytes],
    rows: list[Row],
    *,
    block_rows: int = BLOCK_ROWS,
) -> Run:
    """Sort records and write them as a run.

    `text` holds their normal forms in any order, `ends` where each ends.
    """
    starts = [0, *ends[:-1]]
    fingerprints: list[int] = []
    origins: list[Origins | None] = [None] * len(keys)
    with memoryview(text) as view:
        order, _ = in_order(
            keys,
            rows,
            lambda index: bytes(view[starts[index] : ends[index]]),
            origins,
            origins_sharer(),
        )
        most = max(_BATCH_BYTES * len(ends) // max(ends[-1], 1), 1) if ends else 1
        with ViewsWriter(path) as data:
            for batch in in_batches(order, most):
                views = [view[starts[index] : ends[index]] for index in batch]
                data.append(views)
                fingerprints += map(fingerprint, views)
    with IndexWriter(index_of(path), block_rows) as index:
        index.add(
            [keys[number] for number in order],
            [ends[number] - starts[number] for number in order],
            fingerprints,
            [rows[number] for number in order],
            [origins[number] for number in order],
        )
    return Run(path, len(order), data.size, index.size, index.fences, data.hash(), index.hash())
