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
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fastrec.errors import UsageError, naming, shown
from fastrec.hashing import fingerprint
from fastrec.jobs.exchange import exchange
from fastrec.jobs.lock import locked
from fastrec.jobs.plan import estimated_text
from fastrec.stages.shards import Shard

__all__ = ["Kind", "Workplace", "check_output", "too_little_space", "workplace"]


class Kind(NamedTuple):
    """A kind of output: only one of the same kind is ever replaced."""

    name: str
    """In words: a corpus."""
    told_by: str
    """The name of the file that tells it."""


class Workplace:
    """The directories of a run."""

    def __init__(self, output: Path, kind: Kind, work_dir: Path | None) -> None:
        self.output = output
        self._kind = kind
        self.staging = output.parent / f".{output.name}.fastrec-new"
        # Several corpora of one name, in different places, may share a directory for their work.
        place = f".{fingerprint(os.fsencode(output)):016x}" if work_dir else ""
        self.work = (work_dir or output.parent).resolve() / f".{output.name}{place}.fastrec-work"
        self._aside = output.parent / f".{output.name}.fastrec-old"

    def recover(self) -> None:
        """Put the old corpus back, if a run ended between the two renames."""
        if not self.output.exists() and (self._aside / self._kind.told_by).exists():
            self._aside.rename(self.output)

    def prepare(self, *, fresh: bool) -> None:
        """Make the directories, for this user alone; what an earlier run left in them stays, unless told otherwise."""
        for directory in (self.work, self.staging):
            if fresh:
                _remove(directory)
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            directory.chmod(0o700)

    def sweep(self, files: Collection[str]) -> None:
        """Remove all that is not named."""
        for directory in (self.staging, self.work):
            for path in directory.iterdir():
                if str(path) not in files:
                    _remove(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def holds_work(self) -> bool:
        """Tell whether there is anything that the next run could use."""
        try:
            return any(path.name != "journal" for path in (*self.work.iterdir(), *self.staging.iterdir()))
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
        _remove(self._aside)

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
        for directory in (self.staging, self.work):
            _remove(directory)
        with contextlib.suppress(OSError):  # what stays does no harm
            if self.output.exists():
                self._discard_old()


@contextlib.contextmanager
def workplace(
    output: Path, kind: Kind, work_dir: Path | None = None, *, overwrite: bool, fresh: bool
) -> Iterator[Workplace]:
    """Take a place to work in; it is gone after success, and stays for the next run otherwise.

    Args:
        output: The directory to publish.
        kind: What it will be.
        work_dir: Where temporary files go, if not beside it.
        overwrite: Whether an output of the same kind may be replaced.
        fresh: Whether what an earlier run has left is of no use.
    """
    # Behind a link, so that the link stays and shows what is new.
    place = Workplace(output.resolve(), kind, work_dir)
    place.output.parent.mkdir(parents=True, exist_ok=True)
    with locked(place.output):
        place.recover()
        _refuse_what_is_there(place.output, output, kind, overwrite=overwrite)
        place.prepare(fresh=fresh)
        yield place
        place.clear()


def check_output(output: Path, names: Sequence[str], shards: Sequence[Shard] = ()) -> None:
    """Refuse an output that lies in an input, or the other way round."""
    resolved, shown_output = output.resolve(), shown(str(output))
    for name in (*names, *(shard.path for shard in shards if not shard.stream)):
        path = Path(name)
        if path.is_dir() and path.resolve() == resolved:
            raise UsageError(f"{shown_output} is input and output at once: give another output")
        if path.is_dir() and path.resolve() in resolved.parents:
            raise UsageError(f"the output {shown_output} lies in the input {shown(name)}: give another output")
        if resolved == path.resolve() or resolved in path.resolve().parents:
            raise UsageError(f"the input {shown(name)} lies in the output {shown_output}: give another output")


def too_little_space(place: Workplace, shards: Sequence[Shard]) -> str | None:
    """Say so if the work will hardly fit on the disk; streams are not counted, nobody knows how long they are."""
    needed = {place.work: sum(map(estimated_text, shards)), place.staging: sum(shard.size for shard in shards)}
    if place.work.stat().st_dev == place.staging.stat().st_dev:
        needed = {place.work: sum(needed.values())}
    for directory, size in needed.items():
        free = shutil.disk_usage(directory).free
        if free < size:
            return (
                f"{shown(str(directory))} has {free / 1e9:.1f} GB left, and the work takes about {size / 1e9:.1f} GB: "
                "make room, or name another place with --work-dir"
            )
    return None


def _refuse_what_is_there(place: Path, output: Path, kind: Kind, *, overwrite: bool) -> None:
    if not place.exists():
        return
    name = shown(str(output))
    if not overwrite:
        raise UsageError(f"{name} exists: give another output, or --overwrite to replace it")
    if not place.is_dir():
        raise UsageError(f"{name} is not a directory, so it cannot be replaced by {kind.name}")
    if any(place.iterdir()) and not (place / kind.told_by).exists():
        raise UsageError(f"{name} holds something else than {kind.name} (no {kind.told_by}): it is not replaced")


def _remove(directory: Path) -> None:
    with contextlib.suppress(OSError):  # not every error is ignored: one from closing a directory comes through
        shutil.rmtree(directory, ignore_errors=True)


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
