"""One run at a time writes an output.

On this machine, the lock `.OUT.fastrec-lock` names the process that holds it.

The system releases it with that process and its workers. An output in an object store has a `Lease`
instead.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

import msgspec

from fastrec.errors import LockedError, LostLeaseError, naming
from fastrec.limits import current_limits
from fastrec.schemas.view import REFUSALS, encode_json
from fastrec.storage import is_private
from fastrec.storage.shared_object import ChangedError, SharedObject

if TYPE_CHECKING:
    from fastrec.storage.object_store import (
        ObjectStore,
    )  # takes 20 ms to load, and only URLs need it

_HOLDER = re.compile(r"process (\d+) on (.*) since ")

_ENDED = 0.0  # time of the last renewal of a lease whose holder has ended


class Holder(msgspec.Struct):
    """The run that holds a lock or a lease; the content of the object of a lease."""

    token: str
    process: int
    host: str
    since: str
    alive: float  # time of the last renewal, in seconds since 1970
    machine: str = (
        ""  # where the process number is valid: machines and containers may share a host name
    )
    ended: list[str] = []  # tokens of earlier runs that have certainly ended

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"


def _this_run() -> Holder:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return Holder(
        secrets.token_hex(8), os.getpid(), os.uname().nodename, since, _ENDED, this_machine()
    )


@contextmanager
def locked(output: Path, wait_seconds: float | None = None) -> Iterator[None]:
    """Hold the lock of an output.

    It ends with the process and its workers, however they end: it is never stale.
    """
    path = output.parent / f".{output.name}.fastrec-lock"
    wait_seconds = current_limits().lock_wait_seconds if wait_seconds is None else wait_seconds
    descriptor = _take_lock(path, output, wait_seconds)
    try:
        with naming(str(path)):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{_this_run()}\n".encode(), 0)
        yield
    finally:
        # A file that stays does no harm: only the lock on it counts.
        with suppress(OSError):
            path.unlink()
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        with suppress(OSError):
            os.close(descriptor)


def _take_lock(path: Path, output: Path, wait_seconds: float) -> int:
    """Take the lock, and return its descriptor.

    Forked workers hold the lock too. The workers of a killed run may write for another moment and
    would disturb this run, so wait for their end.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        with ExitStack() as stack:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            stack.callback(os.close, descriptor)
            with naming(str(path)):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    holder = None
                except BlockingIOError:  # another process holds the lock, and says who it is
                    holder = os.pread(descriptor, 1_000, 0).decode(errors="replace").strip()
            if holder is None and _is_same_file(path, descriptor):
                stack.pop_all()
                return descriptor
        if holder is None:
            continue  # its last holder removed the file after we opened it
        named = _HOLDER.match(holder)
        is_dead = named and named[2] == os.uname().nodename and not _is_running(int(named[1]))
        if not is_dead or time.monotonic() > deadline:
            raise LockedError(str(output), holder or "which has only just begun")
        time.sleep(0.05)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # it is, but of another user
    return True


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def this_machine() -> str:
    """Name the machine, and the container in it, where process numbers are valid."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not on Linux
        return os.uname().nodename


# A store has no lock that ends with the process that holds it. So the holder of a lease renews an
# object beside the output every few seconds, and a holder that has not done so for too long is
# presumed dead.
#
# Clocks may differ, so a holder whose lease seems to have lapsed is watched for 1.5 renewal times,
# and keeps the lease if it renews it meanwhile. So a holder is sure of its lease for that long
# after it began its last renewal. It counts on a bit less, and renews the lease at once when that
# time is over: before it writes, removes or publishes anything.
#
# Where the store has conditional requests, of all runs that try to take a lease exactly one
# succeeds, and a holder whose lease was taken cannot renew it. Elsewhere a run that takes over a
# lease waits a moment and looks whether it still has it: of two runs, the last one to write keeps
# it, unless one of them took longer than that moment to write.
#
# A presumed dead run may only be slow, and continue at any time. So a lease alone protects nothing:
# the names of all files of a run carry its token, and publishing is a conditional request of its
# own (`fastrec.corpus.store_output`).
#
# A run that fails leaves its lease behind, marked as ended, if there are files in the output. It
# tells the next run that these files are ours, and readers that they are not a corpus.

_WATCHED = 1.5  # renewal times that a holder is watched before its lease is taken
_SURE = 1.25  # renewal times for which a holder relies on its last renewal; less than it is watched
_SETTLE = (
    0.05  # renewal times to wait after taking over a lease in a store without conditional requests
)
_TOKENS = 1_000  # most tokens of ended runs that a lease remembers


class Lease:
    def __init__(self, store: ObjectStore, path: str, output: str) -> None:
        self._object = SharedObject(store, path)
        self._output = output
        self._limits = current_limits()  # also for the thread that renews the lease
        self._me = _this_run()
        self.token = self._me.token  # the name of this run: no other run ever has the same
        self._ended = Event()
        self._renewing = Lock()  # both the driver and a thread renew the lease
        self._renewed_at = 0.0, 0.0
        self._lost: LostLeaseError | None = None
        self.stays = False  # whether the lease is left behind at the end
        self.is_conditional = False  # whether the store has conditional requests

    @property
    def ended_runs(self) -> frozenset[str]:
        return frozenset(self._me.ended)

    def exists(self) -> bool:
        return self._object.read() is not None

    @contextmanager
    def held(self) -> Iterator[None]:
        self._take()
        thread = Thread(target=self._keep_renewing, name="fastrec-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(
                self._limits.lease_renew_seconds
            )  # it may be waiting for a store that does not answer
            with suppress(OSError, LockedError):
                self._renew(_ENDED)
                if not self.stays:
                    self._object.remove()

    def check(self) -> None:
        """Raise a LostLeaseError if another run has taken the lease.

        Ask the store only if that is possible.
        """
        if self._lost:
            raise self._lost
        if not self._is_sure():
            with self._renewing:
                if not self._is_sure():
                    self._renew(time.time())

    def renew(self) -> None:
        """Renew the lease now; LostLeaseError if another run has taken it."""
        with self._renewing:
            self._renew(time.time())

    def _take(self) -> None:
        content = self._object.read()
        if holder := _decoded(content):
            if self._is_alive(holder):
                lapse = f"{self._limits.lease_lapse_seconds:.0f} seconds"
                reason = f"{holder} (a killed run is presumed dead after {lapse})"
                raise LockedError(self._output, reason)
            ended = [holder.token] if self._has_ended(holder) else []
            self._me.ended = [*holder.ended, *ended][-_TOKENS:]
        started = _clocks()
        try:
            self._object.write(self._encoded(time.time()))
        except ChangedError:
            other = str(self._holder() or "which has only just begun")
            raise LockedError(self._output, other) from None
        self._renewed_at = started
        self.is_conditional = self._object.is_conditional()
        if not self.is_conditional:
            if content is not None and not is_private(self._output):
                time.sleep(_SETTLE * self._limits.lease_renew_seconds)
            self._check_holder()

    def _has_ended(self, holder: Holder) -> bool:
        return holder.alive == _ENDED or (
            holder.machine == self._me.machine and not _is_running(holder.process)
        )

    def _is_alive(self, holder: Holder) -> bool:
        if self._has_ended(holder):
            return False
        if 0 <= time.time() - holder.alive < self._limits.lease_lapse_seconds:
            return True
        time.sleep(
            _WATCHED * self._limits.lease_renew_seconds
        )  # one of the clocks may be wrong: wait for a renewal
        now = self._holder()
        return now is not None and now.alive not in (holder.alive, _ENDED)

    def _is_sure(self) -> bool:
        """Whether the lease cannot have been taken yet, by every clock of this machine."""
        longest = _SURE * self._limits.lease_renew_seconds
        return all(
            0 <= now - then < longest for now, then in zip(_clocks(), self._renewed_at, strict=True)
        )

    def _renew(self, alive: float) -> None:
        if self._lost:
            raise self._lost
        started = _clocks()
        try:
            self._object.write(self._encoded(alive))
        except ChangedError:
            self._check_holder()
            self._object.write(
                self._encoded(alive)
            )  # an earlier renewal of this run, which seemed to fail, succeeded
        self._renewed_at = started

    def _check_holder(self) -> None:
        holder = self._holder()
        if not holder or holder.token != self.token:
            self._lost = LostLeaseError(self._output, str(holder or "which has ended since"))
            raise self._lost

    def _encoded(self, alive: float) -> bytes:
        self._me.alive = alive
        return encode_json(self._me)

    def _keep_renewing(self) -> None:
        while not self._ended.wait(self._limits.lease_renew_seconds) and not self._lost:
            with suppress(OSError, LockedError):  # the next attempt may succeed
                self.renew()

    def _holder(self) -> Holder | None:
        return _decoded(self._object.read())


def _decoded(content: bytes | None) -> Holder | None:
    try:
        return None if content is None else msgspec.json.decode(content, type=Holder)
    except REFUSALS:
        return None


def _clocks() -> tuple[float, float]:
    """Read the clock that no one sets, and the one that goes on while a machine sleeps."""
    return time.monotonic(), time.time()
