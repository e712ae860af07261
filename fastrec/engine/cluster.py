"""The cluster engine: tasks on the workers of a Dask cluster, through its client.

joblib's Dask backend hangs when a worker dies. The client does not: the scheduler gives the task to
another worker, and fails after some deaths. But the client does not notice that all workers or the
scheduler are gone, so the engine looks at the cluster regularly, and ends the run.

A Dask worker may have several threads, and may be presumed dead while it still works. So tasks of
one process run one at a time, and each writes files under names of its own.
"""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, Self

from fastrec.build import differences, identity
from fastrec.engine.base import Argument, Engine, Result, Task
from fastrec.errors import ClusterError, WorkerDiedError, need, without_secrets
from fastrec.limits import current_limits

_LOOK_SECONDS = 1.0  # between two looks at the cluster
_FAST_WORKERS = {
    "distributed.worker.profile.enabled": False,  # it inspects the stack a hundred times a second
    # By default memory goes back to the system after each use, and tasks request it again: a
    # quarter of their time.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 30,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 30,
    "distributed.nanny.pre-spawn-environ.MALLOC_ARENA_MAX": 1,
}

_NO_ANSWER = "no scheduler with workers answers there"

_one_at_a_time = Lock()


class ClusterEngine(Engine):
    """Runs tasks on an existing cluster, or on one that it starts on this machine."""

    def __init__(self, jobs: int, scheduler: str | None = None) -> None:
        self.jobs = jobs
        self._scheduler = scheduler
        self._cluster: Any = None
        self._client: Any = None
        self._looked = 0.0

    def _submit(self, task: Task[Any, Any], argument: object) -> Any:
        if time.monotonic() - self._looked > current_limits().cluster_count_seconds:
            self._look()  # the cluster may have grown
        return self._client.submit(_run_alone, identity(), task, argument, pure=False)

    def on_every_worker(
        self, question: Callable[..., Result], *arguments: Any
    ) -> dict[str, Result]:
        """Call a function on every worker.

        `Client.run` does this too, but waits for a frozen worker for ever.
        """
        patience = current_limits().cluster_patience_seconds
        ask_all = partial(self._client._run, on_error="return")  # noqa: SLF001
        try:
            answers: dict[str, Any] = self._client.sync(
                ask_all, question, *arguments, callback_timeout=patience
            )
        except TimeoutError as exc:
            reason = f"some workers did not answer for {patience:.0f} seconds"
            raise self._error(f"{reason}: remove or restart them") from exc
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, OSError):  # it died
                del answers[worker]
            elif isinstance(answer, Exception):
                reason = f"worker {worker} cannot be asked ({type(answer).__name__}: {answer})"
                raise self._error(f"{reason}: fix or remove it") from answer
        return answers

    def _finished(self, running: Iterable[Any]) -> list[Any]:
        futures = list(running)
        patience = current_limits().cluster_patience_seconds
        lost_since = None
        while futures:
            try:
                with self._client.as_current():
                    wait = _distributed().wait
                    return list(wait(futures, _LOOK_SECONDS, "FIRST_COMPLETED").done)
            except TimeoutError:
                pass
            except _distributed().CancelledError as exc:
                raise self._error("the scheduler is gone, and our tasks with it") from exc
            trouble = self._look()
            lost_since = None if trouble is None else lost_since or time.monotonic()
            if lost_since and time.monotonic() - lost_since >= patience:
                raise self._error(f"{trouble} for {patience:.0f} seconds")
        return []

    def _result_of(self, future: Any, _task: Task[Any, Any], argument: object) -> Any:
        """Fetch a result.

        If its worker dies first, the scheduler runs the task again on another worker.
        """
        while True:
            try:
                return future.result(timeout=current_limits().cluster_patience_seconds)
            except TimeoutError as exc:
                if future.status == "error":
                    raise  # by the task itself
                if trouble := self._look():
                    raise self._error(f"{trouble} while a result was fetched") from exc
            except _distributed().KilledWorker as exc:
                raise WorkerDiedError(str(argument)) from exc
            except (_distributed().CancelledError, _distributed().comm.CommClosedError) as exc:
                raise self._error("the scheduler is gone, and our tasks with it") from exc

    def _look(self) -> str | None:
        """Count the workers; return what is wrong with the cluster, if anything is."""
        client = self._client
        self._looked = time.monotonic()
        if client.status != "running":
            return "the scheduler was gone"
        try:
            workers = client.sync(client.scheduler.ncores, callback_timeout=_LOOK_SECONDS * 5)
        except (OSError, TimeoutError):
            return "the scheduler did not answer"
        self.jobs = max(len(workers), 1)
        return None if workers else "there were no workers"

    def _error(self, reason: str) -> ClusterError:
        return ClusterError(self._scheduler or "this machine", reason)

    def __enter__(self) -> Self:
        try:
            if self._scheduler is None:
                self._cluster = self._start_cluster()
            self._connect()
            self._refuse_other_builds()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _connect(self) -> None:
        """Connect to the scheduler, and wait for a worker.

        Dask waits for ever if a scheduler never answers.
        """
        seconds = current_limits().cluster_connect_seconds
        deadline = time.monotonic() + seconds
        try:
            self._client = _bounded_client(self._cluster or self._scheduler, seconds)
        except (OSError, ValueError) as exc:
            reason = without_secrets(str(exc), self._scheduler or "") or type(exc).__name__
            raise self._error(f"{_NO_ANSWER} ({reason})") from exc
        while trouble := self._look():
            if time.monotonic() > deadline:
                raise self._error(f"{_NO_ANSWER} ({trouble})")
            time.sleep(seconds / 100)

    def _start_cluster(self) -> Any:
        distributed = _distributed()
        import dask  # noqa: PLC0415 - distributed has imported it

        with dask.config.set(_FAST_WORKERS):
            return distributed.LocalCluster(
                n_workers=self.jobs,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )

    def _refuse_other_builds(self) -> None:
        for worker, there in sorted(self.on_every_worker(identity).items()):
            if different := differences(there, identity()):
                raise self._error(_refusal(worker, different))

    def __exit__(self, *_: object) -> None:
        # it logs errors about what we close
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        for ours in filter(None, (self._client, self._cluster)):
            # of frozen workers, whose tasks are done or abandoned
            with suppress(TimeoutError):
                ours.close(timeout=5)


def _distributed() -> Any:
    """Import Dask when it is needed: that takes half a second."""
    need("--engine dask", "distributed")
    import distributed  # noqa: PLC0415

    return distributed


def _bounded_client(address: Any, seconds: float) -> Any:
    """Connect to a scheduler, or raise an OSError within the time limit."""

    class Client(_distributed().Client):  # type: ignore[misc]
        def start(self, **options: Any) -> None:
            try:
                super().start(callback_timeout=seconds, **options)
            except BaseException:
                with suppress(TimeoutError):
                    self.close(timeout=1)
                raise

    return Client(address, timeout=seconds, set_as_default=False)


def _run_alone(
    expected: dict[str, str], task: Task[Argument, Result], argument: Argument
) -> Result:
    """Run a task.

    Runs in a worker, which may have joined after the builds of all others were compared.
    """
    if different := differences(identity(), expected):
        worker = _distributed().get_worker()
        raise ClusterError(worker.scheduler.addr, _refusal(worker.address, different))
    with _one_at_a_time:
        return task(argument)


def _refusal(worker: str, different: list[str]) -> str:
    return (
        f"worker {worker} has {', '.join(different)}, so its bytes could differ: "
        "install the same packages there as here, and restart the worker"
    )
