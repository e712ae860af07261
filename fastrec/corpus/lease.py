"""The lease: one run at a time writes an output in a store.

A store has no locks that go with the process that holds them. So the holder of a lease says every few seconds that it
is alive, in an object beside the output, and one that was silent for too long is taken for dead. Clocks may differ: who
seems to be silent is watched for a while before it is. That is advice, not proof: so the lease is looked at once more
before a corpus is published, by one request.

A run that failed leaves its lease, as one that has ended, if there are files in the output: by that the next run knows
them for ours, and no reader takes them for a corpus.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from fastrec.errors import LockedError
from fastrec.storage.object_store import OBJECT_STORE

__all__ = ["Lease"]

_RENEW: Final = 20.0  # seconds between two signs of life
_LAPSE: Final = 120.0  # seconds of silence after which a holder is taken for dead
_ENDED: Final = 0.0  # for the last sign of life


class _Holder(msgspec.Struct):
    """What stands in the object."""

    token: str
    process: int
    host: str
    since: str
    alive: float
    """Seconds since 1970."""
    machine: str = ""
    """Where its process has its number: machines and containers may share a name."""

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"


class Lease:
    """The lease of an output."""

    def __init__(self, path: str, output: str) -> None:
        self._path = path
        self._output = output
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._me = _Holder(secrets.token_hex(8), os.getpid(), socket.gethostname(), since, _ENDED, _machine())
        self._ended = threading.Event()
        self.stays = False
        """Whether the lease is left behind at the end."""

    def is_there(self) -> bool:
        """Tell whether any run has a lease, or has left one."""
        return OBJECT_STORE.exists(self._path)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease, and let it go at the end."""
        put = OBJECT_STORE.write_all if self.is_there() else OBJECT_STORE.write_new
        holder = self._holder()
        if holder is not None and self._is_alive(holder):
            raise LockedError(self._output, f"{holder} (one that was killed counts as gone after {_LAPSE:.0f} seconds)")
        self._renew(put)
        self.check()  # of two that found it free, the last to write has it
        renewing = threading.Thread(target=self._keep_renewing, name="fastrec-lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            self._ended.set()
            renewing.join(_RENEW)  # it may wait for a store that is silent
            with contextlib.suppress(OSError, LockedError):
                self.check()
                if self.stays:
                    self._me.alive = _ENDED
                    OBJECT_STORE.write_all(self._path, msgspec.json.encode(self._me))
                else:
                    OBJECT_STORE.remove(self._path)

    def check(self) -> None:
        """Raise a LockedError if another run has taken the lease by now."""
        holder = self._holder()
        if holder is None or holder.token != self._me.token:
            raise LockedError(self._output, str(holder or "which has ended by now"))

    def _is_alive(self, holder: _Holder) -> bool:
        if holder.alive == _ENDED or (holder.machine == self._me.machine and not _runs(holder.process)):
            return False
        if 0 <= time.time() - holder.alive < _LAPSE:
            return True
        time.sleep(1.5 * _RENEW)  # its clock may be wrong, or ours: one that is alive says so before long
        now = self._holder()
        return now is not None and now.alive not in (holder.alive, _ENDED)

    def _renew(self, put: Callable[[str, bytes], None] | None = None) -> None:
        self._me.alive = time.time()
        (put or OBJECT_STORE.write_all)(self._path, msgspec.json.encode(self._me))

    def _keep_renewing(self) -> None:
        while not self._ended.wait(_RENEW):
            with contextlib.suppress(OSError, LockedError):  # the next one may succeed
                self.check()
                self._renew()

    def _holder(self) -> _Holder | None:
        try:
            return msgspec.json.decode(OBJECT_STORE.read_all(self._path), type=_Holder)
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            return None


def _machine() -> str:
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:  # a system that does not tell
        return socket.gethostname()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
