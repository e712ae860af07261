"""The interface of a storage, and of the files in it."""

import errno
import io
from typing import Any, Protocol, Self


class EndsEarlyError(OSError):
    """A file ends before all wanted bytes are read."""


def ends_early(path: str, end: int, wanted: int) -> EndsEarlyError:
    return EndsEarlyError(errno.EIO, f"it ends at byte {end:,}, before byte {wanted:,}", path)


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


class ReaderFile(io.RawIOBase):
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

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._reader.size}[whence]
        if base + offset < 0:
            raise OSError("a file has no place before its start")
        self._at = base + offset
        return self._at

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

    def writev(self, views: list[memoryview], /) -> None:
        """Append all bytes of several buffers."""

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


class Storage(Protocol):
    """A place that holds files: the local file system, or an object store.

    Work files are readable by this user only and are not synced: the next run checks them before it
    uses them.
    """

    def canonical(self, path: str) -> str:
        """Find the one name that all spellings of a path have in common."""

    def leaves(self, directory: str, path: str) -> bool:  # noqa: ARG002 - only local files can
        """Whether a file in a directory is a link to something outside of it.

        Object stores have no links.
        """
        return False

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size_of(self, path: str) -> int: ...

    def signature(self, path: str) -> str:
        """Return a string that changes when a file does, made without reading it.

        OSError if there is no such file.

        It has the size, and the modification time and inode, or a hash of the ETag. A store that
        tells no version of an object gives `-0` after the size: then only the content tells whether
        it changed.
        """

    def files_in(self, directory: str) -> list[str]:
        """List the entries of a directory, sorted; in an object store, all objects below it."""

    def open_reader(self, path: str) -> Reader:
        """Open a regular file.

        OSError if it is something else, such as a FIFO, without waiting for it.
        """

    def read_all(self, path: str) -> bytes:
        """Read a small regular file as a whole."""

    def read_range(self, path: str, size: int, offset: int) -> bytes:
        """Read exactly `size` bytes from `offset`; OSError if the file ends before."""

    def create(self, path: str, *, for_work: bool = False, synced: bool = True) -> NewFile:
        """Start a new file: one to be published, or a work file.

        The first is synced when it is finished, or by `sync`.
        """

    def sync(self, path: str) -> None:  # noqa: ARG002 - only local files need it
        """Wait until a file is on disk; object stores have it when it is finished."""
        return

    def advise(self, path: str, size: int, offset: int, *, needed: bool) -> None:  # noqa: ARG002 - of local files
        """Have a range of a file read into the page cache, or drop it from there."""
        return

    def write_all(self, path: str, data: bytes) -> None:
        """Write a small file and sync it."""

    def copy(self, path: str, new_path: str) -> None: ...

    def make_directory(self, directory: str) -> None:  # noqa: ARG002 - only local files need it
        """Create a directory for this user only, unless it exists; object stores need none."""
        return

    def remove(self, *paths: str) -> None: ...

    def remove_all(self, directory: str) -> None:
        """Remove a directory with all its files, as far as that is possible."""
