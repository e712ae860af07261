"""Resume an interrupted run: find out which of its finished tasks, merged runs and parts are reusable.

A finished task is reusable if its inputs and outputs are unchanged. The list of inputs may have changed since; its
pieces keep their numbers, and get the current number of their shard.

A merged run replaces the runs that it was made from. It is reusable if its files are intact and all tasks behind it are
reusable. If it is not reusable, these tasks are repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from fastrec.corpus.sources import sources_path
from fastrec.engine.base import Engine
from fastrec.errors import ShardError
from fastrec.normalize.journal import JournalEntry
from fastrec.normalize.results import MergedRun, Part, Piece, PieceCounts, SortResult
from fastrec.sorting.spill import index_of
from fastrec.sources.shard import Slice
from fastrec.storage import storage_of
from fastrec.storage.digests import FileDigest, hash_of_file, is_unchanged, sha256_of_file

__all__ = ["Reusable", "find_parts", "find_reusable", "without_merged"]

Range = tuple[str, int, int | None]
"""The path of a shard, and a range of its bytes."""


class Reusable(msgspec.Struct):
    """The finished work of an interrupted run that can be reused."""

    tasks: list[SortResult] = msgspec.field(default_factory=list)
    covered: set[Range] = msgspec.field(default_factory=set)  # the ranges of shards that these tasks have read
    merged: list[MergedRun] = msgspec.field(default_factory=list)  # runs merged from the runs of these tasks
    chunks: dict[tuple[str, int, int, str], SortResult] = msgspec.field(default_factory=dict)
    """Tasks that sorted a chunk decompressed by the driver, by path, offset, line and hash of the text."""
    next_task: int = 0  # the first task number that no file in the work directory uses
    next_piece: int = 0  # the first number that no piece has

    def take_chunk(self, piece: Piece, text_hash: str) -> SortResult | None:
        """Return the finished task of a chunk, if there is one."""
        task = self.chunks.pop((piece.source, piece.offset, piece.line, text_hash), None)
        if task is None or task.pieces[0].piece.long_lines != piece.long_lines:
            return None
        return _attached(task, [piece.shard])

    def files(self) -> set[str]:
        """Return the paths of all files to keep."""
        tasks = [*self.tasks, *self.chunks.values()]
        files = {file.path for task in tasks for file in task.files} - _covered_files(self.merged)
        return files | {file.path for one in self.merged for file in one.run.files}


def find_reusable(
    entries: Sequence[JournalEntry], slices: Mapping[Range, tuple[int, Slice]], engine: Engine
) -> Reusable:
    """Find the reusable tasks and merged runs of an interrupted run; `slices` are those to be read now."""
    done = [entry for entry in entries if isinstance(entry, SortResult)]
    merged = _intact([entry for entry in entries if isinstance(entry, MergedRun)], engine)
    gone = _covered_files(merged)
    wanted = [
        task
        for task in done
        if task.pieces[0].piece.temporary or all(_range(counts.piece) in slices for counts in task.pieces)
    ]
    claims = ((task.pieces, [file for file in task.files if file.path not in gone]) for task in wanted)
    reusable = Reusable(
        next_task=max((task.task + 1 for task in done), default=0),
        next_piece=max((number + 1 for task in done for number in task.numbers), default=0),
    )
    found: dict[int, SortResult] = {}
    for number, unchanged in sorted(engine.run(_task_unchanged, claims)):
        task = wanted[number]
        first, text_hash = task.pieces[0].piece, task.pieces[0].read.raw_hash
        if unchanged and first.temporary:
            reusable.chunks[first.source, first.offset, first.line, text_hash] = task
        elif unchanged:
            ranges = [_range(counts.piece) for counts in task.pieces]
            if reusable.covered.isdisjoint(ranges):
                reusable.covered.update(ranges)
                found[task.task] = _attached(task, [slices[one][0] for one in ranges])
    merged, lost = without_merged(merged, {task for one in merged for task in one.tasks} - found.keys())
    for number in lost & found.keys():
        reusable.covered.difference_update(_range(counts.piece) for counts in found.pop(number).pieces)
    reusable.tasks = list(found.values())
    reusable.merged = merged
    return reusable


def without_merged(merged: Sequence[MergedRun], lost: set[int]) -> tuple[list[MergedRun], set[int]]:
    """Drop merged runs that contain lost tasks; return the others, and all tasks that are lost by that."""
    left, lost = list(merged), set(lost)
    while touched := [one for one in left if not lost.isdisjoint(one.tasks)]:
        left = [one for one in left if lost.isdisjoint(one.tasks)]
        lost.update(task for one in touched for task in one.tasks)
    return left, lost


def _intact(merged: list[MergedRun], engine: Engine) -> list[MergedRun]:
    """Return the merged runs whose files are intact, without those that were merged again."""
    unchanged = [result for _, result in sorted(engine.run(_files_unchanged, [one.run.files for one in merged]))]
    intact: list[MergedRun] = []
    covered: set[str] = set()
    for one, is_intact in zip(reversed(merged), reversed(unchanged), strict=True):
        if is_intact and covered.isdisjoint(one.covers):
            covered.update(one.covers)
            intact.append(one)
    return intact[::-1]


def _covered_files(merged: Iterable[MergedRun]) -> set[str]:
    covered = {path for one in merged for path in one.covers}
    return covered | set(map(index_of, covered))


def find_parts(entries: Iterable[JournalEntry], wanted: Mapping[str, str], engine: Engine) -> dict[str, Part]:
    """Find the reusable parts of an interrupted run; `wanted` are the paths of parts by what they are made of.

    Each gets its path in this run: in an object store, a part of another run is copied.
    """
    latest = {part.made_of: part for part in entries if isinstance(part, Part) and part.made_of in wanted}
    claims = [(wanted[made_of], part) for made_of, part in latest.items()]
    reused = [claims[number] for number, unchanged in engine.run(_take_part, claims) if unchanged]
    return {
        part.made_of: replace(
            part, path=path, sources=replace(part.sources, path=sources_path(path)) if part.sources else None
        )
        for path, part in reused
    }


def _range(piece: Piece) -> tuple[str, int, int | None]:
    return piece.source, piece.slice.start, piece.slice.end


def _task_unchanged(claim: tuple[tuple[PieceCounts, ...], list[FileDigest]]) -> bool:
    """Check the inputs and outputs of a task. Runs in a worker."""
    pieces, files = claim
    return all(map(_piece_unchanged, pieces)) and _files_unchanged(files)


def _files_unchanged(files: Iterable[FileDigest]) -> bool:
    """Check files. Runs in a worker."""
    return all(map(is_unchanged, files))


def _piece_unchanged(counts: PieceCounts) -> bool:
    piece, read = counts.piece, counts.read
    if piece.temporary:
        return True  # its text is compared when it is decompressed again
    try:
        start, size = piece.slice.shard.own_bytes(piece.slice.start, piece.slice.end)
        if (start, size) != (read.raw_start, read.raw_bytes):
            return False
        return hash_of_file(piece.source, start, size) == (read.raw_bytes, read.raw_hash)
    except (OSError, ShardError):
        return False


def _take_part(claim: tuple[str, Part]) -> bool:
    """Copy a part of another run to its path in this one, and check it and its statistics. Runs in a worker.

    The other run may still be alive, so the copy is checked, not the original.
    """
    path, part = claim
    files = [(part.path, path, part.written.bytes, part.written.sha256)]
    if sources := part.sources:
        files.append((sources.path, sources_path(path), sources.bytes, sources.sha256))
    try:
        for old, new, size, digest in files:
            if old != new:
                storage_of(new).copy(old, new)
            if sha256_of_file(new) != (size, digest):
                return False
    except OSError:
        return False
    return _files_unchanged(part.files)


def _attached(task: SortResult, shards: Sequence[int]) -> SortResult:
    """Return a finished task whose pieces know the current numbers of their shards."""
    counts = (
        replace(one, piece=replace(one.piece, shard=shard)) for one, shard in zip(task.pieces, shards, strict=True)
    )
    return replace(task, pieces=tuple(counts))
