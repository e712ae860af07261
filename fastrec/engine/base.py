"""The interface of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, Self, TypeVar

__all__ = ["Engine"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs tasks. A context manager: on exit, all processes that it started end."""

    jobs: int

    def run(self, task: Callable[[Argument], Result], arguments: Iterable[Argument]) -> Iterator[tuple[int, Result]]:
        """Run a task on each argument; yield the number of the argument and the result, as tasks finish.

        Arguments are taken only a few ahead of the running tasks, so that they can be made lazily. An exception of a
        task is raised here.
        """
        ...

    def on_every_worker(self, question: Callable[[Argument], Result], argument: Argument) -> dict[str, Result]:
        """Call a function once on every worker of a cluster; nothing if all workers are processes of this engine."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
