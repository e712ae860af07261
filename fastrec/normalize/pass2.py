"""Pass 2: make the parts of the corpus from runs.

    gather a range of keys from all runs · merge · drop duplicates ──▶ count ──▶ compress · checksum

One task makes one part. It writes the counts of the part, its census and the records that `--conflicts` left out to
files, so what the driver holds of a part does not grow with the part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fastrec.corpus.writer import ShardWriter, Written
from fastrec.engine.base import collector_off
from fastrec.normalize.conflicts import ConflictResolver
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.sorting.gather import RunSlice, gather
from fastrec.sorting.keys import key_splitter
from fastrec.storage.digests import FileDigest
from fastrec.summary.part_counts import PartCounts, write_statistics
from fastrec.summary.rows import Column

__all__ = ["Part", "PartTask", "make_part"]

_BATCH: Final = 20_000  # records added to the tally at a time

Fields = Sequence[bytes]


class PartTask(msgspec.Struct, frozen=True):
    """A task of pass 2."""

    number: int
    low: bytes | None
    high: bytes | None
    slices: list[RunSlice]
    window_bytes: int
    """Bytes merged at a time."""
    path: str
    census: str
    """Path prefix of the census (`-hash`, `-id`), the counts (`-counts`) and the left-out records (`-conflicts`)."""
    options: Options
    locations: str
    """Path of the locations of all pieces; empty if `--conflicts` keeps all records."""
    losers: frozenset[bytes] = frozenset()
    """Keys whose records lose against a record of the same identity with another hash."""

    def __str__(self) -> str:
        return f"writing part {self.number} of the corpus"


class Part(msgspec.Struct, frozen=True):
    """The result of a task of pass 2."""

    number: int
    written: Written
    records: int
    first: bytes
    """Key of the first record."""
    last: bytes
    """Key of the last record."""
    left_out: Counter[str]
    """Records that `--conflicts` left out, by code."""
    files: tuple[FileDigest, ...]
    """The files of its statistics."""


@collector_off()
def make_part(task: PartTask) -> Part:
    """Make one part. Runs in a worker."""
    release_buffer()
    options = task.options
    resolver = ConflictResolver(options.conflicts, task.losers, task.locations) if options.conflicts != "keep" else None
    split = key_splitter(options.sort_fields)
    counter = _Counter()
    seen: list[Fields] = []
    first = last = b""
    with ShardWriter(task.path, options.compression, options.level) as writer:
        for window in gather(task.slices, task.low, task.high, task.window_bytes):
            counter.counts.copies.update([row[Column.SOURCE] for row in window.copies])
            fields = list(map(split, window.keys))
            if resolver:
                seen += fields
                window = resolver.resolve(window)
                fields = list(map(split, window.keys))
            if window.keys:
                counter.add(fields, window.rows)
                first = first or window.keys[0]
                last = window.keys[-1]
                writer.write(window.texts)
        written = writer.finish()
    counts = counter.finish()
    if resolver:
        counts.left_out = resolver.by_piece
        files = write_statistics(task.census, counts, counter.fields, seen)
        files.append(resolver.write(f"{task.census}-conflicts"))
    else:
        files = write_statistics(task.census, counts, counter.fields)
    records = counts.tally.interaction_types.total()
    left_out = resolver.by_code if resolver else Counter()
    return Part(task.number, written, records, first, last, left_out, tuple(files))


class _Counter:
    """Adds records to the tally in large batches, because it adds up columns by model."""

    def __init__(self) -> None:
        self.counts = PartCounts()
        self.fields: list[Fields] = []
        """Key fields of all records."""
        self._rows: list[Any] = []
        self._counted = 0

    def add(self, fields: list[Fields], rows: list[Any]) -> None:
        self.fields += fields
        self._rows += rows
        if len(self._rows) >= _BATCH:
            self._flush()

    def finish(self) -> PartCounts:
        if self._rows:
            self._flush()
        return self.counts

    def _flush(self) -> None:
        self.counts.tally.add(self.fields[self._counted :], self._rows)
        self._counted = len(self.fields)
        self._rows = []
