"""The interface of an input format, and its slices grouped into tasks of about the same size.

    names ── discover ──▶ sources ── slice ──▶ slices, grouped into tasks ── read ──▶ chunks of lines

`inputs.find_shards` discovers: it expands names and looks at each file. A new format adds its class there and to the
type of `Slice.shard`; slicing, task planning, judging and everything above them use this interface. JSONL shards
implement it; so will the logs of evaluation harnesses.

Many small shards share a task; a large plain file is cut into byte ranges, which own the lines that start in them. A
compressed shard is one slice, however large. The tasks depend on the shards only, never on the number of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import FEWEST, SMALLEST, Slice

_LAST: Final = 4  # the last tasks have this fraction of the text that is left, and at least of the size of the others


class Source(Protocol):
    """One input file as discovery found it."""

    @property
    def path(self) -> str:
        """Its path or URL, or `-`."""

    @property
    def stream(self) -> bool:
        """Whether it can be read only once, from the start, and only by this process."""

    @property
    def splittable(self) -> bool:
        """Whether its slices can be read on their own."""

    @property
    def estimated_text(self) -> int:
        """Estimated size of its lines in bytes."""

    def slices(self, slice_bytes: int) -> Iterator[Slice]:
        """Cut it into slices of at most about `slice_bytes` of text, which together hold every line once."""

    def read(
        self,
        start: int = 0,
        end: int | None = None,
        *,
        chunk_bytes: int,
        max_line_bytes: int,
        max_window: int,
        stats: ReadStats | None = None,
    ) -> Iterator[Chunk | LongLine]:
        """Read the lines of a slice with their positions; ShardError if they cannot be read completely."""


class _Sized(Protocol):
    @property
    def estimated_text(self) -> int: ...


_Piece = TypeVar("_Piece", bound=_Sized)


def total_text(sources: Iterable[_Sized]) -> int:
    return sum(source.estimated_text for source in sources)


class TextEstimate:
    """Estimates the text of all sources, better and better as they are read: compressed ones expand more or less."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._whole = 0 if any(source.stream for source in sources) else total_text(sources)
        self._estimated = self._found = 0

    def add(self, estimated: int, found: int) -> None:
        self._estimated += estimated
        self._found += found

    @property
    def total(self) -> int:
        """The text of all sources; 0 if it is not known, because one of them is a stream."""
        if not self._whole or not self._estimated:
            return self._whole
        return self._whole * self._found // self._estimated


def tasks_of(sources: Iterable[Source], task_bytes: int) -> list[tuple[Slice, ...]]:
    return gather_tasks([piece for source in sources for piece in source.slices(task_bytes)], task_bytes)


def gather_tasks(slices: Sequence[_Piece], task_bytes: int) -> list[tuple[_Piece, ...]]:
    """Group slices, or other pieces of work, into tasks of about `task_bytes`.

    They are smaller if there would be too few of them to share, and become smaller towards the end, so that all
    workers end at about the same time.
    """
    left = total_text(slices)
    task_bytes = min(task_bytes, max(left // FEWEST, SMALLEST))
    tasks: list[list[_Piece]] = []
    size = most = 0
    for piece in slices:
        if not tasks or size + piece.estimated_text > most:
            tasks.append([])
            size, most = 0, min(task_bytes, max(left // _LAST, task_bytes // _LAST, SMALLEST))
        tasks[-1].append(piece)
        size += piece.estimated_text
        left -= piece.estimated_text
    return list(map(tuple, tasks))
