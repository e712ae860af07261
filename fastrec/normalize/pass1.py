"""Pass 1: turn slices of shards into sorted runs.

    read · split · judge · hash · normalize ──▶ buffer ──▶ sort · drop duplicates · spill

A task takes pieces of shards and returns counts, fences of its runs, and the location of its
rejected lines. Records only move through files.

The target is the schema version of a corpus, to which all of its records are upgraded. With
`--schema auto` it follows from the content alone: the default version if every valid record is of
that version and none names a metric, also if there is none; else the newest one. Nobody knows
before everything is read, so a run guesses:

1. The target of an interrupted run whose finished work can be reused. Else the one that the first
   lines of some shards give.
2. If the guess is the default version, pass 1 makes no more tasks after the first later record. If
   it is the newest version, pass 1 may end without any later record. In both cases, the run starts
   again with the other target.
"""

import secrets
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fastrec.corpus.columns import PartColumns, listed_columns
from fastrec.corpus.part_records import PartIndex, PartRecords
from fastrec.corpus.rejects import RejectsWriter, rejected_line
from fastrec.engine.base import collector_off
from fastrec.errors import DamagedFileError, ShardError, out_of_memory, utf8
from fastrec.filters import Filters
from fastrec.judge.batch import Batch, FilteredOut, InvalidLine
from fastrec.judge.judge import Judge, invalid_line, judge_slice
from fastrec.judge.version_rules import JudgeSettings
from fastrec.normalize.corrections import (
    Labeller,
    Renamer,
    edit_records,
    fix_lines,
    read_fixes,
)
from fastrec.normalize.inputs import spread
from fastrec.normalize.results import (
    LineStatistics,
    Piece,
    PieceCounts,
    SortResult,
)
from fastrec.normalize.task_settings import LineSettings
from fastrec.normalize.trusted import choose_records, count_records, trusted_columns
from fastrec.schemas.registry import DEFAULT_SCHEMA, NEWEST_SCHEMA
from fastrec.schemas.schema import Schema
from fastrec.sorting.files import write_blocks
from fastrec.sorting.keys import key_maker
from fastrec.sorting.runs import BLOCK_ROWS, Fence, Run, index_of, spill
from fastrec.sorting.texts import PartTexts
from fastrec.sources.lines import Chunk, ReadStats
from fastrec.sources.shard import Shard, Shards
from fastrec.storage import FileDigest, digest_of, fingerprint
from fastrec.summary.rows import row_maker

_PEEKED_SHARDS = 4  # shards whose first lines are read for a guess
_PEEKED_BYTES = 16 << 10  # text that is judged of each of them
_PEEKED_TEXT = 128 << 10  # text that is decompressed at a time
_PEEKED_LINE = 1 << 20  # a first line longer than this is not judged


class WrongTargetError(Exception):
    """The target was guessed wrong: the run has to start again with the other one."""

    def __init__(self, target: Schema) -> None:
        super().__init__(target)
        self.target = target

    def __str__(self) -> str:
        if self.target is NEWEST_SCHEMA:
            reason = (
                f"there are records of a later schema version than {DEFAULT_SCHEMA.name}, or "
                "that name metrics"
            )
        else:
            reason = (
                f"all records are of schema version {DEFAULT_SCHEMA.name}, and none names a metric"
            )
        return (
            f"{reason}: starting again with --schema {self.target.name}; pass it explicitly to "
            "avoid this restart"
        )


# The judge of this process. What it learns from the first lines serves pass 1, too.
_judge_of = lru_cache(maxsize=4)(Judge)


def _has_later(batch: Batch) -> bool:
    """Whether a chunk has a record that decides for the newest version, whatever the target is.

    It is of a later version than the default one, or names a metric. It counts even if its
    `sample_hash` is the reason to reject it.
    """
    return (
        any(name != DEFAULT_SCHEMA.name for name, count in batch.versions.items() if count)
        or "upgrade.result_id" in batch.notes
        or any(line.is_newer_version for line in batch.rejected)
    )


def choose_target(shards: Shards, lines: LineSettings) -> Schema:
    """The given target, or one guessed from the first lines of a few shards.

    Also make the judge of this process, which learns from these lines.
    """
    peeked = spread(shards, _PEEKED_SHARDS)
    target = lines.target
    judge = lines.judge
    if judge.target_is_guess:
        # Without filters: what matches is rarely among the first lines, and mostly of the same
        # version as other ones.
        peeking = replace(judge, target=DEFAULT_SCHEMA.name, filters=Filters())
        is_later = any(_begins_with_later(shard, peeking, lines) for shard in peeked)
        target = NEWEST_SCHEMA if is_later else DEFAULT_SCHEMA
        judge = replace(judge, target=target.name)
        if judge == peeking:
            return target
    _judge_of(judge)
    if peeked:
        _begins_with_later(peeked[0], judge, lines)
    return target


def _begins_with_later(shard: Shard, judge: JudgeSettings, lines: LineSettings) -> bool:
    """Whether the first lines of a shard have a record that decides for the newest version."""
    # An unreadable shard is reported when it is read completely.
    with suppress(ShardError, OSError, MemoryError):
        most = min(lines.max_line_bytes, _PEEKED_LINE)
        chunks = lines.read(shard, _PEEKED_BYTES, max_line_bytes=most, text_bytes=_PEEKED_TEXT)
        first = next(chunks, None)
        del chunks  # closes the file
        return isinstance(first, Chunk) and _has_later(
            _judge_of(judge).judge_chunk(first.data, bytearray())
        )
    return False


_RECORD_BYTES = 700  # memory of a record besides its text: key, row, numbers


class SortTask(Struct, frozen=True):
    number: int
    pieces: tuple[Piece, ...]
    directory: str
    lines: LineSettings
    run_bytes: int  # text and bookkeeping of a run
    most_fences: int  # that are returned of a run
    indexes_parts: bool = False  # whether trusted parts are read like runs if they can be

    def __str__(self) -> str:
        return "reading " + "; ".join(map(str, self.pieces))


@collector_off()
def sort_pieces(task: SortTask) -> SortResult:
    try:
        return _Sorter(task).run()
    except BaseException:  # its traceback may hold views of the buffer, which then cannot grow
        release_buffer()
        raise


@lru_cache(maxsize=1)
def _text_buffer() -> bytearray:
    """The text buffer of this process, which grows.

    Reusing it for every task saves touching new memory.
    """
    return bytearray()


def release_buffer() -> None:
    """Free the text buffer, which later steps do not need."""
    _text_buffer.cache_clear()


class _RunBuffer:
    def __init__(self, task: SortTask) -> None:
        self._most_bytes = task.run_bytes
        self._text = _text_buffer()
        self._size = 0
        self._ends: list[int] = []
        self._keys: list[bytes] = []
        self._rows: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self._keys)

    def has_room(self, size: int) -> bool:
        return self._size + size + len(self._keys) * _RECORD_BYTES <= self._most_bytes

    def add(self, keys: list[bytes], rows: list[Any], ends: list[int], normal: bytearray) -> None:
        """Add the records of a chunk of a piece, with their normal forms."""
        start = self._size
        self._size += len(normal)
        self._text[start : self._size] = normal
        self._ends += [start + end for end in ends]
        self._keys += keys
        self._rows += rows

    def spill(self, path: str) -> Run:
        # If memory allows only small runs, there are many, and gathering from them takes a block of
        # each.
        block_rows = min(max(self._most_bytes >> 18, 16), BLOCK_ROWS)
        return spill(path, self._text, self._ends, self._keys, self._rows, block_rows=block_rows)


class _Sorter:
    def __init__(self, task: SortTask) -> None:
        self._task = task
        self._buffer = _RunBuffer(task)
        self._lowest = b""  # key of the piece that is read
        self._highest = b""
        lines = task.lines
        target = lines.target
        self._target = target
        self._key_of: Callable[[Any], bytes] = key_maker(lines.sort_fields)
        self._row_of = row_maker(target)
        self._fixes = read_fixes(lines.fixes) if lines.fixes else {}
        self._editors: list[Renamer | Labeller] = []
        if lines.map:
            self._editors.append(Renamer(lines.map, target, keep_names=lines.keep_names))
        if lines.labels:  # they have the new names
            self._editors.append(Labeller(lines.labels))
        # The random suffix keeps two workers apart if one was wrongly taken for dead.
        self._name = f"{task.number:06d}-{secrets.token_hex(4)}"
        self._runs: list[Run] = []
        self._statistics: list[tuple[int, LineStatistics]] = []  # by number of a piece

    def run(self) -> SortResult:
        task = self._task
        rejects = f"{self._task.directory}/rejects-{self._name}"
        with RejectsWriter(rejects) as writer:
            pieces = tuple(self._sort(piece, writer) for piece in task.pieces)
        if self._buffer:
            self._spill()
        statistics = f"{task.directory}/statistics-{self._name}"
        written = FileDigest(
            statistics, *write_blocks(statistics, self._statistics, compressed=True)
        )
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
        shard = piece.slice.shard
        self._lowest = b""
        self._highest = b""
        try:
            columns = trusted_columns(shard, self._task.lines) if shard.trusted else None
            counts, statistics = (
                self._take(piece, columns) if columns else self._read(piece, rejects)
            )
        except (ShardError, MemoryError) as exc:
            error = exc if isinstance(exc, ShardError) else out_of_memory(piece.source)
            counts = PieceCounts(piece=piece, error=error)
            statistics = LineStatistics()
        self._statistics.append((piece.number, statistics))
        return replace(counts, first=self._lowest, last=self._highest, rejects=rejects.end_range())

    def _take(self, piece: Piece, columns: PartColumns) -> tuple[PieceCounts, LineStatistics]:
        """Take the records of a trusted part from its columns."""
        part = piece.slice.shard
        filters = self._task.lines.judge.filters
        read = part.check()
        chosen = choose_records(columns, part, filters)
        batch, statistics = count_records(columns, chosen, filters, self._target)
        index = PartIndex(
            text_hash=columns.text_hash,
            sort_fields=self._task.lines.sort_fields,
            schema_label=self._target.label,
            pieces=array("I", [piece.number]).tobytes(),
            chosen=chosen,
        )
        records = PartRecords(columns, index)
        if not (self._task.indexes_parts and part.is_run):
            self._copy_texts(part, records)
        elif len(records):
            self._lowest = records.key(0)
            self._highest = records.key(len(records) - 1)
            self._add_run(self._index_part(piece, index, records))
        counts = PieceCounts(
            piece=piece,
            read=read,
            filtered=batch.filtered,
            is_newer_version=_has_later(batch),
        )
        return counts, statistics

    def _index_part(self, piece: Piece, index: PartIndex, records: PartRecords) -> Run:
        """Make a run of a part that is sorted as the corpus will be.

        Pass 2 reads the part itself, and its columns.
        """
        part = piece.slice.shard
        path = f"{self._task.directory}/run-{self._name}-of-{piece.number}"
        offsets = list(accumulate(records.sizes, initial=0))
        fences = [
            Fence(records.key(at), 0, offsets[at]) for at in range(0, len(records), BLOCK_ROWS)
        ]
        size, content = write_blocks(index_of(path), [index])
        columns, _ = listed_columns(part)
        return Run(
            path=path,
            records=len(records),
            data_bytes=offsets[-1],
            index_bytes=size,
            fences=fences,
            index_hash=content,
            part=part.path,
            columns=columns,
            first=self._lowest,
            last=self._highest,
            has_repeats=records.has_repeats,
        )

    def _copy_texts(self, part: Shard, records: PartRecords) -> None:
        """Write records of a part as runs."""
        assert part.listed
        texts = PartTexts(part.path, part.listed.text_bytes, records.gaps())
        for first in range(0, len(records), BLOCK_ROWS):
            end = min(first + BLOCK_ROWS, len(records))
            sizes = records.sizes[first:end]
            read = texts.take(sizes)
            if list(map(fingerprint, read)) != records.fingerprints[first:end].tolist():
                raise DamagedFileError(part.path, "a record does not match its fingerprint")
            keys = records.keys(first, end)
            rows = records.rows(first, end)
            self._add(keys, rows, list(accumulate(sizes)), bytearray().join(read))

    def _read(self, piece: Piece, rejects: RejectsWriter) -> tuple[PieceCounts, LineStatistics]:
        """Read, judge and buffer the lines of a piece, in one loop over chunks: it is hot."""
        lines = self._task.lines
        source = utf8(piece.source)
        key_of = self._key_of
        row_of = self._row_of
        number = piece.number
        stats = ReadStats()
        blank = 0
        filtered = 0
        is_newer_version = False
        statistics = LineStatistics()
        judge = _judge_of(lines.judge)
        fixes = self._fixes.get(source)
        editors = self._editors
        for editor in editors:
            editor.counts = (
                statistics.renamed if isinstance(editor, Renamer) else statistics.labelled
            )
        filtered_out = set[FilteredOut]()
        long_lines = [invalid_line(line, lines.max_line_bytes) for line in piece.long_lines]
        _reject(source, long_lines, rejects, statistics.codes)
        for batch, normal, _, _ in judge_slice(
            judge,
            piece.slice,
            max_line_bytes=lines.max_line_bytes,
            max_window=lines.max_window,
            line=piece.line,
            offset=piece.offset,
            stats=stats,
            source=piece.source,
        ):
            if fixes and batch.rejected:
                fix_lines(batch, normal, judge, fixes, statistics.fixed)
            if editors:
                normal = edit_records(batch, normal, editors, self._target.shape)
            keys = [key_of(record) for record in batch.records]
            rows = [
                row_of(record, number, line)
                for record, line in zip(batch.records, batch.numbers, strict=True)
            ]
            self._add(keys, rows, batch.ends, normal)
            _reject(source, batch.rejected, rejects, statistics.codes)
            statistics.add(batch, lines.judge.filters, filtered_out)
            is_newer_version = is_newer_version or _has_later(batch)
            filtered += batch.filtered
            blank += batch.blank
        counts = PieceCounts(
            piece=piece,
            read=stats,
            blank=blank,
            rejected=statistics.codes.total(),
            filtered=filtered,
            repaired=statistics.repaired_by_code,
            is_newer_version=is_newer_version,
        )
        return counts, statistics

    def _add(self, keys: list[bytes], rows: list[Any], ends: list[int], normal: bytearray) -> None:
        """Add the records of a chunk to the current run, or to a new one."""
        if self._buffer and not self._buffer.has_room(len(normal)):
            self._spill()
        self._buffer.add(keys, rows, ends, normal)
        if keys:
            self._lowest = min(self._lowest or keys[0], *keys)
            self._highest = max(self._highest, *keys)

    def _spill(self) -> None:
        path = f"{self._task.directory}/run-{self._name}-{len(self._runs):04d}"
        self._add_run(self._buffer.spill(path))
        self._buffer = _RunBuffer(self._task)

    def _add_run(self, run: Run) -> None:
        if len(run.fences) > (most := self._task.most_fences):
            run = replace(run, fences=run.fences[:: -(-len(run.fences) // most)])
        self._runs.append(run)


def _reject(
    source: str, lines: Sequence[InvalidLine], rejects: RejectsWriter, codes: Counter[str]
) -> None:
    for line in lines:
        codes[line.findings[0].code] += 1
        rejects.add(rejected_line(source, line).to_json())
