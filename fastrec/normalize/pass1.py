"""Pass 1: turn slices of shards into sorted runs.

    read · split · judge · hash · normalize ──▶ buffer ──▶ sort · drop duplicates · spill

A task takes pieces of shards and returns counts, fences of its runs, a sample of keys, and the location of its rejected
lines. Records only move through files.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from fastrec.corpus.rejects import rejected_line
from fastrec.engine.base import collector_off
from fastrec.errors import ShardError, out_of_memory, utf8
from fastrec.judge.batch import Batch, HashReplaced, InvalidLine
from fastrec.judge.shards import invalid_line, judge_slice
from fastrec.normalize.options import Options
from fastrec.normalize.repairs import RepairCounts
from fastrec.normalize.results import Piece, PieceCounts, SortResult, hash_examples, stopped_result
from fastrec.normalize.targets import has_later, judge_for
from fastrec.sorting.files import write_blocks
from fastrec.sorting.keys import key_maker
from fastrec.sorting.spill import Run, spill
from fastrec.sources.lines import ReadStats
from fastrec.storage import storage_of
from fastrec.storage.digests import FileDigest, digest_of
from fastrec.summary.rows import row_maker

__all__ = ["SortTask", "release_buffer", "sort_pieces"]

_RECORD_BYTES: Final = 700  # memory of a record besides its text: key, row, numbers


class SortTask(msgspec.Struct, frozen=True):
    """A task of pass 1."""

    number: int
    pieces: tuple[Piece, ...]
    directory: str
    options: Options
    large: bool = False  # whether runs may be larger than usual
    one_in: int = 1  # sampling rate of keys
    fenced: bool = True  # whether to return the fences of runs
    is_auto: bool = False  # whether the target follows from the content
    stops: bool = False  # whether to stop at a record of a later version than the default one

    def __str__(self) -> str:
        return "reading " + "; ".join(map(str, self.pieces))


@collector_off()
def sort_pieces(task: SortTask) -> SortResult:
    """Judge, sort and spill some pieces. Runs in a worker."""
    return _Sorter(task).run()


@lru_cache(maxsize=1)
def _text_buffer(size: int) -> bytearray:
    """Return the text buffer of this process. Reusing it for every task saves touching new memory."""
    return bytearray(size)


def release_buffer() -> None:
    """Free the text buffer, which later steps do not need."""
    _text_buffer.cache_clear()


class _RunBuffer:
    """Records that wait to be spilled."""

    def __init__(self, task: SortTask) -> None:
        options = task.options
        self._most_bytes = options.large_run_bytes if task.large else options.run_bytes
        self._key_of: Callable[[Any], bytes] = key_maker(options.sort_fields)
        self._row_of = row_maker(options.target)
        self._text = _text_buffer(self._most_bytes)
        self._size = 0
        self._ends: list[int] = []
        self._keys: list[bytes] = []
        self._rows: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._keys)

    def has_room(self, size: int) -> bool:
        """Return whether a text of this size fits into memory."""
        return self._size + size + len(self._keys) * _RECORD_BYTES <= self._most_bytes

    def add(self, number: int, batch: Batch, normal: bytearray) -> None:
        """Add the records of a chunk of a piece, with their normal forms."""
        key_of, row_of = self._key_of, self._row_of
        start, self._size = self._size, self._size + len(normal)
        self._text[start : self._size] = normal  # in place: the buffer is large enough, unless a line is huge
        self._ends += [start + end for end in batch.ends]
        self._keys += [key_of(record) for record in batch.records]
        self._rows += [row_of(record, number, line) for record, line in zip(batch.records, batch.numbers, strict=True)]

    def spill(self, path: str, task: SortTask) -> Run:
        """Write the records as a sorted run, and forget them."""
        run = spill(path, self._text, self._ends, self._keys, self._rows, one_in=task.one_in, fenced=task.fenced)
        self._size = 0
        self._ends, self._keys, self._rows = [], [], []
        return run


class _Sorter:
    """The state of a task."""

    def __init__(self, task: SortTask) -> None:
        self._task = task
        options = task.options
        self._judge = judge_for(options.target, options, is_auto=task.is_auto)
        self._buffer = _RunBuffer(task)
        # The random suffix keeps two workers apart if one was wrongly taken for dead.
        self._name = f"{task.number:06d}-{secrets.token_hex(4)}"
        self._runs: list[Run] = []
        self._codes: Counter[str] = Counter()
        self._wrong_hashes: list[HashReplaced] = []
        self._versions: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()
        self._repairs = RepairCounts()
        self._recipes: Counter[tuple[str, str, str]] = Counter()
        self._is_later = False
        self._reject_bytes = 0

    def run(self) -> SortResult:
        task, path = self._task, f"{self._task.directory}/rejects-{self._name}"
        with storage_of(path).create(path, for_work=True) as rejects:
            pieces = tuple(self._sort(piece, rejects) for piece in task.pieces if not self._is_stopped)
        if self._is_stopped:
            return stopped_result(task.number)
        if self._buffer:
            self._spill()
        files = [*(file for run in self._runs for file in run.files), digest_of(path)]
        recipes = f"{task.directory}/recipes-{self._name}" if self._recipes else ""
        if recipes:
            files.append(FileDigest(recipes, *write_blocks(recipes, [list(self._recipes.items())])))
        return SortResult(
            task=task.number,
            pieces=pieces,
            runs=tuple(self._runs),
            rejects=path,
            codes=self._codes,
            wrong_hashes=self._wrong_hashes,
            versions=self._versions,
            notes=self._notes,
            recipes=recipes,
            is_later=self._is_later,
            files=tuple(files),
            repairs=self._repairs,
        )

    @property
    def _is_stopped(self) -> bool:
        return self._is_later and self._task.stops

    def _sort(self, piece: Piece, rejects: Any) -> PieceCounts:
        try:
            return self._read(piece, rejects)
        except ShardError as exc:
            return PieceCounts(piece=piece, error=exc)
        except MemoryError:
            return PieceCounts(piece=piece, error=out_of_memory(piece.source))

    def _read(self, piece: Piece, rejects: Any) -> PieceCounts:
        options, buffer, source = self._task.options, self._buffer, utf8(piece.source)
        invalid = [invalid_line(line, options.max_line_bytes) for line in piece.long_lines]
        start, stats, blank, rejected = self._reject_bytes, ReadStats(), 0, 0
        repaired: Counter[str] = Counter()
        for batch, normal, _, _ in judge_slice(
            self._judge,
            piece.slice,
            max_line_bytes=options.max_line_bytes,
            max_window=options.max_window,
            line=piece.line,
            offset=piece.offset,
            stats=stats,
            source=piece.source,
        ):
            if buffer and not buffer.has_room(len(normal)):
                self._spill()
            buffer.add(piece.number, batch, normal)
            if batch.replaced:
                self._wrong_hashes = hash_examples(self._wrong_hashes + batch.replaced)
            self._versions.update(batch.versions)
            self._notes.update(batch.notes)
            repaired.update(self._repairs.add(batch))
            self._recipes.update(batch.recipes)
            self._is_later = self._is_later or has_later(batch)
            if self._is_stopped:
                break
            blank += batch.blank
            invalid += batch.rejected
            if invalid:
                rejected += self._reject(source, invalid, rejects)
                invalid = []
        rejected += self._reject(source, invalid, rejects)
        written = (start, self._reject_bytes)
        return PieceCounts(piece=piece, read=stats, blank=blank, rejected=rejected, repaired=repaired, rejects=written)

    def _reject(self, source: str, lines: list[InvalidLine], rejects: Any) -> int:
        for line in lines:
            self._codes[line.findings[0].code] += 1
            self._reject_bytes += rejects.write(rejected_line(source, line).to_json())
        return len(lines)

    def _spill(self) -> None:
        path = f"{self._task.directory}/run-{self._name}-{len(self._runs):04d}"
        self._runs.append(self._buffer.spill(path, self._task))
