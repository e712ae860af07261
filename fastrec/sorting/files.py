"""Work files in blocks: indexes of runs, the census, rejected lines, journals and kept work.

    block    length of the body, 4 bytes | 64-bit xxh3 of the body, 8 bytes | body: msgpack

A negative length says that the body is compressed.

A reader checks every block, so a file that was damaged or cut off is never taken for another one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import zstandard
from xxhash import xxh3_64_digest, xxh3_128

from fastrec.errors import DamagedFileError, is_out_of_memory
from fastrec.limits import in_batches
from fastrec.storage import storage_of
from fastrec.storage.base import EndsEarlyError, NewFile

_JOINED_VIEWS = 256  # so few that their text is in the cache when it is written and hashed
_LENGTH = 4
_HEAD = _LENGTH + 8

_LEVEL = 1
_READ_BYTES = 256 << 10  # bytes of a file of blocks read at a time

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class ViewsWriter(NewFile):
    """Writes a temporary file from many buffers."""

    def __init__(self, path: str, *, compressed: bool = False) -> None:
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress if compressed else None
        self._digest = xxh3_128()
        self.size = 0
        self._file = storage_of(path).create(path, for_work=True)

    def write(self, data: Any, /) -> int:
        """Append all bytes of `data`; return their number."""
        self._digest.update(data)
        self.size += len(data)
        return self._file.write(data)

    def append(self, views: Sequence[memoryview]) -> None:
        for batch in in_batches(views, _JOINED_VIEWS):
            self.write(b"".join(batch))

    def write_block(self, rows: Any) -> None:
        body = _encode(rows)
        if self._compress:
            body = self._compress(body)
        self.write(framed(body, -1 if self._compress else 1))

    def hash(self) -> str:
        """128-bit xxh3 of the content."""
        return self._digest.hexdigest()

    def finish(self) -> None:
        self._file.finish()

    def give_up(self) -> None:
        self._file.give_up()


def framed(body: bytes, sign: int = 1) -> bytes:
    """A block: a body with its length, of this sign, and its checksum in front."""
    length = sign * len(body)
    return length.to_bytes(_LENGTH, "big", signed=True) + xxh3_64_digest(body) + body


def write_blocks(path: str, blocks: Iterable[Any], *, compressed: bool = False) -> tuple[int, str]:
    """Write a file of blocks; return its size and 128-bit xxh3."""
    with ViewsWriter(path, compressed=compressed) as file:
        for block in blocks:
            file.write_block(block)
    return file.size, file.hash()


def read_exactly(path: str, size: int, offset: int) -> bytes:
    """Read `size` bytes from `offset`; DamagedFileError if the file is missing or ends before."""
    try:
        return storage_of(path).read_range(path, size, offset)
    except (FileNotFoundError, EndsEarlyError) as exc:
        raise DamagedFileError(path, exc.strerror or str(exc)) from exc


def blocks_between(
    path: str,
    start: int,
    end: int,
    stretch: int,
    decode: Callable[[bytes | memoryview], Any] = _decode,
) -> Iterator[Any]:
    """Yield the blocks of a range of a file, which is read about `stretch` bytes at a time.

    The file is open only during a read, so thousands of files can be merged. A block is decoded
    when it is asked for.
    """
    data = b""  # what was read, up to `start`
    begin = 0  # where the next block begins in it
    while start < end or begin < len(data):
        head = data[begin : begin + _LENGTH]
        length = int.from_bytes(head, "big", signed=True) if len(head) == _LENGTH else 0
        body = begin + _HEAD
        stop = body + abs(length)  # if its length was not read yet, where it ends at the earliest
        missing = stop - len(data)
        if missing > 0:
            # A block that was cut off is read to its end, and a small rest is read at once.
            left = end - start
            if missing > left:
                raise DamagedFileError(path, f"it ends at byte {end:,}, inside a block")
            size = max(stretch, missing)
            size = left if left < size + size // 2 else size
            data = data[begin:] + read_exactly(path, size, start)
            begin = 0
            start += size
            continue
        view = memoryview(data)[body:stop]
        if xxh3_64_digest(view) != data[begin + _LENGTH : body]:
            offset = start - len(data) + begin
            raise DamagedFileError(
                path, f"the block at byte {offset:,} does not match its checksum"
            )
        try:
            decoded = [decode(zstandard.decompress(view) if length < 0 else view)]
        except (msgspec.MsgspecError, zstandard.ZstdError) as exc:
            if is_out_of_memory(exc):
                raise
            raise DamagedFileError(path, f"a block is not of the expected form: {exc}") from exc
        begin = stop
        if stop == len(data):  # freed: it may be some time until the next read
            data = b""
            begin = 0
        del view
        yield decoded.pop()  # thousands of readers must not hold their last blocks


def read_blocks(path: str) -> Iterator[Any]:
    """Yield the blocks of a file; DamagedFileError if it is damaged or missing."""
    try:
        size = storage_of(path).size_of(path)
    except FileNotFoundError as exc:
        raise DamagedFileError(path, exc.strerror or str(exc)) from exc
    yield from blocks_between(path, 0, size, _READ_BYTES)


def intact_blocks(path: str) -> list[Any]:
    """The blocks of a file up to the first that is damaged; none if it cannot be read."""
    blocks: list[Any] = []
    with suppress(OSError, DamagedFileError):
        blocks.extend(read_blocks(path))
    return blocks
