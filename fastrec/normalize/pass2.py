"""Pass 2: make the parts of the corpus from runs, and from parts of the last run.

    gather a range of keys from all runs · merge · drop duplicates ──▶ count ──▶ compress · checksum

One task makes one part. It writes the counts of the part, its census and the records that options left out to files, so
what the driver holds of a part does not grow with the part.

If the next run is to build on this one, the task also writes the index of the part, its borders, and the records that
options left out. So the part can be read like a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from operator import itemgetter
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from fastrec.corpus.writer import ShardWriter
from fastrec.engine.base import collector_off
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.normalize.resolve import Resolver, SameRunFilter, select, sources_of
from fastrec.normalize.results import Aside, Part
from fastrec.normalize.sources import SourcesWriter
from fastrec.sorting.borders import BorderSizes, write_borders
from fastrec.sorting.fields import KeyColumns, column_splitter
from fastrec.sorting.gather import RunSlice, Window, gather
from fastrec.sorting.keys import key_splitter
from fastrec.sorting.spill import IndexWriter
from fastrec.storage.digests import FileDigest, digest_of
from fastrec.summary.contradictions import find_contradictions
from fastrec.summary.losers import losers_in
from fastrec.summary.means import Outcome
from fastrec.summary.part_statistics import LinesByPiece, PartCounts, write_statistics
from fastrec.summary.rows import Column, outcome_of
from fastrec.summary.same_run import write_bodies

__all__ = ["PartTask", "make_part"]

_BATCH: Final = 20_000  # records added to the tally at a time, because it adds up columns by model
_ASIDE_LEVEL: Final = 1  # compression of records that are only kept for the next run

_source_of: Final = itemgetter(Column.SOURCE)


class PartTask(msgspec.Struct, frozen=True):
    """A task of pass 2."""

    number: int
    made_of: str
    low: bytes | None
    high: bytes | None
    slices: list[RunSlice]
    window_bytes: int  # bytes merged at a time
    path: str
    census: str
    """Path prefix of the census (`-hash`, `-id`, `-run`), the counts (`-counts`) and records left out (`-left-out`). If
    work is kept: also of the index (`-index`), the borders (`-borders`) and the records set aside (`-aside`)."""
    options: Options
    locations: str  # path of the locations of all pieces; empty if they are not needed
    same_run_losers: Sequence[RunSlice] = ()  # records that lose against others that are equal but for their run
    losers: Sequence[RunSlice] = ()  # keys that lose against other keys of the same identity
    losers_hashes: tuple[str, str] = ("", "")  # fingerprints of both
    sources: str = ""  # path of the sources of the records; empty if they are not tracked

    def __str__(self) -> str:
        return f"writing part {self.number} of the corpus"


@collector_off()
def make_part(task: PartTask) -> Part:
    """Make one part. Runs in a worker."""
    release_buffer()
    options = task.options
    split = key_splitter(options.sort_fields)
    same_run, resolver = _same_run(task), _resolver(task)
    kept, seen = _Records(options), _Records(options, with_counts=False)
    lines = kept.counts.lines
    contradictions: dict[tuple[bytes, ...], list[int | None]] = {}
    first = last = b""
    keeper = _Keeper(task) if options.incremental else None
    sources = SourcesWriter(task.sources, task.locations) if task.sources else None
    with (
        keeper or nullcontext(),
        sources or nullcontext(),
        ShardWriter(task.path, options.compression, options.level, synced=False) as writer,
    ):
        for everything in gather(task.slices, task.low, task.high, task.window_bytes):
            window = everything
            left: Sequence[int] = range(len(everything.keys))
            if same_run:
                left = same_run.filter(everything)
                for index in set(range(len(everything.keys))).difference(left):
                    for number, _, count in sources_of(everything, index):
                        lines.duplicates[number] += count
                window = select(everything, left)
            found = find_contradictions(window.keys, window.texts, window.groups)
            contradictions |= {tuple(split(key)): numbers for key, numbers in found.items()}
            if resolver:
                seen.add(window)
                stay = resolver.resolve(window, found)
                left = [left[index] for index in stay]
                window = select(window, stay)
            if keeper:
                keeper.add(everything, left, window)
            if window.keys:
                kept.add(window)
                _count_sources(window, lines)
                first = first or window.keys[0]
                last = window.keys[-1]
                writer.write(window.texts)
                if sources:
                    sources.write(window.rows, window.copies)
        written = writer.finish()
    if resolver:
        lines.left_out = resolver.by_piece
        lines.duplicates.update(resolver.duplicates)
    files = write_statistics(
        task.census,
        kept.counts,
        kept.keys(),
        kept.outcomes,
        contradictions,
        seen=seen.keys() if resolver else None,
        compressed=options.incremental,
    )
    if same_run:
        files.append(write_bodies(task.census, same_run.bodies, compressed=options.incremental))
    if resolver:
        files.append(resolver.write(f"{task.census}-left-out"))
    part = Part(
        number=task.number,
        made_of=task.made_of,
        low=task.low,
        written=written,
        records=len(kept.outcomes),
        first=first,
        last=last,
        left_out=resolver.by_code if resolver else {},
        files=tuple(files),
        path=task.path,
        census=task.census,
        losers=task.losers_hashes,
        names=resolver.names_hash(lines.pieces()) if resolver else "",
        sources=sources.result(lines.pieces()) if sources else None,
    )
    return keeper.finish(part) if keeper else part


class _Records:
    """What statistics need of the records of a part. Many at a time are split and tallied, which is faster."""

    def __init__(self, options: Options, *, with_counts: bool = True) -> None:
        self._with_counts = with_counts
        self._split = column_splitter(options.sort_fields)
        self._waiting_keys: list[bytes] = []
        self._waiting_rows: list[Any] = []
        self._keys = KeyColumns()
        self.counts = PartCounts()
        self.outcomes: list[Outcome] = []

    def add(self, window: Window) -> None:
        """Add the records of a window."""
        self._waiting_keys += window.keys
        if self._with_counts:
            self._waiting_rows += window.rows
            self.outcomes += map(outcome_of, window.rows)
        if len(self._waiting_keys) >= _BATCH:
            self._add_waiting()

    def keys(self) -> KeyColumns:
        """Return the key fields, after all records were added."""
        self._add_waiting()
        return self._keys

    def _add_waiting(self) -> None:
        columns = self._split(self._waiting_keys)
        if self._with_counts:
            self.counts.tally.add(columns, self._waiting_rows)
        self._keys += columns
        self._waiting_keys, self._waiting_rows = [], []


def _count_sources(window: Window, lines: LinesByPiece) -> None:
    """Count where the records of a window come from."""
    lines.kept.update(map(_source_of, window.rows))
    for index, sources in window.copies.items():
        lines.kept[window.rows[index][Column.SOURCE]] -= 1
        lines.shared[tuple((number, count) for number, _, count in sources)] += 1


class _Keeper:
    """Writes what the next run needs to read the part like a run."""

    def __init__(self, task: PartTask) -> None:
        self._task = task
        self._borders = BorderSizes(task.options.sort_fields)
        self._files = ExitStack()
        self._index = self._files.enter_context(IndexWriter(f"{task.census}-index", fenced=False, compressed=True))
        self._aside: tuple[ShardWriter, IndexWriter] | None = None
        self._aside_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._aside:
            self._aside_bytes = self._aside[0].finish().text_bytes
        self._files.__exit__(kind, error, trace)

    def add(self, window: Window, left: Sequence[int], kept: Window) -> None:
        """Add a window: all records, the positions of those that were kept, and these records."""
        self._borders.add(window.keys, list(map(len, window.texts)))
        _write_index(self._index, kept)
        if len(left) < len(window.keys):
            aside = select(window, sorted(set(range(len(window.keys))).difference(left)))
            if self._aside is None:
                path = f"{self._task.census}-aside"
                data, index = (
                    ShardWriter(path, "zst", _ASIDE_LEVEL),
                    IndexWriter(f"{path}.index", fenced=False, compressed=True),
                )
                self._aside = self._files.enter_context(data), self._files.enter_context(index)
            self._aside[0].write(aside.texts)
            _write_index(self._aside[1], aside)

    def finish(self, part: Part) -> Part:
        """Return the part with all files, which are complete by now."""
        borders = self._borders.finish()
        files = [
            *part.files,
            FileDigest(part.index, self._index.size, self._index.hash()),
            write_borders(part.borders, borders),
        ]
        aside: Aside | None = None
        if self._aside:
            path, (_, index) = f"{part.census}-aside", self._aside
            files += [digest_of(path), FileDigest(f"{path}.index", index.size, index.hash())]
            aside = Aside(path, self._aside_bytes, f"{path}.index", index.size)
        return msgspec.structs.replace(
            part,
            files=tuple(files),
            index_bytes=self._index.size,
            aside=aside,
            border=borders[0][0] if borders else b"",
        )


def _write_index(index: IndexWriter, window: Window) -> None:
    sizes = list(map(len, window.texts))
    index.add(window.keys, sizes, window.prints, window.rows, window.copies)


def _same_run(task: PartTask) -> SameRunFilter | None:
    if task.options.same_run == "keep":
        return None
    return SameRunFilter(losers_in(task.same_run_losers, task.low, task.high))


def _resolver(task: PartTask) -> Resolver | None:
    options = task.options
    if not options.leaves_out:
        return None
    losers = [key for key, _ in losers_in(task.losers, task.low, task.high)]
    return Resolver(options.conflicts, options.repeats, losers, task.locations)
