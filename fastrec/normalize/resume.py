"""Resume an interrupted run: its journal, and what of its finished work is reusable.

    journal-00000000    settings │ entry │ entry │ …        blocks (`sorting.files`)

The settings are everything besides the records that determines the bytes of the corpus: build,
options, sort order. Entries of other settings are discarded, with a notice. An entry is written
when a task of pass 1, a merge or a part is finished: each to a file of its own, or in an object
store, where files are slow, with those of a few seconds. What is damaged is ignored.

Entries are not trusted. A finished task is reusable if its inputs and outputs, which are read
again, have the same checksums. The list of inputs may have changed since; its pieces keep their
numbers, and get the current number of their shard. A merged run replaces the runs that it was made
from. It is reusable if its files are intact and all tasks behind it are reusable. If it is not
reusable, these tasks are repeated.

In an object store each run has its own directory, because a run that lost its lease may still add
to its journal. The next run reads the journals of all directories.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import msgspec
from msgspec import MsgspecError, Raw, Struct, convert
from msgspec.structs import replace

from fastrec.build import differences
from fastrec.corpus.columns import columns_path
from fastrec.corpus.output import JOURNAL, Output
from fastrec.corpus.sources import sources_path
from fastrec.engine.base import Engine
from fastrec.errors import ShardError
from fastrec.normalize.results import MergedRun, Part, Piece, PieceCounts, SortResult
from fastrec.sorting.files import intact_blocks, write_blocks
from fastrec.sorting.runs import index_of
from fastrec.sources.shard import Slice
from fastrec.storage import (
    FileDigest,
    hash_of_file,
    is_unchanged,
    is_url,
    join,
    storage_of,
)

# In a store, entries are collected: the next run repeats those of the last seconds of a killed one.
_FLUSH_SECONDS = 5.0
_FLUSH_BYTES = 4 << 20

Settings = dict[str, str]  # as `Options.settings_of` spells them
JournalEntry = SortResult | MergedRun | Part


class Journal:
    def __init__(self, output: Output, settings: Settings) -> None:
        """Start the journal of this run, with the entries of earlier runs of the same settings."""
        self.settings = settings
        self.entries: list[JournalEntry] = []
        self.files: list[str] = []  # that have these entries
        self.discarded = ""  # why entries of an earlier run are not used; empty if there are none
        self._directory = output.work
        self._next = 0
        self._waiting: list[Raw] = []
        self._flushed = time.monotonic()
        for path in output.journals():
            self._next = 1 + int(path.rpartition("-")[2])
            before, bodies = _read(path)
            if before == settings:
                self.files.append(path)
                with suppress(MsgspecError):
                    self.entries += (convert(body, JournalEntry) for body in bodies)
            elif before and bodies:
                self.discarded = difference(before, settings)
        if self.entries:
            self.discarded = ""

    def take(self) -> list[JournalEntry]:
        """Take the entries of earlier runs; only those of parts stay, which are needed later."""
        entries = self.entries
        self.entries = [entry for entry in entries if isinstance(entry, Part)]
        return entries

    def add(self, entry: JournalEntry) -> bool:
        """Add an entry; return whether it could be encoded."""
        try:
            self._waiting.append(Raw(_encode(entry)))
        except (UnicodeEncodeError, OverflowError, TypeError):
            # A path that is not UTF-8, or an example with a huge integer: this work cannot be
            # reused.
            return False
        is_soon = time.monotonic() - self._flushed < _FLUSH_SECONDS
        is_little = sum(map(len, self._waiting)) < _FLUSH_BYTES
        if not (is_url(self._directory) and self._next and is_soon and is_little):
            self._flush()
        return True

    def _flush(self) -> None:
        if self._waiting:
            path = join(self._directory, f"{JOURNAL}{self._next:08d}")
            write_blocks(path, [self.settings, *self._waiting])
            self._next += 1
            self._waiting = []
        self._flushed = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # it only holds hints, and the corpus may be published by now
        with suppress(OSError):
            self._flush()


def _read(path: str) -> tuple[Settings, list[Any]]:
    """The settings and the entries of a file of a journal, up to the first that is damaged."""
    first, *others = intact_blocks(path) or [None]
    with suppress(MsgspecError):
        return convert(first, Settings), others
    return {}, []


def reusable_settings(
    choices: Mapping[str, Settings], journals: Iterable[str], kept: Settings
) -> str | None:
    """The name of the settings that most entries of journals have, or else the kept work.

    None if all differ.
    """
    names = {_encode(settings): name for name, settings in choices.items()}
    entries = Counter[str]()
    for settings, bodies in map(_read, journals):
        if name := names.get(_encode(settings)):
            entries[name] += len(bodies)
    return max(entries, key=entries.__getitem__, default=names.get(_encode(kept)))


def difference(then: Settings, now: Settings) -> str:
    """How settings differ from those of this run."""
    if then.get("schema") != now["schema"]:
        # This says it all: the fields to sort by follow from the version.
        now = now | {"sort_by": then.get("sort_by", "")}
    return f"it was made with {', '.join(differences(then, now))}"


_encode = msgspec.msgpack.Encoder().encode

Range = tuple[str, int, int | None]  # the path of a shard, and a range of its bytes


class Reusable(Struct):
    tasks: list[SortResult] = []
    # The ranges of shards that these tasks have read.
    covered: set[Range] = set()
    # Runs merged from the runs of these tasks.
    merged: list[MergedRun] = []
    # Tasks that sorted a chunk decompressed by the driver, by path, offset, line and hash.
    chunks: dict[tuple[str, int, int, str], SortResult] = {}
    next_task: int = 0  # the first task number that no file in the work directory uses
    next_piece: int = 0  # the first number that no piece has

    def take_chunk(self, piece: Piece, text_hash: str) -> SortResult | None:
        task = self.chunks.pop((piece.source, piece.offset, piece.line, text_hash), None)
        if not task or task.pieces[0].piece.long_lines != piece.long_lines:
            return None
        return _attached(task, [piece.shard])

    def files(self) -> set[str]:
        tasks = [*self.tasks, *self.chunks.values()]
        files = {file.path for task in tasks for file in task.files} - _covered_files(self.merged)
        return files | {file.path for merge in self.merged for file in merge.run.files}


def _is_read_again(piece: Piece, slices: Mapping[Range, tuple[int, Slice]]) -> bool:
    """Whether a piece is to be read now, and, of a part, must be what it was."""
    _, found = slices.get(_range(piece), (0, None))
    return found is not None and found.shard.listed == piece.slice.shard.listed


def find_reusable(
    entries: Sequence[JournalEntry], slices: Mapping[Range, tuple[int, Slice]], engine: Engine
) -> Reusable:
    """Find the reusable tasks and merged runs of an interrupted run.

    `slices` are those to be read now.
    """
    done = [entry for entry in entries if isinstance(entry, SortResult)]
    merged = _intact([entry for entry in entries if isinstance(entry, MergedRun)], engine)
    gone = _covered_files(merged)
    wanted = [
        task
        for task in done
        if task.pieces[0].piece.temporary
        or all(_is_read_again(counts.piece, slices) for counts in task.pieces)
    ]
    claims = (
        (task.pieces, [file for file in task.files if file.path not in gone]) for task in wanted
    )
    reusable = Reusable(
        next_task=max((task.task + 1 for task in done), default=0),
        next_piece=max((number + 1 for task in done for number in task.numbers), default=0),
    )
    finished = {}
    for task, unchanged in zip(wanted, engine.in_order(_task_unchanged, claims), strict=True):
        first = task.pieces[0].piece
        text_hash = task.pieces[0].read.raw_hash
        if unchanged and first.temporary:
            reusable.chunks[first.source, first.offset, first.line, text_hash] = task
        elif unchanged:
            ranges = [_range(counts.piece) for counts in task.pieces]
            if reusable.covered.isdisjoint(ranges):
                reusable.covered.update(ranges)
                finished[task.task] = _attached(task, [slices[range_][0] for range_ in ranges])
    merged, lost = _without_merged(
        merged, {task for merge in merged for task in merge.tasks} - finished.keys()
    )
    for number in lost & finished.keys():
        reusable.covered.difference_update(
            _range(counts.piece) for counts in finished.pop(number).pieces
        )
    reusable.tasks = list(finished.values())
    reusable.merged = merged
    return reusable


def _without_merged(
    merged: Sequence[MergedRun], lost: set[int]
) -> tuple[list[MergedRun], set[int]]:
    """Drop merged runs that contain lost tasks.

    Return the others, and all tasks that are lost by that.
    """
    left = list(merged)
    lost = set(lost)
    while touched := [merge for merge in left if not lost.isdisjoint(merge.tasks)]:
        left = [merge for merge in left if lost.isdisjoint(merge.tasks)]
        lost.update(task for merge in touched for task in merge.tasks)
    return left, lost


def _intact(merged: list[MergedRun], engine: Engine) -> list[MergedRun]:
    """The merged runs whose files are intact, without those that were merged again."""
    unchanged = engine.in_order(_files_unchanged, [merge.run.files for merge in merged])
    intact = []
    covered = set[str]()
    for merge, is_intact in zip(reversed(merged), reversed(unchanged), strict=True):
        if is_intact and covered.isdisjoint(merge.covers):
            covered.update(merge.covers)
            intact.append(merge)
    return intact[::-1]


def _covered_files(merged: Iterable[MergedRun]) -> set[str]:
    covered = {path for merge in merged for path in merge.covers}
    return covered | set(map(index_of, covered))


def find_parts(
    entries: Iterable[JournalEntry], wanted: Mapping[str, str], engine: Engine
) -> dict[str, Part]:
    """Find the reusable parts of an interrupted run.

    `wanted` are the paths of parts by what they are made of.

    Each gets its path in this run: in an object store, a part of another run is copied.
    """
    latest = {
        part.fingerprint: part
        for part in entries
        if isinstance(part, Part) and part.fingerprint in wanted
    }
    claims = [(wanted[fingerprint], part) for fingerprint, part in latest.items()]
    reused = [claims[number] for number, unchanged in engine.run(_take_part, claims) if unchanged]
    return {part.fingerprint: _moved(part, path) for path, part in reused}


def _moved(part: Part, path: str) -> Part:
    return part.at(path, columns_path(path), sources_path(path))


def _range(piece: Piece) -> tuple[str, int, int | None]:
    return piece.source, piece.slice.start, piece.slice.end


def _task_unchanged(claim: tuple[tuple[PieceCounts, ...], list[FileDigest]]) -> bool:
    pieces, files = claim
    return all(map(_piece_unchanged, pieces)) and _files_unchanged(files)


def _files_unchanged(files: Iterable[FileDigest]) -> bool:
    return all(map(is_unchanged, files))


def _piece_unchanged(counts: PieceCounts) -> bool:
    piece = counts.piece
    read = counts.read
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
    """Copy a part of another run to its path in this one, and check it and its statistics.

    Runs in a worker.

    The other run may still be alive, so the copy is checked, not the original.
    """
    path, part = claim
    try:
        for old, new in zip(part.made, _moved(part, path).made, strict=True):
            if old != new:
                storage_of(new.path).copy(old.path, new.path)
            if not is_unchanged(new):
                return False
    except OSError:
        return False
    return _files_unchanged(part.files)


def _attached(task: SortResult, shards: Sequence[int]) -> SortResult:
    """A finished task whose pieces know the current numbers of their shards."""
    counts = (
        replace(counts, piece=replace(counts.piece, shard=shard))
        for counts, shard in zip(task.pieces, shards, strict=True)
    )
    return replace(task, pieces=tuple(counts))
