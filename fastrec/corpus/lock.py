"""One run at a time writes an output: a lock on this machine, a lease in an object store.

A lock, `.OUT.fastrec-lock`, names the process that holds it. The system releases it with that process and its workers.

A store has no lock that ends with the process that holds it. So the holder of a lease renews a timestamp in an object
beside the output every few seconds, and a holder that has not done so for too long is presumed dead. Clocks may differ,
so such a holder is first watched for a while. That is a hint, not a proof: the lease is checked once more before a
corpus is published.

A run that fails leaves its lease behind, marked as ended, if there are files in the output. It tells the next run that
these files are ours, and readers that they are not a corpus.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from fastrec.errors import LockedError, naming
from fastrec.limits import Limits

if TYPE_CHECKING:
    from fastrec.storage.object_store import ObjectStore  # only outputs in a store need it

__all__ = ["Lease", "locked"]

_HOLDER: Final = re.compile(r"process (\d+) on (.*) since ")
_ENDED: Final = 0.0  # as the time of the last renewal


class _Holder(msgspec.Struct):
    """The run that holds a lock or a lease; the content of the object of a lease."""

    token: str
    process: int
    host: str
    since: str
    alive: float  # time of the last renewal, in seconds since 1970
    machine: str = ""  # where the process number is valid: machines and containers may share a host name

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"


def _this_run() -> _Holder:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return _Holder(secrets.token_hex(8), os.getpid(), socket.gethostname(), since, _ENDED, _machine())


@contextlib.contextmanager
def locked(output: Path, wait_seconds: float) -> Iterator[None]:
    """Hold the lock of an output. It ends with the process and its workers, however they end: it is never stale."""
    path = output.parent / f".{output.name}.fastrec-lock"
    descriptor = _take_lock(path, output, wait_seconds)
    try:
        with naming(str(path)):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{_this_run()}\n".encode(), 0)
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
    return found is not None and found[2] == socket.gethostname() and not _is_running(int(found[1]))


def _is_running(process: int) -> bool:
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


class Lease:
    """The lease of an output."""

    def __init__(self, store: ObjectStore, path: str, output: str, limits: Limits) -> None:
        self._store = store
        self._path = path
        self._output = output
        self._limits = limits
        self._me = _this_run()
        self._ended = threading.Event()
        self.stays = False  # whether the lease is left behind at the end

    def exists(self) -> bool:
        """Return whether any run holds a lease, or has left one behind."""
        return self._store.exists(self._path)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease until exit."""
        write = self._store.write_all if self.exists() else self._store.write_new
        holder = self._holder()
        if holder is not None and self._is_alive(holder):
            lapse = f"{self._limits.lease_lapse_seconds:.0f} seconds"
            raise LockedError(self._output, f"{holder} (a killed run is presumed dead after {lapse})")
        write(self._path, self._renewed(time.time()))
        self.check()  # of two runs that found no lease, the last one to write holds it
        renewing = threading.Thread(target=self._keep_renewing, name="fastrec-lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            self._ended.set()
            renewing.join(self._limits.lease_renew_seconds)  # it may be waiting for a store that does not answer
            with contextlib.suppress(OSError, LockedError):
                self.check()
                if self.stays:
                    self._store.write_all(self._path, self._renewed(_ENDED))
                else:
                    self._store.remove(self._path)

    def check(self) -> None:
        """Raise a LockedError if another run has taken the lease."""
        holder = self._holder()
        if holder is None or holder.token != self._me.token:
            raise LockedError(self._output, str(holder or "which has ended since"))

    def _is_alive(self, holder: _Holder) -> bool:
        if holder.alive == _ENDED or (holder.machine == self._me.machine and not _is_running(holder.process)):
            return False
        if 0 <= time.time() - holder.alive < self._limits.lease_lapse_seconds:
            return True
        time.sleep(1.5 * self._limits.lease_renew_seconds)  # one of the clocks may be wrong: wait for a renewal
        now = self._holder()
        return now is not None and now.alive not in (holder.alive, _ENDED)

    def _renewed(self, alive: float) -> bytes:
        self._me.alive = alive
        return msgspec.json.encode(self._me)

    def _keep_renewing(self) -> None:
        while not self._ended.wait(self._limits.lease_renew_seconds):
            with contextlib.suppress(OSError, LockedError):  # the next attempt may succeed
                self.check()
                self._store.write_all(self._path, self._renewed(time.time()))

    def _holder(self) -> _Holder | None:
        try:
            return msgspec.json.decode(self._store.read_all(self._path), type=_Holder)
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            return None


def _machine() -> str:
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not on Linux
        return socket.gethostname()
