"""The pool engine: tasks in worker processes, through the pool that joblib uses (loky).

The executor is used directly rather than through `joblib.Parallel`, whose generators pull arguments without waiting
for the results to be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from types import TracebackType
from typing import Any, Self, TypeVar

from fastrec.errors import WorkerDiedError

__all__ = ["PoolEngine"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_AHEAD = 2  # tasks per worker that are handed over in advance, so that none waits for the next


class PoolEngine:
    """Runs tasks in so many processes; the same processes serve every call of `run`."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._executor: Any = None

    def run(self, task: Callable[[Argument], Result], arguments: Iterable[Argument]) -> Iterator[tuple[int, Result]]:
        """Run a task on each argument, in any order."""
        executor = self._start()
        waiting = enumerate(arguments)
        running: dict[Future[Result], int] = {}
        exhausted = False
        while not exhausted or running:
            while not exhausted and len(running) < self.jobs * _AHEAD:
                numbered = next(waiting, None)
                if numbered is None:
                    exhausted = True
                else:
                    running[executor.submit(task, numbered[1])] = numbered[0]
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                number = running.pop(future)
                try:
                    result = future.result()
                except BrokenExecutor as exc:
                    raise WorkerDiedError from exc
                yield number, result

    def _start(self) -> Any:
        if self._executor is None:
            from joblib.externals.loky import get_reusable_executor  # noqa: PLC0415 - takes 150 ms to load

            self._executor = get_reusable_executor(max_workers=self.jobs)
        return self._executor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the workers go; after an error, without waiting for what they do."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=kind is not None)
            self._executor = None
