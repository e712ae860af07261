"""The serial engine: tasks in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from fastrec.engine.base import Engine

__all__ = ["SerialEngine"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class SerialEngine(Engine):
    """Runs tasks in this process."""

    jobs = 1

    def run(self, task: Callable[[Argument], Result], arguments: Iterable[Argument]) -> Iterator[tuple[int, Result]]:
        """Run a task on each argument, in order."""
        for number, argument in enumerate(arguments):
            yield number, task(argument)
