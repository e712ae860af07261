"""The base of an incremental run: the corpus of the last one, as far as its shards are still there.

Its parts are read like runs, without the records of shards that are gone. So only new and changed shards are judged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from fastrec.engine.base import Engine
from fastrec.normalize.kept import Changes, Kept, KeptRejects, match_shards
from fastrec.normalize.results import Part, PieceCounts, SortResult
from fastrec.sorting.cuts import END
from fastrec.sorting.gather import RunSlice, part_slice
from fastrec.sources.lines import ReadStats
from fastrec.sources.shard import Shard
from fastrec.summary.part_statistics import LinesByPiece

_BLOCK: Final = 1_024  # parts


class Base(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What a run builds on; empty if there is no kept work."""

    changes: Changes
    paths_gone: tuple[str, ...] = ()  # of shards of the last run that are not there any more, under no other name
    tasks: tuple[SortResult, ...] = ()  # of unchanged shards; their pieces have the shards of this run
    gone: tuple[PieceCounts, ...] = ()  # pieces of shards that are gone or changed
    decompressed: dict[int, ReadStats] = {}  # unchanged shards that the driver of an earlier run decompressed
    parts: tuple[Part, ...] = ()
    lines: LinesByPiece | None = None
    """What became of the records of each piece in all parts."""
    order: list[int] = []  # the numbers of all pieces, in the order that was applied to `lines`
    summary: str = ""  # path of the summary of the last run
    rejects: KeptRejects | None = None
    files: frozenset[str] = frozenset()
    """All kept files, which must stay until this run is complete."""
    next_task: int = 0
    next_piece: int = 0

    @property
    def unchanged(self) -> dict[int, int]:
        """The numbers of unchanged shards."""
        return self.changes.unchanged

    @property
    def is_newer_version(self) -> bool:
        """Whether an unchanged shard has a record of a later version than the default one."""
        return any(task.is_newer_version for task in self.tasks)

    @cached_property
    def cuts(self) -> list[bytes]:
        """The first keys of all parts but the first."""
        return [part.low for part in self.parts[1:] if part.low is not None]

    def range_of(self, number: int) -> tuple[bytes | None, bytes | None]:
        """Return the range of keys of a part."""
        low = self.parts[number].low if number else None
        return low, self.parts[number + 1].low if number + 1 < len(self.parts) else None

    def overlaps(self, number: int, low: bytes | None, high: bytes | None) -> bool:
        """Return whether a part may have records in a range of keys."""
        part = self.parts[number]
        if part.excluded:  # where these records are is not known
            return True
        return (low is None or part.last >= low) and (high is None or part.first < high)

    def is_within(self, number: int, low: bytes | None, high: bytes | None) -> bool:
        """Return whether all records of a part are in a range of keys."""
        part = self.parts[number]
        if part.excluded:
            return (low, high) == self.range_of(number)
        return (low is None or low <= part.first) and (high is None or part.last < high)

    def gaps(self, low: bytes, high: bytes, first_field: Callable[[bytes], bytes]) -> list[bytes]:
        """Return where the gaps between parts begin and end in which a range of keys may have new evaluations."""
        gaps: list[bytes] = []
        for number, part in enumerate(self.parts):
            begin, end = self.range_of(number)
            if part.excluded:
                continue
            if begin is None and low < part.first:
                gaps.append(first_field(part.first))
            after = first_field(part.last) + END
            if after <= high and (end is None or (low < end and after < end)):
                gaps.append(after)
        return gaps

    def removed(self, number: int) -> tuple[int, ...]:
        """Return the pieces that are gone and may have records in a part."""
        found = self._gone_by_block[number // _BLOCK]
        return tuple(piece for first, last, piece in found if first <= number <= last)

    @cached_property
    def _gone_by_block(self) -> list[list[tuple[int, int, int]]]:
        """For each block of parts, the pieces that are gone and may have records in it, with their range of parts."""
        blocks: list[list[tuple[int, int, int]]] = [[] for _ in range(-(-len(self.parts) // _BLOCK))]
        for counts in self.gone:
            if counts.first and blocks:
                first, last = bisect_right(self.cuts, counts.first), bisect_right(self.cuts, counts.last)
                for block in range(first // _BLOCK, last // _BLOCK + 1):
                    blocks[block].append((first, last, counts.piece.number))
        return blocks


def no_base(shards: Sequence[Shard], kept: Kept | None = None) -> Base:
    """Return an empty base. Files of kept work that this run does not use stay for now, and its numbers are taken."""
    changes = Changes({}, list(range(len(shards))), [], [])
    if kept is None:
        return Base(changes=changes)
    files = frozenset(file.path for file in kept.files)
    return Base(changes=changes, files=files, next_task=kept.next_task, next_piece=kept.next_piece)


def base_of(kept: Kept, shards: Sequence[Shard], engine: Engine, *, by_content: bool) -> Base:
    """Match kept work with the shards of this run."""
    changes = match_shards(shards, kept.shards, by_content=by_content, engine=engine)
    numbers = {position: number for number, position in changes.unchanged.items()}
    gone: list[PieceCounts] = []
    tasks: list[SortResult] = []
    for task in kept.tasks:
        left: list[PieceCounts] = []
        for counts in task.pieces:
            number = numbers.get(counts.piece.shard)
            if number is None:
                gone.append(counts)
            else:
                piece = replace(counts.piece, shard=number, source=shards[number].path)
                left.append(replace(counts, piece=piece))
        if left:
            tasks.append(replace(task, pieces=tuple(left)))
    paths = {shard.path for shard in shards}
    return Base(
        changes=changes,
        paths_gone=tuple(path for at in changes.gone if (path := kept.shards[at].path) not in paths),
        tasks=tuple(tasks),
        gone=tuple(gone),
        decompressed={numbers[at]: stats for at, stats in kept.decompressed.items() if at in numbers},
        parts=tuple(kept.parts),
        lines=LinesByPiece.unpacked(kept.lines),
        order=kept.order,
        summary=kept.summary,
        rejects=kept.rejects,
        files=frozenset(file.path for file in kept.files),
        next_task=kept.next_task,
        next_piece=kept.next_piece,
    )


def slices_of_part(part: Part, removed: tuple[int, ...]) -> list[RunSlice]:
    """Return a part of the base, with the records that it left out, as slices that can be gathered."""
    slices = []
    if part.records:
        slices.append(part_slice(part.path, part.written.text_bytes, part.index, part.index_bytes, removed))
    if excluded := part.excluded:
        slices.append(part_slice(excluded.path, excluded.text_bytes, excluded.index, excluded.index_bytes, removed))
    return slices
