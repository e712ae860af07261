"""Opening an output, checks before the work begins, and publishing on this machine.

`store_output` does so in a store.

A directory is made beside its place, and one rename publishes it.

    .OUT.fastrec-lock    held by the run that writes OUT
    .OUT.fastrec-work    runs and the journal; elsewhere with --work-dir
    .OUT.fastrec-new     the output, until one rename makes it OUT
    .OUT.fastrec-old     with --overwrite: the old output between two renames, if one is not enough
    OUT.refused          the output of the last run, if it was refused; replaced in the same way

All of them are on the file system of OUT. If a run fails or is killed, its finished work stays, and
the next run resumes from it. One system call exchanges the old and the new output. Where a file
system cannot do that, a crash between two renames leaves no OUT, and the next run restores the old
one.
"""

import errno
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path

from fastrec.corpus.lock import locked
from fastrec.corpus.manifest import is_refused
from fastrec.corpus.output import NEXT, REFUSED, Kind, Output, not_refused, work_root_of
from fastrec.engine.base import Engine
from fastrec.errors import DamagedFileError, LockedError, UsageError, shown
from fastrec.sources.shard import Shard, Shards, total_text
from fastrec.storage import is_url, join, parent_and_name, parent_of, storage_of
from fastrec.storage.local import LOCAL

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE, see renameat2(2)
# The system cannot exchange names; two renames either work or raise the real error.
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM}

# Files that systems put into directories by themselves.
_BY_SYSTEMS = re.compile(r"\.DS_Store|\.nfs[0-9a-f]+|Thumbs\.db|desktop\.ini")


class LocalOutput(Output):
    def __init__(self, target: Path, kind: Kind, work: str) -> None:
        self.work = self.work_root = work
        self.staging = target.parent / f".{target.name}.fastrec-new"
        self._place = _Place(target, kind.marker)
        self._refused = _Place(target.with_name(target.name + REFUSED), kind.marker)
        self.refused = str(self._refused.target)

    def check(self) -> None:
        """Do nothing: nobody can take a lock from a process that holds it."""

    def staged(self, name: str) -> str:
        return str(self.staging / name)

    def named(self, stem: str, suffix: str) -> str:
        return stem + suffix

    def staged_files(self) -> list[str]:
        return LOCAL.files_in(str(self.staging))

    def rename(self, name: str, new_name: str) -> None:
        (self.staging / name).rename(self.staging / new_name)

    def write_marker(self, document: bytes) -> None:
        self.write(self._place.marker.name, [document])

    def recover(self) -> None:
        self._place.recover()

    def prepare(self, *, fresh: bool) -> None:
        """Create the directories, private to this user.

        With `fresh`, remove what an earlier run left in them.
        """
        for directory in (self.work, str(self.staging)):
            storage = storage_of(directory)
            if fresh:
                storage.remove_all(directory)
            storage.make_directory(directory)

    def publish(self) -> None:
        self._place.publish(self.staging)

    def check_refused(self) -> None:
        place = self._refused
        if os.path.lexists(place.target) and not place.is_refused():
            raise not_refused(self.refused)

    def refuse(self) -> None:
        place = self._refused
        with locked(place.target):
            place.recover()  # it may be a corpus that another run was about to replace
            self.check_refused()
            place.publish(self.staging)
            place.discard_old()

    def remove_refused(self) -> None:
        place = self._refused
        # What stays does no harm, and another run may be writing it.
        with suppress(OSError, LockedError):
            if place.is_refused() or place.old.exists():
                with locked(place.target):
                    place.recover()
                    if place.is_refused():
                        place.discard_old()
                        place.target.rename(place.old)
                        place.discard_old()

    def leftovers(self) -> list[str]:
        """List the directories that earlier runs left.

        These are work, an output that was not published, and a replaced output.
        """
        old = self._place.old
        directories = [self.work, str(self.staging)]
        # Else it is to be restored.
        if self._place.target.exists() or not (old / self._place.marker.name).exists():
            directories.append(str(old))
        return [path for path in directories if storage_of(path).is_directory(path)]

    def reuse(self, path: str, name: str) -> str:
        try:
            LOCAL.link_or_copy(path, self.staged(name))
        except FileNotFoundError as exc:
            raise DamagedFileError(path, "it is missing") from exc
        return self.staged(name)

    def keep(self, path: str, name: str, *, linked: bool = True) -> str:
        published = str(self._place.target / Path(path).name)
        place = self.working(name)
        if not linked or is_url(place):
            return published
        try:
            if not os.path.lexists(place):
                os.link(path, place)
        except OSError:  # another file system, or one without links
            return published
        return place if os.path.samefile(path, place) else published

    def before_publishing(self, path: str) -> str:
        directory, name = os.path.split(path)
        return self.staged(name) if directory == str(self._place.target) else path

    def clear(self) -> None:
        storage = storage_of(self.work)
        LOCAL.remove_all(str(self.staging))
        if self.kept:
            kept = {*self.kept, self.kept_path, self.kept_path + NEXT}
            with suppress(OSError):  # what stays does no harm
                storage.remove(*(path for path in storage.files_in(self.work) if path not in kept))
        else:
            storage.remove_all(self.work)
        with suppress(OSError):  # what stays does no harm
            if self._place.target.exists():
                self._place.discard_old()


class _Place:
    """A path where outputs are published, one after the other."""

    def __init__(self, target: Path, marker: str) -> None:
        self.target = target
        self.marker = target / marker
        self.old = target.parent / f".{target.name}.fastrec-old"

    def is_refused(self) -> bool:
        if self.target.is_symlink() or not self.marker.is_file():
            return False
        return is_refused(LOCAL.read_all(str(self.marker)))

    def recover(self) -> None:
        """Restore the old output, if a run ended between the two renames."""
        if not self.target.exists() and (self.old / self.marker.name).exists():
            self.old.rename(self.target)

    def publish(self, staging: Path) -> None:
        """Rename a directory to this path.

        An output that was here gets the name of the directory, or is gone.
        """
        os.umask(umask := os.umask(0))  # there is no way to read it without setting it
        staging.chmod(0o777 & ~umask)
        LOCAL.sync(str(staging))
        self.discard_old()
        new = staging.stat()
        try:
            self._replace(staging)
            LOCAL.sync(str(self.target.parent))
        except BaseException:
            # The original error is raised. If it cannot be undone now, the next run does it.
            with suppress(OSError):
                self._undo(staging, new)
            raise

    def _replace(self, staging: Path) -> None:
        if self.target.exists():
            if exchange(staging, self.target):
                return
            self.target.rename(self.old)
        staging.rename(self.target)

    def _undo(self, staging: Path, new: os.stat_result) -> None:
        if self.target.exists() and os.path.samestat(self.target.stat(), new):
            if staging.exists():
                exchange(staging, self.target)
            else:
                self.target.rename(staging)
        self.recover()

    def discard_old(self) -> None:
        """Remove the old output, its marker first.

        So a part of it is not mistaken for the whole and restored.
        """
        with suppress(OSError):
            (self.old / self.marker.name).unlink()
        LOCAL.remove_all(str(self.old))


@contextmanager
def open_local_output(
    output: str, kind: Kind, work: str | None = None, *, overwrite: bool, fresh: bool
) -> Iterator[LocalOutput]:
    target = Path(os.path.realpath(output))  # a symbolic link stays, and leads to the new output
    work = work or work_root_of(output, None)
    opened = LocalOutput(target, kind, work)
    if not Path(output).is_symlink() and Path(output).name not in ("", ".."):
        opened.refused = str(Path(output)) + REFUSED  # as the user names it
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target), locked_work(target, work):
        opened.recover()
        if target.exists() and (reason := _why_not_replaced(opened, target, kind, overwrite)):
            raise UsageError(f"{shown(output)} {reason}")
        opened.prepare(fresh=fresh)
        yield opened
        opened.clear()


def locked_work(target: Path, work: str) -> AbstractContextManager[None]:
    """Lock a work directory that several machines may share.

    Each of them may have an output of the same name.
    """
    if is_url(work) or work == work_root_of(str(target), None):
        return nullcontext()
    Path(work).parent.mkdir(parents=True, exist_ok=True)
    return locked(Path(work))


def _why_not_replaced(opened: LocalOutput, target: Path, kind: Kind, overwrite: bool) -> str | None:
    if not overwrite:
        return "exists: give another output, or --overwrite to replace it"
    if not target.is_dir():
        return f"is not a directory, so it cannot be replaced by {kind.name}"
    names = {path.name for path in target.iterdir() if not _BY_SYSTEMS.fullmatch(path.name)}
    if not names:
        return None
    if kind.marker not in names:
        return f"holds something other than {kind.name} (no {kind.marker}): it is not replaced"
    opened.old_marker = LOCAL.read_all(str(target / kind.marker))
    listed = kind.files(opened.old_marker)
    if not listed:
        return f"holds a {kind.marker} that is not of {kind.name}: it is not replaced"
    if others := sorted(names - {kind.marker, *(path.partition("/")[0] for path in listed)}):
        return (
            f"holds {shown(others[0])}, which is not part of {kind.name} and would be lost: move "
            "it elsewhere, or give another output"
        )
    return None


def exchange(directory: Path, other: Path) -> bool:
    """Exchange the names of two directories in one system call.

    Return False if this system cannot do that.
    """
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - slow to import, and only replacing a corpus needs it

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an old C library
        return False
    if rename(_HERE, os.fsencode(directory), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    reason = ctypes.get_errno()
    if reason in _CANNOT:
        return False
    raise OSError(reason, os.strerror(reason), os.fspath(directory), None, os.fspath(other))


def open_output(
    output: str, kind: Kind, work: str, *, overwrite: bool, fresh: bool
) -> AbstractContextManager[Output]:
    """Lock and prepare an output.

    Its work is removed after success, and stays for the next run otherwise.

    With `overwrite`, an output of the same kind may be replaced. With `fresh`, work of an earlier
    run is removed.
    """
    if _is_in(_canonical(work), _canonical(output)):
        raise UsageError(f"--work-dir lies in the output {shown(output)}: give another")
    if not is_url(output):
        return open_local_output(output, kind, work, overwrite=overwrite, fresh=fresh)
    from fastrec.corpus.store_output import open_store_output  # noqa: PLC0415 - only URLs need it

    return open_store_output(output, kind, work, overwrite=overwrite, fresh=fresh)


def check_output(output: str, names: Sequence[str], shards: Shards = ()) -> None:
    """Refuse an output inside an input, and an input inside the output."""
    ours = _canonical(output)
    shown_output = shown(output)
    for name, theirs in _canonical_inputs(names, shards, as_urls=is_url(output)):
        if _is_in(ours, theirs) and (is_url(name) or Path(name).is_dir()):
            if theirs == ours:
                raise UsageError(f"{shown_output} is input and output at once: give another output")
            raise UsageError(
                f"the output {shown_output} lies in the input {shown(name)}: give another output"
            )
        if _is_in(theirs, ours):
            raise UsageError(
                f"the input {shown(name)} lies in the output {shown_output}: give another output"
            )


def check_inputs_not_in(refused: str, names: Sequence[str], shards: Shards) -> None:
    """Refuse inputs in a refused corpus that this run would replace or remove."""
    if not storage_of(refused).exists(refused):
        return
    place = _canonical(refused)
    for name, theirs in _canonical_inputs(names, shards, as_urls=is_url(refused)):
        if _is_in(theirs, place):
            raise UsageError(
                f"the input {shown(name)} is the corpus that was refused last, which this run "
                "would replace or remove: "
                "rename it, or give another output"
            )


def _is_in(path: str, directory: str) -> bool:
    return f"{path}/".startswith(f"{directory}/")


def _canonical(path: str) -> str:
    return storage_of(path).canonical(path).rstrip("/")


def _canonical_inputs(
    names: Sequence[str], shards: Shards, *, as_urls: bool
) -> Iterator[tuple[str, str]]:
    """Yield the inputs as they are given, and their shards, each with its canonical path.

    They are URLs, or other paths.
    """
    known = cache(_canonical)  # most shards share a directory
    yield from ((name, _canonical(name)) for name in names if is_url(name) == as_urls)
    for path in [shard.path for shard in shards if not shard.stream]:
        if is_url(path) == as_urls:
            if as_urls or os.path.islink(path):
                yield path, _canonical(path)
            else:
                parent, name = parent_and_name(path)
                yield path, f"{known(parent)}/{name}"


def too_little_space(output: Output, shards: Shards, runs: Iterable[Shard]) -> str | None:
    """Return a warning if the disk is probably too small for a corpus of these shards and its runs.

    Streams do not count, because their size is unknown.
    """
    stored = sum(shard.size for shard in shards)
    needed = {output.work: total_text(runs), parent_of(output.staged("x")): stored}
    local = [directory for directory in needed if not is_url(directory)]
    devices = {directory: os.stat(directory).st_dev for directory in local}
    for directory, device in devices.items():
        size = sum(needed[other] for other in local if devices[other] == device)
        free = shutil.disk_usage(directory).free
        if free < size:
            return (
                f"{shown(directory)} has {free / 1e9:.1f} GB left, and the work takes "
                f"about {size / 1e9:.1f} GB: free some space, or name another directory with "
                "--work-dir"
            )
    return None


def check_reachable(directories: Iterable[str], engine: Engine) -> None:
    """Raise a UsageError if a worker cannot read and write in one of the directories."""
    for directory in directories:
        probe = join(directory, f".fastrec-probe-{time.time_ns():x}")
        storage = storage_of(directory)
        storage.write_all(probe, b"")
        try:
            answers = engine.on_every_worker(_can_reach, probe)
        finally:
            storage.remove(probe)
        if failed := sorted(worker for worker, reached in answers.items() if not reached):
            more = f" and {len(failed) - 3:,} more workers" if len(failed) > 3 else ""
            raise UsageError(
                f"{shown(directory)} cannot be reached by {', '.join(failed[:3])}{more}: put the "
                "output, and --work-dir, on storage that all workers share under the same name"
            )


def _can_reach(probe: str) -> bool:
    """Return whether a file is visible, and another one can be written beside it.

    Runs in a worker.
    """
    own = f"{probe}-{secrets.token_hex(4)}"
    storage = storage_of(probe)
    with suppress(OSError, UsageError):
        if storage.exists(probe):
            storage.write_all(own, b"")
            storage.remove(own)
            return True
    return False
