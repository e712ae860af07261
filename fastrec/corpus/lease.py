"""The lease: one run at a time writes an output in an object store.

A store has no lock that ends with the process that holds it. So the holder of a lease renews a timestamp in an object
beside the output every few seconds, and a holder that has not done so for too long is presumed dead. Clocks may differ,
so such a holder is first watched for a while. That is a hint, not a proof: the lease is checked once more before a
corpus is published.

A run that fails leaves its lease behind, marked as ended, if there are files in the output. It tells the next run that
these files are ours, and readers that they are not a corpus.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from fastrec.corpus.lock import is_running
from fastrec.errors import LockedError
from fastrec.limits import Limits
from fastrec.storage.object_store import OBJECT_STORE

__all__ = ["Lease"]

_ENDED: Final = 0.0  # as the time of the last renewal


class _Holder(msgspec.Struct):
    """The content of the object."""

    token: str
    process: int
    host: str
    since: str
    alive: float
    """Time of the last renewal, in seconds since 1970."""
    machine: str = ""
    """Where the process number is valid: machines and containers may share a host name."""

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"


class Lease:
    """The lease of an output."""

    def __init__(self, path: str, output: str, limits: Limits) -> None:
        self._path = path
        self._output = output
        self._limits = limits
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._me = _Holder(secrets.token_hex(8), os.getpid(), socket.gethostname(), since, _ENDED, _machine())
        self._ended = threading.Event()
        self.stays = False
        """Whether the lease is left behind at the end."""

    def exists(self) -> bool:
        """Return whether any run holds a lease, or has left one behind."""
        return OBJECT_STORE.exists(self._path)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease until exit."""
        write = OBJECT_STORE.write_all if self.exists() else OBJECT_STORE.write_new
        holder = self._holder()
        if holder is not None and self._is_alive(holder):
            lapse = f"{self._limits.lease_lapse_seconds:.0f} seconds"
            raise LockedError(self._output, f"{holder} (a killed run is presumed dead after {lapse})")
        write(self._path, self._renewed())
        self.check()  # of two runs that found no lease, the last one to write holds it
        renewing = threading.Thread(target=self._keep_renewing, name="fastrec-lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            self._ended.set()
            renewing.join(self._limits.lease_renew_seconds)  # it may be waiting for a store that does not answer
            with contextlib.suppress(OSError, LockedError):
                self._end()

    def check(self) -> None:
        """Raise a LockedError if another run has taken the lease."""
        holder = self._holder()
        if holder is None or holder.token != self._me.token:
            raise LockedError(self._output, str(holder or "which has ended since"))

    def _is_alive(self, holder: _Holder) -> bool:
        if holder.alive == _ENDED or (holder.machine == self._me.machine and not is_running(holder.process)):
            return False
        if 0 <= time.time() - holder.alive < self._limits.lease_lapse_seconds:
            return True
        time.sleep(1.5 * self._limits.lease_renew_seconds)  # one of the clocks may be wrong: wait for a renewal
        now = self._holder()
        return now is not None and now.alive not in (holder.alive, _ENDED)

    def _renewed(self) -> bytes:
        self._me.alive = time.time()
        return msgspec.json.encode(self._me)

    def _keep_renewing(self) -> None:
        while not self._ended.wait(self._limits.lease_renew_seconds):
            with contextlib.suppress(OSError, LockedError):  # the next attempt may succeed
                self.check()
                OBJECT_STORE.write_all(self._path, self._renewed())

    def _end(self) -> None:
        self.check()
        if self.stays:
            self._me.alive = _ENDED
            OBJECT_STORE.write_all(self._path, msgspec.json.encode(self._me))
        else:
            OBJECT_STORE.remove(self._path)

    def _holder(self) -> _Holder | None:
        try:
            return msgspec.json.decode(OBJECT_STORE.read_all(self._path), type=_Holder)
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            return None


def _machine() -> str:
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # not on Linux
        return socket.gethostname()
