"""`clean`: remove kept work, and unpublished files of interrupted runs of `normalize`.

    on this machine     .OUT.fastrec-work, .OUT.fastrec-new, .OUT.fastrec-old, and the work
                        below --work-dir
    in a store          the work beside OUT, in the temporary directory and below --work-dir;
                        unpublished files in OUT

All of it is done under the lock or the lease of OUT, so that no run is disturbed. OUT and
OUT.refused stay. In a store, files of a run that may still be about to publish stay, too.
"""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from itertools import chain
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from fastrec.corpus.lock import locked
from fastrec.corpus.output import CORPUS, work_root_of
from fastrec.corpus.publish import LocalOutput, locked_work
from fastrec.errors import UsageError, shown, utf8
from fastrec.notebook import Tabular
from fastrec.parameters import AnyPath
from fastrec.storage import is_url, parent_of, storage_of, without_file_protocol
from fastrec.storage.local import scratch_directory


class RemovedWork(Struct):
    """A directory that was removed, or unpublished files that were removed from the output."""

    #: Path of the directory.
    path: str
    #: Number of files.
    files: int
    #: Bytes that were freed; files of the corpus do not count.
    bytes: int


class Cleaned(Tabular):
    """What `clean` removed."""

    #: Path of the output.
    output: str
    #: Whether nothing was removed, only listed.
    dry_run: bool
    #: Directories, and unpublished files; with `--dry-run`, those that would be removed.
    removed: list[RemovedWork]
    #: Bytes that were freed.
    bytes: int
    #: Unpublished files in a store, which a run may yet publish.
    left: list[str]


def clean(
    output: AnyPath,
    *,
    work_dir: AnyPath | None = None,
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
    target = without_file_protocol(output)
    directory = None if work_dir is None else without_file_protocol(work_dir)
    left: list[str] = []
    if is_url(target):
        removed, left = _clean_store(target.rstrip("/"), directory, dry_run=dry_run)
    else:
        removed = _clean_local(target, directory, dry_run=dry_run)
    return Cleaned(
        output=utf8(target),
        dry_run=dry_run,
        removed=removed,
        bytes=sum(work.bytes for work in removed),
        left=list(map(utf8, left)),
    )


def _clean_local(output: str, work_dir: str | None, *, dry_run: bool) -> list[RemovedWork]:
    target = Path(os.path.realpath(output))
    not_a_corpus = f"{shown(output)} is not a corpus"
    if not target.name:
        raise UsageError(not_a_corpus)
    if not target.parent.is_dir():
        parent = shown(str(target.parent))
        raise UsageError(f"{not_a_corpus}: there is no directory {parent}")
    if target.exists() and not target.is_dir():
        raise UsageError(f"{not_a_corpus}: it is a file")
    beside = LocalOutput(target, CORPUS, work_root_of(output, None))
    work = work_root_of(output, work_dir)

    def leftovers() -> list[str]:
        works = [work] if _exists(work) else []
        return list(dict.fromkeys(beside.leftovers() + works))

    if not leftovers():
        if target.exists() and any(target.iterdir()) and not (target / CORPUS.marker).exists():
            raise UsageError(f"{not_a_corpus}: it holds no {CORPUS.marker}")
        return []
    shared = locked_work(target, work) if _exists(work) else nullcontext()
    with locked(target), shared:
        if not dry_run:
            beside.recover()
        works = leftovers()
        removed = _measured(works)
        for work in () if dry_run else works:
            _remove(work)
        return removed


def _clean_store(
    output: str, work_dir: str | None, *, dry_run: bool
) -> tuple[list[RemovedWork], list[str]]:
    from fastrec.corpus.store_output import StoreOutput, lease_of  # noqa: PLC0415 - only URLs need it
    from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415

    lease = lease_of(output, CORPUS)
    directories = filter(None, (parent_of(output), scratch_directory(), work_dir))
    works = list(dict.fromkeys(work_root_of(output, directory) for directory in directories))

    opened = StoreOutput(output, CORPUS, works[0], lease)
    opened.refuse_existing(overwrite=True)
    if not (opened.has_leftovers() or any(map(_exists, works)) or lease.exists()):
        return [], []
    with lease.held():
        # Again: another run may have published since.
        opened = StoreOutput(output, CORPUS, works[0], lease)
        try:
            opened.refuse_existing(overwrite=True)
            unpublished, others = opened.leftovers()
            works = list(filter(_exists, works))
            removed = _measured(works)
            if unpublished:  # one request for all of them
                sizes = {file.path: file.size for file in OBJECT_STORE.find(output)}
                freed = sum(sizes.get(path, 0) for path in unpublished)
                removed.append(RemovedWork(utf8(output), len(unpublished), freed))
            if not dry_run:
                lease.renew()
                for work in works:
                    _remove(work)
                OBJECT_STORE.remove(*unpublished)
            return removed, others
        finally:
            lease.stays = opened.has_leftovers()


def _exists(directory: str) -> bool:
    """Whether there is a directory; in a store, whether there are files in it."""
    return storage_of(directory).is_directory(directory)


def _measured(directories: Sequence[str]) -> list[RemovedWork]:
    """Count files, and the bytes that removing all directories frees.

    Files that have a name elsewhere free nothing.
    """
    statuses = {path: _statuses(path) for path in directories if not is_url(path)}
    names = Counter(map(_inode, chain.from_iterable(statuses.values())))
    measured = []
    for path in directories:
        if is_url(path):
            from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - only URLs need it

            sizes = [file.size for file in OBJECT_STORE.find(path)]
        else:
            # A file counts once, if all of its names are removed.
            sizes = [
                status.st_size if names.pop(_inode(status), 0) >= status.st_nlink else 0
                for status in statuses[path]
            ]
        measured.append(RemovedWork(utf8(path), len(sizes), sum(sizes)))
    return measured


_inode = attrgetter("st_dev", "st_ino")


def _statuses(directory: str) -> list[os.stat_result]:
    def fail(exc: OSError) -> None:
        raise exc

    walked = os.walk(directory, onerror=fail)
    return [os.lstat(os.path.join(parent, name)) for parent, _, names in walked for name in names]


def _remove(directory: str) -> None:
    """Remove a directory; unlike `LocalStorage.remove_all`, errors are raised."""
    if is_url(directory):
        from fastrec.storage.object_store import OBJECT_STORE  # noqa: PLC0415 - only URLs need it

        OBJECT_STORE.remove(*OBJECT_STORE.files_in(directory))
        OBJECT_STORE.abort_uploads(directory)
        return
    # The marker first: the rest of an old output must not be mistaken for the whole and restored.
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, CORPUS.marker))
    shutil.rmtree(directory)
