"""Work that takes longer than a page should: reading texts, and computing the leaderboard.

It runs in a thread. A page waits for it for a moment. Then it says how far the work is, and the
browser asks again.
"""

from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from fastrec.progress import Progress

_PATIENCE = 1.0  # seconds that a page waits


class WorkingError(Exception):
    """The work is not done yet; the message says how far it is."""


class _Reading(Progress):
    is_stopped = False
    done = 0
    total = 0

    def start(self, _stage: str, total_bytes: int) -> None:
        self.total = total_bytes

    def advance(self, size: int, _records: int, _rejects: int) -> None:
        self.done += size
        if self.is_stopped:
            raise CancelledError


class Background:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor()
        self._tasks: dict[Hashable, tuple[_Reading, Future[Any]]] = {}

    def result(self, key: Hashable, make: Callable[..., Any]) -> Any:
        """What `make` returns, given `progress`. Only one work of a key runs at a time.

        Raises:
            WorkingError: It is still working.
        """
        task = self._tasks.get(key)
        if not task:
            reading = _Reading()
            task = self._tasks[key] = reading, self._threads.submit(make, progress=reading)
        reading, future = task
        try:
            future.exception(_PATIENCE)
        except TimeoutError:
            raise WorkingError(
                f"{reading.done / 1e6:,.0f} of {reading.total / 1e6:,.0f} MB are read."
            ) from None
        self._tasks.pop(key, None)
        return future.result()

    def stop(self) -> None:
        """Stop all work, as soon as the part that is read is done."""
        for reading, _ in list(self._tasks.values()):
            reading.is_stopped = True
        self._tasks.clear()
