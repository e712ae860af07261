"""Files in a store, through fsspec: streamed reads with read-ahead, writes that appear whole or not at all.

Credentials, addresses and retries are the business of the file systems: they find them where they always do. What they
raise becomes an OSError that names the file, and no error repeats a secret that a URL holds.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, Self

from fastrec.errors import FastrecError, UsageError, without_secrets
from fastrec.hashing import fingerprint

__all__ = [
    "Found",
    "NewObject",
    "StoreReader",
    "abort_uploads",
    "exists",
    "find",
    "glob",
    "heads",
    "is_directory",
    "look_at",
    "move",
    "only_name",
    "read_all",
    "read_range",
    "remove",
    "remove_all",
    "write_all",
    "write_new",
]

_BLOCK: Final = 8 << 20  # bytes of a request: its answer takes much longer than the way there and back
_AHEAD: Final = 2  # blocks that are asked for before they are wanted
_UPLOAD: Final = 16 << 20  # bytes of a part of an upload; what is smaller is put in one request
_VERSIONS: Final = ("ETag", "etag", "blob_id", "md5Hash", "crc32c", "LastModified", "last_modified", "updated", "mtime")


_LIMIT: Final = 300.0  # seconds for putting 16 MiB
_SLOW: Final = 60.0  # seconds after which a request that fails has waited for a store that is silent
_REST: Final = 60.0  # seconds in which it is not asked again
_silent: dict[str, float] = {}  # until when, by bucket or host


class Found(NamedTuple):
    """An object that was found."""

    path: str
    size: int
    version: int


def only_name(path: str) -> str:
    """Give the one URL that all names of an object have in common."""
    with _asking(path) as (fs, name):
        return str(fs.unstrip_protocol(name))


def exists(path: str) -> bool:
    """Tell whether there is an object, or any below that name."""
    with _asking(path) as (fs, name):
        return bool(fs.exists(name))


def is_directory(path: str) -> bool:
    """Tell whether there are objects below that name."""
    with _asking(path) as (fs, name):
        return bool(fs.isdir(name))


def look_at(path: str) -> Found:
    """Look an object up; FileNotFoundError if there is none."""
    with _asking(path) as (fs, name):
        # What a web server lists is a page, which it calls a file.
        if name.endswith("/") or (details := fs.info(name))["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return _found(path.rstrip("/"), details)


def find(directory: str) -> list[Found]:
    """List the objects below a directory, sorted; none if there is no such directory."""
    with _asking(directory) as (fs, name):
        details = fs.find(name, detail=True)
        start, before = len(name.rstrip("/")), directory.rstrip("/")
        return [_listed(before + path[start:], details[path]) for path in sorted(details) if not _is_marker(path)]


def glob(pattern: str) -> list[tuple[str, Found | None]]:
    """List what matches, sorted: names with objects, or with None for directories; those alone if it ends with `/`."""
    with _asking(pattern) as (fs, name):
        before = pattern.rstrip("/").removesuffix(name.rstrip("/"))  # the protocol, and a host if there is one
        matches = sorted(fs.glob(name, detail=True).items())
        directories = {path for path, details in matches if details["type"] == "directory"}
        return [
            (before + path, None if path in directories else _listed(before + path, details))
            for path, details in matches
            if path in directories or not (pattern.endswith("/") or _is_marker(path))
        ]


def _is_marker(path: str) -> bool:
    """Tell whether an object stands for a directory: some tools put one, of no bytes, where they show a folder."""
    return path.endswith("/")


def heads(paths: list[str], size: int) -> list[bytes | Exception]:
    """Read the first bytes of many objects at the same time; what cannot be read is an exception."""
    if not paths:
        return []
    with _asking(paths[0]) as (fs, _):
        names = [fs._strip_protocol(path) for path in paths]  # noqa: SLF001 - the only way there is
        found: list[bytes | Exception] = fs.cat_ranges(names, 0, size, on_error="return")
        return found


def read_all(path: str) -> bytes:
    """Read an object whole."""
    with _asking(path) as (fs, name):
        data: bytes = fs.cat_file(name)
        return data


def read_range(path: str, size: int, offset: int) -> bytes:
    """Read a stretch of an object."""
    if not size:
        return b""
    with _asking(path) as (fs, name):
        data: bytes = fs.cat_file(name, start=offset, end=offset + size)
        return data


def write_all(path: str, data: bytes) -> None:
    """Put a small object in one request."""
    with _asking(path) as (fs, name):
        fs.pipe_file(name, data, **_within_the_limit(fs))


def write_new(path: str, data: bytes) -> None:
    """Put a small object unless there is one of that name: of two that do, where the store can tell, one does."""
    with _asking(path) as (fs, name):
        try:
            fs.pipe_file(name, data, mode="create", **_within_the_limit(fs))
        except FileExistsError:
            pass
        except TimeoutError:
            raise
        except Exception:  # noqa: BLE001 - not every store knows how: if it fails for another reason, this does too
            fs.pipe_file(name, data, **_within_the_limit(fs))


class NewObject:
    """An object that is uploaded in parts; it is there when it is finished."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._size = 0
        with _asking(path) as (fs, name):
            self._file = fs.open(name, "wb", block_size=_UPLOAD)

    def write(self, data: Any, /) -> int:
        """Append some bytes: a part is uploaded when it is full."""
        with _translated(self._path):
            self._file.write(data)
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        """Tell how many bytes were written."""
        return self._size

    def writev(self, views: list[memoryview], /) -> None:
        """Append some buffers."""
        self.write(b"".join(views))

    def finish(self) -> None:
        """Complete the upload."""
        file = self._file
        with _translated(self._path):
            file.close()
        self._file = None

    def give_up(self) -> None:
        """Leave nothing of the upload behind; closing the file would complete it, also when it is collected."""
        if self._file is not None:
            with contextlib.suppress(Exception):
                self._file.discard()
            with contextlib.suppress(Exception):
                self._file.closed = True
            self._file = None


def move(path: str, new_path: str) -> None:
    """Give an object another name; the store copies it."""
    with _asking(path) as (fs, name):
        fs.cp_file(name, fs._strip_protocol(new_path))  # noqa: SLF001 - the only way there is
        fs.rm_file(name)


def remove(paths: Iterable[str]) -> None:
    """Remove objects; one that is gone already is no error."""
    names = list(paths)
    if not names:
        return
    with _asking(names[0]) as (fs, _):
        objects = [fs._strip_protocol(name) for name in names]  # noqa: SLF001 - the only way there is
        # Where many can be removed at once they are taken for globs, which would match what is somebody else's.
        plain = [name for name in objects if not any(char in name for char in "*?[")]
        if plain:
            with contextlib.suppress(FileNotFoundError):
                fs.rm(plain)
        for name in set(objects).difference(plain):
            with contextlib.suppress(FileNotFoundError):
                fs.rm_file(name)


def remove_all(directory: str) -> None:
    """Remove all objects below a directory, and uploads to it that were never completed."""
    remove(found.path for found in find(directory))
    abort_uploads(directory)


def abort_uploads(directory: str) -> None:
    """Give up uploads below a directory that a killed process has left: nobody sees them, and they cost money.

    Not everyone may list them: what cannot be done is left to the rules of the store, which should have one for this.
    """
    with contextlib.suppress(OSError), _asking(directory) as (fs, name):
        if not hasattr(fs, "call_s3"):
            return
        bucket, _, prefix = name.partition("/")
        answer = fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=f"{prefix}/")  # of all, a page is told
        for upload in answer.get("Uploads", ()):
            fs.abort_mpu(bucket, upload["Key"], upload["UploadId"])


class StoreReader:
    """An object that is read from front to back: the blocks that follow are asked for while one is used."""

    def __init__(self, path: str) -> None:
        _, self.size, self.version = look_at(path)
        self._path = path
        self._position = 0  # of what was not asked for yet
        self._end = self.size
        self._peeked = 0, b""  # where `pread` was last, and what is there
        self._asked: deque[Future[bytes]] = deque()
        self._left = memoryview(b"")
        self._executor: ThreadPoolExecutor | None = None

    def read(self, size: int) -> bytes:
        """Read up to so many bytes from where the last read ended; none at the end."""
        if not self._left:
            self._ask_ahead()
            if not self._asked:
                return b""
            self._left = memoryview(self._asked.popleft().result())
        data, self._left = bytes(self._left[:size]), self._left[size:]
        return data

    def _ask_ahead(self) -> None:
        while len(self._asked) < _AHEAD and self._position < self._end:
            size = min(_BLOCK, self._end - self._position)
            if self._executor is None:
                self._executor = ThreadPoolExecutor(_AHEAD)
            self._asked.append(self._executor.submit(self._block, size, self._position))
            self._position += size

    def _block(self, size: int, offset: int) -> bytes:
        data = read_range(self._path, size, offset)
        if len(data) != size:
            raise OSError(errno.EIO, f"gave {len(data):,} bytes from byte {offset:,} on, not {size:,}", self._path)
        return data

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to so many bytes from somewhere. Who goes on reading from there is given ever larger blocks."""
        begin, block = self._peeked
        if not begin <= offset < begin + len(block):
            wanted = max(size, 2 * len(block) if offset == begin + len(block) else 0)
            block = read_range(self._path, min(wanted, _BLOCK, max(self.size - offset, 0)), offset)
            begin = offset
            self._peeked = begin, block
        return block[offset - begin : offset - begin + size]

    def seek(self, offset: int, size: int | None = None, /) -> None:
        """Go on reading from somewhere else, where no more than `size` bytes will be wanted."""
        self._drop_what_was_asked()
        self._position = offset
        self._end = self.size if size is None else min(offset + size, self.size)
        self._left = memoryview(b"")

    def has_changed(self) -> bool:
        """Tell whether the object is another by now."""
        _, size, version = look_at(self._path)
        return (size, version) != (self.size, self.version)

    def close(self) -> None:
        """Let go of it."""
        self._drop_what_was_asked()
        if self._executor:
            self._executor.shutdown()

    def _drop_what_was_asked(self) -> None:
        for future in self._asked:
            future.cancel()
        self._asked.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _listed(path: str, details: dict[str, Any]) -> Found:
    """Tell what a list says of an object; a web server's says no sizes."""
    return look_at(path) if details.get("size") is None else _found(path, details)


def _found(path: str, details: dict[str, Any]) -> Found:
    if details.get("size") is None:  # without it, nobody would notice that some of the object is missing
        raise OSError(errno.ENOTSUP, "the server does not tell its size: fetch it first", path)
    version = next((details[name] for name in _VERSIONS if details.get(name)), "")
    return Found(path, details["size"], fingerprint(str(version).encode()) >> 1 if version else 0)


@contextlib.contextmanager
def _asking(path: str) -> Iterator[tuple[Any, str]]:
    """Give the file system of a URL, and what it calls the file."""
    with _translated(path):
        yield _file_system(path)


@lru_cache(maxsize=1_024)
def _file_system(path: str) -> tuple[Any, str]:
    protocol = path[: path.index("://")]
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - a fifth of a second, and an extra

        # Listings that were cached would hide what others write and remove.
        fs, name = url_to_fs(path, use_listings_cache=False)
    except ImportError as exc:
        raise UsageError(f"{protocol}:// needs another package: {_package(protocol)}") from exc
    except ValueError as exc:
        raise UsageError(f"{without_secrets(path)}: {without_secrets(str(exc), path)}") from exc
    if hasattr(fs, "call_s3") and "call_s3" not in vars(fs):
        fs.call_s3 = partial(_call_within_the_limit, fs.call_s3)  # by which uploads in parts are made
    return fs, name


def _within_the_limit(fs: Any) -> dict[str, float]:
    """Give the option that ends a request: without it, sending to a store that stopped listening has no end."""
    return {"timeout": _LIMIT} if fs.async_impl else {}


def _call_within_the_limit(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return call(*arguments, timeout=_LIMIT, **options)


def _package(protocol: str) -> str:
    extra = {"s3": "fastrec[s3]", "s3a": "fastrec[s3]", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub"}
    return f"pip install '{extra.get(protocol, 'fastrec[stores]')}', or the fsspec file system for it"


@contextlib.contextmanager
def _translated(path: str) -> Iterator[None]:
    """Make an OSError that names the file of whatever a file system raises.

    A request to a store that accepts connections and says nothing takes minutes to fail. What is tidied up behind it
    would take as long again: for a while, such a store is asked for nothing.
    """
    store, begun = path.rpartition("://")[2].partition("/")[0], time.monotonic()
    if begun < _silent.get(store, begun):
        raise OSError(errno.ETIMEDOUT, "the store does not answer", path)
    try:
        yield
    except FastrecError:
        raise
    except FileNotFoundError as exc:
        raise FileNotFoundError(errno.ENOENT, "there is no such object", path) from exc
    except Exception as exc:
        if time.monotonic() - begun > _SLOW:
            _silent[store] = time.monotonic() + _REST
        if not isinstance(exc, OSError):
            message = f"{type(exc).__name__}: {without_secrets(str(exc), path)}"
            raise OSError(errno.EIO, message, path) from exc
        message = exc.strerror if exc.strerror and exc.errno else str(exc)
        raise OSError(exc.errno or errno.EIO, without_secrets(message or type(exc).__name__, path), path) from exc
