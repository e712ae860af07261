"""Worker processes of a pool, as the operating system sees them: their state, their end, and the end of their parent.

A worker may hang inside a native library that holds the interpreter lock, so that no Python code of its process runs.
So whether it makes progress, and whether its parent is alive, are questions to the kernel.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

__all__ = ["DEAD", "SLEEPING", "STOPPED", "become_worker", "kill_process", "state_of", "turns_of", "undisturbed"]

STOPPED: Final = ("T", "t")
DEAD: Final = ("Z", "X", "gone")
SLEEPING: Final = "S"

_PARENT_SECONDS: Final = 0.1  # between two checks of a worker that its parent is alive
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG: Final = 1


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Block signals: one during a start would leave unknown workers behind, and a new worker would handle it too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_process(pid: int) -> None:
    """Kill a process, unless it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def state_of(pid: int) -> str:
    """Return the state letter of a process on Linux, `gone` if there is no such process; empty if it is unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except OSError:
        pass
    return ""


def turns_of(pid: int) -> int | None:
    """Return how often the main thread of a process has run on a processor; None if it is unknown."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[2])
    except (OSError, IndexError, ValueError):
        return None


def become_worker(parent: int) -> None:
    """Leave keyboard interrupts to the parent, and end when the parent ends. Runs in a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    # A panic of a Rust library that runs out of memory while it prints a backtrace waits for itself for ever.
    os.environ["RUST_BACKTRACE"] = "0"
    _die_with_parent()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends: the thread that watches it may wait for a lock."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - takes some milliseconds

        with contextlib.suppress(OSError, AttributeError):  # a C library without prctl
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
