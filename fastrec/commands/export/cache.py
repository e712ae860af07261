"""The cache directory of the user, which has the tables that SQL queries use."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from fastrec.storage.local import user_directory

TABLES_SUFFIX: Final = ".tables"
BUILDING: Final = ".building"
CACHED: Final = {TABLES_SUFFIX: 30, BUILDING: 1}
"""What fastrec keeps in the cache directory, by suffix: for how many days after its last use."""
_DAY: Final = 24 * 60 * 60


def cache_directory(cache: str | os.PathLike[str] | None = None) -> Path:
    if cache is not None:
        return Path(cache)
    if named := os.environ.get("FASTREC_CACHE"):
        return Path(named)
    return user_directory("XDG_CACHE_HOME", "~/.cache")


def cached_files() -> list[Path]:
    with suppress(OSError):
        return sorted(path for path in cache_directory().iterdir() if path.suffix in CACHED)
    return []


def remove_unused(directory: Path) -> None:
    """Remove what was not used for 30 days, and what a killed process left behind a day ago."""
    now = time.time()
    with suppress(OSError):
        for path in directory.iterdir():
            days = CACHED.get(path.suffix)
            with suppress(OSError):
                if days and now - path.stat().st_mtime > days * _DAY:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


def close_to_others(directory: Path) -> None:
    """Let nobody else read a cache directory that an earlier version made; one with other files is not ours alone."""
    with suppress(OSError):
        if all(path.suffix in CACHED for path in directory.iterdir()):
            directory.chmod(0o700)
