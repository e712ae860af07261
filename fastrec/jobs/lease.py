"""The lease: one run at a time writes an output in a store.

A store has no locks that go with the process that holds them. So the holder of a lease says every few seconds that it
is alive, in an object beside the output, and one that was silent for too long is taken for dead. That is advice between
clocks that agree, not proof: what makes it safe is that a corpus is published by one request, before which the lease is
looked at once more.
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
from typing import Final

import msgspec

from fastrec.errors import LockedError
from fastrec.storage import read_all, store, write_all

__all__ = ["Lease"]

_RENEW: Final = 20.0  # seconds between two signs of life
_LAPSE: Final = 120.0  # seconds of silence after which a holder is taken for dead


class _Holder(msgspec.Struct):
    """What stands in the object."""

    token: str
    process: int
    host: str
    since: str
    alive: float
    """Seconds since 1970."""

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"


class Lease:
    """The lease of an output."""

    def __init__(self, path: str, output: str) -> None:
        self._path = path
        self._output = output
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._me = _Holder(secrets.token_hex(8), os.getpid(), socket.gethostname(), since, 0.0)
        self._ended = threading.Event()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease, and let it go at the end."""
        holder = self._holder()
        if holder is not None and _is_alive(holder):
            raise LockedError(self._output, f"{holder} (one that was killed counts as gone after {_LAPSE:.0f} seconds)")
        self._renew()
        self.check()  # of two that found it free, the last to write has it
        renewing = threading.Thread(target=self._keep_renewing, name="fastrec-lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            self._ended.set()
            renewing.join()
            with contextlib.suppress(OSError, LockedError):
                self.check()
                store.remove([self._path])

    def check(self) -> None:
        """Raise a LockedError if another run has taken the lease by now."""
        holder = self._holder()
        if holder is None or holder.token != self._me.token:
            raise LockedError(self._output, str(holder or "which has ended by now"))

    def _renew(self) -> None:
        self._me.alive = time.time()
        write_all(self._path, msgspec.json.encode(self._me))

    def _keep_renewing(self) -> None:
        while not self._ended.wait(_RENEW):
            with contextlib.suppress(OSError, LockedError):  # the next one may succeed
                self.check()
                self._renew()

    def _holder(self) -> _Holder | None:
        try:
            return msgspec.json.decode(read_all(self._path), type=_Holder)
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            return None


def _is_alive(holder: _Holder) -> bool:
    if holder.host == socket.gethostname() and not _runs(holder.process):
        return False
    return time.time() - holder.alive < _LAPSE


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
