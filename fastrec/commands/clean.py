"""`clean`: remove what runs of `normalize` left for the next one: kept work, and unpublished files of interrupted runs.

    on this machine     .OUT.fastrec-work, .OUT.fastrec-new, .OUT.fastrec-old, and the work below --work-dir
    in a store          the work beside OUT, in the temporary directory and below --work-dir; unpublished files in OUT

All of it is done under the lock or the lease of OUT, so that no run is disturbed. OUT and
OUT.refused stay. In a store, files of a run that may still be about to publish stay, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from fastrec.corpus.lock import locked
from fastrec.corpus.output import CORPUS, work_root_of
from fastrec.corpus.publish import LocalOutput, locked_work
from fastrec.errors import UsageError, shown, utf8
from fastrec.notebook import Tabular, flat
from fastrec.storage import is_url, parent_and_name, storage_of, without_file_protocol
from fastrec.storage.local import scratch_directory


class RemovedWork(msgspec.Struct):
    """A directory that was removed, or unpublished files that were removed from the output."""

    path: str
    """Path of the directory."""
    files: int
    """Number of files."""
    bytes: int
    """Bytes that were freed. Files that are also part of the corpus do not count."""


class Cleaned(Tabular, kw_only=True):
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

    def rows(self) -> list[dict[str, Any]]:
        """A row for each directory that was removed, and for unpublished files."""
        return [flat(one, {}) for one in self.removed]


def clean(
    output: str | os.PathLike[str],
    *,
    work_dir: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
) -> Cleaned:
    """Remove kept and interrupted work of an output; the output itself and a refused corpus stay.

    Args:
        output: The output of `normalize`.
        work_dir: The `work_dir` of these runs, if they had one.
        dry_run: Only say what would be removed.

    Raises:
        UsageError: `output` cannot be an output of `normalize`.
        LockedError: A run is writing it.
    """
    target = without_file_protocol(os.fspath(output))
    work = None if work_dir is None else without_file_protocol(os.fspath(work_dir))
    left: list[str] = []
    if is_url(target):
        found, left = _clean_store(target.rstrip("/"), work, dry_run=dry_run)
    else:
        found = _clean_local(target, work, dry_run=dry_run)
    return Cleaned(
        output=utf8(target),
        dry_run=dry_run,
        removed=[RemovedWork(utf8(one.path), one.files, one.bytes) for one in found],
        bytes=sum(one.bytes for one in found),
        left=list(map(utf8, left)),
    )


def _clean_local(output: str, work_dir: str | None, *, dry_run: bool) -> list[RemovedWork]:
    target = Path(output).resolve()
    if not target.name:
        raise UsageError(f"{shown(output)} is not a corpus")
    if not target.parent.is_dir():
        raise UsageError(
            f"{shown(output)} is not a corpus: there is no directory {shown(str(target.parent))}"
        )
    if target.exists() and not target.is_dir():
        raise UsageError(f"{shown(output)} is not a corpus: it is a file")
    beside = LocalOutput(target, CORPUS, work_root_of(output, None))
    work = work_root_of(output, work_dir)

    def leftovers() -> list[str]:
        return list(dict.fromkeys([*beside.leftovers(), *_existing(work)]))

    if not leftovers():
        if target.exists() and any(target.iterdir()) and not (target / CORPUS.marker).exists():
            raise UsageError(f"{shown(output)} is not a corpus: it holds no {CORPUS.marker}")
        return []
    shared = locked_work(target, work) if _existing(work) else contextlib.nullcontext()
    with locked(target), shared:
        if not dry_run:
            beside.recover()
        found = _measured(leftovers())
        for one in () if dry_run else found:
            _remove(one.path)
        return found


def _clean_store(
    output: str, work_dir: str | None, *, dry_run: bool
) -> tuple[list[RemovedWork], list[str]]:
    from fastrec.corpus.store_output import StoreOutput, lease_of  # noqa: PLC0415 - only URLs need it
    from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415

    lease = lease_of(output, CORPUS)
    directories = filter(None, (parent_and_name(output)[0], scratch_directory(), work_dir))
    works = list(dict.fromkeys(work_root_of(output, directory) for directory in directories))

    made = StoreOutput(output, CORPUS, works[0], lease)
    made.refuse_existing(overwrite=True)
    if not (made.has_leftovers() or any(map(_existing, works)) or lease.exists()):
        return [], []
    with lease.held():
        made = StoreOutput(
            output, CORPUS, works[0], lease
        )  # again: another run may have published since
        try:
            made.refuse_existing(overwrite=True)
            unpublished, others = made.leftovers()
            found = _measured([work for some in map(_existing, works) for work in some])
            if unpublished:
                sizes = {
                    one.path: one.size for one in OBJECT_STORE.find(output)
                }  # one request for all of them
                freed = sum(sizes.get(path, 0) for path in unpublished)
                found.append(RemovedWork(output, len(unpublished), freed))
            if not dry_run:
                lease.renew()
                for one in found:
                    if one.path != output:
                        _remove(one.path)
                OBJECT_STORE.remove(*unpublished)
            return found, others
        finally:
            lease.stays = made.has_leftovers()


def _existing(directory: str) -> list[str]:
    """A directory in a list, or an empty list if there is none.

    In a store, if there are no files in it.
    """
    storage = storage_of(directory)
    return (
        [directory]
        if (storage.files_in if is_url(directory) else storage.is_directory)(directory)
        else []
    )


def _measured(directories: Sequence[str]) -> list[RemovedWork]:
    """Count files, and the bytes that removing all directories frees: not those of files with a name elsewhere."""
    statuses = {path: _statuses(path) for path in directories if not is_url(path)}
    names = Counter((one.st_dev, one.st_ino) for some in statuses.values() for one in some)
    found = []
    for path in directories:
        if is_url(path):
            from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - only URLs need it

            sizes = [one.size for one in OBJECT_STORE.find(path)]
            found.append(RemovedWork(path, len(sizes), sum(sizes)))
            continue
        freed = 0
        for one in statuses[path]:
            if names.pop((one.st_dev, one.st_ino), 0) >= one.st_nlink:
                freed += one.st_size
        found.append(RemovedWork(path, len(statuses[path]), freed))
    return found


def _statuses(directory: str) -> list[os.stat_result]:
    def fail(exc: OSError) -> None:
        raise exc

    walked = os.walk(directory, onerror=fail)
    return [os.lstat(os.path.join(parent, name)) for parent, _, names in walked for name in names]  # noqa: PTH118


def _remove(directory: str) -> None:
    """Remove a directory; unlike `Storage.remove_all`, errors are raised."""
    if is_url(directory):
        from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - only URLs need it

        OBJECT_STORE.remove(*OBJECT_STORE.files_in(directory))
        OBJECT_STORE.abort_uploads(directory)
        return
    # The marker first: the rest of an old output must not be mistaken for the whole and restored.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, CORPUS.marker))  # noqa: PTH108, PTH118
    shutil.rmtree(directory)
