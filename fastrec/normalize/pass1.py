"""Pass 1: turn slices of shards into sorted runs.

    read · split · judge · hash · normalize ──▶ buffer ──▶ sort · drop duplicates · spill

A task takes pieces of shards and returns counts, fences of its runs, and the location of its rejected lines. Records
only move through files.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from fastrec.corpus.rejects import RejectsWriter, rejected_line
from fastrec.engine.base import collector_off
from fastrec.errors import ShardError, out_of_memory, utf8
from fastrec.judge.batch import Batch, InvalidLine
from fastrec.judge.shards import invalid_line, judge_slice
from fastrec.normalize.options import Options
from fastrec.normalize.results import (
    Piece,
    PieceCounts,
    PieceStatistics,
    SortResult,
    examples_of,
    hash_examples,
    stopped_result,
)
from fastrec.normalize.targets import has_later, judge_for
from fastrec.sorting.files import write_blocks
from fastrec.sorting.keys import key_maker
from fastrec.sorting.spill import Run, spill
from fastrec.sources.lines import ReadStats
from fastrec.storage.digests import FileDigest, digest_of
from fastrec.summary.rows import row_maker

__all__ = ["SortTask", "release_buffer", "sort_pieces"]

_encode = msgspec.json.Encoder().encode

_FEW_FENCES: Final = 32
_RECORD_BYTES: Final = 700  # memory of a record besides its text: key, row, numbers


class SortTask(msgspec.Struct, frozen=True):
    """A task of pass 1."""

    number: int
    pieces: tuple[Piece, ...]
    directory: str
    options: Options
    large: bool = False  # whether runs may be larger than usual
    fenced: bool = True  # whether to return all fences of runs, and not only a few
    is_auto: bool = False  # whether the target follows from the content
    stops: bool = False  # whether to stop at a record of a later version than the default one

    def __str__(self) -> str:
        return "reading " + "; ".join(map(str, self.pieces))


@collector_off()
def sort_pieces(task: SortTask) -> SortResult:
    """Judge, sort and spill some pieces. Runs in a worker."""
    return _Sorter(task).run()


@lru_cache(maxsize=1)
def _text_buffer() -> bytearray:
    """Return the text buffer of this process, which grows. Reusing it for every task saves touching new memory."""
    return bytearray()


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
        self._text = _text_buffer()
        self._size = 0
        self._ends: list[int] = []
        self._keys: list[bytes] = []
        self._rows: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._keys)

    def has_room(self, size: int) -> bool:
        """Return whether a text of this size fits into memory."""
        return self._size + size + len(self._keys) * _RECORD_BYTES <= self._most_bytes

    def add(self, number: int, batch: Batch, normal: bytearray) -> list[bytes]:
        """Add the records of a chunk of a piece, with their normal forms; return their keys."""
        key_of, row_of = self._key_of, self._row_of
        start, self._size = self._size, self._size + len(normal)
        self._text[start : self._size] = normal
        self._ends += [start + end for end in batch.ends]
        keys = [key_of(record) for record in batch.records]
        self._keys += keys
        self._rows += [row_of(record, number, line) for record, line in zip(batch.records, batch.numbers, strict=True)]
        return keys

    def spill(self, path: str, task: SortTask) -> Run:
        """Write the records as a sorted run, and forget them."""
        run = spill(path, self._text, self._ends, self._keys, self._rows)
        if not task.fenced:
            run = msgspec.structs.replace(run, fences=run.fences[:: -(-len(run.fences) // _FEW_FENCES)])
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
        self._statistics: list[PieceStatistics] = []
        self._is_stopped = False

    def run(self) -> SortResult:
        task, rejects = self._task, f"{self._task.directory}/rejects-{self._name}"
        with RejectsWriter(rejects) as writer:
            pieces = tuple(self._sort(piece, writer) for piece in task.pieces if not self._is_stopped)
        if self._is_stopped:
            return stopped_result(task.number)
        if self._buffer:
            self._spill()
        statistics = f"{task.directory}/statistics-{self._name}"
        written = FileDigest(statistics, *write_blocks(statistics, map(_encode, self._statistics), compressed=True))
        files = [*(file for run in self._runs for file in run.files), digest_of(rejects), written]
        return SortResult(
            task=task.number,
            pieces=pieces,
            runs=tuple(self._runs),
            rejects=rejects,
            statistics=statistics,
            files=tuple(files),
        )

    def _sort(self, piece: Piece, rejects: RejectsWriter) -> PieceCounts:
        try:
            counts, statistics = self._read(piece, rejects)
        except ShardError as exc:
            counts, statistics = PieceCounts(piece=piece, error=exc), PieceStatistics(piece.number)
        except MemoryError:
            error = out_of_memory(piece.source)
            counts, statistics = PieceCounts(piece=piece, error=error), PieceStatistics(piece.number)
        self._statistics.append(statistics)
        return msgspec.structs.replace(counts, rejects=rejects.end_range())

    def _read(self, piece: Piece, rejects: RejectsWriter) -> tuple[PieceCounts, PieceStatistics]:
        options, buffer, source = self._task.options, self._buffer, utf8(piece.source)
        invalid = [invalid_line(line, options.max_line_bytes) for line in piece.long_lines]
        stats, blank, rejected, filtered, is_later = ReadStats(), 0, 0, 0, False
        codes, versions, notes, repaired = (Counter[str]() for _ in range(4))
        recipes: Counter[tuple[str, str, str]] = Counter()
        statistics = PieceStatistics(piece.number)
        lowest = highest = b""
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
            if keys := buffer.add(piece.number, batch, normal):
                lowest = min(lowest or keys[0], *keys)
                highest = max(highest, *keys)
            if batch.replaced:
                statistics.wrong_hashes = hash_examples(statistics.wrong_hashes + examples_of(batch.replaced))
            versions.update(batch.versions)
            notes.update(batch.notes)
            repaired.update(statistics.repairs.add(batch))
            recipes.update(batch.recipes)
            is_later = is_later or has_later(batch)
            if is_later and self._task.stops:
                self._is_stopped = True
                break
            if batch.filtered_out:
                statistics.filtered_out.add(batch.filtered_out)
                filtered += batch.filtered
            blank += batch.blank
            invalid += batch.rejected
            if invalid:
                rejected += _reject(source, invalid, rejects, codes)
                invalid = []
        rejected += _reject(source, invalid, rejects, codes)
        statistics.codes, statistics.versions, statistics.notes = codes, versions, notes
        statistics.recipes = [(*recipe, count) for recipe, count in recipes.items()]
        counts = PieceCounts(
            piece=piece,
            read=stats,
            blank=blank,
            rejected=rejected,
            filtered=filtered,
            repaired=repaired,
            is_later=is_later,
            first=lowest,
            last=highest,
        )
        return counts, statistics

    def _spill(self) -> None:
        path = f"{self._task.directory}/run-{self._name}-{len(self._runs):04d}"
        self._runs.append(self._buffer.spill(path, self._task))


def _reject(source: str, lines: Sequence[InvalidLine], rejects: RejectsWriter, codes: Counter[str]) -> int:
    for line in lines:
        codes[line.findings[0].code] += 1
        rejects.write(rejected_line(source, line).to_json())
    return len(lines)
