"""Work files: whole buffers written and stretches read, and blocks of rows that can be read one by one.

All that runs and the census read and write goes through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

import msgspec
from xxhash import xxh3_128

from fastrec.storage import storage_of

__all__ = [
    "ViewsWriter",
    "missing_of",
    "pack_block",
    "read_blocks",
    "read_index",
    "unpack_blocks",
    "write_blocks",
]

_MOST_VIEWS: Final = 256  # for one writev: every system takes more, but what they hold is still in the cache then
_LENGTH: Final = 4
_STRETCH: Final = 1 << 20  # bytes of an index that are read at a time, if it is read whole

_SOME: Final = 256 << 10  # bytes of a file of blocks that are read at a time

IndexBlock = tuple[list[bytes], list[int], list[Any]]
"""Keys, sizes and rows of some records."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_decode_index = msgspec.msgpack.Decoder(IndexBlock).decode


class ViewsWriter:
    """A work file, written from front to back without joining what it is made of; it is there on leaving."""

    def __init__(self, path: str) -> None:
        self._digest = xxh3_128()
        self.size = 0
        self._file = storage_of(path).create(path, for_work=True)

    def write(self, views: list[memoryview]) -> None:
        """Write buffers one after the other."""
        for first in range(0, len(views), _MOST_VIEWS):
            batch = views[first : first + _MOST_VIEWS]
            self._file.writev(batch)
            self.size += sum(map(len, batch))
            for view in batch:
                self._digest.update(view)

    def hash(self) -> str:
        """Return the 128-bit xxh3 of what was written."""
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
    """Spell a block of rows as it stands in a file of blocks."""
    block = _encode(rows)
    return len(block).to_bytes(_LENGTH, "big") + block


def write_blocks(path: str, blocks: Iterable[Any]) -> tuple[int, str]:
    """Write a file of blocks; return its size and the 128-bit xxh3 of it."""
    with ViewsWriter(path) as file:
        for block in blocks:
            file.write([memoryview(pack_block(block))])
    return file.size, file.hash()


def read_blocks(path: str) -> Iterator[Any]:
    """Give the blocks of a file one by one; it is open only while some are read, so thousands can be merged."""
    end = storage_of(path).size_of(path)
    position = 0  # of what was not read yet
    data = b""

    def need(count: int) -> None:
        nonlocal data, position
        missing = count - len(data)
        if missing > 0:
            size = max(missing, min(_SOME, end - position))
            data += storage_of(path).read_range(path, size, position)
            position += size

    while data or position < end:
        need(_LENGTH)
        size = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
        need(size)
        yield _decode(data[_LENGTH:size])
        data = data[size:]


def unpack_blocks(data: bytes) -> tuple[list[IndexBlock], bytes]:
    """Read the blocks of an index that are whole in some bytes of it; give the rest back."""
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
    """Say how many bytes of a block are missing behind its beginning; 0 if not even its length is known."""
    return _LENGTH + int.from_bytes(cut_off[:_LENGTH], "big") - len(cut_off) if len(cut_off) >= _LENGTH else 0


def read_index(path: str, start: int, end: int) -> Iterator[IndexBlock]:
    """Give the blocks of a stretch of an index."""
    rest = b""
    while start < end:
        size = min(_STRETCH, end - start)
        blocks, rest = unpack_blocks(rest + storage_of(path).read_range(path, size, start))
        start += size
        yield from blocks
