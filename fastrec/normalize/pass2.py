"""Pass 2: from runs to the parts of the corpus.

    gather a range of keys from all runs · merge · drop copies ──▶ count ──▶ compress · checksum

One task makes one part. It also leaves its books, a census of the samples it holds in two files of blocks, and the
records that `--conflicts` left out: what the driver holds of a part does not grow with what is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from fastrec.corpus.rejects import RejectedLine, rejected_record
from fastrec.corpus.writer import ShardWriter, Written
from fastrec.engine.collector import collector_off
from fastrec.judge.findings import Finding
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.gather import RunSlice, Window, gather
from fastrec.sorting.keys import key_splitter
from fastrec.storage import storage_of
from fastrec.storage.digests import FileDigest, digest_of
from fastrec.summary.part_counts import PartCounts, write_statistics
from fastrec.summary.rows import Column
from fastrec.summary.tally import Tally

__all__ = ["Part", "PartTask", "PieceLocation", "make_part", "read_locations", "write_locations"]

_COUNTED: Final = 20_000  # records that are added to the tally at a time


class PieceLocation(msgspec.Struct, frozen=True):
    """Where a piece stands: the name of its source, and what to add to its line numbers."""

    source: str
    line_base: int


def write_locations(path: str, places: dict[int, PieceLocation]) -> None:
    """Write down where pieces stand."""
    write_blocks(path, [[(number, place.source, place.line_base) for number, place in places.items()]])


def read_locations(path: str) -> dict[int, PieceLocation]:
    """Read where pieces stand, by their numbers."""
    return {number: PieceLocation(source, base) for number, source, base in next(read_blocks(path))}


class PartTask(msgspec.Struct, frozen=True):
    """What a worker is told."""

    number: int
    low: bytes | None
    high: bytes | None
    slices: list[RunSlice]
    window_bytes: int
    """How much of it is merged at a time."""
    path: str
    census: str
    """Where the census goes, `-hash` and `-id` added; `-books` is for the books, `-conflicts` for what is left out."""
    options: Options
    places: str
    """The file that tells where each piece stands; empty if no record may be left out."""
    leave_out: frozenset[bytes] = frozenset()
    """Keys whose records lose against another of the same identity."""

    def __str__(self) -> str:
        return f"writing part {self.number} of the corpus"


class Part(msgspec.Struct):
    """What a worker gives back."""

    number: int
    written: Written
    records: int
    first: bytes
    last: bytes
    copies: int = 0
    """Exact copies that were dropped."""
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    """Records that `--conflicts` left out, by code."""
    kept: list[FileDigest] = msgspec.field(default_factory=list)
    """The files that it left in the work directory."""


@collector_off()
def make_part(order: PartTask) -> Part:
    """Make one part. Runs in a worker."""
    release_buffer()
    return _PartMaker(order).run()


class _PartMaker:
    """The state of a task: the part being written, and what is counted along the way."""

    def __init__(self, order: PartTask) -> None:
        self._order = order
        self._options = order.options
        self._split = key_splitter(order.options.sort_fields)
        self._tally = Tally()
        self._copies: Counter[int] = Counter()
        self._fields_met: list[Sequence[bytes]] = []
        self._fields_kept: list[Sequence[bytes]] = []
        self._waiting_fields: list[Sequence[bytes]] = []
        self._waiting_rows: list[Any] = []
        self._first = self._last = b""
        self._left_out: list[RejectedLine] = []
        self._places: dict[int, PieceLocation] = {}
        self._left_out_sources: Counter[int] = Counter()

    def run(self) -> Part:
        order, options = self._order, self._options
        with ShardWriter(order.path, options.compression, options.level) as writer:
            for window in gather(order.slices, order.low, order.high, order.window_bytes):
                self._copies.update([row[Column.SOURCE] for row in window.copies])
                fields = list(map(self._split, window.keys))
                self._fields_met += fields
                if options.conflicts != "keep":
                    window = self._settle(window)
                    fields = list(map(self._split, window.keys))
                    self._fields_kept += fields
                if window.keys:
                    self._count(fields, window.rows)
                    self._first = self._first or window.keys[0]
                    self._last = window.keys[-1]
                    writer.write(window.texts)
            written = writer.finish()
        self._count([], [], at_least=1)
        kept = self._write_census()
        return Part(
            order.number,
            written,
            self._tally.interaction_types.total(),
            self._first,
            self._last,
            self._copies.total(),
            Counter(entry.code for entry in self._left_out),
            kept,
        )

    def _count(self, fields: list[Sequence[bytes]], rows: list[Any], at_least: int = _COUNTED) -> None:
        """Add records to the tally, many at a time: it adds up columns by model, and a column should be long."""
        self._waiting_fields += fields
        self._waiting_rows += rows
        if len(self._waiting_rows) >= at_least:
            self._tally.add(self._waiting_fields, self._waiting_rows)
            self._waiting_fields, self._waiting_rows = [], []

    def _settle(self, window: Window) -> Window:
        """Leave out records that share their identity with another, as the option says.

        Records of equal keys stand side by side. Those of one identity whose hash differs have different keys, and
        were found by the census: their keys are in the order.
        """
        kept = Window([], [], [], window.copies)
        code = "conflict.not_first" if self._options.conflicts == "first" else "conflict.rejected"
        records = zip(window.keys, window.rows, window.texts, strict=True)
        for key, group in groupby(records, key=lambda record: record[0]):
            same = list(group)
            stays = 1 if len(same) == 1 or self._options.conflicts == "first" else 0
            if key in self._order.leave_out:
                stays = 0
            for _, row, text in same[:stays]:
                kept.keys.append(key)
                kept.rows.append(row)
                kept.texts.append(text)
            for _, row, text in same[stays:]:
                self._leave_out(row, bytes(text), code)
        return kept

    def _leave_out(self, row: Sequence[Any], text: bytes, code: str) -> None:
        self._places = self._places or read_locations(self._order.places)
        place = self._places[row[Column.SOURCE]]
        self._left_out_sources[row[Column.SOURCE]] += 1
        finding = Finding(code, "$", "expected one record of this identity, found others that differ")
        self._left_out.append(rejected_record(place.source, row[Column.LINE] + place.line_base, finding, text))

    def _write_census(self) -> list[FileDigest]:
        """Write the two lists of the census, and what was left out, sorted."""
        counts = PartCounts(self._tally, self._copies, self._left_out_sources)
        if self._options.conflicts == "keep":
            kept = write_statistics(self._order.census, counts, self._fields_met)
        else:
            kept = write_statistics(self._order.census, counts, self._fields_kept, self._fields_met)
        if self._options.conflicts != "keep":
            path = f"{self._order.census}-conflicts"
            self._left_out.sort(key=lambda entry: (entry.source, entry.line))
            with storage_of(path).open_writer(path) as file:
                for entry in self._left_out:
                    file.write(entry.to_json())
            kept.append(digest_of(path))
        return kept
