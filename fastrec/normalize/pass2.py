"""Pass 2: make the parts of the corpus from runs.

    gather a range of keys from all runs · merge · drop duplicates ──▶ count ──▶ compress · checksum

One task makes one part. It writes the counts of the part, its census and the records that `--conflicts` left out to
files, so what the driver holds of a part does not grow with the part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, Literal

import msgspec

from fastrec.corpus.rejects import RejectedLine, rejected_line
from fastrec.corpus.writer import ShardWriter
from fastrec.engine.base import collector_off
from fastrec.judge.batch import InvalidLine
from fastrec.judge.findings import Finding
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.normalize.results import Part
from fastrec.sorting.files import read_blocks
from fastrec.sorting.gather import RunSlice, Window, gather
from fastrec.sorting.keys import key_splitter
from fastrec.storage import storage_of
from fastrec.storage.digests import FileDigest, digest_of
from fastrec.summary.part_statistics import PartCounts, write_statistics
from fastrec.summary.rows import Column

__all__ = ["PartTask", "make_part"]

_BATCH: Final = 20_000  # records added to the tally at a time, because it adds up columns by model

Fields = Sequence[bytes]


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
    """Path prefix of the census (`-hash`, `-id`), the counts (`-counts`) and the left-out records (`-conflicts`)."""
    options: Options
    locations: str  # path of the locations of all pieces; empty if `--conflicts` keeps all records
    losers: frozenset[bytes] = frozenset()
    """Keys whose records lose against a record of the same identity with another hash."""

    def __str__(self) -> str:
        return f"writing part {self.number} of the corpus"


@collector_off()
def make_part(task: PartTask) -> Part:
    """Make one part. Runs in a worker."""
    release_buffer()
    options = task.options
    mode = options.conflicts
    resolver = None if mode == "keep" else _ConflictResolver(mode, task.losers, task.locations)
    split = key_splitter(options.sort_fields)
    counts = PartCounts()
    kept: list[Fields] = []
    seen: list[Fields] = []
    outcomes: list[Any] = []
    rows: list[Any] = []
    first = last = b""
    with ShardWriter(task.path, options.compression, options.level) as writer:
        for window in gather(task.slices, task.low, task.high, task.window_bytes):
            counts.copies.update([row[Column.SOURCE] for row in window.copies])
            fields = list(map(split, window.keys))
            if resolver:
                seen += fields
                window = resolver.resolve(window)
                fields = list(map(split, window.keys))
            if window.keys:
                kept += fields
                rows += window.rows
                outcomes += [row[Column.OUTCOME] for row in window.rows]
                first = first or window.keys[0]
                last = window.keys[-1]
                writer.write(window.texts)
            if len(rows) >= _BATCH:
                counts.tally.add(kept[-len(rows) :], rows)
                rows = []
        written = writer.finish()
    if rows:
        counts.tally.add(kept[-len(rows) :], rows)
    if resolver:
        counts.left_out = resolver.by_piece
    files = write_statistics(task.census, counts, kept, outcomes, seen if resolver else None)
    if resolver:
        files.append(resolver.write(f"{task.census}-conflicts"))
    left_out = resolver.by_code if resolver else {}
    return Part(
        task.number, task.made_of, written, len(kept), first, last, left_out, tuple(files), task.path, task.census
    )


class _ConflictResolver:
    """Leaves out records of a part, and collects them.

    Records with equal keys are adjacent. Records of one identity with different hashes have different keys and may be
    in different parts; the census finds them, and their keys are given as `losers`. The file `locations` has the name
    of the source of each piece, and the number of lines before it.
    """

    def __init__(self, mode: Literal["first", "reject"], losers: frozenset[bytes], locations: str) -> None:
        self._mode = mode
        self._losers = losers
        self._locations_path = locations
        self._locations: dict[int, tuple[str, int]] = {}
        self._left_out: list[RejectedLine] = []
        self.by_piece: Counter[int] = Counter()  # records left out, by piece

    @property
    def by_code(self) -> Counter[str]:
        """Records left out, by code."""
        return Counter(record.code for record in self._left_out)

    def resolve(self, window: Window) -> Window:
        """Return the records of a window to keep."""
        kept = Window([], [], [], window.copies)
        records = zip(window.keys, window.rows, window.texts, strict=True)
        for key, group in groupby(records, key=lambda record: record[0]):
            same = list(group)
            stay = int((len(same) == 1 or self._mode == "first") and key not in self._losers)
            for _, row, text in same[:stay]:
                kept.keys.append(key)
                kept.rows.append(row)
                kept.texts.append(text)
            for _, row, text in same[stay:]:
                self._leave_out(row, bytes(text))
        return kept

    def _leave_out(self, row: Sequence[Any], text: bytes) -> None:
        self._locations = self._locations or next(read_blocks(self._locations_path))
        source, base = self._locations[row[Column.SOURCE]]
        self.by_piece[row[Column.SOURCE]] += 1
        code = "conflict.not_first" if self._mode == "first" else "conflict.rejected"
        finding = Finding(code, "$", "expected one record of this identity, found others that differ")
        line = InvalidLine(row[Column.LINE] + base, None, (finding,), text.removesuffix(b"\n"))
        self._left_out.append(rejected_line(source, line))

    def write(self, path: str) -> FileDigest:
        """Write the records left out, sorted by source and line."""
        self._left_out.sort(key=lambda record: (record.source, record.line))
        with storage_of(path).create(path, for_work=True) as file:
            for record in self._left_out:
                file.write(record.to_json())
        return digest_of(path)
