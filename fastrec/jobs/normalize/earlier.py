"""Going on from an earlier run: which of its finished tasks and parts still hold.

A task holds if all that it read is in its shards as it was then, byte for byte, and the files that it left are whole.
Where its shards stand in the list of inputs may have changed since, so its pieces get the numbers that they have now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from fastrec.engine import Engine
from fastrec.errors import ShardError
from fastrec.hashing import hash_of_file, sha256_of_file
from fastrec.jobs.normalize.journal import Entry, PartDone, TaskDone
from fastrec.jobs.normalize.kept import is_kept
from fastrec.jobs.normalize.pass1 import PIECES, Order, Piece, Sorted
from fastrec.jobs.normalize.pass2 import Part
from fastrec.stages.shards import own_bytes
from fastrec.stages.summary import Tally

__all__ = ["Earlier", "find_parts", "find_tasks"]

Pieces = Mapping[tuple[str, int, int | None], Piece]
"""The pieces that there are now, by path and range."""


class Earlier(msgspec.Struct):
    """What of an earlier run can be used."""

    tasks: list[tuple[Order, Sorted]] = msgspec.field(default_factory=list)
    covered: set[int] = msgspec.field(default_factory=set)
    """The numbers of their pieces."""
    chunks: dict[tuple[str, int, int, str], TaskDone] = msgspec.field(default_factory=dict)
    """Tasks that sorted a chunk of a shard that was fed: by path, offset, line and hash of the text."""
    next_order: int = 0
    """The first number of an order that no file in the work directory is named after."""
    make_order: Callable[[int, tuple[Piece, ...]], Order] | None = None

    def take_chunk(self, piece: Piece, text_hash: str) -> tuple[Order, Sorted] | None:
        """Give what came of a chunk that was sorted before; None if it was not."""
        entry = self.chunks.pop((piece.source, piece.offset, piece.line, text_hash), None)
        if entry is None or entry.pieces[0].long_lines != piece.long_lines:
            return None
        assert self.make_order
        return _as_of_now(entry, (piece,), self.make_order)

    def files(self) -> set[str]:
        """Name the files that must stay."""
        results = [result for _, result in self.tasks] + [entry.result for entry in self.chunks.values()]
        return {file.path for result in results for file in result.kept}


def find_tasks(
    entries: Iterable[Entry], pieces: Pieces, engine: Engine, make_order: Callable[[int, tuple[Piece, ...]], Order]
) -> Earlier:
    """Find the tasks of an earlier run that still hold."""
    earlier = Earlier(make_order=make_order)
    done = [entry for entry in entries if isinstance(entry, TaskDone)]
    earlier.next_order = max((entry.result.order + 1 for entry in done), default=0)
    wanted = [entry for entry in done if entry.pieces[0].temporary or all(_place(p) in pieces for p in entry.pieces)]
    for number, holds in sorted(engine.run(_task_holds, wanted)):
        entry = wanted[number]
        if not holds:
            continue
        first = entry.pieces[0]
        if first.temporary:
            key = (first.source, first.offset, first.line, entry.result.books[0].raw_hash)
            earlier.chunks[key] = entry
            continue
        now = tuple(pieces[_place(piece)] for piece in entry.pieces)
        numbers = {piece.number for piece in now}
        if not numbers & earlier.covered:  # work that was done again without a bad shard stands in the journal twice
            earlier.covered |= numbers
            earlier.tasks.append(_as_of_now(entry, now, make_order))
    return earlier


def find_parts(entries: Iterable[Entry], wanted: Mapping[str, str], engine: Engine) -> dict[str, Part]:
    """Find parts of an earlier run that still hold, by what they are made of.

    Args:
        entries: The journal.
        wanted: The paths of parts by what they are made of.
        engine: Where to read them.
    """
    latest = {entry.made_of: entry for entry in entries if isinstance(entry, PartDone) and entry.made_of in wanted}
    claims = [(wanted[made_of], entry.part) for made_of, entry in latest.items()]
    holding = [holds for _, holds in sorted(engine.run(_part_holds, claims))]
    return {
        made_of: msgspec.structs.replace(entry.part, tally=Tally.unpacked(entry.tally))
        for (made_of, entry), holds in zip(latest.items(), holding, strict=True)
        if holds
    }


def _place(piece: Piece) -> tuple[str, int, int | None]:
    return piece.source, piece.slice.start, piece.slice.end


def _task_holds(entry: TaskDone) -> bool:
    """Read again what a task read and what it left. Runs in a worker."""
    pairs = zip(entry.pieces, entry.result.books, strict=True)
    return all(_piece_holds(piece, books) for piece, books in pairs) and all(map(is_kept, entry.result.kept))


def _piece_holds(piece: Piece, books: Any) -> bool:
    if piece.temporary:
        return True  # its text is compared when it is fed again
    try:
        range_ = own_bytes(piece.slice.shard, piece.slice.start, piece.slice.end)
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
    return all(map(is_kept, part.kept))


def _as_of_now(
    entry: TaskDone, pieces: tuple[Piece, ...], make_order: Callable[[int, tuple[Piece, ...]], Order]
) -> tuple[Order, Sorted]:
    """Give a task's pieces the numbers that they have now."""
    result = entry.result
    numbers = {then.number: now.number for then, now in zip(entry.pieces, pieces, strict=True)}
    for books in result.books:
        books.number = numbers[books.number]
        books.shard = books.number // PIECES
    result.rejects = [
        msgspec.structs.replace(rejects, shard=books.shard)
        for rejects, books in zip(result.rejects, result.books, strict=True)
    ]
    if any(then != now for then, now in numbers.items()):
        result.runs = [
            msgspec.structs.replace(run, dropped=[numbers[source] for source in run.dropped], renumbered=numbers)
            for run in result.runs
        ]
    return make_order(result.order, pieces), result
