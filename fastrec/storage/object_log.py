"""A log in an object store, which cannot append: a sequence of objects.

Each object holds what was appended within a few seconds. A crash loses at most that, and the next run does it again.
"""

from __future__ import annotations

import contextlib
import time
from tempfile import TemporaryFile
from typing import BinaryIO, Final

from fastrec.storage.base import Storage
from fastrec.storage.paths import parent_and_name

__all__ = ["ObjectLog"]

_FLUSH_SECONDS: Final = 5.0
_FLUSH_BYTES: Final = 4 << 20


class ObjectLog:
    """A log as a sequence of objects: `<path>-000000` and so on."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        directory, name = parent_and_name(path)
        files = storage.files_in(directory)
        self._files = [file for file in files if parent_and_name(file)[1].startswith(f"{name}-")]
        self._waiting: list[bytes] = []
        self._flushed = time.monotonic()

    def size(self) -> int:
        return sum(map(self._storage.size_of, self._files))

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
        """Append some bytes; they are written within a few seconds, by a later call."""
        self._waiting.append(data)
        if time.monotonic() - self._flushed > _FLUSH_SECONDS or sum(map(len, self._waiting)) > _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            number = int(self._files[-1].rpartition("-")[2]) + 1 if self._files else 0
            file = f"{self._path}-{number:06d}"
            self._storage.write_all(file, b"".join(self._waiting))
            self._files.append(file)
            self._waiting.clear()
        self._flushed = time.monotonic()

    def files(self) -> list[str]:
        return list(self._files)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the log only holds hints, and the corpus may be published by now
            self._flush()
