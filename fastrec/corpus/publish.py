"""Publishing: OUT, a corpus or an export of one, appears whole or not at all.

    .OUT.fastrec-lock    held by the run that writes OUT
    .OUT.fastrec-work    runs and the journal; elsewhere with --work-dir
    .OUT.fastrec-new     the corpus, until one rename makes it OUT
    .OUT.fastrec-old     with --overwrite: the old corpus, between two renames, where one cannot do it

All stand beside OUT, on the same file system. What a run has finished when it fails or is killed stays, and the next
run goes on from there. An old corpus and the new one change places in one step; where a file system cannot do that, a
crash between two renames leaves no OUT, and the next run puts the old corpus back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fastrec.corpus.exchange import exchange
from fastrec.corpus.lock import locked
from fastrec.errors import UsageError, naming, shown
from fastrec.sources.shard import Shard
from fastrec.sources.tasks import total_text
from fastrec.storage import storage_of
from fastrec.storage.digests import fingerprint
from fastrec.storage.paths import is_url, join, parent_and_name, without_file_protocol

__all__ = ["Kind", "Workplace", "check_output", "too_little_space", "work_of", "workplace"]


class Kind(NamedTuple):
    """A kind of output: only one of the same kind is ever replaced."""

    name: str
    """In words: a corpus."""
    told_by: str
    """The name of the file that tells it."""


class Workplace:
    """The directories of a run: where its work is, and where its output is made."""

    def __init__(self, output: Path, kind: Kind, work: str) -> None:
        self.output = output
        self.work = work
        self._kind = kind
        self.staging = output.parent / f".{output.name}.fastrec-new"
        self._aside = output.parent / f".{output.name}.fastrec-old"

    def working(self, name: str) -> str:
        """Name a file of the work directory."""
        return join(self.work, name)

    def staged(self, name: str) -> str:
        """Name a file of the output while it is made."""
        return str(self.staging / name)

    def named(self, stem: str, suffix: str) -> str:
        """Give the name that a file of the output has."""
        return stem + suffix

    def staged_files(self) -> list[str]:
        """List the files of the output that is made."""
        return storage_of(str(self.staging)).files_in(str(self.staging))

    def rename(self, name: str, new_name: str) -> None:
        """Give a file of the output that is made another name."""
        (self.staging / name).rename(self.staging / new_name)

    def write(self, name: str, data: bytes) -> None:
        """Write a small file of the output."""
        path = self.staged(name)
        storage_of(path).write_all(path, data)

    def write_manifest(self, document: bytes) -> None:
        """Write what tells that the output is whole."""
        self.write(self._kind.told_by, document)

    def recover(self) -> None:
        """Put the old corpus back, if a run ended between the two renames."""
        if not self.output.exists() and (self._aside / self._kind.told_by).exists():
            self._aside.rename(self.output)

    def prepare(self, *, fresh: bool) -> None:
        """Make the directories, for this user alone; what an earlier run left in them stays, unless told otherwise."""
        for directory in (self.work, str(self.staging)):
            storage = storage_of(directory)
            if fresh:
                storage.remove_all(directory)
            storage.make_directory(directory)

    def sweep(self, files: Collection[str]) -> None:
        """Remove all that is not named."""
        for directory, found in ((self.staged(""), self.staged_files()), (self.work, self._work_files())):
            storage_of(directory).remove(*(path for path in found if path not in files))

    def _work_files(self) -> list[str]:
        return storage_of(self.work).files_in(self.work)

    def holds_work(self) -> bool:
        """Tell whether there is anything that the next run could use."""
        try:
            files = (*self._work_files(), *self.staged_files())
            return any(not parent_and_name(path)[1].startswith("journal") for path in files)
        except OSError:  # the disk may be what failed: then better too much is kept
            return True

    def publish(self) -> None:
        """Put the new directory in the place of the old one, if there is one. If that fails, all is as it was."""
        self.staging.chmod(0o777 & ~_umask())
        _sync(self.staging)
        self._discard_old()
        new = self.staging.stat()
        try:
            self._change_places()
            _sync(self.output.parent)
        except BaseException:
            # Whoever gave the order hears why; what cannot be taken back now is put right by the next run.
            with contextlib.suppress(OSError):
                self._take_back(new)
            raise

    def _change_places(self) -> None:
        if self.output.exists():
            if exchange(self.staging, self.output):
                return
            self.output.rename(self._aside)
        self.staging.rename(self.output)

    def _take_back(self, new: os.stat_result) -> None:
        if self.output.exists() and os.path.samestat(self.output.stat(), new):
            if self.staging.exists():
                exchange(self.staging, self.output)
            else:
                self.output.rename(self.staging)
        self.recover()

    def _discard_old(self) -> None:
        """Remove the old one, what tells its kind first: half of it must not be taken for a whole and put back."""
        with contextlib.suppress(OSError):
            (self._aside / self._kind.told_by).unlink()
        storage_of(str(self._aside)).remove_all(str(self._aside))

    @contextlib.contextmanager
    def cleared_on_failure(self) -> Iterator[None]:
        """Leave nothing to a next run."""
        try:
            yield
        except BaseException:
            self.clear()
            raise

    def clear(self) -> None:
        """Remove what is not published."""
        for directory in (str(self.staging), self.work):
            storage_of(directory).remove_all(directory)
        with contextlib.suppress(OSError):  # what stays does no harm
            if self.output.exists():
                self._discard_old()


@contextlib.contextmanager
def workplace(
    output: str, kind: Kind, work_dir: str | None = None, *, overwrite: bool, fresh: bool
) -> Iterator[Workplace]:
    """Take a place to work in; it is gone after success, and stays for the next run otherwise.

    Args:
        output: The directory to publish.
        kind: What it will be.
        work_dir: Where temporary files go, if not beside it.
        overwrite: Whether an output of the same kind may be replaced.
        fresh: Whether what an earlier run has left is of no use.
    """
    if is_url(output):
        from fastrec.corpus.stores import store_workplace  # noqa: PLC0415 - only who names a URL pays for it

        with store_workplace(output, kind, work_dir, overwrite=overwrite, fresh=fresh) as place:
            yield place
        return
    # Behind a link, so that the link stays and shows what is new.
    target = Path(output).resolve()
    work = work_of(str(target), work_dir) if work_dir else str(target.parent / f".{target.name}.fastrec-work")
    place = Workplace(target, kind, work)
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target):
        place.recover()
        _refuse_what_is_there(target, output, kind, overwrite=overwrite)
        place.prepare(fresh=fresh)
        yield place
        place.clear()


def work_of(output: str, work_dir: str) -> str:
    """Name the directory for the work on an output: several of one name, in different places, may share `work_dir`."""
    work_dir = without_file_protocol(work_dir)
    directory = work_dir.rstrip("/") if is_url(work_dir) else str(Path(work_dir).resolve())
    return join(directory, f".{parent_and_name(output)[1]}.{fingerprint(os.fsencode(output)):016x}.fastrec-work")


def check_output(output: str, names: Sequence[str], shards: Sequence[Shard] = ()) -> None:
    """Refuse an output that lies in an input, or the other way round."""
    ours, shown_output = _absolute(output), shown(output)
    for name in (*names, *(shard.path for shard in shards if not shard.stream)):
        if is_url(name) != is_url(output):
            continue
        theirs = _absolute(name)
        if theirs == ours and (is_url(name) or Path(name).is_dir()):
            raise UsageError(f"{shown_output} is input and output at once: give another output")
        if _lies_in(ours, theirs) and (is_url(name) or Path(name).is_dir()):
            raise UsageError(f"the output {shown_output} lies in the input {shown(name)}: give another output")
        if _lies_in(theirs, ours) or theirs == ours:
            raise UsageError(f"the input {shown(name)} lies in the output {shown_output}: give another output")


def _absolute(path: str) -> str:
    return storage_of(path).canonical(path).rstrip("/")


def _lies_in(path: str, directory: str) -> bool:
    return path.startswith(directory.rstrip("/") + "/")


def too_little_space(place: Workplace, shards: Sequence[Shard]) -> str | None:
    """Say so if the work will hardly fit on the disk; streams are not counted, nobody knows how long they are."""
    needed: Counter[int] = Counter()
    directories: dict[int, str] = {}
    stored, text = sum(shard.size for shard in shards), total_text(shards)
    for directory, size in ((parent_and_name(place.staged("x"))[0], stored), (place.work, text)):
        if not is_url(directory):
            device = os.stat(directory).st_dev  # noqa: PTH116
            needed[device] += size
            directories[device] = directory
    for device, size in needed.items():
        free = shutil.disk_usage(directories[device]).free
        if free < size:
            return (
                f"{shown(directories[device])} has {free / 1e9:.1f} GB left, and the work takes about "
                f"{size / 1e9:.1f} GB: make room, or name another place with --work-dir"
            )
    return None


def _refuse_what_is_there(place: Path, output: str, kind: Kind, *, overwrite: bool) -> None:
    if not place.exists():
        return
    name = shown(output)
    if not overwrite:
        raise UsageError(f"{name} exists: give another output, or --overwrite to replace it")
    if not place.is_dir():
        raise UsageError(f"{name} is not a directory, so it cannot be replaced by {kind.name}")
    if any(place.iterdir()) and not (place / kind.told_by).exists():
        raise UsageError(f"{name} holds something else than {kind.name} (no {kind.told_by}): it is not replaced")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    with naming(str(directory)):
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
