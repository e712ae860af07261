"""Publishing: OUT appears whole or not at all.

    .OUT.fastrec-lock    held by the run that writes OUT
    .OUT.fastrec-work    runs and the journal; elsewhere with --work-dir
    .OUT.fastrec-new     the corpus, until one rename makes it OUT
    .OUT.fastrec-old     with --overwrite: the old corpus, between two renames

All stand beside OUT, on the same file system. What a run has finished when it fails or is killed stays, and the next
run goes on from there. A crash between the two renames leaves no OUT: the next run puts the old corpus back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fastrec.errors import LockedError, UsageError, shown
from fastrec.hashing import fingerprint
from fastrec.jobs.plan import estimated_text
from fastrec.stages.shards import Shard

__all__ = ["Workplace", "check_output", "too_little_space", "workplace"]


_HELD: Final[set[Path]] = set()
"""The locks that this process holds."""


class Workplace:
    """The directories of a run."""

    def __init__(self, output: Path, work_dir: Path | None) -> None:
        self.output = output
        self.staging = output.parent / f".{output.name}.fastrec-new"
        # Several corpora of one name, in different places, may share a directory for their work.
        place = f".{fingerprint(os.fsencode(output)):016x}" if work_dir else ""
        self.work = (work_dir or output.parent).resolve() / f".{output.name}{place}.fastrec-work"
        self._aside = output.parent / f".{output.name}.fastrec-old"

    def recover(self) -> None:
        """Put the old corpus back, if a run ended between the two renames."""
        if self._aside.exists() and not self.output.exists():
            self._aside.rename(self.output)

    def prepare(self, *, fresh: bool) -> None:
        """Make the directories, for this user alone; what an earlier run left in them stays, unless told otherwise."""
        for directory in (self.work, self.staging):
            if fresh:
                _remove(directory)
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            directory.chmod(0o700)

    def has_work(self) -> bool:
        """Tell whether there is more than a journal that has only begun."""
        with contextlib.suppress(OSError):
            return any(path.name != "journal" for path in (*self.work.iterdir(), *self.staging.iterdir()))
        return False

    def sweep(self, files: Collection[str]) -> None:
        """Remove all that is not named."""
        for directory in (self.staging, self.work):
            for path in directory.iterdir():
                if str(path) not in files:
                    _remove(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def publish(self) -> None:
        """Put the new corpus in the place of the old one, if there is one."""
        self.staging.chmod(0o777 & ~_umask())
        _sync(self.staging)
        _remove(self._aside)
        if self.output.exists():
            self.output.rename(self._aside)
        self.staging.rename(self.output)
        _sync(self.output.parent)

    def clear(self) -> None:
        """Remove what is not published."""
        for directory in (self.staging, self.work, self._aside):
            _remove(directory)


@contextlib.contextmanager
def workplace(output: Path, work_dir: Path | None, *, overwrite: bool, fresh: bool) -> Iterator[Workplace]:
    """Take a place to work in; it is gone after success, and stays for the next run otherwise."""
    place = Workplace(output.resolve(), work_dir)  # behind a link, so that the link stays and shows the new corpus
    place.output.parent.mkdir(parents=True, exist_ok=True)
    with _locked(place.output):
        place.recover()
        _refuse_what_is_there(place.output, output, overwrite=overwrite)
        place.prepare(fresh=fresh)
        yield place
        place.clear()


def check_output(output: Path, names: Sequence[str], shards: Sequence[Shard]) -> None:
    """Refuse an output that lies in an input, or the other way round."""
    resolved = output.resolve()
    for name in names:
        path = Path(name)
        if path.is_dir() and path.resolve() == resolved:
            raise UsageError(f"{output} is input and output at once: give another output")
        if path.is_dir() and path.resolve() in resolved.parents:
            raise UsageError(f"the output {output} lies in the input {name}, and would be read next time: move it")
    for shard in shards:
        if shard.stream:
            continue
        path = Path(shard.path).resolve()
        if resolved == path or resolved in path.parents:
            raise UsageError(f"the input {shard.path} lies in the output {output}: give another output")


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


def _refuse_what_is_there(place: Path, output: Path, *, overwrite: bool) -> None:
    if not place.exists():
        return
    if not overwrite:
        raise UsageError(f"{output} exists: give another output, or --overwrite to replace it")
    if not place.is_dir():
        raise UsageError(f"{output} is not a directory, so it cannot be replaced by a corpus")
    if any(place.iterdir()) and not (place / "manifest.json").exists():
        raise UsageError(f"{output} holds something else than a corpus (no manifest.json): it is not replaced")


@contextlib.contextmanager
def _locked(output: Path) -> Iterator[None]:
    """Hold the lock of an output. It goes with the process, however that ends, and so is never stale."""
    path = output.parent / f".{output.name}.fastrec-lock"
    if path in _HELD:  # such locks are those of a process, whatever its threads do
        raise LockedError(str(output), "in this very process")
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, 1_000, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise LockedError(str(output), holder or "which has only just begun") from None
        if _is_the_same(path, descriptor):
            break
        os.close(descriptor)  # its last holder has removed it since we opened it
    _HELD.add(path)
    try:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        _HELD.discard(path)


def _is_the_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
