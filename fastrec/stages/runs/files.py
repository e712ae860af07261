"""Work files: whole buffers written and stretches read, and blocks of rows that can be read one by one.

All that runs and the census read and write goes through here.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

import msgspec
from xxhash import xxh3_128

from fastrec.errors import naming

__all__ = [
    "ViewsWriter",
    "missing_of",
    "pack_block",
    "read_blocks",
    "read_index",
    "read_range",
    "remove",
    "unpack_blocks",
    "write_blocks",
    "write_views",
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
    """A file for this user alone, written from front to back without joining what it is made of."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._digest = xxh3_128()
        self.size = 0
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)

    def write(self, views: list[memoryview]) -> None:
        """Write buffers one after the other."""
        with naming(self._path):
            self.size += write_views(self._descriptor, views, self._digest)

    def hash(self) -> str:
        """Return the 128-bit xxh3 of what was written."""
        return self._digest.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with naming(self._path):
            os.close(self._descriptor)


def write_views(descriptor: int, views: list[memoryview], digest: xxh3_128) -> int:
    """Write buffers one after the other, however many writes it takes; return their size."""
    size = 0
    for first in range(0, len(views), _MOST_VIEWS):
        batch = views[first : first + _MOST_VIEWS]
        wanted = sum(map(len, batch))
        size += wanted
        missing = wanted - os.writev(descriptor, batch)
        if missing:
            rest = memoryview(b"".join(batch))[-missing:]
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        for view in batch:
            digest.update(view)
    return size


def read_range(path: str, size: int, offset: int) -> bytes:
    """Read a stretch of a file that is known to be there."""
    with naming(path), open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a str from another process
        return _read_exactly(file.fileno(), size, offset)


def _read_exactly(descriptor: int, size: int, offset: int) -> bytes:
    data = os.pread(descriptor, size, offset)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            raise OSError(errno.EIO, f"it ends at byte {offset + len(data):,}, before byte {offset + size:,}")
        data += more
    return data


def remove(path: str) -> None:
    """Remove a file that nobody needs any more."""
    os.unlink(path)  # noqa: PTH108 - a str from another process


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
    position = 0
    some = b""
    while True:
        with naming(path), open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a str from another process
            descriptor = file.fileno()
            some += os.pread(descriptor, _SOME, position + len(some))
            if not some:
                return
            size = int.from_bytes(some[:_LENGTH], "big")
            if size > len(some) - _LENGTH:
                some += _read_exactly(descriptor, size + _LENGTH - len(some), position + len(some))
        start = 0
        while len(some) - start >= _LENGTH:
            end = start + _LENGTH + int.from_bytes(some[start : start + _LENGTH], "big")
            if end > len(some):
                break
            yield _decode(some[start + _LENGTH : end])
            start = end
        position += start
        some = some[start:]


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
        blocks, rest = unpack_blocks(rest + read_range(path, size, start))
        start += size
        yield from blocks
