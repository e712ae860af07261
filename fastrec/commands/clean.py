"""Clean: remove the work that runs of `normalize` left for the next one."""

from __future__ import annotations

import os

import msgspec

from fastrec.corpus.leftovers import remove_leftovers
from fastrec.errors import utf8
from fastrec.limits import LIMITS, Limits
from fastrec.storage import without_file_protocol

__all__ = ["Cleaned", "RemovedWork", "clean"]


class RemovedWork(msgspec.Struct):
    """A directory that was removed, or unpublished files that were removed from the output."""

    path: str
    """Path of the directory."""
    files: int
    """Number of files."""
    bytes: int
    """Bytes that were freed. Files that are also part of the corpus do not count."""


class Cleaned(msgspec.Struct, kw_only=True):
    """What `clean` removed."""

    output: str
    """Path of the output."""
    dry_run: bool
    """Whether nothing was removed, only listed."""
    removed: list[RemovedWork]
    """Directories that were removed, and unpublished files; that would be, with `--dry-run`."""
    bytes: int
    """Bytes that were freed."""
    left: list[str]
    """Unpublished files in a store that stay, because a run may yet publish them."""


def clean(
    output: str | os.PathLike[str],
    *,
    work_dir: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    limits: Limits = LIMITS,
) -> Cleaned:
    """Remove kept and interrupted work of an output; the output itself and a refused corpus stay.

    Args:
        output: The output of `normalize`.
        work_dir: The `work_dir` of these runs, if they had one.
        dry_run: Only say what would be removed.
        limits: Bounds of the work. Only tests change them.

    Raises:
        UsageError: `output` cannot be an output of `normalize`.
        LockedError: A run is writing it.
    """
    target = without_file_protocol(os.fspath(output))
    work = None if work_dir is None else without_file_protocol(os.fspath(work_dir))
    found, left = remove_leftovers(target, work, dry_run=dry_run, limits=limits)
    return Cleaned(
        output=utf8(target),
        dry_run=dry_run,
        removed=[RemovedWork(utf8(one.path), one.files, one.bytes) for one in found],
        bytes=sum(one.bytes for one in found),
        left=list(map(utf8, left)),
    )
