"""Report the progress of `validate`: of slices that this process reads, and of slices that workers have read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from fastrec.commands.validate.result import SliceFindings
from fastrec.progress import Progress
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard, Slice
from fastrec.sources.tasks import TextEstimate

__all__ = ["Reporter"]


class Reporter:
    """Reports slices one after the other; a context manager."""

    def __init__(self, shards: Sequence[Shard], progress: Progress) -> None:
        self._text = TextEstimate(shards)
        self._progress = progress
        self._reported = (0, 0, 0, 0)
        """What is reported of the current slice: its estimated text, text, lines and invalid lines."""

    def reading(self, piece: Slice, stats: ReadStats, found: SliceFindings) -> None:
        """Some more of a slice was read."""
        size = (piece.shard.size if piece.end is None else piece.end) - piece.start
        estimated = piece.estimated_text * min(stats.raw_bytes, size) // max(size, 1)
        self._report(estimated, stats.text_bytes, found)

    def finished(self, piece: Slice, found: SliceFindings) -> None:
        """A slice was read."""
        self._report(piece.estimated_text, found.counts["text_bytes"] or self._reported[1], found)
        self._reported = (0, 0, 0, 0)

    def _report(self, estimated: int, text: int, found: SliceFindings) -> None:
        """Report what is new."""
        now = (estimated, text, found.counts["lines"], found.counts["invalid"])
        new_estimated, new_text, *new_lines = (
            after - before for after, before in zip(now, self._reported, strict=True)
        )
        self._text.add(new_estimated, new_text)
        self._progress.expect(self._text.total)
        self._progress.advance(new_text, *new_lines)
        self._reported = now

    def __enter__(self) -> Self:
        self._progress.start("judge", self._text.total)
        return self

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is None:
            self._progress.finish()
