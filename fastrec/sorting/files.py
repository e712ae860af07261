"""Temporary files of runs and of the census: buffers written in order, and blocks of rows read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

import msgspec
from xxhash import xxh3_128

from fastrec.storage import storage_of

__all__ = ["BlockReader", "ViewsWriter", "read_blocks", "write_blocks"]

_MOST_VIEWS: Final = 256  # per writev: systems accept more, but this many are still in the cache for the checksum
_LENGTH: Final = 4
_READ_BYTES: Final = 256 << 10  # bytes of a file of blocks read at a time

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


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

    def write_block(self, rows: Any) -> None:
        """Append a block of rows, with its length in front."""
        block = _encode(rows)
        self.write([memoryview(len(block).to_bytes(_LENGTH, "big") + block)])

    def hash(self) -> str:
        """Return the 128-bit xxh3 of the content."""
        return self._digest.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._file.__exit__(kind)


def write_blocks(path: str, blocks: Iterable[Any]) -> tuple[int, str]:
    """Write a file of blocks; return its size and 128-bit xxh3."""
    with ViewsWriter(path) as file:
        for block in blocks:
            file.write_block(block)
    return file.size, file.hash()


class BlockReader:
    """Reads the blocks of a range of a file from front to back, about `stretch` bytes at a time.

    The file is open only during a read, so thousands of files can be merged.
    """

    def __init__(self, path: str, start: int, end: int, stretch: int) -> None:
        self._path = path
        self._position, self._end = start, end
        self._stretch = stretch
        self._cut_off = b""  # the beginning of a block that was not read to its end

    @property
    def at_end(self) -> bool:
        """Whether all blocks were read."""
        return self._position >= self._end and not self._cut_off

    def read(self) -> Iterator[Any]:
        """Read the next stretch, and yield its blocks, which are decoded one by one."""
        data, left = self._cut_off, self._end - self._position
        # A block that was cut off is read to its end, and a small rest is read at once.
        missing = _LENGTH + int.from_bytes(data[:_LENGTH], "big") - len(data) if data else 0
        size = max(self._stretch, missing)
        size = max(left, missing) if left < size + size // 2 else size
        data += storage_of(self._path).read_range(self._path, size, self._position)
        self._position += size
        view, begin = memoryview(data), 0
        while (body := begin + _LENGTH) <= len(data):
            end = body + int.from_bytes(view[begin:body], "big")
            if end > len(data):
                break
            yield _decode(view[body:end])
            begin = end
        self._cut_off = data[begin:]


def read_blocks(path: str, size: int | None = None) -> Iterator[Any]:
    """Yield the blocks of a file, whose size need not be given."""
    reader = BlockReader(path, 0, storage_of(path).size_of(path) if size is None else size, _READ_BYTES)
    while not reader.at_end:
        yield from reader.read()
