"""Publishing a directory on this machine: it is made beside its place, and one rename publishes it.

    .OUT.fastrec-lock    held by the run that writes OUT
    .OUT.fastrec-work    runs and the journal; elsewhere with --work-dir
    .OUT.fastrec-new     the output, until one rename makes it OUT
    .OUT.fastrec-old     with --overwrite: the old output between two renames, where one cannot do it

All of them are on the file system of OUT. If a run fails or is killed, its finished work stays, and the next run
resumes from it. One system call exchanges the old and the new output. Where a file system cannot do that, a crash
between two renames leaves no OUT, and the next run restores the old one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastrec.corpus.lock import locked
from fastrec.corpus.output import Kind, Output, work_of
from fastrec.errors import UsageError, naming, shown
from fastrec.limits import LIMITS, Limits
from fastrec.storage import storage_of
from fastrec.storage.local import LOCAL

__all__ = ["LocalOutput", "exchange", "open_local_output"]

_HERE: Final = -100  # AT_FDCWD
_EXCHANGE: Final = 2  # RENAME_EXCHANGE, see renameat2(2)
_CANNOT: Final = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV, errno.EPERM}
"""The system or the file system cannot exchange names; two renames either work or raise the real error."""


class LocalOutput(Output):
    """An output directory on this machine."""

    def __init__(self, target: Path, kind: Kind, work: str) -> None:
        self.work = work
        self.staging = target.parent / f".{target.name}.fastrec-new"
        self._target = target
        self._marker = kind.marker
        self._old = target.parent / f".{target.name}.fastrec-old"

    def staged(self, name: str) -> str:
        return str(self.staging / name)

    def named(self, stem: str, suffix: str) -> str:
        return stem + suffix

    def staged_files(self) -> list[str]:
        return LOCAL.files_in(str(self.staging))

    def rename(self, name: str, new_name: str) -> None:
        (self.staging / name).rename(self.staging / new_name)

    def write_marker(self, document: bytes) -> None:
        self.write(self._marker, document)

    def recover(self) -> None:
        """Restore the old output, if a run ended between the two renames."""
        if not self._target.exists() and (self._old / self._marker).exists():
            self._old.rename(self._target)

    def prepare(self, *, fresh: bool) -> None:
        """Create the directories, private to this user; with `fresh`, remove what an earlier run left in them."""
        for directory in (self.work, str(self.staging)):
            storage = storage_of(directory)
            if fresh:
                storage.remove_all(directory)
            storage.make_directory(directory)

    def publish(self) -> None:
        os.umask(umask := os.umask(0))  # there is no way to read it without setting it
        self.staging.chmod(0o777 & ~umask)
        _sync(self.staging)
        self._discard_old()
        new = self.staging.stat()
        try:
            self._replace()
            _sync(self._target.parent)
        except BaseException:
            # The original error is raised. If it cannot be undone now, the next run does it.
            with contextlib.suppress(OSError):
                self._undo(new)
            raise

    def _replace(self) -> None:
        if self._target.exists():
            if exchange(self.staging, self._target):
                return
            self._target.rename(self._old)
        self.staging.rename(self._target)

    def _undo(self, new: os.stat_result) -> None:
        if self._target.exists() and os.path.samestat(self._target.stat(), new):
            if self.staging.exists():
                exchange(self.staging, self._target)
            else:
                self._target.rename(self.staging)
        self.recover()

    def _discard_old(self) -> None:
        """Remove the old output, its marker first: a part of it must not be mistaken for the whole and restored."""
        with contextlib.suppress(OSError):
            (self._old / self._marker).unlink()
        LOCAL.remove_all(str(self._old))

    def clear(self) -> None:
        for directory in (str(self.staging), self.work):
            storage_of(directory).remove_all(directory)
        with contextlib.suppress(OSError):  # what stays does no harm
            if self._target.exists():
                self._discard_old()


@contextlib.contextmanager
def open_local_output(
    output: str, kind: Kind, work_dir: str | None = None, *, overwrite: bool, fresh: bool, limits: Limits = LIMITS
) -> Iterator[LocalOutput]:
    """Lock and prepare an output directory on this machine; see `fastrec.corpus.publish.open_output`."""
    target = Path(output).resolve()  # a symbolic link stays, and leads to the new output
    work = work_of(str(target), work_dir) if work_dir else str(target.parent / f".{target.name}.fastrec-work")
    made = LocalOutput(target, kind, work)
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target, limits.lock_wait_seconds):
        made.recover()
        _refuse_existing(target, output, kind, overwrite=overwrite)
        made.prepare(fresh=fresh)
        yield made
        made.clear()


def _refuse_existing(target: Path, output: str, kind: Kind, *, overwrite: bool) -> None:
    if not target.exists():
        return
    name = shown(output)
    if not overwrite:
        raise UsageError(f"{name} exists: give another output, or --overwrite to replace it")
    if not target.is_dir():
        raise UsageError(f"{name} is not a directory, so it cannot be replaced by {kind.name}")
    if any(target.iterdir()) and not (target / kind.marker).exists():
        raise UsageError(f"{name} holds something else than {kind.name} (no {kind.marker}): it is not replaced")


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    with naming(str(directory)):
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two directories in one system call; return False if this system cannot do that."""
    if sys.platform != "linux":
        return False
    import ctypes  # noqa: PLC0415 - slow to import, and only replacing a corpus needs it

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # an old C library
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    reason = ctypes.get_errno()
    if reason in _CANNOT:
        return False
    raise OSError(reason, os.strerror(reason), os.fspath(one), None, os.fspath(other))
