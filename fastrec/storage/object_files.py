"""Objects that are open: read ahead in blocks, uploaded in parts, or a sequence of them that is a log."""

from __future__ import annotations

import contextlib
import errno
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final

from fastrec.storage.base import NewFile, Reader, Storage
from fastrec.storage.object_client import ObjectClient

__all__ = ["NewObject", "ObjectLog", "ObjectReader"]

_AHEAD: Final = 2  # blocks that are requested before they are needed
_UPLOAD_PART: Final = 16 << 20  # bytes; a smaller object is sent in one request
_FLUSH_SECONDS: Final = 5.0
_FLUSH_BYTES: Final = 4 << 20


class ObjectReader(Reader):
    """An object that is read sequentially: the next blocks are requested while one is used."""

    def __init__(self, client: ObjectClient, path: str) -> None:
        _, self.size, self.version = client.look_at(path)
        self._client = client
        self._path = path
        self._next, self._end = 0, self.size  # what is not requested yet
        self._peeked = 0, b""  # offset and bytes of the last `pread`
        self._requested: deque[Future[bytes]] = deque()
        self._left = memoryview(b"")
        self._executor = ThreadPoolExecutor(_AHEAD)  # starts a thread when the first block is requested

    def read(self, size: int) -> bytes:
        if not self._left:
            while len(self._requested) < _AHEAD and self._next < self._end:
                count = min(self._client.limits.store_block_bytes, self._end - self._next)
                self._requested.append(self._executor.submit(self._block, count, self._next))
                self._next += count
            if not self._requested:
                return b""
            self._left = memoryview(self._requested.popleft().result())
        data, self._left = bytes(self._left[:size]), self._left[size:]
        return data

    def _block(self, size: int, offset: int) -> bytes:
        data = self._client.read_some(self._path, size, offset)
        if len(data) != size:
            raise OSError(errno.EIO, f"gave {len(data):,} bytes from byte {offset:,} on, not {size:,}", self._path)
        return data

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes from `offset`; a caller that continues from there gets ever larger blocks."""
        begin, block = self._peeked
        if not begin <= offset < begin + len(block):
            wanted = max(size, 2 * len(block) if offset == begin + len(block) else 0)
            wanted = min(wanted, self._client.limits.store_block_bytes, max(self.size - offset, 0))
            begin, block = self._peeked = offset, self._client.read_some(self._path, wanted, offset)
        return block[offset - begin : offset - begin + size]

    def seek(self, offset: int, size: int | None = None, /) -> None:
        self._cancel_requests()
        self._next = offset
        self._end = self.size if size is None else min(offset + size, self.size)
        self._left = memoryview(b"")

    def has_changed(self) -> bool:
        _, size, version = self._client.look_at(self._path)
        return (size, version) != (self.size, self.version)

    def __exit__(self, *_: object) -> None:
        self._cancel_requests()
        self._executor.shutdown()

    def _cancel_requests(self) -> None:
        for future in self._requested:
            future.cancel()
        self._requested.clear()


class NewObject(NewFile):
    """An object that is uploaded in parts; it appears when it is finished."""

    def __init__(self, client: ObjectClient, path: str) -> None:
        self._client = client
        self._path = path
        with client.asking(path) as (fs, name):
            self._file = fs.open(name, "wb", block_size=_UPLOAD_PART)
            if hasattr(self._file, "_call_s3"):  # s3fs sends each part without a time limit
                self._file._call_s3 = partial(self._file._call_s3, **client.time_limit(fs))  # noqa: SLF001

    def write(self, data: Any, /) -> int:
        with self._client.translated(self._path):
            self._file.write(data)
        return len(data)

    def writev(self, views: list[memoryview], /) -> None:
        self.write(b"".join(views))

    def finish(self) -> None:
        with self._client.translated(self._path):
            self._file.close()
        self._file = None

    def give_up(self) -> None:
        """Discard the upload. Closing the file would complete it, and so would the garbage collector."""
        if self._file is not None:
            with contextlib.suppress(Exception):
                self._file.discard()
            with contextlib.suppress(Exception):
                self._file.closed = True
            self._file = None


class ObjectLog:
    """A log in a store, which cannot append: a sequence of objects, `<path>-000000` and so on.

    Each object holds what was appended within a few seconds. A crash loses at most that, and the next run does it
    again.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        files = storage.files_in(path.rpartition("/")[0])
        self._files = [file for file in files if file.startswith(f"{path}-")]
        self._waiting: list[bytes] = []
        self._flushed = time.monotonic()

    def reader(self) -> BinaryIO:
        copy: BinaryIO = TemporaryFile()  # noqa: SIM115 - the caller closes it
        copy.writelines(self._storage.read_all(file) for file in self._files)
        copy.seek(0)
        return copy

    def cut(self, size: int) -> None:
        left = size
        remaining: list[str] = []
        for file in self._files:
            here = self._storage.size_of(file)
            if left <= 0:
                self._storage.remove(file)
                continue
            if left < here:
                self._storage.write_all(file, self._storage.read_all(file)[:left])
            remaining.append(file)
            left -= here
        self._files = remaining

    def append(self, data: bytes) -> None:
        """Append some bytes; the first ones are written at once, others within a few seconds, by a later call."""
        self._waiting.append(data)
        waited = time.monotonic() - self._flushed > _FLUSH_SECONDS
        if waited or not self._files or sum(map(len, self._waiting)) > _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            number = int(self._files[-1].rpartition("-")[2]) + 1 if self._files else 0
            file = f"{self._path}-{number:06d}"
            self._storage.write_all(file, b"".join(self._waiting))
            self._files.append(file)
            self._waiting.clear()
        self._flushed = time.monotonic()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the log only holds hints, and the corpus may be published by now
            self._flush()
