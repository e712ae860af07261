"""The interface of an input format. JSONL shards implement it; so will the logs of evaluation harnesses.

    names ── discover ──▶ sources ── slice ──▶ slices, grouped into tasks ── read ──▶ chunks of lines

`inputs.find_shards` discovers: it expands names and looks at each file. A new format adds its class there and to the
type of `Slice.shard`; slicing, task planning, judging and everything above them use this interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import Slice

__all__ = ["Source"]


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
        """Read the lines of a slice with their positions; ShardError if they cannot be read whole."""
