"""The lock: one run at a time writes an output.

.OUT.fastrec-lock    held by the run that writes OUT; who that is, stands in it
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

__all__ = ["locked"]

_WORKERS_END: Final = 5.0  # seconds within which the workers of a killed run have ended, and with them its lock
_HOLDER: Final = re.compile(r"process (\d+) on (.*) since ")


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Hold the lock of an output. It goes with the process and its workers, however they end, so it is never stale."""
    path = output.parent / f".{output.name}.fastrec-lock"
    descriptor = _take_lock(path, output)
    try:
        with naming(str(path)):
            since = datetime.now(UTC).isoformat(timespec="seconds")
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):  # the file is only a name: it does no harm if it stays
            path.unlink()
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _take_lock(path: Path, output: Path) -> int:
    """Take the lock, and return its descriptor.

    Forked workers hold it too. If a run was killed, they may still write for a moment, and whoever came in between
    would find its files changed: so their end is waited for.
    """
    deadline = time.monotonic() + _WORKERS_END
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            holder = _lock(path, descriptor)
            if holder is None and _is_the_same(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if holder is None:
            continue  # its last holder has removed it since we opened it
        if not _is_dead(holder) or time.monotonic() > deadline:
            raise LockedError(str(output), holder or "which has only just begun")
        time.sleep(0.05)


def _lock(path: Path, descriptor: int) -> str | None:
    """Lock a file; if another process holds it, give what that says of itself."""
    with naming(str(path)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(descriptor, 1_000, 0).decode(errors="replace").strip()
    return None


def _is_dead(holder: str) -> bool:
    """Tell whether the process that a lock names is known to have ended."""
    found = _HOLDER.match(holder)
    if not found or found[2] != socket.gethostname():
        return False
    try:
        os.kill(int(found[1]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def _is_the_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
