"""Resume an interrupted run: its journal, and what of its finished work is reusable.

    settings │ entry │ entry │ …        each: length, fingerprint, msgpack

The settings are everything besides the records that determines the bytes of the corpus: build,
options, sort order. A journal of other settings is discarded, with a notice. An entry is written
when a task of pass 1, a merge or a part is finished. If a crash cut off the last entry, it is
ignored.

Entries are not trusted. A finished task is reusable if its inputs and outputs, which are read
again, have the same checksums. The list of inputs may have changed since; its pieces keep their
numbers, and get the current number of their shard. A merged run replaces the runs that it was made
from. It is reusable if its files are intact and all tasks behind it are reusable. If it is not
reusable, these tasks are repeated.

In an object store each run has its own journal, because a run that lost its lease may still append
to its own. The next run starts with a copy of it.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import msgspec
from msgspec.structs import replace

from fastrec.build import differences
from fastrec.corpus.columns import columns_path
from fastrec.corpus.sources import sources_path
from fastrec.engine.base import Engine
from fastrec.errors import ShardError, naming
from fastrec.normalize.results import MergedRun, Part, Piece, PieceCounts, SortResult
from fastrec.sorting.runs import index_of
from fastrec.sources.shard import Slice
from fastrec.storage import (
    FileDigest,
    fingerprint,
    hash_of_file,
    is_unchanged,
    sha256_of_file,
    storage_of,
)
from fastrec.storage.base import Log

_HEAD = 12  # bytes before an entry: its length and fingerprint
_COPIED = 4 << 20  # bytes of another journal that are copied at a time

JournalEntry = SortResult | MergedRun | Part


class Journal:
    def __init__(self, path: str, settings: dict[str, str], earlier: Iterable[str] = ()) -> None:
        """Open the journal of this run, which may continue one of `earlier` runs."""
        self.settings = settings
        self.entries: list[JournalEntry] = []
        self.discarded = ""  # why entries of an earlier run are not used; empty if there are none
        self._head = framed(_encode(settings))
        self._log = storage_of(path).open_log(path)
        try:
            with naming(path):
                self.entries, end = self._read(self._log)
                self._log.cut(end)
                if not end:
                    self._start(earlier)
        except BaseException:
            self._log.close()
            raise

    def _read(self, log: Log) -> tuple[list[JournalEntry], int]:
        """Read the entries up to the first invalid one.

        Return them and where they end: 0 if the settings differ.
        """
        bodies = _bodies(log)
        before = next(bodies, b"")
        if framed(before) != self._head:
            if next(bodies, None):
                self.discarded = difference(before, self.settings)
            return [], 0
        entries: list[JournalEntry] = []
        end = len(self._head)
        with contextlib.suppress(msgspec.MsgspecError):
            for body in bodies:
                entries.append(_decode(body))
                end += _HEAD + len(body)
        return entries, end

    def _start(self, earlier: Iterable[str]) -> None:
        """Start with a copy of the longest journal of the same settings.

        It includes those that it continued.
        """
        longest = ""
        size = 0
        for path in earlier:
            with (
                contextlib.suppress(OSError),
                contextlib.closing(storage_of(path).open_log(path)) as log,
            ):
                entries, end = self._read(log)
                if end > size:
                    longest = path
                    size = end
                    self.entries = entries
        if not longest:
            self._log.append(self._head)
            return
        self.discarded = ""
        with contextlib.closing(storage_of(longest).open_log(longest)) as log, log.reader() as file:
            while size > 0 and (data := file.read(min(size, _COPIED))):
                self._log.append(data)
                size -= len(data)

    def take(self) -> list[JournalEntry]:
        """Take the entries of earlier runs; only those of parts stay, which are needed later."""
        entries = self.entries
        self.entries = [entry for entry in entries if isinstance(entry, Part)]
        return entries

    def add(self, entry: JournalEntry) -> bool:
        """Append an entry; return whether it could be encoded."""
        try:
            body = _encode(entry)
        except (UnicodeEncodeError, OverflowError, TypeError):
            # A path that is not UTF-8, or an example with a huge integer: this work cannot be
            # reused.
            return False
        self._log.append(framed(body))
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()


def reusable_settings(
    choices: Mapping[str, dict[str, str]], journals: Iterable[str], kept: dict[str, str]
) -> str | None:
    """The name of the settings that the longest of some journals has, or else the kept work.

    None if all differ.
    """
    heads = {_encode(settings): name for name, settings in choices.items()}
    found = None
    longest = 0
    for path in journals:
        with (
            contextlib.suppress(OSError),
            contextlib.closing(storage_of(path).open_log(path)) as log,
        ):
            bodies = _bodies(log)
            name = heads.get(next(bodies, b""))
            if name is not None and (size := sum(map(len, bodies), 1)) > longest:
                found = name
                longest = size
    return found or heads.get(_encode(kept))


def difference(before: bytes, settings: dict[str, str]) -> str:
    """How encoded settings differ from those of this run."""
    now = dict(settings)
    try:
        then = msgspec.msgpack.decode(before, type=dict[str, str])
    except msgspec.MsgspecError:
        return "it cannot be read"
    if then.get("schema") != now["schema"]:
        # This says it all: the fields to sort by follow from the version.
        then.pop("sort_by", None)
        now.pop("sort_by")
    return f"it was made with {', '.join(differences(then, now))}"


def framed(body: bytes) -> bytes:
    """Some bytes with their length and fingerprint in front."""
    return len(body).to_bytes(4, "big") + fingerprint(body).to_bytes(8, "big") + body


def unframed(data: bytes) -> bytes | None:
    """The bytes that `framed` got; None if they are damaged."""
    body = data[_HEAD:]
    return body if data == framed(body) else None


def _bodies(log: Log) -> Iterator[bytes]:
    """Yield the settings and the entries of a journal, up to the first invalid one."""
    with log.reader() as file:
        left = file.seek(0, os.SEEK_END)
        file.seek(0)
        while head := file.read(_HEAD):
            body = file.read(min(int.from_bytes(head[:4], "big"), left))
            if not body or head + body != framed(body):
                return
            left -= _HEAD + len(body)
            yield body


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(JournalEntry).decode

Range = tuple[str, int, int | None]  # the path of a shard, and a range of its bytes


class Reusable(msgspec.Struct):
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
        if task is None or task.pieces[0].piece.long_lines != piece.long_lines:
            return None
        return _attached(task, [piece.shard])

    def files(self) -> set[str]:
        tasks = [*self.tasks, *self.chunks.values()]
        files = {file.path for task in tasks for file in task.files} - _covered_files(self.merged)
        return files | {file.path for merge in self.merged for file in merge.run.files}


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
        or all(_range(counts.piece) in slices for counts in task.pieces)
    ]
    claims = (
        (task.pieces, [file for file in task.files if file.path not in gone]) for task in wanted
    )
    reusable = Reusable(
        next_task=max((task.task + 1 for task in done), default=0),
        next_piece=max((number + 1 for task in done for number in task.numbers), default=0),
    )
    found: dict[int, SortResult] = {}
    for number, unchanged in sorted(engine.run(_task_unchanged, claims)):
        task = wanted[number]
        first = task.pieces[0].piece
        text_hash = task.pieces[0].read.raw_hash
        if unchanged and first.temporary:
            reusable.chunks[first.source, first.offset, first.line, text_hash] = task
        elif unchanged:
            ranges = [_range(counts.piece) for counts in task.pieces]
            if reusable.covered.isdisjoint(ranges):
                reusable.covered.update(ranges)
                found[task.task] = _attached(task, [slices[range_][0] for range_ in ranges])
    merged, lost = _without_merged(
        merged, {task for merge in merged for task in merge.tasks} - found.keys()
    )
    for number in lost & found.keys():
        reusable.covered.difference_update(
            _range(counts.piece) for counts in found.pop(number).pieces
        )
    reusable.tasks = list(found.values())
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
    unchanged = [
        result
        for _, result in sorted(engine.run(_files_unchanged, [merge.run.files for merge in merged]))
    ]
    intact: list[MergedRun] = []
    covered: set[str] = set()
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
    files = [(part.path, path, part.written.bytes, part.written.sha256)]
    for file, moved in zip(part.side_files, _moved(part, path).side_files, strict=True):
        files.append((file.path, moved.path, file.bytes, file.sha256))
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
    """A finished task whose pieces know the current numbers of their shards."""
    counts = (
        replace(counts, piece=replace(counts.piece, shard=shard))
        for counts, shard in zip(task.pieces, shards, strict=True)
    )
    return replace(task, pieces=tuple(counts))
