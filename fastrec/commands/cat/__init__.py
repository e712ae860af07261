"""`cat`: the lines of a corpus in their order, all or those that are wanted, byte for byte.

1. Choose the parts that can hold a wanted record, by the first and last keys in the manifest (`select`).
2. Read each as far as such a record can still come. If the wanted ones are a stretch of the order, or little is to be
   read, here and now. Else one task per part searches it, and leaves what it found in a file that is handed on in turn.

Nothing is decoded but the heads of candidates, and of the lines at the ends of blocks, which tell where we are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
from stringzilla import count

from fastrec.commands.cat.select import Finder, Ranges, Selection
from fastrec.corpus.documents import part_paths, read_manifest
from fastrec.corpus.manifest import PartEntry
from fastrec.corpus.skim import skim_lines
from fastrec.engine import make_engine
from fastrec.engine.jobs import jobs_for
from fastrec.errors import CorpusError, UsageError, shown
from fastrec.sources.reader import shard_at

__all__ = ["Selection", "cat", "cat_blocks"]

_QUICK: Final = 4  # times as fast as what else is done with text: so much more of it is searched before a pool pays
_BLOCK: Final = 1 << 20


def cat(
    corpus: str | os.PathLike[str],
    *,
    evaluation: str | None = None,
    model: str | None = None,
    sample_id: int | str | None = None,
    hash: str | None = None,  # noqa: A002 - the name of the option
    where_error: bool = False,
    limit: int | None = None,
    jobs: int = 1,
) -> Iterator[bytes]:
    """Give the lines of a corpus in their order, without newlines: all, or those of which all that is asked is true.

    Args:
        corpus: The directory that `normalize` published.
        evaluation: The `evaluation_name`.
        model: The `model_id`.
        sample_id: The `sample_id`; 5 and "5" are the same here.
        hash: The `sample_hash`.
        where_error: Only records with an `error` that is not empty.
        limit: At most so many.
        jobs: Processes to use where every part has to be searched.

    Raises:
        UsageError: The directory is no corpus, or another argument makes no sense.
        CorpusError: The manifest or a line is not what fastrec writes.
        ShardError: A part could not be read.
    """
    selection = Selection(
        evaluation=evaluation,
        model=model,
        sample_id=None if sample_id is None else str(sample_id),
        hash=hash,
        where_error=where_error,
    )
    for block in cat_blocks(corpus, selection, limit=limit, jobs=jobs):
        yield from block.removesuffix(b"\n").split(b"\n")


def cat_blocks(
    corpus: str | os.PathLike[str], selection: Selection, *, limit: int | None = None, jobs: int = 1
) -> Iterator[bytes]:
    """Give the text of the wanted lines, some at a time; see `cat`."""
    if jobs < 1 or (limit is not None and limit < 1):
        raise UsageError(f"there must be at least one job and one line, not {jobs} and {limit}")
    Finder(selection)  # refuses what no record can hold, before anything is read
    directory = os.fspath(corpus)
    manifest = read_manifest(directory)
    ranges = Ranges(selection, manifest.sort_fields)
    parts = [
        _PartToSearch(path, entry, selection, manifest.sort_fields, limit)
        for path, entry in zip(part_paths(directory, manifest), manifest.parts, strict=True)
        if ranges.holds(entry)
    ]
    blocks = _search(parts, jobs=1 if ranges.is_stretch else jobs, limited=limit is not None)
    return blocks if limit is None else _first_lines(blocks, limit)


class _PartToSearch(msgspec.Struct, frozen=True):
    """What a worker is told."""

    path: str
    entry: PartEntry
    selection: Selection
    order: tuple[str, ...]
    limit: int | None
    """More lines than these are of no use."""
    found: str = ""
    """Where a worker leaves what it found."""

    def __str__(self) -> str:
        return f"reading {shown(self.path)}"


def _search(parts: Sequence[_PartToSearch], *, jobs: int, limited: bool) -> Generator[bytes]:
    """Give the wanted text of parts in order."""
    jobs = jobs_for(sum(part.entry.text_bytes for part in parts) // _QUICK, len(parts), jobs)
    alone = len(parts) if jobs == 1 else int(limited)  # often the first part has all the lines that are asked for
    for part in parts[:alone]:
        yield from _wanted_text(part)
    if alone == len(parts):
        return
    with tempfile.TemporaryDirectory(prefix="fastrec-") as scratch, make_engine(jobs) as engine:
        orders = [
            msgspec.structs.replace(part, found=f"{scratch}/{number}") for number, part in enumerate(parts[alone:])
        ]
        done: set[int] = set()
        turn = 0
        for number, _ in engine.run(_search_part, orders):
            done.add(number)
            while turn in done:
                yield from _take(orders[turn].found)
                turn += 1


def _search_part(order: _PartToSearch) -> int:
    """Search one part, and leave what was found in a file; how many bytes these are. Runs in a worker."""
    with open(order.found, "wb") as file:  # noqa: PTH123 - it is a str on its way through pickle
        lines = _wanted_text(order) if order.limit is None else _first_lines(_wanted_text(order), order.limit)
        return sum(map(file.write, lines))


def _take(path: str) -> Iterator[bytes]:
    """Give the lines that a file holds, and remove it."""
    with open(path, "rb") as file:  # noqa: PTH123
        while block := file.read(_BLOCK) + file.readline():
            yield block
    Path(path).unlink()


def _wanted_text(part: _PartToSearch) -> Generator[bytes]:
    """Give the wanted lines of one part, whole blocks where all of them are wanted, up to where none can follow."""
    ranges, finder = Ranges(part.selection, part.order), Finder(part.selection)
    end_of_part = ranges.end_of(part.entry)
    for data, end in skim_lines(shard_at(part.path), part.entry.bytes, part.entry.text_bytes):
        last = data.rfind(b"\n", 0, end - 1) + 1
        try:
            if ranges.is_stretch and finder.wants(data, 0, end) and finder.wants(data, last, end):
                yield bytes(memoryview(data)[:end])
            elif text := b"".join(finder.lines(data, end)):
                yield text
            place = ranges.place_of(finder.head(data, last)) if ranges.can_end else None
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            reason = f"holds a line that is not what fastrec writes: {exc}; fastrec verify tells more"
            raise CorpusError(part.path, reason) from exc
        if place is not None and not ranges.meets(place, end_of_part):
            return


def _first_lines(blocks: Generator[bytes], limit: int) -> Generator[bytes]:
    """Give so many lines of a text, and close what it comes from."""
    with closing(blocks):
        for block in blocks:
            lines = count(block, b"\n")
            if lines >= limit:
                end = 0
                for _ in range(limit):
                    end = block.find(b"\n", end) + 1
                yield block[:end]
                return
            limit -= lines
            yield block
