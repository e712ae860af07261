"""Snapshots of what nights leave behind, so that a night can be repeated from exactly the same state.

fastrec recognises kept files by size, modification time and inode, so copies would not be the same
state. A snapshot holds hard links to all files, and copies in case a night writes to a file in
place.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["Snapshot"]


class Snapshot:
    """A directory as it is now, with all inodes and modification times."""

    def __init__(self, state: Path, store: Path) -> None:
        self._state = state
        self._links = store / "links"
        self._copies = store / "copies"
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(state, self._links, copy_function=os.link)
        shutil.copytree(state, self._copies)

    def restore(self) -> None:
        """Bring the directory back to the state of the snapshot."""
        for copy in self._copies.rglob("*"):
            link = self._links / copy.relative_to(self._copies)
            if copy.is_file() and _stamp(copy) != _stamp(link):
                link.write_bytes(copy.read_bytes())  # the inode stays
                os.utime(link, ns=(copy.stat().st_atime_ns, copy.stat().st_mtime_ns))
        shutil.rmtree(self._state, ignore_errors=True)
        shutil.copytree(self._links, self._state, copy_function=os.link)


def _stamp(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns
