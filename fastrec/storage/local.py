"""Files of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Self

from fastrec.errors import UsageError, naming, shown
from fastrec.storage.base import Log, NewFile, Reader, Writer
from fastrec.storage.paths import join

__all__ = ["LOCAL", "LocalStorage", "scratch_directory"]

_PRIVATE: Final = 0o600


class LocalStorage:
    """The local file system; see `Storage` for its methods."""

    def canonical(self, path: str) -> str:
        return os.path.realpath(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size  # noqa: PTH116

    def files_in(self, directory: str) -> list[str]:
        return sorted(join(directory, name) for name in os.listdir(directory))  # noqa: PTH208

    def open_reader(self, path: str) -> Reader:
        return _LocalReader(path)

    def read_all(self, path: str) -> bytes:
        with naming(path), open(path, "rb") as file:  # noqa: PTH123
            return file.read()

    def read_range(self, path: str, size: int, offset: int) -> bytes:
        with naming(path), open(path, "rb", buffering=0) as file:  # noqa: PTH123
            descriptor = file.fileno()
            data = os.pread(descriptor, size, offset)
            while len(data) < size:
                more = os.pread(descriptor, size - len(data), offset + len(data))
                if not more:
                    end, wanted = offset + len(data), offset + size
                    raise OSError(errno.EIO, f"it ends at byte {end:,}, before byte {wanted:,}", path)
                data += more
            return data

    def create(self, path: str, *, for_work: bool = False) -> NewFile:
        return _NewLocalFile(path, for_work=for_work)

    @contextlib.contextmanager
    def open_writer(self, path: str) -> Iterator[Writer]:
        temporary = _temporary_name(path)
        try:
            with naming(temporary), open(temporary, "wb", opener=_private) as file:
                yield file
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            raise

    def write_all(self, path: str, data: bytes) -> None:
        with naming(path), open(path, "wb") as file:  # noqa: PTH123
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def open_log(self, path: str) -> Log:
        return _LocalLog(path)

    def make_directory(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True, mode=0o700)  # noqa: PTH103
        os.chmod(directory, 0o700)  # noqa: PTH101

    def remove(self, *paths: str) -> None:
        for path in paths:
            if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
                self.remove_all(path)
            else:
                os.unlink(path)  # noqa: PTH108

    def remove_all(self, directory: str) -> None:
        import shutil  # noqa: PLC0415 - a command that only reads does not need it

        with contextlib.suppress(OSError):  # rmtree does not ignore an error from closing a directory
            shutil.rmtree(directory, ignore_errors=True)


LOCAL: Final = LocalStorage()


def scratch_directory() -> str:
    """Return a private directory for temporary files of this user; under TMPDIR, if that is set."""
    import tempfile  # noqa: PLC0415 - rarely needed

    directory = join(tempfile.gettempdir(), f"fastrec-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)  # noqa: PTH102
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UsageError(f"{shown(directory)} is not a directory that only you may write to: give --work-dir")
    return directory


def _temporary_name(path: str) -> str:
    """Return a unique name for an unfinished file: a worker presumed dead may still write one for the same path."""
    return f"{path}.{secrets.token_hex(4)}"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, _PRIVATE)


class _NewLocalFile:
    """A new file, under a temporary name until it is finished."""

    def __init__(self, path: str, *, for_work: bool) -> None:
        self._path = path
        self._for_work = for_work
        self._temporary = _temporary_name(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(self._temporary, flags, _PRIVATE if for_work else 0o666)

    def write(self, data: Any, /) -> int:
        with naming(self._temporary):
            _write(self._descriptor, data)
        return len(data)

    def writev(self, views: list[memoryview], /) -> None:
        with naming(self._temporary):
            missing = sum(map(len, views)) - os.writev(self._descriptor, views)
        if missing:
            self.write(memoryview(b"".join(views))[-missing:])

    def finish(self) -> None:
        with naming(self._temporary):
            if not self._for_work:
                os.fsync(self._descriptor)
            self._close()
            os.replace(self._temporary, self._path)  # noqa: PTH105

    def give_up(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self._close()
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)  # noqa: PTH108

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


def _write(descriptor: int, data: Any) -> None:
    """Write all bytes, with as many calls as that takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class _LocalReader:
    """A file that is open for reading."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._descriptor)
        self.size = status.st_size
        self.version = status.st_mtime_ns

    def read(self, size: int) -> bytes:
        return os.read(self._descriptor, size)

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def seek(self, offset: int, _size: int | None = None, /) -> None:
        os.lseek(self._descriptor, offset, os.SEEK_SET)

    def has_changed(self) -> bool:
        status = os.fstat(self._descriptor)
        return (status.st_size, status.st_mtime_ns) != (self.size, self.version)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _LocalLog:
    """A file that is appended to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)

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
            _write(self._descriptor, data)

    def files(self) -> list[str]:
        return [self._path]

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the log only holds hints, and the corpus may be published by now
            os.close(self._descriptor)
