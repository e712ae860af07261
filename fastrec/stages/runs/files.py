"""Writing whole buffers to files, and blocks of rows that can be read one by one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from xxhash import xxh3_128

from fastrec.errors import naming

__all__ = ["pack_block", "read_blocks", "read_range", "write_block", "write_views"]

_MOST_VIEWS: Final = 256  # for one writev: every system takes more, but what they hold is still in the cache then
_LENGTH: Final = 4

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def write_views(descriptor: int, views: list[memoryview]) -> str:
    """Write buffers one after the other, without joining them, however many writes it takes; return their hash."""
    digest = xxh3_128()
    for first in range(0, len(views), _MOST_VIEWS):
        batch = views[first : first + _MOST_VIEWS]
        missing = sum(map(len, batch)) - os.writev(descriptor, batch)
        if missing:
            rest = memoryview(b"".join(batch))[-missing:]
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        for view in batch:
            digest.update(view)
    return digest.hexdigest()


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


def pack_block(rows: Any) -> bytes:
    """Spell a block of rows as it stands in a file of blocks."""
    block = _encode(rows)
    return len(block).to_bytes(_LENGTH, "big") + block


def write_block(file: Any, rows: Any) -> int:
    """Append a block to a file of blocks, and return its size."""
    written: int = file.write(pack_block(rows))
    return written


def read_blocks(path: str) -> Iterator[Any]:
    """Give the blocks of a file one by one; it is open only while a block is read, so thousands can be merged."""
    position = 0
    while True:
        with naming(path), open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a str from another process
            descriptor = file.fileno()
            head = os.pread(descriptor, _LENGTH, position)
            if not head:
                return
            size = int.from_bytes(head, "big")
            block = _read_exactly(descriptor, size, position + _LENGTH)
        position += _LENGTH + size
        yield _decode(block)
