"""Scale: memory of the driver and storage requests grow linearly with the corpus."""

import random
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.scale import NIGHTS, simulate
from bench.scale_workers import Simulated, reads_of
from fastrec.corpus.writer import Written
from fastrec.limits import Limits, use_limits
from fastrec.normalize.kept import Base, Changes
from fastrec.normalize.options import Options
from fastrec.normalize.plan import merge_runs
from fastrec.normalize.results import Part, Piece, PieceCounts
from fastrec.sorting.gather import gather
from fastrec.sorting.slices import RunSlice, slice_merged, whole_run
from fastrec.sources.formats import Format
from fastrec.sources.shard import Shard, Slice
from fastrec.storage.local import LOCAL
from tests.sorting.test_runs import spilled

MIB = 1 << 20
BLOCK = 128 * 200
# Limits that are to a small corpus what the real ones are to a huge one.
SMALL_LIMITS = Limits(unmerged_runs=16, merged_runs=8, merge_fan_in=8, least_merge_fan_in=4)


def requests(result: Simulated) -> int:
    return sum(count for name, count in result.requests.items() if name != "object")


OPTIONS = Options(schema="0.2.0", jobs=4, part_size=MIB, memory=8 * MIB)
SIZES = {"shard_text": 4 * MIB, "per_question": 8}


def simulated(records: int, limits: Limits = SMALL_LIMITS, **more: Any) -> list[Simulated]:
    """Simulate a corpus of small runs and parts."""
    return use_limits(limits)(simulate)(records, OPTIONS, **SIZES, **more)


@cache
def measured(records: int, **more: int) -> tuple[Simulated, int]:
    """Simulate, and measure the peak memory of the driver."""
    tracemalloc.start()
    try:
        return simulated(records, **more)[0], tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_costs_grow_linearly() -> None:
    """Four times the records take four times the requests and memory."""
    (one,) = simulated(40_000)
    (four,) = simulated(160_000)
    held, held_by_four = (
        measured(15_000)[1],
        measured(60_000)[1],
    )  # measuring takes five times longer
    assert len(one.merges) == len(four.merges) == 2
    assert four.runs * four.parts > 12 * one.runs * one.parts
    assert four.slices <= 4.2 * one.slices
    assert requests(four) <= 4.5 * requests(one)
    assert four.requests["object"] <= 4.5 * one.requests["object"]
    assert held_by_four <= 4.2 * held


def test_resuming_takes_no_more_memory() -> None:
    """Reading the journal takes no more memory than the run that wrote it."""
    through, held = measured(15_000)
    stopped, held_again = measured(15_000, stop_after=through.parts // 2)
    assert stopped.tasks == through.tasks, "tasks were repeated"
    assert held_again <= 1.5 * held


def test_a_night_makes_only_what_changed() -> None:
    """If a shard with few questions changes, few parts are made.

    Most requests are those that check kept files.
    """
    first, unchanged, changed = simulated(80_000, narrow=NIGHTS)
    assert first.made == first.parts > 80
    assert (unchanged.made, unchanged.regions, unchanged.tasks) == (0, 0, 0)
    assert (changed.tasks, changed.parts) == (1, first.parts)
    assert changed.made <= 8
    assert unchanged.requests["object"] == unchanged.bytes_read == 0
    assert changed.requests["object"] < first.requests["object"] / 4
    assert changed.bytes_read < first.bytes_read / 4
    # Of tasks: rejected lines and statistics; the census of three evaluations; one summary.
    files = 2 * first.tasks + 7 * first.parts + 3 + 1
    assert unchanged.requests["stat"] == changed.requests["stat"] == 2 * files


def test_pieces_that_are_gone_are_found_by_part() -> None:
    """The pieces that may have records in a part are those whose keys reach into it."""
    rng = random.Random(7)
    cuts = [b"%06d" % number for number in range(10, 100_000, 10)]
    written = Written(0, "", 0, "")
    parts = tuple(
        Part(number, "", low, written, 1, b"", b"", {}, (), "", "")
        for number, low in enumerate([None, *cuts])
    )
    piece = Piece(0, 0, "", Slice(Shard("", 0, Format.PLAIN)))
    spans = [
        (start := rng.randrange(100_000), start + rng.choice([0, 5, 40, 90_000]))
        for _ in range(300)
    ]
    gone = tuple(
        PieceCounts(piece=replace(piece, number=number), first=b"%06d" % low, last=b"%06d" % high)
        for number, (low, high) in enumerate(spans)
    )
    base = Base(
        changes=Changes({}, [], [], []), parts=parts, gone=(*gone, PieceCounts(piece=piece))
    )
    for number in (0, 1, 1_023, 1_024, 5_000, len(parts) - 1):
        low, high = 10 * number, 10 * number + 10
        expected = [
            at
            for at, (first, last) in enumerate(spans)
            if last >= low and (first < high or high >= 100_000)
        ]
        assert list(base.removed(number)) == expected


def test_without_merging_requests_grow_quadratically() -> None:
    """The simulation can fail: without a limit on runs, requests grow quadratically."""
    unlimited = Limits(unmerged_runs=10**9)
    (one,) = simulated(30_000, unlimited)
    (four,) = simulated(120_000, unlimited)
    assert not four.merges
    assert four.slices >= 14 * one.slices


def test_the_simulation_counts_reads_correctly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gathering parts from merged runs takes about as many reads as the simulation counts."""
    pile = [
        [(b"%06d" % (number * 8 + run), b"x" * 199 + b"\n") for number in range(2_000)]
        for run in range(8)
    ]
    cuts = [b"%06d" % (number * 1_000) for number in range(1, 16)]
    runs = spilled(str(tmp_path), pile, 16)
    calls: list[int] = []
    read = LOCAL.read_range
    monkeypatch.setattr(
        LOCAL,
        "read_range",
        lambda path, size, offset: calls.append(size) or read(path, size, offset),
    )
    slices = list(map(whole_run, runs))
    merged = [
        merge_runs(f"{tmp_path}/merged-{half}", slices[half::2], 100_000, cuts) for half in range(2)
    ]
    check(slices[::2] + slices[1::2], 100_000 * 2 // 3 // 4, len(calls))
    for window_bytes in (10_000, 100_000, 300_000):
        for part in range(16):
            calls.clear()
            pieces = [piece for run in merged if (piece := slice_merged(run, part, part))]
            assert list(gather(pieces, None, None, window_bytes))
            check(pieces, window_bytes * 2 // 3 // 2, len(calls))


def check(slices: list[RunSlice], stretch: int, found: int) -> None:
    charged = sum(
        reads_of(piece.index_end - piece.index_start, piece.data_end - piece.data_start, stretch)
        for piece in slices
    )
    assert found <= charged + 2 * len(slices)
    if stretch > BLOCK:  # else whole blocks are read, which are larger
        assert found >= charged / 2
