"""Requests to object stores: the file system of a URL, the time limit of a request, and the translation of errors.

The fsspec file systems find credentials and addresses, and retry, by their own rules. What they raise becomes an
OSError that names the object. No message repeats a secret from a URL.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from xxhash import xxh3_64_intdigest

from fastrec.errors import FastrecError, UsageError, without_secrets
from fastrec.limits import LIMITS, Limits

__all__ = ["FoundObject", "ObjectClient", "found_object"]

_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime")
_VERSIONS: Final = ("ETag", "etag", "blob_id", "md5Hash", "crc32c", *_TIMES)


class FoundObject(NamedTuple):
    """An object that exists."""

    path: str
    size: int
    version: int
    """Changes when the object changes; 0 if the store does not say. Two objects of the same version are copies."""


class ObjectClient:
    """Sends requests to stores, and remembers which of them do not answer."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self._silent: dict[str, float] = {}  # the time until which a bucket or host is not asked again

    @contextlib.contextmanager
    def asking(self, path: str) -> Iterator[tuple[Any, str]]:
        """Yield the file system of a URL and its name for the object; errors are translated."""
        with self.translated(path):
            yield _file_system(path)

    @contextlib.contextmanager
    def translated(self, path: str) -> Iterator[None]:
        """Turn whatever a file system raises into an OSError that names the object.

        A request to a store that accepts connections but never answers takes minutes to fail. Cleaning up afterwards
        would take as long again, so such a store is left alone for a while.
        """
        store, started = path.rpartition("://")[2].partition("/")[0], time.monotonic()
        if started < self._silent.get(store, started):
            raise OSError(errno.ETIMEDOUT, "the store does not answer", path)
        try:
            yield
        except FastrecError:
            raise
        except FileNotFoundError as exc:
            raise FileNotFoundError(errno.ENOENT, "there is no such object", path) from exc
        except Exception as exc:
            if time.monotonic() - started > self.limits.store_slow_seconds:
                self._silent[store] = time.monotonic() + self.limits.store_rest_seconds
            if not isinstance(exc, OSError):
                message = f"{type(exc).__name__}: {without_secrets(str(exc), path)}"
                raise OSError(errno.EIO, message, path) from exc
            message = exc.strerror if exc.strerror and exc.errno else str(exc)
            raise OSError(exc.errno or errno.EIO, without_secrets(message or type(exc).__name__, path), path) from exc

    def time_limit(self, fs: Any) -> dict[str, float]:
        """Return the option that limits a request: sending to a store that stopped reading would never end."""
        return {"timeout": self.limits.store_request_seconds} if fs.async_impl else {}

    def look_at(self, path: str) -> FoundObject:
        """Look up an object; FileNotFoundError if there is none."""
        with self.asking(path) as (fs, name):
            # A web server lists a directory as a page, and fsspec calls that page a file.
            if name.endswith("/") or (details := fs.info(name))["type"] == "directory":
                raise IsADirectoryError(errno.EISDIR, "is a directory", path)
            return found_object(path.rstrip("/"), details)

    def read_some(self, path: str, size: int, offset: int) -> bytes:
        """Read a range of an object; fewer bytes if it ends before."""
        if not size:
            return b""
        with self.asking(path) as (fs, name):
            data = bytes(fs.cat_file(name, start=offset, end=offset + size))
        return data if len(data) <= size else data[offset : offset + size]  # simple web servers send all of it


def found_object(path: str, details: dict[str, Any]) -> FoundObject:
    """Describe an object by what its file system says about it."""
    if details.get("size") is None:  # without it, a truncated answer would not be noticed
        raise OSError(errno.ENOTSUP, "the server does not tell its size: download it first", path)
    name = next((name for name in _VERSIONS if details.get(name)), "")
    if not name:
        return FoundObject(path, details["size"], 0)
    version = str(details[name])
    if name in _TIMES or path.startswith(("http:", "https:")):  # says nothing about other objects
        version += f" {path}"
    return FoundObject(path, details["size"], xxh3_64_intdigest(version.encode(errors="surrogatepass")) >> 1)


@lru_cache(maxsize=1_024)
def _file_system(path: str) -> tuple[Any, str]:
    protocol = path[: path.index("://")]
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - takes 0.2 seconds, and is an extra

        # A cached listing would hide what other processes write and remove.
        fs, name = url_to_fs(path, use_listings_cache=False)
    except ImportError as exc:
        raise UsageError(f"{protocol}:// needs another package: {_package(protocol)}") from exc
    except ValueError as exc:
        raise UsageError(f"{without_secrets(path)}: {without_secrets(str(exc), path)}") from exc
    return fs, name


def _package(protocol: str) -> str:
    package = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub"}.get(protocol)
    return f"pip install {package}" if package else "pip install fsspec, and the fsspec file system for it"
