"""Files of this machine."""

import errno
import os
import secrets
import stat
from contextlib import suppress
from functools import partial
from typing import Any

from fastrec.errors import UsageError, naming, shown, writing
from fastrec.storage.base import NewFile, Reader, check_size, read_at

_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC
_COPY_BYTES = 1 << 20
# Another file system, one without hard links, too many of them, or a rule of the system; a copy
# may still work.
_CANNOT_LINK = {
    errno.EXDEV,
    errno.EPERM,
    errno.EACCES,
    errno.EMLINK,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
}


# An opener of files that only this user may read.
open_private = partial(os.open, mode=0o600)


class _NewLocalFile(NewFile):
    """A new file under a temporary name.

    The name is unique: a worker presumed dead may write the same file.
    """

    def __init__(self, path: str, *, for_work: bool = False, synced: bool = True) -> None:
        self._path = path
        self._is_synced = synced and not for_work
        directory, name = os.path.split(path)
        # Cut, because a file name has at most 255 bytes: 60 characters have at most 240.
        self._temporary = os.path.join(directory, f"{name[:60]}.{secrets.token_hex(4)}")
        self._file = open(  # noqa: SIM115
            self._temporary, "wb", opener=open_private if for_work else None
        )

    def write(self, data: Any, /) -> int:
        with naming(self._temporary):
            return self._file.write(data)

    def finish(self) -> None:
        with naming(self._temporary):
            self._file.flush()
            if self._is_synced:
                os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._temporary, self._path)

    def give_up(self) -> None:
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):  # there is none if the file is finished
            os.unlink(self._temporary)


_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


def why_irregular(status: os.stat_result) -> str | None:
    """What a file is instead of a regular file; None if it is one."""
    if stat.S_ISREG(status.st_mode):
        return None
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
    return f"is {kind}, not a regular file"


def _open_regular(path: str) -> int:
    """Open a regular file.

    Anything else is refused at once: a FIFO would wait for a writer, a device may never end.
    """
    try:
        descriptor = os.open(path, _READ_ONLY | os.O_NONBLOCK)
    except OSError as exc:
        if exc.errno != errno.ENXIO:  # a socket, or a device that is not there
            raise
        raise OSError(errno.EINVAL, why_irregular(os.stat(path)) or exc.strerror, path) from exc
    status = os.fstat(descriptor)
    if reason := why_irregular(status):
        os.close(descriptor)
        raise OSError(errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL, reason, path)
    return descriptor


class _LocalReader(Reader):
    def __init__(self, path: str, *, stream: bool = False) -> None:
        """Open a regular file, or a stream that the user named as input.

        A FIFO may wait for a writer.
        """
        self._descriptor = os.open(path, _READ_ONLY) if stream else _open_regular(path)
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

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class LocalStorage:
    """The local file system; `ObjectStore` has the same methods.

    Work files are readable by this user only and are not synced: the next run checks them before it
    uses them.
    """

    is_directory = staticmethod(os.path.isdir)
    size_of = staticmethod(os.path.getsize)
    open_reader = _LocalReader
    create = _NewLocalFile

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory; OSError if the system does not tell."""
        with suppress(FileNotFoundError, NotADirectoryError, ValueError):
            os.stat(path)
            return True
        return False

    def canonical(self, path: str) -> str:
        """Find the one name that all spellings of a path have in common."""
        return os.path.realpath(path)

    def leaves(self, directory: str, path: str) -> bool:
        """Whether a file in a directory is a link to something outside of it."""
        inside = os.path.join(os.path.realpath(directory), "")
        return os.path.islink(path) and not os.path.realpath(path).startswith(inside)

    def signature(self, path: str) -> str:
        """Return a string that changes when a file does, made without reading it.

        OSError if there is no such file.

        It has the size, and the modification time and inode, or a hash of the ETag. A store that
        tells no version of an object gives `-0` after the size: then only the content tells whether
        it changed.
        """
        status = os.stat(path)
        return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"

    def files_in(self, directory: str) -> list[str]:
        """List the entries of a directory, sorted; in an object store, all objects below it."""
        before = directory.rstrip("/")
        return sorted(f"{before}/{name}" for name in os.listdir(directory))

    def read_all(self, path: str) -> bytes:
        """Read a small regular file as a whole."""
        with naming(path), open(_open_regular(path), "rb") as file:
            return file.read()

    def read_range(self, path: str, size: int, offset: int) -> bytes:
        """Read exactly `size` bytes from `offset`; OSError if the file ends before."""
        # A file object would take twice as long to open.
        with naming(path), self.open_reader(path) as file:
            return check_size(path, read_at(file, size, offset), size, offset)

    def sync(self, path: str) -> None:
        """Wait until a file is on disk; object stores have it when it is finished."""
        with naming(path):
            descriptor = os.open(path, _READ_ONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def advise(self, path: str, size: int, offset: int, *, needed: bool) -> None:
        """Have a range of a file read into the page cache, or drop it from there."""
        if hasattr(os, "posix_fadvise"):  # macOS has none
            advice = os.POSIX_FADV_WILLNEED if needed else os.POSIX_FADV_DONTNEED
            with suppress(OSError), open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), offset, size, advice)

    def write_all(self, path: str, data: bytes) -> None:
        """Write a small file and sync it."""
        with self.create(path) as file:
            file.write(data)

    def copy(self, path: str, new_path: str) -> None:
        with self.create(new_path) as new, naming(path), self.open_reader(path) as old:
            while block := old.read(_COPY_BYTES):
                new.write(block)

    def link_or_copy(self, path: str, new_path: str) -> bool:
        """Give a file a second name, or copy it if that is impossible.

        Return whether it is a link.
        """
        try:
            os.link(os.path.realpath(path), new_path)  # some systems would link to a link
        except FileExistsError:
            if not os.path.samefile(path, new_path):
                os.unlink(new_path)
                return self.link_or_copy(path, new_path)
        except OSError as exc:
            if exc.errno not in _CANNOT_LINK:
                raise
            self.copy(path, new_path)
            return False
        return True

    def make_directory(self, directory: str) -> None:
        """Create a directory for this user only, unless it exists; object stores need none."""
        os.makedirs(directory, exist_ok=True, mode=0o700)
        os.chmod(directory, 0o700)

    def remove(self, *paths: str) -> None:
        for path in paths:
            if os.path.isdir(path) and not os.path.islink(path):
                self.remove_all(path)
            else:
                os.unlink(path)

    def remove_all(self, directory: str) -> None:
        """Remove a directory with all its files, as far as that is possible."""
        import shutil  # noqa: PLC0415 - a command that only reads does not need it

        # rmtree does not ignore an error from closing a directory
        with suppress(OSError):
            shutil.rmtree(directory, ignore_errors=True)


LOCAL = LocalStorage()


def scratch_directory() -> str:
    """Make a private directory for temporary files of this user; under TMPDIR, if that is set."""
    import tempfile  # noqa: PLC0415 - rarely needed

    directory = f"{tempfile.gettempdir()}/fastrec-{os.getuid()}"
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UsageError(
            f"{shown(directory)} is not a directory that only you may write to: give --work-dir"
        )
    return directory


def check_new_file(path: str, *, overwrite: bool) -> None:
    """Raise a UsageError if a file that a command writes exists, unless it may be replaced."""
    if os.path.isfile(path) and not overwrite:
        raise UsageError(
            f"{shown(path)} exists; choose another file, or add --overwrite to replace it"
        )


def write_file(path: str, data: bytes) -> None:
    """Write a file that a user has named; of a symbolic link, the file that it points to.

    Raises:
        FastrecError: It cannot be written.
    """
    with writing(path):
        LOCAL.write_all(os.path.realpath(path), data)
