"""Merging runs does not depend on grouping or order."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fastrec.normalize.plan import merge_runs
from fastrec.sorting.files import blocks_between, read_blocks
from fastrec.sorting.gather import OpenedPart, Window, gather, gather_keys
from fastrec.sorting.runs import Run, index_of
from fastrec.sorting.slices import Bound, RunSlice, slice_merged, whole_run
from fastrec.storage.local import LOCAL
from tests.sorting.test_runs import Item, gathered, keys, origins_in, piles, spilled


def windows_of(
    slices: list[RunSlice], low: bytes | None, high: bytes | None, window_bytes: int
) -> list[Window]:
    return list(gather(slices, low, high, window_bytes))


def contents(windows: list[Window]) -> list[tuple[bytes, bytes, tuple[Any, ...]]]:
    return [
        (key, bytes(text), tuple(row))
        for window in windows
        for key, text, row in zip(window.keys, window.texts, window.rows, strict=True)
    ]


layouts = st.fixed_dictionaries(
    {
        "block_rows": st.sampled_from([1, 2, 3, 128]),
        "window_bytes": st.sampled_from([1, 8, 40, 10**6]),
        "groups": st.integers(1, 4),
        "rounds": st.integers(1, 2),
    }
)


@given(piles.filter(len), st.lists(keys, max_size=4), layouts)
def test_a_merged_run_has_the_records_of_its_runs(
    pile: list[list[Item]], cuts: list[bytes], layout: dict[str, int]
) -> None:
    """Merged in groups of any size, once or twice: the same records of the same origins, and every
    duplicate counts.
    """
    block_rows = layout["block_rows"]
    window_bytes = layout["window_bytes"]
    groups = layout["groups"]
    cuts = sorted(set(cuts))
    with tempfile.TemporaryDirectory() as folder:
        runs = spilled(folder, pile, block_rows)
        expected = list(gathered(runs, cuts, window_bytes))
        for level in range(layout["rounds"]):
            last = level == layout["rounds"] - 1
            parcels = [runs[number::groups] for number in range(min(groups, len(runs)))]
            runs = [
                merge_runs(
                    f"{folder}/{level}-{number}",
                    list(map(whole_run, parcel)),
                    window_bytes,
                    cuts if last else [],
                    block_rows=block_rows,
                )
                for number, parcel in enumerate(parcels)
            ]
            for run in runs:
                check_index(run)
        found: list[Window] = []
        for part, (low, high) in enumerate(pairwise([None, *cuts, None])):
            slices = [piece for run in runs if (piece := slice_merged(run, part, part))]
            windows = windows_of(slices, low, high, window_bytes)
            # Bounds are exact: only the records of the part are read.
            assert contents(windows) == contents(windows_of(slices, None, None, window_bytes))
            found += windows
        assert contents(found) == contents(expected)
        assert origins_in(found) == origins_in(expected)


def check_index(run: Run) -> None:
    """The counts of a run are right, and its index has all keys in order."""
    slices = [whole_run(run)]
    windows = windows_of(slices, None, None, 100)
    assert sum(len(window.keys) for window in windows) == run.records
    assert sum(len(text) for window in windows for text in window.texts) == run.data_bytes
    assert Path(index_of(run.path)).stat().st_size == run.index_bytes
    blocks = read_blocks(index_of(run.path))
    assert [key for keys, *_ in blocks for key in keys] == [
        key for window in windows for key in window.keys
    ]


@given(piles, st.sampled_from([1, 2, 7]), st.sampled_from([1, 7, 64, 1000]))
def test_an_index_is_read_in_pieces_of_any_size(
    pile: list[list[Item]], block_rows: int, least: int
) -> None:
    """Blocks that one read cuts off are completed by the next."""
    with tempfile.TemporaryDirectory() as folder:
        for run in spilled(folder, pile, block_rows):
            path = index_of(run.path)
            blocks = list(blocks_between(path, 0, run.index_bytes, least))
            assert blocks == list(read_blocks(path))


def test_a_run_is_read_in_large_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of reads depends on the window, not on how the keys of runs interleave."""
    dense = [(b"a%06d" % number, b"x" * 99 + b"\n") for number in range(2_000)]
    sparse = [(b"a%06d" % number, b"y" * 99 + b"\n") for number in range(0, 2_000, 100)]
    runs = spilled(str(tmp_path), [dense, sparse], 8)
    reads: Counter[str] = Counter()
    read = LOCAL.read_range

    def counted(path: str, size: int, offset: int) -> bytes:
        reads[path] += 1
        return read(path, size, offset)

    monkeypatch.setattr(LOCAL, "read_range", counted)
    windows = windows_of(list(map(whole_run, runs)), None, None, 30_000)
    assert len(windows) > 10
    assert reads[runs[0].path] <= 200_000 // 10_000 + 2
    assert (reads[runs[1].path], reads[index_of(runs[1].path)]) == (1, 1)


@given(piles.filter(len), st.sampled_from([1, 2, 128]), st.sampled_from([1, 8, 10**6]))
def test_a_slice_that_is_opened_late_has_the_same_records(
    pile: list[list[Item]], block_rows: int, window_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = spilled(folder, pile, block_rows)
        at_once = [whole_run(run) for run in runs]
        late = [replace(whole_run(run), first=run.fences[0].key) for run in runs]
        expected, windows = (
            windows_of(slices, None, None, window_bytes) for slices in (at_once, late)
        )
        assert contents(windows) == contents(expected)
        assert origins_in(windows) == origins_in(expected)


def test_a_part_is_opened_when_its_first_key_is_next() -> None:
    """Parts of one corpus do not overlap: one is in memory at a time, however many they are."""
    opened: list[str] = []

    def open_part(part: RunSlice, _low: Bound, _high: Bound, _with_rows: bool) -> OpenedPart:
        opened.append(part.path)
        block = [part.first, part.first + b"z"], [1, 1], [0, 0], [], []
        return OpenedPart(blocks=iter([block]), gaps=iter([]), is_whole=True)

    parts = [
        RunSlice(
            f"part-{number}", 0, 0, 0, 2, is_part=True, columns="columns", first=b"%d" % number
        )
        for number in range(5)
    ]
    windows = 0
    for keys_of_window, _ in gather_keys(parts[::-1], None, None, 1000, open_part):
        assert opened == [part.path for part in parts if part.first <= keys_of_window[-1]]
        windows += 1
    assert windows >= len(parts)
