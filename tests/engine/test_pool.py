"""The pool engine: all results arrive, whatever happens to its workers, and no process is left
behind.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from fastrec.engine import pool as module
from fastrec.engine.base import Engine, SerialEngine
from fastrec.engine.pool import PoolEngine
from fastrec.errors import PanicError, WorkerDiedError
from fastrec.limits import Limits, use_limits

FORKS = sys.platform == "linux" and sys.version_info < (3, 12)
ONE_KIND = pytest.mark.parametrize(
    "_kind",
    ["forked", pytest.param("fresh interpreters", marks=pytest.mark.long_only if FORKS else ())],
    indirect=True,
)
"""A worker of the other kind dies, stops and fails in the same way, and takes a second to start."""
NO_SIGNALS = not Path("/proc/self/stat").exists()


@pytest.fixture(params=["forked", "fresh interpreters"], autouse=True)
def _kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of workers, whether or not the test runner has threads."""
    if request.param == "forked" and sys.platform != "linux":
        pytest.skip("workers are forked on Linux only")
    if request.param == "forked" and sys.version_info >= (3, 12) and threading.active_count() > 1:
        pytest.skip("forking beside the threads of the test runner is deprecated")
    monkeypatch.setattr(module, "_has_one_thread", lambda: request.param == "forked")


def double(number: int) -> int:
    return 2 * number


def die_once(argument: tuple[str, int]) -> int:
    """Kill this worker, once."""
    mark, number = argument
    if number == 3:
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return number
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return number


def stop_once(argument: tuple[str, int]) -> int:
    mark, number = argument
    if number == 3 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGSTOP)
    return number


def fail(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


class Panic(BaseException):
    """Like the panic of a Rust library: no Exception."""


def panic(number: int) -> int:
    if number == 3:
        raise Panic("PyObject pointer is null")
    return number


def hang(number: int) -> int:
    """Wait for ever inside a native library, with the interpreter lock: no thread of this process
    runs.
    """
    if number == 3:
        ctypes.PyDLL(None).pause()
    return number


def exhaust(number: int) -> int:
    """Let a Rust library run out of memory."""
    if number == 3:
        # of the test runner, which would print the stack of an aborted process
        faulthandler.disable()
        size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limits = size + (30 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, limits)
        validator = jsonschema_rs.Draft7Validator('{"items": {"type": "string"}}')
        return len(list(validator.iter_errors([0] * 1_000_000)))
    return number


@ONE_KIND
@pytest.mark.parametrize("engine", [SerialEngine(), PoolEngine(2)], ids=["serial", "pool"])
def test_a_panic_is_an_error_that_names_the_task(engine: Engine) -> None:
    """A panic is no Exception, and its class cannot be pickled.

    Both engines report it with the task.
    """
    with pytest.raises(PanicError) as caught, engine:
        list(engine.run(panic, range(10)))
    assert caught.value.args == ("3", "PyObject pointer is null")
    assert caught.value.exit_code == 3


@ONE_KIND
@pytest.mark.skipif(NO_SIGNALS, reason="needs /proc to see that a process makes no progress")
@pytest.mark.timeout(60)
def test_a_worker_that_hangs_is_noticed() -> None:
    """If no worker makes progress, the pool is ended, and the error names the task."""
    limits = Limits(pool_look_seconds=0.05, pool_silent_seconds=0.5)
    with pytest.raises(WorkerDiedError) as caught, use_limits(limits), PoolEngine(2) as engine:
        list(engine.run(hang, range(10)))
    assert caught.value.task == "3"


@pytest.mark.parametrize(
    "_kind", ["forked"], indirect=True
)  # fresh interpreters would only take longer
@pytest.mark.skipif(NO_SIGNALS, reason="needs /proc and a limit of memory that works")
@pytest.mark.timeout(60)
def test_a_library_without_memory_ends_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Rust library that runs out of memory raises, panics or aborts.

    With backtraces it would wait for ever.
    """
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    with pytest.raises((PanicError, WorkerDiedError, MemoryError)), PoolEngine(2) as engine:
        list(engine.run(exhaust, range(4)))


@pytest.mark.parametrize("_kind", ["forked"], indirect=True)
@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_executor_whose_thread_died_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its thread, which may run out of memory too, an executor delivers nothing: the tasks
    run again.
    """

    def fail(*_: object) -> None:
        raise MemoryError

    with use_limits(Limits(pool_look_seconds=0.05)), PoolEngine(2) as engine:
        assert len(list(engine.run(double, range(5)))) == 5
        monkeypatch.setattr(
            engine._executor._executor_manager_thread, "wait_result_broken_or_wakeup", fail
        )
        assert sorted(engine.run(double, range(9))) == [(number, 2 * number) for number in range(9)]


@ONE_KIND  # test_engines tries it with fresh interpreters
def test_a_killed_worker_costs_only_time(tmp_path: Path) -> None:
    """A worker dies once: every result arrives exactly once."""
    with PoolEngine(2) as engine:
        arguments = [(str(tmp_path / "mark"), number) for number in range(12)]
        assert sorted(engine.run(die_once, arguments)) == [(number, number) for number in range(12)]
        assert sorted(engine.run(double, range(5))) == [(number, 2 * number) for number in range(5)]


@ONE_KIND
def test_a_task_that_kills_twice_is_named() -> None:
    """The error names a task that kills its worker, and again when it runs alone."""
    with pytest.raises(WorkerDiedError) as caught, PoolEngine(2) as engine:
        list(engine.run(die_always, range(10)))
    assert caught.value.task == "3"
    assert "two worker processes died in the same task: 3." in str(caught.value)


@ONE_KIND
@pytest.mark.skipif(NO_SIGNALS, reason="needs /proc to see that a process is stopped")
def test_a_stopped_worker_is_noticed(tmp_path: Path) -> None:
    """A worker that stays stopped is killed after a while, and its task runs again."""
    with use_limits(Limits(pool_look_seconds=0.05)), PoolEngine(2) as engine:
        arguments = [(str(tmp_path / "mark"), number) for number in range(8)]
        assert sorted(engine.run(stop_once, arguments)) == [(number, number) for number in range(8)]


@ONE_KIND
@pytest.mark.timeout(60)
@pytest.mark.skipif(NO_SIGNALS, reason="needs /proc to see that a process is stopped")
def test_a_stopped_worker_beside_a_dead_one() -> None:
    """The executor waits for the stopped worker, and whoever submits a task for the executor, since
    Python 3.12.
    """
    with use_limits(Limits(pool_look_seconds=0.1)), PoolEngine(2) as engine:
        assert len(list(engine.run(double, range(5)))) == 5
        stopped, killed = engine._workers()
        os.kill(stopped, signal.SIGSTOP)
        os.kill(killed, signal.SIGKILL)
        time.sleep(0.3)
        assert len(list(engine.run(double, range(5)))) == 5


@ONE_KIND
def test_an_error_does_not_wait_for_other_tasks() -> None:
    """After an error, running tasks are killed."""
    begin = time.monotonic()
    with pytest.raises(KeyError), PoolEngine(2) as engine:
        for _ in engine.run(sleep, [0.0, 60.0, 60.0]):
            raise KeyError
    assert time.monotonic() - begin < 20


class Half:
    """Makes a worker send only half of a result, once, and then calls `after`."""

    def __init__(self, mark: Path, after: Callable[[], object]) -> None:
        self._parent = os.getpid()
        self._mark = mark
        self._after = after
        self._send = Connection._send
        self.send = lambda *arguments: self._half_or_all(*arguments)  # noqa: PLW0108 - becomes a method

    def _half_or_all(self, connection: Connection, data: Any, *more: Any) -> None:
        if os.getpid() != self._parent and len(data) > 100_000 and not self._mark.exists():
            self._mark.touch()
            self._send(connection, data[:5_000], *more)
            self._after()
        self._send(connection, data, *more)


def much(number: int) -> bytes:
    return bytes(200_000) if number == 3 else b""


@pytest.mark.parametrize("_kind", ["forked"], indirect=True)  # the patched connection is theirs
@pytest.mark.timeout(60)
def test_a_worker_that_dies_with_half_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other half never comes: the pool is ended, and the task runs again."""
    half = Half(tmp_path / "mark", lambda: os.kill(os.getpid(), signal.SIGKILL))
    monkeypatch.setattr(Connection, "_send", half.send)
    with use_limits(Limits(pool_look_seconds=0.1)), PoolEngine(2) as engine:
        assert {number for number, _ in engine.run(much, range(8))} == set(range(8))
    assert half._mark.exists()


@pytest.mark.parametrize("_kind", ["forked"], indirect=True)  # the patched connection is theirs
@pytest.mark.timeout(60)
def test_an_error_does_not_wait_for_half_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that are killed while they send a result do not delay the end of the run."""
    half = Half(tmp_path / "mark", lambda: time.sleep(100))
    monkeypatch.setattr(Connection, "_send", half.send)
    begin = time.monotonic()
    with pytest.raises(KeyError), PoolEngine(2) as engine:
        engine._executor.submit(much, 3)
        while not half._mark.exists():
            time.sleep(0.01)
        raise KeyError
    assert time.monotonic() - begin < 20


SCRIPT = """
import sys, time
from fastrec.engine.pool import PoolEngine
from tests.engine.test_pool import hang
with PoolEngine(2) as engine:
    print(*engine._workers(), flush=True)
    list(engine.run(hang, [3, 3]))
"""


@ONE_KIND
@pytest.mark.timeout(60)
def test_a_stopped_worker_does_not_keep_the_engine_from_ending() -> None:
    """A worker that is stopped after the last task does not end by itself, so it is killed."""
    with use_limits(Limits(pool_leave_seconds=0.5)), PoolEngine(2) as engine:
        assert len(list(engine.run(double, range(5)))) == 5
        os.kill(engine._workers()[0], signal.SIGSTOP)


@pytest.mark.parametrize("_kind", ["forked"], indirect=True)  # the script has workers of its own
@pytest.mark.skipif(NO_SIGNALS, reason="needs /proc")
def test_workers_do_not_outlive_a_killed_parent() -> None:
    """After `kill -9` of the parent, its workers end, even if they hang in a native library."""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, cwd=root, text=True
    ) as process:
        assert process.stdout
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert len(workers) == 2
        time.sleep(0.3)
        process.kill()
    deadline = time.monotonic() + 10
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_runs, workers))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
