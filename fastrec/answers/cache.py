"""The cache directory: where indexes are kept, under names made of the checksum of a manifest.

An index is written under a temporary name, then renamed. So a file with the right name is whole, and two processes that
build the same index do not disturb each other. Whoever builds one removes those that nobody has used for a month.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

__all__ = ["cache_directory", "index_name", "mark_used", "new_file", "remove_unused"]

_SUFFIX: Final = ".index"
_BUILDING: Final = ".building"
_DAY: Final = 24 * 60 * 60
_UNUSED_DAYS: Final = 30


def cache_directory(cache: str | os.PathLike[str] | None = None) -> Path:
    """Return the cache directory: the given one, `FASTREC_CACHE`, or `fastrec` in the user's cache directory."""
    if cache is not None:
        return Path(cache)
    if named := os.environ.get("FASTREC_CACHE"):
        return Path(named)
    if user := os.environ.get("XDG_CACHE_HOME"):
        return Path(user, "fastrec")
    return Path("~/.cache/fastrec").expanduser()


def index_name(manifest: bytes, format_: int) -> str:
    """Return the name of the index of a corpus, given its manifest and the format of the index."""
    return f"{sha256(manifest).hexdigest()}-{format_}{_SUFFIX}"


@contextmanager
def new_file(directory: Path) -> Iterator[Path]:
    """Yield the path of a new file, which is removed in the end unless it is renamed.

    It is in the directory, or in that of temporary files if the directory cannot be written.

    Raises:
        OSError: The file cannot be written. It names the file, whoever noticed that.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(_BUILDING, "", directory)
    except OSError:
        number, name = tempfile.mkstemp(_BUILDING, "fastrec-")
    os.close(number)
    path = Path(name)
    try:
        yield path
    except sqlite3.OperationalError as exc:
        raise OSError(errno.EIO, f"the index cannot be written: {exc}", name) from exc
    except OSError as exc:
        exc.filename = exc.filename or name
        raise
    finally:
        with suppress(OSError):
            path.unlink()


def mark_used(path: Path) -> None:
    """Note that an index is in use."""
    with suppress(OSError):
        os.utime(path)


def remove_unused(directory: Path) -> None:
    """Remove indexes that were not used for 30 days, and what a killed process left behind a day ago."""
    now = time.time()
    with suppress(OSError):
        for path in directory.iterdir():
            days = {_SUFFIX: _UNUSED_DAYS, _BUILDING: 1}.get(path.suffix)
            with suppress(OSError):
                if days and now - path.stat().st_mtime > days * _DAY:
                    path.unlink()
