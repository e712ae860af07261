"""The result of a task of pass 1."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Any, Final

import msgspec

from fastrec.corpus.rejects import RejectRange
from fastrec.errors import ShardError
from fastrec.judge.batch import HashReplaced
from fastrec.sorting.spill import Run
from fastrec.storage.digests import FileDigest

__all__ = ["HashCounts", "PieceCounts", "SortResult"]

_EXAMPLES: Final = 10


class PieceCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Line counts of a piece. Duplicates are counted in its runs."""

    number: int
    shard: int
    start: int
    """Where the piece begins in its shard."""
    lines: int = 0
    blank: int = 0
    rejected: int = 0
    text_bytes: int = 0
    bom: bool = False
    raw_start: int = 0
    """Where the bytes begin that were read of the shard."""
    raw_bytes: int = 0
    raw_hash: str = ""
    """128-bit xxh3 of these bytes."""
    error: ShardError | None = None
    """Why the piece could not be read whole. Its other counts are 0 then."""


class HashCounts(msgspec.Struct):
    """How given sample hashes compared with computed ones."""

    verified: int = 0
    filled: int = 0
    replaced: int = 0
    examples: list[HashReplaced] = msgspec.field(default_factory=list)

    def add(self, verified: int, filled: int, replaced: int, examples: list[HashReplaced]) -> None:
        """Add the counts of further records."""
        self.verified += verified
        self.filled += filled
        if replaced:
            self.replaced += replaced
            self.examples = heapq.nsmallest(_EXAMPLES, self.examples + examples, key=HashReplaced.sort_key)


class SortResult(msgspec.Struct, frozen=True):
    """The result of a task of pass 1."""

    task: int
    pieces: tuple[PieceCounts, ...]
    runs: tuple[Run, ...]
    rejects: tuple[RejectRange, ...]
    """Rejected lines of each piece."""
    codes: Counter[str]
    """Rejected lines by code."""
    hashes: HashCounts
    files: tuple[FileDigest, ...]
    """All files that the task wrote."""

    @property
    def failed(self) -> bool:
        """Whether a piece could not be read whole."""
        return any(piece.error for piece in self.pieces)

    def without_sample(self) -> SortResult:
        """Return the result without the key sample."""
        return self._with_runs(sample=[])

    def without_fences(self) -> SortResult:
        """Return the result without the fences of its runs."""
        return self._with_runs(fences=[])

    def _with_runs(self, **changes: Any) -> SortResult:
        runs = tuple(msgspec.structs.replace(run, **changes) for run in self.runs)
        return msgspec.structs.replace(self, runs=runs)
