"""Pass 2: make the parts of the corpus from runs.

    gather a range of keys from all runs · merge · drop duplicates ──▶ count ──▶ compress · checksum

One task makes one part. It writes the counts of the part, its census and the records that options left out to files, so
what the driver holds of a part does not grow with the part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fastrec.corpus.writer import ShardWriter
from fastrec.engine.base import collector_off
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.normalize.resolve import Resolver, SameRunFilter
from fastrec.normalize.results import Part
from fastrec.sorting.gather import RunSlice, gather
from fastrec.sorting.keys import key_splitter
from fastrec.summary.contradictions import find_contradictions
from fastrec.summary.losers import losers_in
from fastrec.summary.part_statistics import PartCounts, write_statistics
from fastrec.summary.rows import Column
from fastrec.summary.same_run import write_bodies

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
    """Path prefix of the census (`-hash`, `-id`, `-run`), the counts (`-counts`) and records left out (`-left-out`)."""
    options: Options
    locations: str  # path of the locations of all pieces; empty if no records are left out
    same_run_losers: Sequence[RunSlice] = ()  # records that lose against others that are equal but for their run
    losers: Sequence[RunSlice] = ()  # keys that lose against other keys of the same identity

    def __str__(self) -> str:
        return f"writing part {self.number} of the corpus"


@collector_off()
def make_part(task: PartTask) -> Part:
    """Make one part. Runs in a worker."""
    release_buffer()
    options = task.options
    split = key_splitter(options.sort_fields)
    same_run, resolver = _same_run(task), _resolver(task)
    counts = PartCounts()
    kept: list[Fields] = []
    seen: list[Fields] = []
    outcomes: list[Any] = []
    rows: list[Any] = []
    contradictions: dict[tuple[bytes, ...], list[int | None]] = {}
    first = last = b""
    with ShardWriter(task.path, options.compression, options.level) as writer:
        for window in gather(task.slices, task.low, task.high, task.window_bytes):
            counts.copies.update([row[Column.SOURCE] for row in window.copies])
            if same_run:
                window = same_run.filter(window, counts.copies)
            fields = list(map(split, window.keys))
            found = find_contradictions(window.keys, window.texts, window.groups)
            contradictions |= {tuple(split(key)): numbers for key, numbers in found.items()}
            if resolver:
                seen += fields
                window = resolver.resolve(window, found)
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
    files = write_statistics(task.census, counts, kept, outcomes, contradictions, seen=seen if resolver else None)
    if same_run:
        files.append(write_bodies(task.census, same_run.bodies))
    if resolver:
        files.append(resolver.write(f"{task.census}-left-out"))
    left_out = resolver.by_code if resolver else {}
    return Part(
        task.number, task.made_of, written, len(kept), first, last, left_out, tuple(files), task.path, task.census
    )


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
