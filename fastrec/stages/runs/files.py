"""Writing whole buffers to files, and blocks of rows that can be read one by one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from xxhash import xxh3_128

from fastrec.storage import is_url, open_writer, read_range, size_of

__all__ = ["pack_block", "read_blocks", "write_block", "write_views"]

_MOST_VIEWS: Final = 256  # for one writev: every system takes more, but what they hold is still in the cache then
_LENGTH: Final = 4
_SOME_BYTES: Final = 1 << 16

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def write_views(path: str, views: list[memoryview]) -> str:
    """Write buffers one after the other to a new file, and return their hash."""
    digest = xxh3_128()
    with open_writer(path) as file:
        for first in range(0, len(views), _MOST_VIEWS):
            batch = views[first : first + _MOST_VIEWS]
            if is_url(path):
                file.write(b"".join(batch))
            else:
                _write_all(file.fileno(), batch)
            for view in batch:
                digest.update(view)
    return digest.hexdigest()


def _write_all(descriptor: int, views: list[memoryview]) -> None:
    """Write buffers without joining them, however many writes it takes."""
    missing = sum(map(len, views)) - os.writev(descriptor, views)
    if missing:
        rest = memoryview(b"".join(views))[-missing:]
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def pack_block(rows: Any) -> bytes:
    """Spell a block of rows as it stands in a file of blocks."""
    block = _encode(rows)
    return len(block).to_bytes(_LENGTH, "big") + block


def write_block(file: Any, rows: Any) -> int:
    """Append a block to a file of blocks, and return its size."""
    written: int = file.write(pack_block(rows))
    return written


def read_blocks(path: str) -> Iterator[Any]:
    """Give the blocks of a file one by one; it is open only while it is read, so thousands can be merged."""
    end = size_of(path)
    position = 0  # of what was not read yet
    data = b""

    def need(count: int) -> None:
        nonlocal data, position
        missing = count - len(data)
        if missing > 0:
            size = max(missing, min(_SOME_BYTES, end - position))
            data += read_range(path, size, position)
            position += size

    while data or position < end:
        need(_LENGTH)
        size = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
        need(size)
        yield _decode(data[_LENGTH:size])
        data = data[size:]
