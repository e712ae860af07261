"""Group slices into tasks of about the same size, whatever the files look like.

Many small shards share a task; a large plain file is cut into byte ranges, which own the lines that start in them. A
compressed shard is one slice, however large. The tasks depend on the shards only, never on the number of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fastrec.sources.shard import Slice
from fastrec.sources.source import Source

__all__ = ["LARGE", "gather_tasks", "growth", "tasks_of", "total_text"]

LARGE: Final = 64 << 30
"""From this much text on tasks are larger, because there are more than enough of them."""
_MOST: Final = 1 << 16  # tasks: the driver holds a few kilobytes per task
_SMALLEST: Final = 4 << 20  # bytes of text in a task
_FEWEST: Final = 16  # tasks, unless they would be smaller than that


def total_text(sources: Iterable[Source]) -> int:
    """Return the estimated size of the text of all sources."""
    return sum(source.estimated_text for source in sources)


def tasks_of(sources: Iterable[Source], task_bytes: int) -> list[tuple[Slice, ...]]:
    """Cut sources into slices, and group those into tasks."""
    return gather_tasks([piece for source in sources for piece in source.slices(task_bytes)], task_bytes)


def gather_tasks(slices: Sequence[Slice], task_bytes: int) -> list[tuple[Slice, ...]]:
    """Group slices into tasks of about `task_bytes`, or less if there would be too few tasks to share."""
    task_bytes = min(task_bytes, max(sum(piece.estimated_text for piece in slices) // _FEWEST, _SMALLEST))
    tasks: list[tuple[Slice, ...]] = []
    gathered: list[Slice] = []
    size = 0
    for piece in slices:
        if gathered and size + piece.estimated_text > task_bytes:
            tasks.append(tuple(gathered))
            gathered, size = [], 0
        gathered.append(piece)
        size += piece.estimated_text
    if gathered:
        tasks.append(tuple(gathered))
    return tasks


def growth(text_bytes: int, task_bytes: int) -> int:
    """Return the factor by which tasks are larger for this much text.

    >>> [growth(text_bytes, 32 << 20) for text_bytes in (10**9, 10**11, 10**14)]
    [1, 2, 46]
    """
    return 1 if text_bytes < LARGE else max(-(-text_bytes // (_MOST * task_bytes)), 2)
