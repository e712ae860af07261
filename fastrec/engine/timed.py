"""Where the time of a run goes: an engine around another one that adds up the times of tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Self

import msgspec

from fastrec.engine.base import Argument, Engine, Result

_PHASES: Final = {
    "sort_pieces": "read and sort",
    "merge_some": "merge runs",
    "plan_region": "plan parts",
    "make_part": "write parts",
}


class Phase(msgspec.Struct):
    """The time that some tasks took."""

    name: str
    """What they do; `driver` is the time in which no tasks ran, such as start, plan, summary and publishing."""
    tasks: int = 0
    """Number of tasks."""
    seconds: float = 0.0
    """From the first task to the last."""
    cpu_seconds: float = 0.0
    """Processor time of the tasks."""
    waiting_seconds: float = 0.0
    """Time of the tasks that was not processor time: they waited for disks, stores or a free processor."""


class TimedEngine(Engine):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._phases: dict[str, Phase] = {}

    @property
    def jobs(self) -> int:  # type: ignore[override]
        return self._engine.jobs

    def run(self, task: Callable[[Argument], Result], arguments: Iterable[Argument]) -> Iterator[tuple[int, Result]]:
        name = _PHASES.get(getattr(task, "__name__", ""), "check and count")
        phase = self._phases.setdefault(name, Phase(name))
        started = time.perf_counter()
        for number, (seconds, cpu_seconds, result) in self._engine.run(partial(_timed, task), arguments):
            phase.tasks += 1
            phase.cpu_seconds += cpu_seconds
            phase.waiting_seconds += max(seconds - cpu_seconds, 0.0)
            yield number, result
        phase.seconds += time.perf_counter() - started

    def on_every_worker(self, question: Callable[..., Result], *arguments: Any) -> dict[str, Result]:
        return self._engine.on_every_worker(question, *arguments)

    def phases(self) -> list[Phase]:
        return [phase for phase in self._phases.values() if phase.tasks]

    def __enter__(self) -> Self:
        self._engine.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._engine.__exit__(*exc)


def _timed(task: Callable[[Argument], Result], argument: Argument) -> tuple[float, float, Result]:
    """Run a task; return its time, its processor time, and its result. Runs in a worker."""
    started, cpu_started = time.perf_counter(), time.process_time()
    result = task(argument)
    return time.perf_counter() - started, time.process_time() - cpu_started, result
