"""What an engine is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self, TypeVar

__all__ = ["Engine"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs tasks. A context manager: leaving it ends whatever was started."""

    jobs: int

    def run(self, task: Callable[[Argument], Result], arguments: Iterable[Argument]) -> Iterator[tuple[int, Result]]:
        """Run a task on each argument; give the number of the argument and the result, as they finish.

        Arguments are taken only as fast as tasks are started, a few ahead, so that they can be made on the fly. What a
        task raises is raised here.
        """
        ...

    def reach(self, directories: Iterable[str]) -> None:
        """Make sure that whoever runs tasks can read and write below directories of this machine."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
