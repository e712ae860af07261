"""The serial engine: tasks in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Self, TypeVar

__all__ = ["SerialEngine"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class SerialEngine:
    """Runs tasks in this process."""

    jobs = 1

    def run(self, task: Callable[[Argument], Result], arguments: Iterable[Argument]) -> Iterator[tuple[int, Result]]:
        """Run a task on each argument, in order."""
        for number, argument in enumerate(arguments):
            yield number, task(argument)

    def on_every_worker(self, _question: Callable[[Argument], Result], _argument: Argument) -> dict[str, Result]:
        """There is no cluster."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started, so nothing ends."""
