"""Resume an interrupted run: find out which of its finished tasks, merged runs and parts are reusable.

A finished task is reusable if its inputs and outputs are unchanged. The list of inputs may have changed since, so its
pieces get their current numbers.

A merged run replaces the runs that it was made from. It is reusable if its files are intact and all tasks behind it are
reusable. If it is not reusable, these tasks are repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fastrec.engine.base import Engine
from fastrec.errors import ShardError
from fastrec.normalize.journal import FinishedMerge, FinishedPart, FinishedTask, JournalEntry
from fastrec.normalize.merging import MergedRun
from fastrec.normalize.pass1 import PIECES, Piece
from fastrec.normalize.pass1_result import PieceCounts
from fastrec.normalize.pass2 import Part
from fastrec.sorting.spill import Run, index_of
from fastrec.storage.digests import FileDigest, hash_of_file, is_unchanged, sha256_of_file

__all__ = ["Reusable", "find_parts", "find_reusable", "without_merged"]

Pieces = Mapping[tuple[str, int, int | None], Piece]
"""The current pieces by path and range."""


class Reusable(msgspec.Struct):
    """The finished work of an interrupted run that can be reused."""

    tasks: list[FinishedTask] = msgspec.field(default_factory=list)
    covered: set[int] = msgspec.field(default_factory=set)
    """Numbers of the pieces of these tasks."""
    merged: list[MergedRun] = msgspec.field(default_factory=list)
    """Runs merged from the runs of these tasks."""
    chunks: dict[tuple[str, int, int, str], FinishedTask] = msgspec.field(default_factory=dict)
    """Tasks that sorted a chunk decompressed by the driver, by path, offset, line and hash of the text."""
    next_task: int = 0
    """The first task number that no file in the work directory uses."""

    def take_chunk(self, piece: Piece, text_hash: str) -> FinishedTask | None:
        """Return the finished task of a chunk, if there is one."""
        task = self.chunks.pop((piece.source, piece.offset, piece.line, text_hash), None)
        if task is None or task.pieces[0].long_lines != piece.long_lines:
            return None
        return _renumbered(task, (piece,))

    def files(self) -> set[str]:
        """Return the paths of all files to keep."""
        tasks = [*self.tasks, *self.chunks.values()]
        files = {file.path for task in tasks for file in task.result.files} - _covered_files(self.merged)
        return files | {file.path for one in self.merged for file in one.run.files}


def find_reusable(entries: Sequence[JournalEntry], pieces: Pieces, engine: Engine) -> Reusable:
    """Find the reusable tasks and merged runs of an interrupted run."""
    done = [entry for entry in entries if isinstance(entry, FinishedTask)]
    merged = _intact([entry.merged for entry in entries if isinstance(entry, FinishedMerge)], engine)
    gone = _covered_files(merged)
    wanted = [task for task in done if task.pieces[0].temporary or all(_range(p) in pieces for p in task.pieces)]
    claims = (
        (task.pieces, task.result.pieces, [file for file in task.result.files if file.path not in gone])
        for task in wanted
    )
    reusable = Reusable(next_task=max((task.result.task + 1 for task in done), default=0))
    found: dict[int, FinishedTask] = {}
    for number, unchanged in sorted(engine.run(_task_unchanged, claims)):
        task = wanted[number]
        first = task.pieces[0]
        if unchanged and first.temporary:
            reusable.chunks[first.source, first.offset, first.line, task.result.pieces[0].raw_hash] = task
        elif unchanged:
            numbers = {pieces[_range(piece)].number for piece in task.pieces}
            if not numbers & reusable.covered:  # a task that was repeated without a bad shard is in the journal twice
                reusable.covered |= numbers
                found[task.result.task] = task
    merged, lost = without_merged(merged, {task for one in merged for task in one.pieces} - found.keys())
    for number in lost & found.keys():
        reusable.covered -= {pieces[_range(piece)].number for piece in found.pop(number).pieces}
    for task in found.values():
        reusable.tasks.append(_renumbered(task, tuple(pieces[_range(piece)] for piece in task.pieces)))
    numbers_now = {task.result.task: [piece.number for piece in task.pieces] for task in reusable.tasks}
    reusable.merged = [_merged_renumbered(one, numbers_now) for one in merged]
    return reusable


def without_merged(merged: Sequence[MergedRun], lost: set[int]) -> tuple[list[MergedRun], set[int]]:
    """Drop merged runs that contain lost tasks; return the others, and all tasks that are lost by that."""
    left, lost = list(merged), set(lost)
    while touched := [one for one in left if not lost.isdisjoint(one.pieces)]:
        left = [one for one in left if lost.isdisjoint(one.pieces)]
        lost.update(task for one in touched for task in one.pieces)
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
    """Find the reusable parts of an interrupted run.

    Args:
        entries: The journal.
        wanted: Paths of the parts by their fingerprints.
        engine: Runs the checks.
    """
    latest = {entry.made_of: entry for entry in entries if isinstance(entry, FinishedPart) and entry.made_of in wanted}
    claims = [(wanted[made_of], entry.part) for made_of, entry in latest.items()]
    unchanged = [result for _, result in sorted(engine.run(_part_unchanged, claims))]
    return {made_of: entry.part for (made_of, entry), reuse in zip(latest.items(), unchanged, strict=True) if reuse}


def _range(piece: Piece) -> tuple[str, int, int | None]:
    return piece.source, piece.slice.start, piece.slice.end


def _task_unchanged(claim: tuple[tuple[Piece, ...], tuple[PieceCounts, ...], list[FileDigest]]) -> bool:
    """Check the inputs and outputs of a task. Runs in a worker."""
    pieces, counts, files = claim
    return all(map(_piece_unchanged, pieces, counts)) and _files_unchanged(files)


def _files_unchanged(files: Iterable[FileDigest]) -> bool:
    """Check files. Runs in a worker."""
    return all(map(is_unchanged, files))


def _piece_unchanged(piece: Piece, counts: PieceCounts) -> bool:
    if piece.temporary:
        return True  # its text is compared when it is decompressed again
    try:
        start, size = piece.slice.shard.own_bytes(piece.slice.start, piece.slice.end)
        if (start, size) != (counts.raw_start, counts.raw_bytes):
            return False
        return hash_of_file(piece.source, start, size) == (counts.raw_bytes, counts.raw_hash)
    except (OSError, ShardError):
        return False


def _part_unchanged(claim: tuple[str, Part]) -> bool:
    """Check a part and the files of its statistics. Runs in a worker."""
    path, part = claim
    try:
        if sha256_of_file(path) != (part.written.bytes, part.written.sha256):
            return False
    except OSError:
        return False
    return _files_unchanged(part.files)


def _renumbered(task: FinishedTask, pieces: tuple[Piece, ...]) -> FinishedTask:
    """Return a finished task with the current numbers of its pieces."""
    result = task.result
    numbers = {then.number: now.number for then, now in zip(task.pieces, pieces, strict=True)}
    counts = [
        msgspec.structs.replace(piece, number=numbers[piece.number], shard=numbers[piece.number] // PIECES)
        for piece in result.pieces
    ]
    rejects = [
        msgspec.structs.replace(rejects, shard=piece.shard)
        for rejects, piece in zip(result.rejects, counts, strict=True)
    ]
    runs = [_run_renumbered(run, numbers) for run in result.runs]
    renumbered = msgspec.structs.replace(result, pieces=tuple(counts), rejects=tuple(rejects), runs=tuple(runs))
    return FinishedTask(pieces, renumbered)


def _merged_renumbered(merged: MergedRun, numbers_now: Mapping[int, list[int]]) -> MergedRun:
    pieces = {task: numbers_now[task] for task in merged.pieces}
    numbers = {
        number: now for task, then in merged.pieces.items() for number, now in zip(then, numbers_now[task], strict=True)
    }
    return msgspec.structs.replace(merged, run=_run_renumbered(merged.run, numbers), pieces=pieces)


def _run_renumbered(run: Run, numbers: dict[int, int]) -> Run:
    if all(then == now for then, now in numbers.items()):
        return run
    dropped = {numbers[source]: count for source, count in run.dropped.items()}
    return msgspec.structs.replace(run, dropped=dropped, renumbered=numbers)
