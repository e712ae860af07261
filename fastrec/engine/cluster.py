"""The cluster engine: tasks on the workers of a Dask cluster, through its client.

joblib's own Dask backend hangs when a worker dies; the client does not: the scheduler gives the task to another worker,
and gives up after some deaths. What the client cannot tell, that nobody is left to work or to give orders, is looked
for here, once in a while, and ends the run.

A worker of Dask may have several threads, and may be taken for dead while it still works. So a task never shares its
process with another, and writes files that nobody else writes.
"""

from __future__ import annotations

import contextlib
import logging
import platform
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from fastrec._version import __version__
from fastrec.errors import ClusterError, UsageError, WorkerDiedError, shown
from fastrec.storage import storage_of
from fastrec.storage.paths import join

__all__ = ["ClusterEngine"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_AHEAD: Final = 2  # tasks per worker that are handed over in advance, so that none waits for the next
_LOOK_EVERY: Final = 1.0  # seconds between two looks at the cluster
_COUNT_EVERY: Final = 5.0  # seconds after which the workers are counted again
_PATIENCE: Final = 30.0  # seconds to wait for a scheduler or for workers that are gone
_CONNECT: Final = 10.0  # seconds to wait for a scheduler at the start
_QUICK_WORKERS: Final = {
    "distributed.worker.profile.enabled": False,  # it looks at our stack a hundred times a second
    # Dask has memory given back to the system at every turn, and tasks want it again: a quarter of their time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 30,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 30,
    "distributed.nanny.pre-spawn-environ.MALLOC_ARENA_MAX": 1,
}

_one_at_a_time = threading.Lock()


class ClusterEngine:
    """Runs tasks on a cluster that is there, or on one of processes on this machine."""

    def __init__(self, jobs: int, scheduler: str | None = None) -> None:
        self.jobs = jobs
        self._scheduler = scheduler
        self._cluster: Any = None
        self._client: Any = None

    def run(self, task: Callable[[Argument], Result], arguments: Iterable[Argument]) -> Iterator[tuple[int, Result]]:
        """Run a task on each argument, in any order."""
        waiting = enumerate(arguments)
        running: dict[Any, tuple[int, Argument]] = {}
        exhausted = False
        looked = time.monotonic()
        while not exhausted or running:
            if time.monotonic() - looked > _COUNT_EVERY:
                self._look()  # there may be more workers by now
                looked = time.monotonic()
            while not exhausted and len(running) < self.jobs * _AHEAD:
                numbered = next(waiting, None)
                if numbered is None:
                    exhausted = True
                else:
                    running[self._client.submit(_run_alone, _versions(), task, numbered[1], pure=False)] = numbered
            for future in self._finished(running):
                number, argument = running.pop(future)
                yield number, self._result_of(future, argument)

    def reach(self, directories: Iterable[str]) -> None:
        """Make sure that every worker sees some directories, and may write to them."""
        for directory in directories:
            mark = join(directory, f".{time.time_ns():x}")
            storage_of(mark).write_all(mark, b"")
            try:
                seen = self._ask(_sees, mark)
            finally:
                storage_of(mark).remove(mark)
            blind = sorted(worker for worker, sees in seen.items() if not sees)
            if blind:
                raise UsageError(
                    f"{shown(directory)} cannot be reached by {_some(blind)}: put the output, and --work-dir, on "
                    "storage that all workers share under the same name"
                )

    def _finished(self, running: Iterable[Any]) -> list[Any]:
        """Wait until something has finished; none if nothing runs."""
        futures = list(running)
        lost_since = None
        while futures:
            try:
                with self._client.as_current():
                    return list(_distributed().wait(futures, timeout=_LOOK_EVERY, return_when="FIRST_COMPLETED").done)
            except TimeoutError:
                pass
            except _distributed().CancelledError as exc:
                raise ClusterError(self._address(), "the scheduler is gone, and our tasks with it") from exc
            trouble = self._look()
            lost_since = None if trouble is None else lost_since or time.monotonic()
            if lost_since and time.monotonic() - lost_since >= _PATIENCE:
                raise ClusterError(self._address(), f"{trouble} for {_PATIENCE:.0f} seconds")
        return []

    def _result_of(self, future: Any, argument: object) -> Any:
        """Fetch a result. It dies with the worker that holds it; then the scheduler has it made again, if it can."""
        while True:
            try:
                return future.result(timeout=_PATIENCE)
            except TimeoutError as exc:
                if future.status == "error":
                    raise  # the task's own
                trouble = self._look()
                if trouble:
                    raise ClusterError(self._address(), f"{trouble}, and a result was waited for") from exc
            except _distributed().KilledWorker as exc:
                raise WorkerDiedError(str(argument)) from exc
            except (_distributed().CancelledError, _distributed().comm.CommClosedError) as exc:
                raise ClusterError(self._address(), "the scheduler is gone, and our tasks with it") from exc

    def _look(self) -> str | None:
        """Look at the cluster: count its workers, and say what is wrong, if something is."""
        if self._client.status != "running":
            return "the scheduler was gone"
        try:
            workers = self._client.sync(self._client.scheduler.ncores, callback_timeout=_LOOK_EVERY * 5)
        except (OSError, TimeoutError):
            return "the scheduler did not answer"
        self.jobs = max(len(workers), 1)
        return None if workers else "there were no workers"

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Ask all workers. `Client.run` does this too, but waits for a frozen worker without end."""
        ask_all = partial(self._client._run, on_error="return")  # noqa: SLF001
        try:
            answers: dict[str, Any] = self._client.sync(ask_all, question, *arguments, callback_timeout=_PATIENCE)
        except TimeoutError as exc:
            raise ClusterError(
                self._address(), f"some workers did not answer for {_PATIENCE:.0f} seconds: remove or restart them"
            ) from exc
        answers = {worker: answer for worker, answer in answers.items() if not isinstance(answer, OSError)}  # it died
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, Exception):
                reason = f"worker {worker} cannot be asked ({type(answer).__name__}: {answer}): mend or remove it"
                raise ClusterError(self._address(), reason) from answer
        return answers

    def _address(self) -> str:
        return self._scheduler or "this machine"

    def __enter__(self) -> Self:
        try:
            if self._scheduler is None:
                self._cluster = self._start_cluster()
            self._connect()
            self._refuse_other_versions()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _connect(self) -> None:
        """Find the scheduler and a worker. Dask's own limits do not hold for one that accepts, and is silent."""
        deadline = time.monotonic() + _CONNECT
        try:
            self._client = _bounded_client(self._cluster or self._scheduler)
        except (OSError, ValueError) as exc:
            reason = f"no scheduler with workers answers there ({exc or type(exc).__name__})"
            raise ClusterError(self._address(), reason) from exc
        while trouble := self._look():
            if time.monotonic() > deadline:
                raise ClusterError(self._address(), f"no scheduler with workers answers there ({trouble})")
            time.sleep(_CONNECT / 100)

    def _start_cluster(self) -> Any:
        """Start a cluster of processes on this machine."""
        local_cluster = _distributed().LocalCluster
        import dask  # noqa: PLC0415 - it is there by now

        with dask.config.set(_QUICK_WORKERS):
            return local_cluster(
                n_workers=self.jobs,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )

    def _refuse_other_versions(self) -> None:
        here = _versions()
        for worker, there in sorted(self._ask(_versions).items()):
            for name, version in here.items():
                if there.get(name) != version:
                    raise ClusterError(
                        self._address(),
                        f"worker {worker} has {name} {there.get(name)} and this process {version}: install the same",
                    )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cluster; one that was started here ends."""
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it complains about what we close
        for ours in filter(None, (self._client, self._cluster)):
            with contextlib.suppress(TimeoutError):  # frozen workers; what they were to do is done, or given up
                ours.close(timeout=5)


def _distributed() -> Any:
    """Load Dask, which takes half a second, when it is needed."""
    try:
        import distributed  # noqa: PLC0415
    except ImportError as exc:
        raise UsageError(
            "--engine dask needs distributed, which is not installed: pip install 'fastrec[dask]'"
        ) from exc
    return distributed


def _bounded_client(address: Any) -> Any:
    """Connect to a scheduler, or raise an OSError within the limit."""

    class Client(_distributed().Client):  # type: ignore[misc]
        def start(self, **options: Any) -> None:
            try:
                super().start(callback_timeout=_CONNECT, **options)
            except BaseException:
                with contextlib.suppress(TimeoutError):
                    self.close(timeout=1)
                raise

    return Client(address, timeout=_CONNECT, set_as_default=False)


def _run_alone(versions: dict[str, str], task: Callable[[Argument], Result], argument: Argument) -> Result:
    """Run a task. Runs in a worker, which may have come after all others were asked for their versions."""
    if _versions() != versions:
        raise ClusterError(platform.node(), f"a worker that came late has {_versions()}, and not {versions}")
    with _one_at_a_time:
        return task(argument)


def _versions() -> dict[str, str]:
    """What must be the same here and there. Runs in a worker too."""
    return {"fastrec": __version__, "Python": platform.python_version(), "msgspec": msgspec.__version__}


def _sees(mark: str) -> bool:
    """Tell whether a file is there, and another can be put beside it. Runs in a worker."""
    beside = f"{mark}-{secrets.token_hex(4)}"
    try:
        if not storage_of(mark).exists(mark):
            return False
        storage_of(beside).write_all(beside, b"")
        storage_of(beside).remove(beside)
    except (OSError, UsageError):
        return False
    return True


def _some(workers: list[str]) -> str:
    more = f" and {len(workers) - 3:,} more workers" if len(workers) > 3 else ""
    return f"{', '.join(workers[:3])}{more}"
