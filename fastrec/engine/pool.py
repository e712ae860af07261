"""The pool engine: tasks in worker processes.

If this process has a single thread, workers are forked: they start within milliseconds, with all
modules loaded. Otherwise a forked process may inherit a lock that is never released, so workers are
fresh interpreters that start half a second later, in the pool that joblib uses (loky). Its executor
is used directly: the generators of `joblib.Parallel` take arguments without waiting for the
consumer of the results.

A worker that dies breaks its pool, and nobody knows which task killed it. So a new pool starts, and
all tasks that were running are suspects: each runs again alone. A task that kills its worker again
is named in the error.

An executor can wait for ever: for the other half of a result whose sender died, for a worker that
hangs inside a native library, or because its own thread died. So the engine checks workers and
executor itself, and ends such a pool. Tasks then count as if their workers had died. A worker that
stays stopped is killed.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Future,
    InvalidStateError,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from fastrec.engine.base import Engine, Task
from fastrec.errors import WorkerDiedError
from fastrec.limits import current_limits

_STOPPED_CHECKS = 5  # a worker found stopped this many times in a row is killed
_DEAD_CHECKS = 2  # a pool that is found dead this many times in a row is ended
# if the executor has not noticed after this many, its tasks fail without it
_GIVE_UP_CHECKS = 5
_NOTICE_SECONDS = 0.5  # for an executor to notice that its workers were killed
_PARENT_SECONDS = 0.1  # between two checks of a worker that its parent is alive

# States of a process
_STOPPED = ("T", "t")
_DEAD = ("Z", "X", "gone")
_SLEEPING = "S"

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1


class PoolEngine(Engine):
    """Runs tasks in worker processes; the same processes serve every call of `run`."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._executor: Any = None
        self._is_alone = False  # whether the pool has one worker, for tasks of a broken one
        self._watch: Thread | None = None  # kills stopped workers
        self._ended = Event()  # tells it to end
        self._dead_checks = 0
        self._progress: tuple[float, dict[int, int | None]] = (0.0, {})

    def _room(self, running: int) -> int:
        # tasks of a broken pool are run alone before others start
        return 0 if self._is_alone and running else super()._room(running)

    def _submit(self, task: Task[Any, Any], argument: object) -> Future[Any]:
        if self._is_alone:
            self._end(kill=False)
            self._start(self.jobs)
        try:
            future: Future[Any] = self._executor.submit(task, argument)
        except BrokenExecutor as exc:
            future = Future()
            future.set_exception(exc)
        return future

    def _result_of(self, future: Future[Any], task: Task[Any, Any], argument: object) -> Any:
        """The result of a task, which runs again in a pool of one worker if its pool broke."""
        with suppress(BrokenExecutor):
            return future.result()
        if not self._is_alone:
            self._end(kill=True)
            self._start(1, is_alone=True)
        try:
            future = self._executor.submit(task, argument)
            self._finished([future])
            return future.result()
        except BrokenExecutor as exc:
            raise WorkerDiedError(str(argument)) from exc

    def _finished(self, running: Iterable[Future[Any]]) -> set[Future[Any]]:
        running = set(running)
        while running:
            done, _ = wait(running, current_limits().pool_look_seconds, FIRST_COMPLETED)
            if done:
                return done
            self._check_workers()
            if self._dead_checks >= _GIVE_UP_CHECKS:
                for future in running:
                    with suppress(InvalidStateError):  # it has just finished
                        future.set_exception(BrokenExecutor("the pool is dead"))
        return set()

    def _check_workers(self) -> None:
        """Kill all workers if one is dead, or if none makes progress."""
        states = {pid: _state_of(pid) for pid in self._workers()}
        manager = self._executor._executor_manager_thread  # noqa: SLF001 - see below
        alive = states and manager.is_alive() and not set(_DEAD) & set(states.values())
        self._dead_checks = 0 if alive else self._dead_checks + 1
        if self._dead_checks == _DEAD_CHECKS or (alive and self._is_stuck(states)):
            for pid in states:
                _kill(pid)
            _end_results(self._executor._result_queue)  # noqa: SLF001

    def _is_stuck(self, states: dict[int, str]) -> bool:
        """Whether all workers have slept since long ago, although there are tasks.

        They wait for ever.
        """
        since, before = self._progress
        turns = {pid: _turns_of(pid) for pid in states}
        if turns != before or None in turns.values() or set(states.values()) != {_SLEEPING}:
            self._progress = time.monotonic(), turns
            return False
        return time.monotonic() - since >= current_limits().pool_silent_seconds

    def _workers(self) -> list[int]:
        return list(self._executor._processes or ())  # noqa: SLF001 - neither executor has a public way

    def _start(self, jobs: int, *, is_alone: bool = False) -> None:
        self._is_alone = is_alone
        with _signals_blocked():
            new_executor: Any
            if _has_one_thread():
                fork = multiprocessing.get_context("fork")
                new_executor = partial(ProcessPoolExecutor, mp_context=fork)
            else:
                from joblib.externals import loky  # noqa: PLC0415 - takes 100 ms

                new_executor = loky.ProcessPoolExecutor
            self._executor = new_executor(jobs, initializer=_become_worker, initargs=(os.getpid(),))
            self._executor.submit(os.getpid)  # the first task starts all workers
            self._ended = Event()
            watched = self._workers, self._ended, current_limits().pool_look_seconds
            self._watch = Thread(target=_kill_stopped, args=watched, daemon=True)
            self._watch.start()
        self._dead_checks = 0
        self._progress = time.monotonic(), {}

    def _end(self, *, kill: bool) -> None:
        """End the workers.

        A worker that does not end, such as a stopped one, is killed after a while.
        """
        executor = self._executor
        workers = self._workers()
        self._ended.set()
        if self._watch:
            self._watch.join()
        results = executor._result_queue  # noqa: SLF001 - see above
        manager = executor._executor_manager_thread  # noqa: SLF001
        for pid in workers if kill else ():
            _kill(pid)
        executor.shutdown(wait=False)
        if not manager:
            return
        manager.join(_NOTICE_SECONDS if kill else current_limits().pool_leave_seconds)
        if manager.is_alive():
            for pid in workers:
                _kill(pid)
            _end_results(results)
            manager.join(current_limits().pool_leave_seconds)

    def __enter__(self) -> Self:
        try:
            self._start(self.jobs)
        except BaseException:  # such as a signal that was blocked during the start
            if self._executor:
                self._end(kill=True)
            raise
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        self._end(kill=kind is not None)


def _kill_stopped(workers: Callable[[], list[int]], ended: Event, seconds: float) -> None:
    """Kill workers that stay stopped, looking every few seconds.

    In a thread of its own, because the executor waits for a stopped worker when another one has
    died, and since Python 3.12 it holds a lock meanwhile that whoever submits a task waits for.
    """
    checks = Counter[int]()  # that have found a worker stopped, in a row
    while not ended.wait(seconds):
        for pid in workers():
            checks[pid] = checks[pid] + 1 if _state_of(pid) in _STOPPED else 0
            if checks[pid] >= _STOPPED_CHECKS:
                _kill(pid)


def _has_one_thread() -> bool:
    """Whether this process runs on Linux with a single thread, so that it can safely be forked."""
    return sys.platform == "linux" and len(os.listdir("/proc/self/task")) == 1


def _end_results(results: Any) -> None:
    """Close our end of the pipe for results.

    Once the workers have closed theirs, its reader notices.
    """
    if results:
        results._writer.close()  # noqa: SLF001 - there is no public way


# Worker processes, as the operating system sees them. A worker may hang inside a native library
# that holds the interpreter lock, so that no Python code of its process runs. So whether it makes
# progress, and whether its parent is alive, are questions to the kernel.


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals while workers start.

    A signal would leave unknown workers behind, and a new worker would handle it too.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _state_of(pid: int) -> str:
    """The state letter of a process on Linux, `gone` if there is no such process.

    Empty if it is unknown.
    """
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    with suppress(OSError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return "gone"
    return ""


def _turns_of(pid: int) -> int | None:
    """How often the main thread of a process has run on a processor; None if it is unknown."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[2])
    return None


def _become_worker(parent: int) -> None:
    """Leave keyboard interrupts to the parent, and end when the parent ends. Runs in a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    # A panic of a Rust library that runs out of memory while it prints a backtrace waits for itself
    # for ever.
    os.environ["RUST_BACKTRACE"] = "0"
    # The kernel kills this process when its parent ends: the thread that watches it may wait for a
    # lock.
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - takes some milliseconds

        with suppress(OSError, AttributeError):  # a C library without prctl
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    Thread(target=watch, daemon=True).start()
