"""The index of a run or of a part: for each record its key, size, fingerprint, row and sources, in blocks.

    block    keys | sizes | prints | rows, encoded | copies: (position in the block, sources) of records with several

The print of a record is the fingerprint of its text. Rows are encoded apart, so a reader of keys need not decode them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from struct import pack, unpack
from typing import Any, Final, Self

import msgspec

from fastrec.sorting.copies import Copies, Sources
from fastrec.sorting.files import BlockReader, ViewsWriter

__all__ = ["BLOCK_ROWS", "Fence", "IndexBlock", "IndexWriter", "decode_prints", "decode_rows", "index_reader"]

BLOCK_ROWS: Final = 128

IndexBlock = tuple[list[bytes], list[int], bytes, bytes, list[tuple[int, Sources]]]

_encode_rows = msgspec.msgpack.Encoder().encode
decode_rows = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode
_decode_block = msgspec.msgpack.Decoder(IndexBlock).decode


class Fence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first key of a block, and where the block begins."""

    key: bytes
    index_offset: int
    data_offset: int


class IndexWriter:
    """Writes an index. The file exists once the context is left."""

    def __init__(
        self, path: str, block_rows: int = BLOCK_ROWS, *, fenced: bool = True, compressed: bool = False
    ) -> None:
        self._file = ViewsWriter(path, compressed=compressed)
        self._block_rows = block_rows
        self._fenced = fenced
        self.fences: list[Fence] = []
        """The first keys of all blocks; empty without `fenced`."""
        self.records = 0
        self.data_offset = 0
        """End of the records in blocks."""
        self._keys: list[bytes] = []
        self._sizes: list[int] = []
        self._prints: list[int] = []
        self._rows: list[Any] = []
        self._copies: list[tuple[int, Sources]] = []  # positions among the waiting records, and sources

    @property
    def size(self) -> int:
        """Bytes of the blocks that were written."""
        return self._file.size

    def hash(self) -> str:
        """Return the 128-bit xxh3 of these blocks."""
        return self._file.hash()

    def add(
        self, keys: Sequence[bytes], sizes: Sequence[int], prints: Sequence[int], rows: Sequence[Any], copies: Copies
    ) -> None:
        """Add the next records; `copies` has the sources of those with several copies, by position among them."""
        self._copies += [(len(self._keys) + position, sources) for position, sources in sorted(copies.items())]
        self.records += len(keys)
        self._keys += keys
        self._sizes += sizes
        self._prints += prints
        self._rows += rows
        self._write_blocks(self._block_rows)

    def end_block(self) -> None:
        """Write the waiting records: a new block begins with the next one."""
        self._write_blocks(1)

    def _write_blocks(self, least: int) -> None:
        """Write full blocks, and the rest too if it has at least `least` records."""
        first, count, copies = 0, len(self._keys), self._copies
        while count - first >= least:
            end = min(first + self._block_rows, count)
            keys, sizes = self._keys[first:end], self._sizes[first:end]
            if self._fenced:
                self.fences.append(Fence(keys[0], self._file.size, self.data_offset))
            prints, rows = pack(f"<{end - first}Q", *self._prints[first:end]), _encode_rows(self._rows[first:end])
            some = copies[bisect_left(copies, (first,)) : bisect_left(copies, (end,))] if copies else []
            self._file.write_block((keys, sizes, prints, rows, [(position - first, each) for position, each in some]))
            self.data_offset += sum(sizes)
            first = end
        del self._keys[:first], self._sizes[:first], self._prints[:first], self._rows[:first]
        if copies:
            self._copies = [(position - first, each) for position, each in copies[bisect_left(copies, (first,)) :]]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._file.__exit__(kind, *rest)
            return
        with self._file:
            self.end_block()


def index_reader(path: str, start: int, end: int, stretch: int) -> BlockReader:
    """Return a reader of the blocks of an index."""
    return BlockReader(path, start, end, stretch, _decode_block)


def decode_prints(prints: bytes) -> tuple[int, ...]:
    """Return the fingerprints in a block."""
    return unpack(f"<{len(prints) // 8}Q", prints)
