"""One run at a time writes an output on this machine: a lock, `.OUT.fastrec-lock`, names the process that holds it.

The system releases it with that process and its workers. An output in an object store has a lease instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from fastrec.errors import LockedError, naming

__all__ = ["ENDED", "Holder", "is_running", "locked", "this_machine", "this_run"]

_HOLDER: Final = re.compile(r"process (\d+) on (.*) since ")

ENDED: Final = 0.0
"""Time of the last renewal of a lease whose holder has ended."""


class Holder(msgspec.Struct):
    """The run that holds a lock or a lease; the content of the object of a lease."""

    token: str
    process: int
    host: str
    since: str
    alive: float  # time of the last renewal, in seconds since 1970
    machine: str = ""  # where the process number is valid: machines and containers may share a host name
    ended: list[str] = []  # tokens of earlier runs that have certainly ended

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"


def this_run() -> Holder:
    """Describe this run, with a new token."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return Holder(secrets.token_hex(8), os.getpid(), os.uname().nodename, since, ENDED, this_machine())


@contextlib.contextmanager
def locked(output: Path, wait_seconds: float) -> Iterator[None]:
    """Hold the lock of an output. It ends with the process and its workers, however they end: it is never stale."""
    path = output.parent / f".{output.name}.fastrec-lock"
    descriptor = _take_lock(path, output, wait_seconds)
    try:
        with naming(str(path)):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{this_run()}\n".encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):  # a file that stays does no harm: only the lock on it counts
            path.unlink()
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _take_lock(path: Path, output: Path, wait_seconds: float) -> int:
    """Take the lock, and return its descriptor.

    Forked workers hold the lock too. The workers of a killed run may write for another moment and would disturb this
    run, so wait for their end.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        with contextlib.ExitStack() as stack:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            stack.callback(os.close, descriptor)
            holder = _lock(path, descriptor)
            if holder is None and _is_same_file(path, descriptor):
                stack.pop_all()
                return descriptor
        if holder is None:
            continue  # its last holder removed the file after we opened it
        if not _is_dead(holder) or time.monotonic() > deadline:
            raise LockedError(str(output), holder or "which has only just begun")
        time.sleep(0.05)


def _lock(path: Path, descriptor: int) -> str | None:
    """Lock a file; if another process holds the lock, return the description of that process."""
    with naming(str(path)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(descriptor, 1_000, 0).decode(errors="replace").strip()
    return None


def _is_dead(holder: str) -> bool:
    """Return whether the process that a lock names is known to have ended."""
    found = _HOLDER.match(holder)
    return found is not None and found[2] == os.uname().nodename and not is_running(int(found[1]))


def is_running(process: int) -> bool:
    """Return whether a process of this machine is running."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is, but of another user
        return True
    return True


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def this_machine() -> str:
    """Name the machine, and the container in it, where process numbers of this process are valid."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not on Linux
        return os.uname().nodename
