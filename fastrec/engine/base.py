"""The interface of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, Self, TypeVar

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

    def on_every_worker(self, _question: Callable[..., Result], *_arguments: Any) -> dict[str, Result]:
        """Call a function once on every worker of a cluster; return the answers by worker."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None
