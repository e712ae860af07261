"""The interface of an engine, the serial engine, and the times of tasks."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial
from itertools import islice
from time import perf_counter, process_time
from typing import Any, Self, TypeVar

from msgspec import Struct

from fastrec.errors import PanicError
from fastrec.limits import Limits, current_limits, use_limits

_KEPT_BYTES = 16 << 20
_AHEAD = 2  # tasks per worker that are submitted in advance

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Timed = tuple[Result, float, float]  # the result of a task, its time, and its processor time
Task = Callable[[Argument], Result]
TimedTask = Callable[[Argument], Timed[Result]]
Results = Iterator[tuple[int, Result]]  # the number of each argument, and the result
TimedResults = Iterator[tuple[int, Timed[Result]]]


class Phase(Struct):
    """The time that some tasks took."""

    #: What its tasks do; `driver`: no task ran, as at start, plan, summary and publishing.
    name: str
    #: Number of tasks.
    tasks: int = 0
    #: From the first task to the last.
    seconds: float = 0.0
    #: Processor time of the tasks.
    cpu_seconds: float = 0.0
    #: Other time of the tasks, which waited for disks, stores or a free processor.
    waiting_seconds: float = 0.0


PHASES = {
    "sort_pieces": "read and sort",
    "merge_some": "merge runs",
    "plan_region": "plan parts",
    "make_part": "write parts",
}
OTHER_PHASE = "check and count"


class Engine:
    """Runs tasks, and measures their times.

    A context manager: on exit, all processes that it started end.
    """

    jobs: int
    # What pools and clusters do: start a task, and return its future; wait until at least one of
    # some futures is done; get the result of a task by its future, the task and its argument.
    _submit: Callable[..., Any]
    _finished: Callable[..., Iterable[Any]]
    _result_of: Callable[..., Any]

    @cached_property
    def times(self) -> dict[str, Phase]:
        """Where the time of all tasks so far went, by what they do."""
        return {}

    def run(self, task: Task[Argument, Result], arguments: Iterable[Argument]) -> Results[Result]:
        """Run a task on each argument.

        Yield the number of the argument and the result, as tasks finish.

        Arguments are taken only a few ahead of the running tasks, so that they can be made lazily.
        An exception of a task is raised here. A task has the limits of the caller.
        """
        name = PHASES.get(getattr(task, "__name__", ""), OTHER_PHASE)
        phase = self.times.setdefault(name, Phase(name))
        started = perf_counter()
        timed = partial(_run_task, task, current_limits())
        for number, (result, seconds, cpu_seconds) in self._run_timed(timed, arguments):
            phase.tasks += 1
            phase.cpu_seconds += cpu_seconds
            phase.waiting_seconds += max(seconds - cpu_seconds, 0.0)
            yield number, result
        phase.seconds += perf_counter() - started

    def in_order(self, task: Task[Argument, Result], arguments: Iterable[Argument]) -> list[Result]:
        """Run a task on each argument, and list the results in the order of the arguments."""
        return [result for _, result in sorted(self.run(task, arguments))]

    def _run_timed(
        self, task: TimedTask[Argument, Result], arguments: Iterable[Argument]
    ) -> TimedResults[Result]:
        """Do what `run` does, with a task that measures its times."""
        waiting = enumerate(arguments)
        running: dict[Any, tuple[int, Argument]] = {}
        while True:
            for numbered in islice(waiting, max(self._room(len(running)), 0)):
                running[self._submit(task, numbered[1])] = numbered
            if not running:
                return
            for future in self._finished(running):
                number, argument = running.pop(future)
                yield number, self._result_of(future, task, argument)

    def _room(self, running: int) -> int:
        """How many more tasks to submit, so that no worker waits for the next one."""
        return self.jobs * _AHEAD - running

    def on_every_worker(
        self, _question: Callable[..., Result], *_arguments: Any
    ) -> dict[str, Result]:
        """Call a function once on every worker of a cluster; return the answers by worker."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class SerialEngine(Engine):
    jobs = 1

    def _run_timed(
        self, task: TimedTask[Argument, Result], arguments: Iterable[Argument]
    ) -> TimedResults[Result]:
        return enumerate(map(task, arguments))


def _run_task(task: Task[Argument, Result], limits: Limits, argument: Argument) -> Timed[Result]:
    """Run a task.

    A panic of a native library is no `Exception`, and cannot be pickled: it becomes an error of
    ours.
    """
    started = perf_counter()
    cpu_started = process_time()
    try:
        with use_limits(limits):
            return task(argument), perf_counter() - started, process_time() - cpu_started
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001 - its class is not public
        raise PanicError(str(argument), str(exc)) from None


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep some megabytes of freed memory for the next blocks of text.

    glibc returns memory at the end of its heap, and each page that it gets back later costs a page
    fault. It keeps twice as much as the largest block that it mapped on its own and that was freed.
    So it is given such a block, which is never touched: `normalize` of real text has a quarter of
    the page faults that it has with a block of 2 MiB, and takes 6 % less time.
    """
    with suppress(MemoryError):
        bytes(_KEPT_BYTES)


@contextmanager
def collector_off() -> Iterator[None]:
    """Switch the collector off.

    Objects of tasks form no cycles, and it would scan all of them again and again.
    """
    _keep_freed_memory()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
