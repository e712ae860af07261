"""Temporary files of runs and of the census: buffers written in order, and blocks of rows read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

import msgspec
from xxhash import xxh3_128

from fastrec.storage import storage_of

__all__ = [
    "IndexBlock",
    "ViewsWriter",
    "missing_of",
    "pack_block",
    "read_blocks",
    "read_index",
    "unpack_blocks",
    "write_blocks",
]

_MOST_VIEWS: Final = 256  # per writev: systems accept more, but this many are still in the cache for the checksum
_LENGTH: Final = 4
_STRETCH: Final = 1 << 20  # bytes of an index read at a time, if it is read whole
_READ_BYTES: Final = 256 << 10  # bytes of a file of blocks read at a time

IndexBlock = tuple[list[bytes], list[int], list[Any]]
"""Keys, sizes and rows of some records."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_decode_index = msgspec.msgpack.Decoder(IndexBlock).decode


class ViewsWriter:
    """Writes a temporary file from many buffers without joining them. The file exists once the context is left."""

    def __init__(self, path: str) -> None:
        self._digest = xxh3_128()
        self.size = 0
        self._file = storage_of(path).create(path, for_work=True)

    def write(self, views: list[memoryview]) -> None:
        """Append buffers."""
        for first in range(0, len(views), _MOST_VIEWS):
            batch = views[first : first + _MOST_VIEWS]
            self._file.writev(batch)
            self.size += sum(map(len, batch))
            for view in batch:
                self._digest.update(view)

    def hash(self) -> str:
        """Return the 128-bit xxh3 of the content."""
        return self._digest.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._file.finish()
        finally:
            self._file.give_up()


def pack_block(rows: Any) -> bytes:
    """Encode a block of rows, with its length in front."""
    block = _encode(rows)
    return len(block).to_bytes(_LENGTH, "big") + block


def write_blocks(path: str, blocks: Iterable[Any]) -> tuple[int, str]:
    """Write a file of blocks; return its size and 128-bit xxh3."""
    with ViewsWriter(path) as file:
        for block in blocks:
            file.write([memoryview(pack_block(block))])
    return file.size, file.hash()


def read_blocks(path: str) -> Iterator[Any]:
    """Yield the blocks of a file. It is open only during a read, so thousands of files can be merged."""
    end = storage_of(path).size_of(path)
    position = 0  # of the next read
    data = b""

    def need(count: int) -> None:
        nonlocal data, position
        missing = count - len(data)
        if missing > 0:
            size = max(missing, min(_READ_BYTES, end - position))
            data += storage_of(path).read_range(path, size, position)
            position += size

    while data or position < end:
        need(_LENGTH)
        size = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
        need(size)
        yield _decode(data[_LENGTH:size])
        data = data[size:]


def unpack_blocks(data: bytes) -> tuple[list[IndexBlock], bytes]:
    """Decode the complete blocks in some bytes of an index; return them and the rest."""
    blocks: list[IndexBlock] = []
    view = memoryview(data)
    position = 0
    while len(data) - position >= _LENGTH:
        end = position + _LENGTH + int.from_bytes(view[position : position + _LENGTH], "big")
        if end > len(data):
            break
        blocks.append(_decode_index(view[position + _LENGTH : end]))
        position = end
    return blocks, data[position:]


def missing_of(cut_off: bytes) -> int:
    """Return how many bytes of an incomplete block are missing; 0 if its length is incomplete too."""
    return _LENGTH + int.from_bytes(cut_off[:_LENGTH], "big") - len(cut_off) if len(cut_off) >= _LENGTH else 0


def read_index(path: str, start: int, end: int, *, at_once: int = _STRETCH) -> Iterator[IndexBlock]:
    """Yield the blocks of a range of an index, reading `at_once` bytes at a time."""
    rest = b""
    while start < end:
        size = min(at_once, end - start)
        blocks, rest = unpack_blocks(rest + storage_of(path).read_range(path, size, start))
        start += size
        yield from blocks
