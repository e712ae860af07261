"""Where files are: on this machine, or in a store that fsspec knows by a URL (`s3://`, `gs://`, `hf://`, `memory://`).

A path is a string. What has `://` in it is a URL, and goes through `fastrec.storage.store`, which is loaded when the
first one appears. All else is a path of this machine, and is handled directly.

A store has no directories and no rename: an object appears whole when its writer is closed, or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any

from fastrec.errors import UsageError, naming, shown
from fastrec.storage.kinds import NewFile, Reader, Writer
from fastrec.storage.local import PRIVATE, LocalReader, NewLocalFile, temporary_name

__all__ = [
    "NewFile",
    "Reader",
    "Writer",
    "create",
    "exists",
    "files_in",
    "is_directory",
    "is_private",
    "is_url",
    "join",
    "make_directory",
    "only_name",
    "open_reader",
    "open_writer",
    "parent_and_name",
    "read_all",
    "read_range",
    "remove",
    "remove_all",
    "scratch_directory",
    "size_of",
    "sweep",
    "without_file_protocol",
    "write_all",
]


def is_url(path: str) -> bool:
    """Tell whether a path is one of a store.

    >>> is_url("s3://bucket/runs"), is_url("runs/a.jsonl"), is_url("-")
    (True, False, False)
    """
    return "://" in path


def without_file_protocol(path: str) -> str:
    """Give the path that a URL of a file of this machine stands for; anything else as it is.

    >>> without_file_protocol("file:///data/runs"), without_file_protocol("s3://bucket/runs")
    ('/data/runs', 's3://bucket/runs')
    """
    return path.removeprefix("file://")


def only_name(url: str) -> str:
    """Give the one URL that all names of an object have in common: `s3a://` and `s3://` are the same."""
    return str(_store().only_name(url))


def join(directory: str, name: str) -> str:
    """Name what is in a directory.

    >>> join("s3://bucket/runs/", "a.jsonl"), join("runs", "a.jsonl")
    ('s3://bucket/runs/a.jsonl', 'runs/a.jsonl')
    """
    return f"{directory.rstrip('/')}/{name}" if is_url(directory) else os.path.join(directory, name)  # noqa: PTH118


def parent_and_name(path: str) -> tuple[str, str]:
    """Split a path into a directory and the name in it.

    >>> parent_and_name("s3://bucket/nightly/corpus/"), parent_and_name("out/corpus")
    (('s3://bucket/nightly', 'corpus'), ('out', 'corpus'))
    """
    if is_url(path):
        parent, _, name = path.rstrip("/").rpartition("/")
        return parent, name
    return os.path.split(path)


def is_private(path: str) -> bool:
    """Tell whether no other process sees what this one writes there."""
    return path.startswith("memory://")


def scratch_directory() -> str:
    """Give a directory of this user for files that nobody else needs to see: under TMPDIR, if that is set."""
    import tempfile  # noqa: PLC0415 - rarely wanted, so imported late

    directory = os.path.join(tempfile.gettempdir(), f"fastrec-{os.getuid()}")  # noqa: PTH118
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)  # noqa: PTH102
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UsageError(f"{shown(directory)} is not a directory that only you may write to: give --work-dir")
    return directory


def _store() -> Any:
    from fastrec.storage import store  # noqa: PLC0415 - only who names a URL pays for it

    return store


def exists(path: str) -> bool:
    """Tell whether there is a file; in a store also whether anything begins with the path as a directory."""
    if is_url(path):
        return bool(_store().exists(path))
    return os.path.exists(path)  # noqa: PTH110


def is_directory(path: str) -> bool:
    """Tell whether a path is that of a directory."""
    if is_url(path):
        return bool(_store().is_directory(path))
    return os.path.isdir(path)  # noqa: PTH112


def size_of(path: str) -> int:
    """Return the size of a file."""
    if is_url(path):
        return int(_store().look_at(path).size)
    return os.stat(path).st_size  # noqa: PTH116


def open_reader(path: str) -> Reader:
    """Open a file."""
    if is_url(path):
        from fastrec.storage.reading import StoreReader  # noqa: PLC0415 - only who names a URL pays for it

        return StoreReader(path)
    return LocalReader(path)


def read_all(path: str) -> bytes:
    """Read a file whole; a small one."""
    if is_url(path):
        data: bytes = _store().read_all(path)
        return data
    with naming(path), open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def read_range(path: str, size: int, offset: int) -> bytes:
    """Read a stretch of a file that is known to be there."""
    if is_url(path):
        data: bytes = _store().read_range(path, size, offset)
        if len(data) < size:
            raise _ends_early(path, offset + len(data), offset + size)
        return data
    with naming(path), open(path, "rb", buffering=0) as file:  # noqa: PTH123
        descriptor = file.fileno()
        data = os.pread(descriptor, size, offset)
        while len(data) < size:
            more = os.pread(descriptor, size - len(data), offset + len(data))
            if not more:
                raise _ends_early(path, offset + len(data), offset + size)
            data += more
        return data


def _ends_early(path: str, end: int, wanted: int) -> OSError:
    return OSError(errno.EIO, f"it ends at byte {end:,}, before byte {wanted:,}", path)


def create(path: str, *, for_work: bool = False) -> NewFile:
    """Begin a file: one that is to be published, or one of the work directory, for this user alone and not synced."""
    if is_url(path):
        file: NewFile = _store().NewObject(path)
        return file
    return NewLocalFile(path, for_work=for_work)


@contextlib.contextmanager
def open_writer(path: str) -> Iterator[Writer]:
    """Write a file of the work directory, for this user alone; it is there on leaving, unless with an error."""
    if is_url(path):
        new = _store().NewObject(path)
        try:
            yield new
            new.finish()
        finally:
            new.give_up()
        return
    temporary = temporary_name(path)
    try:
        with naming(temporary), open(temporary, "wb", opener=_private) as file:
            yield file
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, PRIVATE)


def write_all(path: str, data: bytes) -> None:
    """Write a small file, down to the disk."""
    if is_url(path):
        _store().write_all(path, data)
        return
    with naming(path), open(path, "wb") as file:  # noqa: PTH123
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def remove(path: str) -> None:
    """Remove a file."""
    if is_url(path):
        _store().remove([path])
    else:
        os.unlink(path)  # noqa: PTH108


def sweep(paths: Iterable[str]) -> None:
    """Remove files and directories."""
    urls = []
    for path in paths:
        if is_url(path):
            urls.append(path)
        elif os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            remove_all(path)
        else:
            remove(path)
    if urls:
        _store().remove(urls)


def remove_all(directory: str) -> None:
    """Remove a directory, as far as that is possible."""
    with contextlib.suppress(OSError):  # not every error is ignored: one from closing a directory comes through
        if is_url(directory):
            _store().remove_all(directory)
        else:
            import shutil  # noqa: PLC0415 - a command that only reads has no use for it

            shutil.rmtree(directory, ignore_errors=True)


def make_directory(directory: str) -> None:
    """Make a directory for this user alone, if it is not there; stores have none."""
    if not is_url(directory):
        os.makedirs(directory, exist_ok=True, mode=0o700)  # noqa: PTH103
        os.chmod(directory, 0o700)  # noqa: PTH101


def files_in(directory: str) -> list[str]:
    """List what is in a directory, sorted; of a store also what is below it."""
    if is_url(directory):
        return [found.path for found in _store().find(directory)]
    return sorted(join(directory, name) for name in os.listdir(directory))  # noqa: PTH208
