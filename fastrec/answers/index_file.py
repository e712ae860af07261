"""The SQLite file of an index, open for reading by several threads in turn."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fastrec.errors import DamagedFileError

__all__ = ["IndexFile", "open_file"]

_HEADER_BYTES: Final = 100
_LARGEST_PAGE: Final = 1 << 16


class IndexFile:
    """A connection, and a lock around it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._lock = threading.RLock()

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection.

        Raises:
            DamagedFileError: The file is damaged, as SQLite finds. It is removed, so the next run builds it again.
        """
        with self._lock:
            try:
                yield self._connection
            except sqlite3.DatabaseError as exc:
                if type(exc) is not sqlite3.DatabaseError:  # a mistake of ours, or a full disk
                    raise
                with suppress(OSError):
                    self._path.unlink()
                reason = "this index of a corpus was removed; run the command again to rebuild it"
                raise DamagedFileError(str(self._path), reason) from exc

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()


def open_file(path: Path) -> IndexFile | None:
    """Open the file of an index; None if there is none, or if it is cut or no SQLite file."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        page_bytes, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
        if not pages or path.stat().st_size != pages * (_LARGEST_PAGE if page_bytes == 1 else page_bytes):
            return None
        # An index never changes, so SQLite needs no locks.
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error:
            connection.close()
            raise
        return IndexFile(path, connection)
    except (OSError, sqlite3.Error):
        return None
