"""Files of this machine."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Any, Final, Self

from fastrec.errors import naming

__all__ = ["PRIVATE", "LocalReader", "NewLocalFile", "temporary_name"]

PRIVATE: Final = 0o600


def temporary_name(path: str) -> str:
    """Name a file until it is whole: a worker that was taken for dead may still be writing the one of the same name."""
    return f"{path}.{secrets.token_hex(4)}"


class NewLocalFile:
    """A file of this machine."""

    def __init__(self, path: str, *, for_work: bool) -> None:
        self._path = path
        self._for_work = for_work
        self._temporary = temporary_name(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(self._temporary, flags, PRIVATE if for_work else 0o666)

    def write(self, data: Any, /) -> int:
        """Append some bytes, all of them."""
        rest = memoryview(data)
        with naming(self._temporary):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        return len(data)

    def writev(self, views: list[memoryview], /) -> None:
        """Append some buffers, without joining them, however many writes it takes."""
        with naming(self._temporary):
            missing = sum(map(len, views)) - os.writev(self._descriptor, views)
        if missing:
            self.write(memoryview(b"".join(views))[-missing:])

    def finish(self) -> None:
        """Put the file in its place."""
        with naming(self._temporary):
            if not self._for_work:
                os.fsync(self._descriptor)
            self._close()
            os.replace(self._temporary, self._path)  # noqa: PTH105

    def give_up(self) -> None:
        """Leave nothing behind, unless the file is finished."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self._close()
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)  # noqa: PTH108

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


class LocalReader:
    """A file of this machine."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._descriptor)
        self.size = status.st_size
        self.version = status.st_mtime_ns

    def read(self, size: int) -> bytes:
        """Read up to so many bytes from where the last read ended; none at the end."""
        return os.read(self._descriptor, size)

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to so many bytes from somewhere."""
        return os.pread(self._descriptor, size, offset)

    def seek(self, offset: int, _size: int | None = None, /) -> None:
        """Go on reading from somewhere else."""
        os.lseek(self._descriptor, offset, os.SEEK_SET)

    def has_changed(self) -> bool:
        """Tell whether the file is another by now."""
        status = os.fstat(self._descriptor)
        return (status.st_size, status.st_mtime_ns) != (self.size, self.version)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
