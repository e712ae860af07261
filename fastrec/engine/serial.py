"""The serial engine: tasks one after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self, TypeVar

__all__ = ["SerialEngine"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class SerialEngine:
    """Runs tasks here and now."""

    jobs = 1

    def run(self, task: Callable[[Argument], Result], arguments: Iterable[Argument]) -> Iterator[tuple[int, Result]]:
        """Run a task on each argument in turn."""
        for number, argument in enumerate(arguments):
            yield number, task(argument)

    def reach(self, directories: Iterable[str]) -> None:
        """This process sees what it sees."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was started."""
