"""Going on from an earlier run: which of its finished tasks, merged runs and parts still hold.

A task holds if all that it read is in its shards as it was then, byte for byte, and the files that it left are whole.
Where its shards stand in the list of inputs may have changed since, so its pieces get the numbers that they have now.

A merged run stands for the runs that it is made of. It holds if it is whole and all tasks do that those came from; if
it does not, these tasks are done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from fastrec.engine.base import Engine
from fastrec.errors import ShardError
from fastrec.normalize.journal import JournalEntry, MergeDone, PartDone, TaskDone
from fastrec.normalize.merging import Merged
from fastrec.normalize.pass1 import PIECES, Piece, PieceCounts, SortResult, SortTask
from fastrec.normalize.pass2 import Part
from fastrec.sorting.spill import Run, index_of
from fastrec.storage.digests import FileDigest, hash_of_file, is_unchanged, sha256_of_file

__all__ = ["Reusable", "find_parts", "find_tasks", "without_merged"]

Pieces = Mapping[tuple[str, int, int | None], Piece]
"""The pieces that there are now, by path and range."""


class Reusable(msgspec.Struct):
    """What of an earlier run can be used."""

    tasks: list[tuple[SortTask, SortResult]] = msgspec.field(default_factory=list)
    covered: set[int] = msgspec.field(default_factory=set)
    """The numbers of their pieces."""
    merged: list[Merged] = msgspec.field(default_factory=list)
    """What was made of their runs."""
    chunks: dict[tuple[str, int, int, str], TaskDone] = msgspec.field(default_factory=dict)
    """Tasks that sorted a chunk of a shard that was fed: by path, offset, line and hash of the text."""
    next_order: int = 0
    """The first number of an order that no file in the work directory is named after."""
    make_order: Callable[[int, tuple[Piece, ...]], SortTask] | None = None

    def take_chunk(self, piece: Piece, text_hash: str) -> tuple[SortTask, SortResult] | None:
        """Give what came of a chunk that was sorted before; None if it was not."""
        entry = self.chunks.pop((piece.source, piece.offset, piece.line, text_hash), None)
        if entry is None or entry.pieces[0].long_lines != piece.long_lines:
            return None
        assert self.make_order
        return _as_of_now(entry, (piece,), self.make_order)

    def files(self) -> set[str]:
        """Name the files that must stay."""
        results = [result for _, result in self.tasks] + [entry.result for entry in self.chunks.values()]
        covered = _files_of_covered(self.merged)
        files = {file.path for result in results for file in result.kept} - covered
        return files | {file.path for merged in self.merged for file in merged.kept}


def find_tasks(
    entries: Iterable[JournalEntry],
    pieces: Pieces,
    engine: Engine,
    make_order: Callable[[int, tuple[Piece, ...]], SortTask],
) -> Reusable:
    """Find the tasks and the merged runs of an earlier run that still hold."""
    entries = list(entries)
    done = [entry for entry in entries if isinstance(entry, TaskDone)]
    earlier = Reusable(make_order=make_order)
    earlier.next_order = max((entry.result.order + 1 for entry in done), default=0)
    merged = _whole_merged([entry.merged for entry in entries if isinstance(entry, MergeDone)], engine)
    gone = _files_of_covered(merged)
    wanted = [entry for entry in done if entry.pieces[0].temporary or all(_place(p) in pieces for p in entry.pieces)]
    claims = (
        (entry.pieces, entry.result.pieces, [file for file in entry.result.kept if file.path not in gone])
        for entry in wanted
    )
    found: dict[int, TaskDone] = {}
    for number, holds in sorted(engine.run(_task_holds, claims)):
        entry = wanted[number]
        first = entry.pieces[0]
        if holds and first.temporary:
            key = (first.source, first.offset, first.line, entry.result.pieces[0].raw_hash)
            earlier.chunks[key] = entry
        elif holds:
            numbers = {pieces[_place(piece)].number for piece in entry.pieces}
            if not numbers & earlier.covered:  # work that was done again without a bad shard stands there twice
                earlier.covered |= numbers
                found[entry.result.order] = entry
    earlier.merged, lost = without_merged(merged, {one for merge in merged for one in merge.numbers} - found.keys())
    for order in lost & found.keys():
        earlier.covered -= {pieces[_place(piece)].number for piece in found.pop(order).pieces}
    for entry in found.values():
        now = tuple(pieces[_place(piece)] for piece in entry.pieces)
        earlier.tasks.append(_as_of_now(entry, now, make_order))
    places = {order.number: [piece.number for piece in order.pieces] for order, _ in earlier.tasks}
    earlier.merged = [_merged_as_of_now(one, places) for one in earlier.merged]
    return earlier


def without_merged(merged: Sequence[Merged], lost: set[int]) -> tuple[list[Merged], set[int]]:
    """Say what is left of merged runs if some orders are lost, and which are lost then, with the runs they were in."""
    left, lost = list(merged), set(lost)
    while touched := [one for one in left if not lost.isdisjoint(one.numbers)]:
        left = [one for one in left if lost.isdisjoint(one.numbers)]
        lost.update(order for one in touched for order in one.numbers)
    return left, lost


def _whole_merged(merged: list[Merged], engine: Engine) -> list[Merged]:
    """Give the merged runs whose files are whole; of those that were merged again, only what they became."""
    holding = [holds for _, holds in sorted(engine.run(_files_hold, [one.kept for one in merged]))]
    whole: list[Merged] = []
    covered: set[str] = set()
    for one, holds in zip(reversed(merged), reversed(holding), strict=True):
        if holds and covered.isdisjoint(one.covers):
            covered.update(one.covers)
            whole.append(one)
    return whole[::-1]


def _files_of_covered(merged: Iterable[Merged]) -> set[str]:
    """Name the files of runs that others stand for."""
    covered = {path for one in merged for path in one.covers}
    return covered | set(map(index_of, covered))


def find_parts(entries: Iterable[JournalEntry], wanted: Mapping[str, str], engine: Engine) -> dict[str, Part]:
    """Find parts of an earlier run that still hold, by what they are made of.

    Args:
        entries: The journal.
        wanted: The paths of parts by what they are made of.
        engine: Where to read them.
    """
    latest = {entry.made_of: entry for entry in entries if isinstance(entry, PartDone) and entry.made_of in wanted}
    claims = [(wanted[made_of], entry.part) for made_of, entry in latest.items()]
    holding = [holds for _, holds in sorted(engine.run(_part_holds, claims))]
    return {made_of: entry.part for (made_of, entry), holds in zip(latest.items(), holding, strict=True) if holds}


def _place(piece: Piece) -> tuple[str, int, int | None]:
    return piece.source, piece.slice.start, piece.slice.end


def _task_holds(claim: tuple[tuple[Piece, ...], list[PieceCounts], list[FileDigest]]) -> bool:
    """Read again what a task read and what it left. Runs in a worker."""
    pieces, books, kept = claim
    return all(map(_piece_holds, pieces, books)) and _files_hold(kept)


def _files_hold(kept: list[FileDigest]) -> bool:
    """Read again what was left. Runs in a worker."""
    return all(map(is_unchanged, kept))


def _piece_holds(piece: Piece, books: PieceCounts) -> bool:
    if piece.temporary:
        return True  # its text is compared when it is fed again
    try:
        range_ = piece.slice.shard.own_bytes(piece.slice.start, piece.slice.end)
        if range_ != (books.raw_start, books.raw_bytes):
            return False
        return hash_of_file(piece.source, *range_) == (books.raw_bytes, books.raw_hash)
    except (OSError, ShardError):
        return False


def _part_holds(claim: tuple[str, Part]) -> bool:
    """Read a part and its census again. Runs in a worker."""
    path, part = claim
    try:
        if sha256_of_file(path) != (part.written.bytes, part.written.sha256):
            return False
    except OSError:
        return False
    return all(map(is_unchanged, part.kept))


def _as_of_now(
    entry: TaskDone, pieces: tuple[Piece, ...], make_order: Callable[[int, tuple[Piece, ...]], SortTask]
) -> tuple[SortTask, SortResult]:
    """Give a task's pieces the numbers that they have now."""
    result = entry.result
    numbers = {then.number: now.number for then, now in zip(entry.pieces, pieces, strict=True)}
    for books in result.pieces:
        books.number = numbers[books.number]
        books.shard = books.number // PIECES
    result.rejects = [
        msgspec.structs.replace(rejects, shard=books.shard)
        for rejects, books in zip(result.rejects, result.pieces, strict=True)
    ]
    result.runs = [_renumbered(run, numbers) for run in result.runs]
    return make_order(result.order, pieces), result


def _merged_as_of_now(merged: Merged, places: Mapping[int, list[int]]) -> Merged:
    """Give the pieces of a merged run the numbers that they have now."""
    pairs = [pair for order, then in merged.numbers.items() for pair in zip(then, places[order], strict=True)]
    numbers = {order: places[order] for order in merged.numbers}
    return msgspec.structs.replace(merged, run=_renumbered(merged.run, dict(pairs)), numbers=numbers)


def _renumbered(run: Run, numbers: dict[int, int]) -> Run:
    if all(then == now for then, now in numbers.items()):
        return run
    dropped = {numbers[source]: count for source, count in run.dropped.items()}
    return msgspec.structs.replace(run, dropped=dropped, renumbered=numbers)
