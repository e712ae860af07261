"""From shards to tasks: pieces of work of about the same number of bytes, whatever the files look like.

Many small shards share a task; a large plain file is cut into byte ranges, each of which owns the lines that start in
it. A compressed shard cannot be cut: it is one slice, however large. The plan depends on the shards alone, never on the
number of jobs; and how a shard is cut depends on that shard alone, so that what was done for it holds when others come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from fastrec.errors import shown
from fastrec.sources.formats import Format
from fastrec.sources.reader import Shard

__all__ = [
    "LARGE",
    "TASK_BYTES",
    "Slice",
    "estimated_text",
    "gather_tasks",
    "growth",
    "slices_of",
    "tasks_of",
]

TASK_BYTES: Final = 32 << 20
"""Text per task: enough to make its fixed costs vanish, little enough to spread evenly over workers."""
LARGE: Final = 64 << 30
"""Text from which on tasks are larger, because there are more than enough of them."""
_MOST: Final = 1 << 16  # tasks: the driver holds a few kilobytes of each
_SMALLEST: Final = 4 << 20
_FEWEST: Final = 16  # tasks, and slices of a shard, if they are not smaller than that

# How much text a byte of a file holds, at a guess; real records gave 3.3 to 12.
_EXPANSION: Final = {Format.PLAIN: 1, Format.ZSTD: 4, Format.GZIP: 4, Format.BZ2: 5, Format.XZ: 5}


class Slice(msgspec.Struct, frozen=True):
    """A stretch of a shard, whole by default."""

    shard: Shard
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        if (self.start, self.end) == (0, None):
            return shown(self.shard.path)
        end = self.shard.size if self.end is None else self.end
        return f"{shown(self.shard.path)}, bytes {self.start:,} to {end:,}"

    @property
    def estimated_text(self) -> int:
        """About how many bytes of text it holds."""
        if self.end is not None:
            return self.end - self.start
        return estimated_text(self.shard) - self.start


def estimated_text(shard: Shard) -> int:
    """About how many bytes of text a shard holds."""
    return shard.size * _EXPANSION[shard.format or Format.PLAIN]


def slices_of(shard: Shard, task_bytes: int = TASK_BYTES) -> Iterator[Slice]:
    """Cut a shard into slices of at most about `task_bytes`, if it can be cut."""
    task_bytes = min(task_bytes, max(shard.size // _FEWEST, _SMALLEST))
    if not shard.splittable or shard.size <= task_bytes + task_bytes // 2:
        yield Slice(shard)
        return
    count = -(-shard.size // task_bytes)
    cuts = [shard.size * number // count for number in range(count)]
    for start, end in zip(cuts, [*cuts[1:], None], strict=True):
        yield Slice(shard, start, end)


def tasks_of(shards: Iterable[Shard], task_bytes: int = TASK_BYTES) -> list[tuple[Slice, ...]]:
    """Cut shards into slices, and gather those into tasks."""
    return gather_tasks([piece for shard in shards for piece in slices_of(shard, task_bytes)], task_bytes)


def gather_tasks(slices: Sequence[Slice], task_bytes: int = TASK_BYTES) -> list[tuple[Slice, ...]]:
    """Gather slices into tasks of about `task_bytes`, or less where there would be too few tasks to share."""
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


def growth(text_bytes: int) -> int:
    """Say how many times as large tasks are, for so much text.

    >>> growth(10**9), growth(10**11), growth(10**14)
    (1, 2, 46)
    """
    return 1 if text_bytes < LARGE else max(-(-text_bytes // (_MOST * TASK_BYTES)), 2)
