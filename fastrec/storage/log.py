"""A log: bytes that are appended, and read back whole by the next run.

On this machine it is a file. A store cannot append, so there it is a row of objects, each with what was appended within
some seconds: what a crash loses of it is done again.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Iterable
from typing import Any, BinaryIO, Final, Protocol

from fastrec.errors import naming
from fastrec.storage import files_in, is_url, parent_and_name, read_all, remove, size_of, write_all

__all__ = ["Log", "open_log"]

_WAIT: Final = 5.0  # seconds between two objects
_MOST: Final = 4 << 20  # bytes that wait for the next one


class Log(Protocol):
    """What can be done with a log."""

    def size(self) -> int:
        """Tell how much is in it."""

    def reader(self) -> BinaryIO:
        """Read it from the beginning."""

    def cut(self, size: int) -> None:
        """Keep only the first bytes, and append behind them from now on."""

    def append(self, data: bytes) -> None:
        """Add to it."""

    def files(self) -> list[str]:
        """Name its files."""

    def close(self) -> None:
        """Let go of it."""


def open_log(path: str) -> Log:
    """Open a log; it is made if it is not there."""
    return _StoreLog(path) if is_url(path) else _LocalLog(path)


class _LocalLog:
    """A file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def reader(self) -> BinaryIO:
        return open(self._descriptor, "rb", closefd=False)

    def cut(self, size: int) -> None:
        with naming(self._path):
            os.ftruncate(self._descriptor, size)
            os.lseek(self._descriptor, size, os.SEEK_SET)

    def append(self, data: bytes) -> None:
        with naming(self._path):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def files(self) -> list[str]:
        return [self._path]

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it holds hints only, and the corpus may be published by now
            os.close(self._descriptor)


class _StoreLog:
    """A row of objects."""

    def __init__(self, path: str) -> None:
        self._path = path
        directory, name = parent_and_name(path)
        self._files = [file for file in files_in(directory) if parent_and_name(file)[1].startswith(f"{name}-")]
        self._waiting: list[bytes] = []
        self._since = time.monotonic()

    def size(self) -> int:
        return sum(map(size_of, self._files))

    def reader(self) -> BinaryIO:
        return io.BufferedReader(_Objects(self._files))

    def cut(self, size: int) -> None:
        left = size
        kept: list[str] = []
        for file in self._files:
            here = size_of(file)
            if left <= 0:
                remove(file)
                continue
            if left < here:
                write_all(file, read_all(file)[:left])
            kept.append(file)
            left -= here
        self._files = kept

    def append(self, data: bytes) -> None:
        self._waiting.append(data)
        if time.monotonic() - self._since > _WAIT or sum(map(len, self._waiting)) > _MOST:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._put(b"".join(self._waiting))
            self._waiting.clear()
        self._since = time.monotonic()

    def _put(self, data: bytes) -> None:
        number = int(self._files[-1].rpartition("-")[2]) + 1 if self._files else 0
        file = f"{self._path}-{number:06d}"
        write_all(file, data)
        self._files.append(file)

    def files(self) -> list[str]:
        return list(self._files)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # as above
            self._flush()


class _Objects(io.RawIOBase):
    """Reads some objects, one after the other."""

    def __init__(self, files: Iterable[str]) -> None:
        super().__init__()
        self._files = iter(files)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            file = next(self._files, None)
            if file is None:
                return 0
            self._left = memoryview(read_all(file))
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size
