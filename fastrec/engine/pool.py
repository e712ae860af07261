"""The pool engine: tasks in worker processes.

Where this process has a single thread, workers are forked from it: they start within milliseconds, with all modules
loaded. Everywhere else a forked copy may inherit a lock that nobody will ever release, and workers are fresh
interpreters, in the pool that joblib uses (loky), half a second later. Its executor is used directly rather than
through `joblib.Parallel`, whose generators pull arguments without waiting for the results to be taken.

A worker that dies takes its pool with it, and nobody can tell which task killed it. So a new pool starts, and all tasks
that were under way are suspects: each is tried again alone. Whoever kills its worker then is named.

A worker that dies while it hands over a result leaves half a message, and the executor would wait for the other half
for ever, as long as anyone could still write it. So the engine looks after its workers itself, and ends such a pool.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from fastrec.errors import WorkerDiedError

__all__ = ["PoolEngine"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_AHEAD: Final = 2  # tasks per worker that are handed over in advance, so that none waits for the next
_LOOK_EVERY: Final = 1.0  # seconds between two looks at the workers
_STOPPED_LOOKS: Final = 5  # so often a worker is found stopped before it is taken for dead
_DEAD_LOOKS: Final = 2  # so often one is found dead before the pool that has not noticed is ended
_NOTICES_WITHIN: Final = 0.5  # seconds within which an executor notices that its workers were killed
_LEAVES_WITHIN: Final = 5.0  # seconds within which workers that have nothing more to do are gone
_PARENT_EVERY: Final = 0.1  # seconds between two looks of a worker at its parent
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_STOPPED: Final = ("T", "t")
_DEAD: Final = "Z"


class PoolEngine:
    """Runs tasks in so many processes; the same processes serve every call of `run`."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._executor: Any = None
        self._stopped: Counter[int] = Counter()
        self._dead_looks = 0

    def run(self, task: Callable[[Argument], Result], arguments: Iterable[Argument]) -> Iterator[tuple[int, Result]]:
        """Run a task on each argument, in any order."""
        waiting = enumerate(arguments)
        running: dict[Future[Result], tuple[int, Argument]] = {}
        suspects: list[tuple[int, Argument]] = []
        exhausted = False
        while not exhausted or running or suspects:
            while not exhausted and not suspects and len(running) < self.jobs * _AHEAD:
                numbered = next(waiting, None)
                if numbered is None:
                    exhausted = True
                    continue
                try:
                    running[self._executor.submit(task, numbered[1])] = numbered
                except BrokenExecutor:
                    suspects.append(numbered)
            for future in self._finished(running):
                number, argument = running.pop(future)
                try:
                    result = future.result()
                except BrokenExecutor:
                    suspects.append((number, argument))
                    continue
                yield number, result
            if suspects and not running:  # with its pool, all that ran has come to an end, one way or the other
                yield from self._run_alone(task, suspects)
                suspects = []

    def _finished(self, running: Iterable[Future[Result]]) -> set[Future[Result]]:
        """Wait until something has finished; none if nothing runs."""
        running = set(running)
        while running:
            done, _ = wait(running, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
            if done:
                return done
            self._look_after_workers()
        return set()

    def _run_alone(
        self, task: Callable[[Argument], Result], suspects: list[tuple[int, Argument]]
    ) -> Iterator[tuple[int, Result]]:
        """Run tasks one by one in a pool of one; then start the full pool again."""
        self._end(kill=True)
        self._start(1)
        for number, argument in sorted(suspects, key=lambda suspect: suspect[0]):
            try:
                future = self._executor.submit(task, argument)
                self._finished([future])
                result = future.result()
            except BrokenExecutor as exc:
                raise WorkerDiedError(str(argument)) from exc
            yield number, result
        self._end(kill=False)
        self._start(self.jobs)

    def _look_after_workers(self) -> None:
        """Kill workers that somebody stopped and that nobody lets go on, and all of them if one is dead."""
        states = {pid: _state(pid) for pid in self._workers()}
        for pid, state in states.items():
            self._stopped[pid] = self._stopped[pid] + 1 if state in _STOPPED else 0
            if self._stopped[pid] >= _STOPPED_LOOKS:
                _kill(pid)
        self._dead_looks = self._dead_looks + 1 if _DEAD in states.values() else 0
        if self._dead_looks == _DEAD_LOOKS:
            for pid in states:
                _kill(pid)
            _end_results(self._executor._result_queue)  # noqa: SLF001 - see below

    def _workers(self) -> list[int]:
        return list(self._executor._processes or ())  # noqa: SLF001 - neither executor shows them otherwise

    def _start(self, jobs: int) -> None:
        with _undisturbed():
            self._start_executor(jobs)
        self._stopped.clear()
        self._dead_looks = 0

    def _start_executor(self, jobs: int) -> None:
        if _is_alone():
            fork = multiprocessing.get_context("fork")
            self._executor = concurrent.futures.ProcessPoolExecutor(jobs, fork, _become_worker, (os.getpid(),))
        else:
            from joblib.externals.loky import ProcessPoolExecutor  # noqa: PLC0415 - takes 100 ms to load

            self._executor = ProcessPoolExecutor(jobs, initializer=_become_worker, initargs=(os.getpid(),))
        self._executor.submit(os.getpid)  # the first task starts all workers

    def _end(self, *, kill: bool) -> None:
        """Let the workers go. One that does not, since somebody stopped it, say, is killed after a while."""
        executor, workers = self._executor, self._workers()
        results, manager = executor._result_queue, executor._executor_manager_thread  # noqa: SLF001 - see above
        for pid in workers if kill else ():
            _kill(pid)
        executor.shutdown(wait=False)
        if manager is None:
            return
        manager.join(_NOTICES_WITHIN if kill else _LEAVES_WITHIN)
        if manager.is_alive():
            for pid in workers:
                _kill(pid)
            _end_results(results)
            manager.join()

    def reach(self, directories: Iterable[str]) -> None:
        """Whatever this process sees, its workers see."""

    def __enter__(self) -> Self:
        try:
            self._start(self.jobs)
        except BaseException:  # a signal that had to wait, for one
            if self._executor is not None:
                self._end(kill=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the workers go; after an error, without waiting for what they do."""
        self._end(kill=kind is not None)


def _is_alone() -> bool:
    """Tell whether this process runs on Linux and has one thread: then nothing can be amiss in a forked copy of it."""
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let signals wait.

    One that came in the middle of a start would leave workers that nobody knows of, and one that came to a worker in
    its first moments would still be handled as in its parent.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_results(results: Any) -> None:
    """Close our end of what workers hand results over through: when no worker has one either, its reader notices."""
    if results is not None:
        results._writer.close()  # noqa: SLF001 - there is no other way


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _state(pid: int) -> str:
    """Return the letter that Linux has for the state of a process; none if nobody knows."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def _become_worker(parent: int) -> None:
    """Leave interrupts from the keyboard to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_EVERY)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
