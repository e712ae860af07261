"""The way to a store: its file system, how long a request may take, and what its errors become.

Credentials, addresses and retries are the business of the file systems: they find them where they always do. What they
raise becomes an OSError that names the file, and no error repeats a secret that a URL holds.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, Final

from fastrec.errors import FastrecError, UsageError, without_secrets

__all__ = ["asking", "translated", "within_the_limit"]

_LIMIT: Final = 300.0  # seconds for putting 16 MiB
_SLOW: Final = 60.0  # seconds after which a request that fails has waited for a store that is silent
_REST: Final = 60.0  # seconds in which it is not asked again
_silent: dict[str, float] = {}  # until when, by bucket or host


@contextlib.contextmanager
def asking(path: str) -> Iterator[tuple[Any, str]]:
    """Give the file system of a URL, and what it calls the file."""
    with translated(path):
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


def within_the_limit(fs: Any) -> dict[str, float]:
    """Give the option that ends a request: without it, sending to a store that stopped listening has no end."""
    return {"timeout": _LIMIT} if fs.async_impl else {}


def _call_within_the_limit(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return call(*arguments, timeout=_LIMIT, **options)


def _package(protocol: str) -> str:
    extra = {"s3": "fastrec[s3]", "s3a": "fastrec[s3]", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub"}
    return f"pip install '{extra.get(protocol, 'fastrec[stores]')}', or the fsspec file system for it"


@contextlib.contextmanager
def translated(path: str) -> Iterator[None]:
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
