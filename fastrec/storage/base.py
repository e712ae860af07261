"""The interface of files in a storage."""

import errno
from io import SEEK_SET, RawIOBase
from typing import Any, Protocol, Self


class EndsEarlyError(OSError):
    """A file ends before all wanted bytes are read."""


def check_size(path: str, data: bytes, size: int, offset: int) -> bytes:
    """Return what was read from `offset`; EndsEarlyError if it is less than `size` bytes."""
    if len(data) < size:
        message = f"it ends at byte {offset + len(data):,}, before byte {offset + size:,}"
        raise EndsEarlyError(errno.EIO, message, path)
    return data


class Reader(Protocol):
    """A file that is open for reading; a context manager that closes it."""

    size: int
    version: int  # changes when the file changes

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes from the current position; empty at the end."""

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes from `offset`; the current position stays."""

    def seek(self, offset: int, size: int | None = None, /) -> None:
        """Continue at `offset`; the caller will read at most `size` bytes from there."""

    def has_changed(self) -> bool:
        """Return whether the file has changed since it was opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


def read_at(reader: Reader, size: int, offset: int) -> bytes:
    """Read `size` bytes, or fewer at the end: a single `pread` may return fewer at any time."""
    if offset >= reader.size:  # it may be too large for the system to seek to
        return b""
    data = reader.pread(size, offset)
    while len(data) < size and (more := reader.pread(size - len(data), offset + len(data))):
        data += more
    return data


class ReaderFile(RawIOBase):
    """A reader as a file of Python."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        at = offset + (0, self._at, self._reader.size)[whence]
        if at < 0:
            raise OSError("a file has no place before its start")
        self._at = at
        return at

    def readinto(self, buffer: Any, /) -> int:
        data = read_at(self._reader, len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class NewFile(Protocol):
    """A file that appears as a whole when it is finished.

    A context manager that finishes it, except after an error.
    """

    def write(self, data: Any, /) -> int:
        """Append all bytes of `data`; return their number."""

    def finish(self) -> None:
        """Make the file visible under its name."""

    def give_up(self) -> None:
        """Remove what was written, unless the file is finished."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.give_up()
