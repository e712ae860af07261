"""The lock: one run at a time writes an output on this machine.

.OUT.fastrec-lock    locked by the run that writes OUT; names its process
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fastrec.errors import LockedError, naming

__all__ = ["is_running", "locked"]

_HOLDER: Final = re.compile(r"process (\d+) on (.*) since ")


@contextlib.contextmanager
def locked(output: Path, wait_seconds: float) -> Iterator[None]:
    """Hold the lock of an output. It ends with the process and its workers, however they end: it is never stale."""
    path = output.parent / f".{output.name}.fastrec-lock"
    descriptor = _take_lock(path, output, wait_seconds)
    try:
        with naming(str(path)):
            since = datetime.now(UTC).isoformat(timespec="seconds")
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode(), 0)
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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            holder = _lock(path, descriptor)
            if holder is None and _is_same_file(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
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
    return found is not None and found[2] == socket.gethostname() and not is_running(int(found[1]))


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
