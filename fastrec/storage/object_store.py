"""Objects in stores, through fsspec: found, read, removed.

Written so that they appear as a whole or not at all.

The fsspec file systems find credentials and addresses, and retry, by their own rules. Their errors
become an OSError that names the object, and no message repeats a secret from a URL. Open objects
are read ahead in blocks, or uploaded in parts.
"""

from __future__ import annotations

import errno
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache, partial, partialmethod
from typing import Any, NamedTuple

from xxhash import xxh3_64_intdigest

from fastrec.errors import FastrecError, UsageError, without_secrets
from fastrec.limits import current_limits
from fastrec.storage.base import NewFile, Reader, check_size

_TIMES = ("LastModified", "last_modified", "updated", "mtime")
_VERSIONS = ("ETag", "etag", "blob_id", "md5Hash", "crc32c", *_TIMES)


class FoundObject(NamedTuple):
    path: str
    size: int
    # Changes when the object changes; 0 if the store does not say. Two objects of the same version
    # are copies.
    version: int


def found_object(path: str, details: dict[str, Any]) -> FoundObject:
    if details.get("size") is None:  # without it, a truncated answer would not be noticed
        raise OSError(errno.ENOTSUP, "the server does not tell its size: download it first", path)
    name = next(filter(details.get, _VERSIONS), None)
    if name is None:
        return FoundObject(path, details["size"], 0)
    version = str(details[name])
    if name in _TIMES or path.startswith(("http:", "https:")):  # says nothing about other objects
        version += f" {path}"
    fingerprint = xxh3_64_intdigest(version.encode(errors="surrogatepass"))
    return FoundObject(path, details["size"], fingerprint >> 1)


_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
}


@lru_cache(maxsize=1_024)
def _file_system(path: str) -> tuple[Any, str]:
    protocol = path[: path.index("://")]
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - takes 0.2 seconds, and is an extra

        # A cached listing would hide what other processes write and remove.
        fs, name = url_to_fs(path, use_listings_cache=False)
    except ImportError as exc:
        package = _PACKAGES.get(protocol, "fsspec, and the fsspec file system for it")
        raise UsageError(f"{protocol}:// needs another package: pip install {package}") from exc
    except ValueError as exc:
        raise UsageError(f"{without_secrets(path)}: {without_secrets(str(exc), path)}") from exc
    return fs, name


_AHEAD = 2  # blocks that are requested before they are needed
_UPLOAD_PART = 16 << 20  # bytes; a smaller object is sent in one request


class _ObjectReader(Reader):
    """An object that is read sequentially: the next blocks are requested while one is used."""

    def __init__(self, client: ObjectStore, path: str) -> None:
        _, self.size, self.version = client.look_at(path)
        self._client = client
        self._path = path
        self._peeked = 0, b""  # offset and bytes of the last `pread`
        self._left = memoryview(b"")
        # starts a thread when the first block is requested
        self._executor = ThreadPoolExecutor(_AHEAD)
        self.seek(0)

    def read(self, size: int) -> bytes:
        left = self._left
        if not left:
            left = memoryview(next(self._blocks, b""))
        self._left = left[size:]
        return bytes(left[:size])

    def seek(self, offset: int, size: int | None = None, /) -> None:
        end = self.size if size is None else min(offset + size, self.size)
        self._blocks = self._read_ahead(offset, end)
        self._left = memoryview(b"")

    def _read_ahead(self, start: int, end: int) -> Iterator[bytes]:
        block_bytes = current_limits().store_block_bytes
        requested = deque[Future[bytes]]()
        for offset in range(start, end, block_bytes):
            size = min(block_bytes, end - offset)
            requested.append(self._executor.submit(self._block, size, offset))
            if len(requested) == _AHEAD:
                yield requested.popleft().result()
        for future in requested:
            yield future.result()

    def _block(self, size: int, offset: int) -> bytes:
        data = self._client.read_some(self._path, size, offset)
        if len(data) != size:
            message = f"gave {len(data):,} bytes from byte {offset:,} on, not {size:,}"
            raise OSError(errno.EIO, message, self._path)
        return data

    def pread(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes from `offset`.

        A caller that continues from there gets ever larger blocks.
        """
        begin, block = self._peeked
        if not begin <= offset < begin + len(block):
            wanted = max(size, 2 * len(block) if offset == begin + len(block) else 0)
            wanted = min(wanted, current_limits().store_block_bytes, max(self.size - offset, 0))
            begin = offset
            block = self._client.read_some(self._path, wanted, offset)
            self._peeked = begin, block
        return block[offset - begin : offset - begin + size]

    def has_changed(self) -> bool:
        _, size, version = self._client.look_at(self._path)
        return (size, version) != (self.size, self.version)

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(cancel_futures=True)


class _NewObject(NewFile):
    """An object that is uploaded in parts; it appears when it is finished."""

    def __init__(self, client: ObjectStore, path: str) -> None:
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

    def finish(self) -> None:
        with self._client.translated(self._path):
            self._file.close()
        self._file = None

    def give_up(self) -> None:
        """Discard the upload.

        Closing the file would complete it, and so would the garbage collector.
        """
        if self._file is not None:
            with suppress(Exception):
                self._file.discard()
            with suppress(Exception):
                self._file.closed = True
            self._file = None


class ObjectStore:
    """All stores that fsspec knows; it remembers which of them do not answer.

    `LocalStorage` describes the methods.
    """

    def __init__(self) -> None:
        # The time until which a bucket or host is not asked again.
        self._silent: dict[str, float] = {}

    @contextmanager
    def asking(self, path: str) -> Iterator[tuple[Any, str]]:
        """Yield the file system of a URL and its name for the object; errors are translated."""
        with self.translated(path):
            yield _file_system(path)

    @contextmanager
    def translated(self, path: str) -> Iterator[None]:
        """Turn whatever a file system raises into an OSError that names the object.

        A request to a store that accepts connections but never answers takes minutes to fail.
        Cleaning up afterwards would take as long again, so such a store is left alone for a while.
        """
        store = path.rpartition("://")[2].partition("/")[0]
        started = time.monotonic()
        if started < self._silent.get(store, started):
            raise OSError(errno.ETIMEDOUT, "the store does not answer", path)
        try:
            yield
        except FastrecError:
            raise
        except FileNotFoundError as exc:
            raise FileNotFoundError(errno.ENOENT, "there is no such object", path) from exc
        except Exception as exc:
            if time.monotonic() - started > current_limits().store_slow_seconds:
                self._silent[store] = time.monotonic() + current_limits().store_rest_seconds
            number = getattr(exc, "errno", None) or errno.EIO
            message = f"{type(exc).__name__}: {exc}"
            if isinstance(exc, OSError):
                message = (exc.errno and exc.strerror) or str(exc) or type(exc).__name__
            raise OSError(number, without_secrets(message, path), path) from exc

    def time_limit(self, fs: Any) -> dict[str, float]:
        """The option that limits a request.

        Sending to a store that stopped reading would never end.
        """
        return {"timeout": current_limits().store_request_seconds} if fs.async_impl else {}

    def _call(self, path: str, method: str, **options: Any) -> Any:
        """Call a method of the file system of a URL with its name for the object."""
        with self.asking(path) as (fs, name):
            return getattr(fs, method)(name, **options)

    def look_at(self, path: str) -> FoundObject:
        """FileNotFoundError if there is no such object."""
        with self.asking(path) as (fs, name):
            # A web server lists a directory as a page, and fsspec calls that page a file.
            if name.endswith("/") or (details := fs.info(name))["type"] == "directory":
                raise IsADirectoryError(errno.EISDIR, "is a directory", path)
            return found_object(path.rstrip("/"), details)

    def read_some(self, path: str, size: int, offset: int) -> bytes:
        """Read a range of an object; fewer bytes if it ends before."""
        if not size:
            return b""
        data = bytes(self._call(path, "cat_file", start=offset, end=offset + size))
        # Simple web servers send all of it.
        return data if len(data) <= size else data[offset : offset + size]

    def leaves(self, _directory: str, _path: str) -> bool:
        return False  # stores have no links

    def sync(self, path: str) -> None:
        """Do nothing: a finished object is stored."""

    def advise(self, path: str, size: int, offset: int, *, needed: bool) -> None:
        """Do nothing: stores have no page cache."""

    def make_directory(self, directory: str) -> None:
        """Do nothing: stores have no directories."""

    canonical = partialmethod(_call, method="unstrip_protocol")
    is_directory = partialmethod(_call, method="isdir")

    def exists(self, path: str) -> bool:
        """Whether there is an object or a directory; OSError if the store does not tell.

        Some file systems of fsspec say no whatever fails.
        """
        with suppress(FileNotFoundError):
            self._call(path, "info")
            return True
        return False

    def size_of(self, path: str) -> int:
        return self.look_at(path).size

    def signature(self, path: str) -> str:
        stored = self.look_at(path)
        return f"{stored.size}-{stored.version}"

    def files_in(self, directory: str) -> list[str]:
        return [stored.path for stored in self.find(directory)]

    def find(self, directory: str) -> list[FoundObject]:
        """List the objects below a directory, sorted; none if there is no such directory."""
        with self.asking(directory) as (fs, name):
            details = fs.find(name, detail=True)
            start = len(name.rstrip("/"))
            before = directory.rstrip("/")
            return [
                self._listed(before + path[start:], details[path])
                for path in sorted(details)
                if not path.endswith("/")  # an empty object that shows a folder
            ]

    def glob(self, pattern: str) -> list[tuple[str, FoundObject | None]]:
        """List what matches, sorted: paths with their objects, None for directories.

        Only those if it ends with `/`.
        """
        with self.asking(pattern) as (fs, name):
            # the protocol, and a host if there is one
            before = pattern.rstrip("/").removesuffix(name.rstrip("/"))
            matches: list[tuple[str, FoundObject | None]] = []
            for path, details in sorted(fs.glob(name, detail=True).items()):
                if details["type"] == "directory":
                    matches.append((before + path, None))
                elif not pattern.endswith("/") and not path.endswith("/"):
                    matches.append((before + path, self._listed(before + path, details)))
            return matches

    def _listed(self, path: str, details: dict[str, Any]) -> FoundObject:
        """Describe an object of a listing; a web server lists no sizes, so it is looked up."""
        return self.look_at(path) if details.get("size") is None else found_object(path, details)

    def heads(self, paths: list[str], size: int) -> list[bytes | Exception]:
        """Read the first bytes of many objects concurrently.

        An exception for each that cannot be read.
        """
        with self.asking(paths[0]) as (fs, _):
            return list(fs.cat_ranges(_names(fs, paths), 0, size, on_error="return"))

    def open_reader(self, path: str) -> Reader:
        return _ObjectReader(self, path)

    def read_all(self, path: str) -> bytes:
        return bytes(self._call(path, "cat_file"))

    def read_range(self, path: str, size: int, offset: int) -> bytes:
        return check_size(path, self.read_some(path, size, offset), size, offset)

    def create(self, path: str, *, for_work: bool = False, synced: bool = True) -> NewFile:  # noqa: ARG002 - all alike
        return _NewObject(self, path)

    def write_all(self, path: str, data: bytes) -> None:
        with self.asking(path) as (fs, name):
            fs.pipe_file(name, data, **self.time_limit(fs))

    def copy(self, path: str, new_path: str) -> None:
        """Copy an object within a store; its bytes do not pass this machine."""
        with self.asking(path) as (fs, name):
            fs.cp_file(name, *_names(fs, [new_path]))

    def remove(self, *paths: str) -> None:
        """Remove objects; it is no error if one is gone already."""
        if not paths:
            return
        with self.asking(paths[0]) as (fs, _):
            names = _names(fs, paths)
            # A request for many removes what they match as globs, which may belong to somebody
            # else.
            plain = [name for name in names if not set("*?[") & set(name)]
            with suppress(FileNotFoundError):
                if plain:
                    fs.rm(plain)
            for name in set(names).difference(plain):
                with suppress(FileNotFoundError):
                    fs.rm_file(name)

    def remove_all(self, directory: str) -> None:
        with suppress(OSError):
            self.remove(*self.files_in(directory))
            self.abort_uploads(directory)

    def abort_uploads(self, directory: str, having: str = "") -> None:
        """Abort uploads below a directory that a killed process left behind.

        They are invisible, and cost money.

        `having` restricts them to names that contain it. Listing them needs a permission that not
        everyone has; the store's own lifecycle rules do the rest.
        """
        with suppress(OSError), self.asking(directory) as (fs, name):
            if not hasattr(fs, "call_s3"):
                return
            bucket, _, prefix = name.partition("/")
            place = {"Bucket": bucket, "Prefix": f"{prefix}/"}
            # the first page
            answer = fs.call_s3("list_multipart_uploads", **place, **self.time_limit(fs))
            for upload in answer.get("Uploads", ()):
                if having in upload["Key"]:
                    fs.abort_mpu(bucket, upload["Key"], upload["UploadId"])


OBJECT_STORE = ObjectStore()


def _names(fs: Any, paths: Iterable[str]) -> list[str]:
    return [fs._strip_protocol(path) for path in paths]  # noqa: SLF001 - there is no public way
