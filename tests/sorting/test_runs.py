"""Runs: spilled records are gathered once and sorted, whatever the blocks, windows and cuts."""

from __future__ import annotations

import errno
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xxhash import xxh3_128

from fastrec.errors import DamagedFileError
from fastrec.sorting.files import ViewsWriter, blocks_between, read_blocks, write_blocks
from fastrec.sorting.gather import Window, gather
from fastrec.sorting.runs import Origins, Run, spill
from fastrec.sorting.slices import slice_run
from fastrec.storage import fingerprint
from fastrec.storage.local import LOCAL
from tests.faults.injecting import Faults

Item = tuple[bytes, bytes]
"""A key and a text."""

keys = st.sampled_from([b"a", b"b", b"ba", b"c", b"d", b"e\0", b"e\0\xff"]) | st.binary(
    min_size=1, max_size=2
)
items = st.tuples(
    keys, st.sampled_from([b"", b"1", b"2", b"33", b"four" * 5]).map(lambda text: text + b"\n")
)
piles = st.lists(st.lists(items, min_size=1, max_size=40), max_size=5)


def spilled(folder: str, pile: list[list[Item]], block_rows: int) -> list[Run]:
    """Spill each list of items as a run.

    The row of an item is the number of its list and its position in it.
    """
    runs = []
    for number, some in enumerate(pile):
        ends = []
        text = bytearray()
        for _, body in some:
            text += body
            ends.append(len(text))
        rows = [(number, line) for line in range(len(some))]
        keys_of_run = [key for key, _ in some]
        runs.append(
            spill(f"{folder}/run-{number}", text, ends, keys_of_run, rows, block_rows=block_rows)
        )
    return runs


def gathered(runs: list[Run], cuts: list[bytes], window_bytes: int) -> Iterator[Window]:
    for low, high in pairwise([None, *cuts, None]):
        slices = [piece for run in runs if (piece := slice_run(run, low, high))]
        for window in gather(slices, low, high, window_bytes):
            assert low is None or window.keys[0] >= low
            assert high is None or window.keys[-1] < high
            yield window


def origins_in(windows: list[Window]) -> list[Origins]:
    """The origins of all records, also of those with one copy, which are None in `origins`."""
    found: list[Origins] = []
    for window in windows:
        several = filter(None, window.origins)
        assert all(sum(count for _, _, count in origins) > 1 for origins in several)
        assert list(map(fingerprint, window.texts)) == window.fingerprints
        for position, (piece, line, *_) in enumerate(window.rows):
            origins = window.origins[position] or ((piece, line, 1),)
            assert origins[0][:2] == (piece, line)
            assert list(origins) == sorted(origins)
            found.append(origins)
    return found


def counts_in(windows: list[Window]) -> Counter[int]:
    """The number of copies of each piece."""
    counts: Counter[int] = Counter()
    for origins in origins_in(windows):
        for piece, _, count in origins:
            counts[piece] += count
    return counts


def check(
    pile: list[list[Item]],
    block_rows: int,
    window_bytes: int,
    cuts: list[bytes],
    blocks_per_fence: int = 1,
) -> list[Window]:
    with tempfile.TemporaryDirectory() as folder:
        runs = spilled(folder, pile, block_rows)
        runs = [msgspec.structs.replace(run, fences=run.fences[::blocks_per_fence]) for run in runs]
        windows = list(gathered(runs, cuts, window_bytes))
        found = [
            (key, bytes(text))
            for window in windows
            for key, text in zip(window.keys, window.texts, strict=True)
        ]
        assert found == sorted({item for some in pile for item in some})
        # Every record is accounted for, and of duplicates the one of the lowest source is kept.
        assert counts_in(windows) == Counter(
            {number: len(some) for number, some in enumerate(pile) if some}
        )
        first = {
            item: (number, line)
            for number, some in reversed([*enumerate(pile)])
            for line, item in reversed([*enumerate(some)])
        }
        rows = [tuple(row) for window in windows for row in window.rows]
        assert rows == [first[item] for item in found]
        assert sum(run.records for run in runs) == sum(len(set(some)) for some in pile)
        # A window is not much larger than asked for, unless the records of one key are, however
        # large blocks are.
        largest = sum(
            max(sum(len(text) for key, text in set(some) if key == one) for one, _ in some)
            for some in pile
        )
        for window in windows:
            assert sum(map(len, window.texts)) <= 2 * max(window_bytes, len(pile)) + largest
        return windows


@given(
    piles,
    st.sampled_from([1, 2, 3, 7, 128]),
    st.sampled_from([1, 8, 40, 10**6]),
    st.lists(keys, max_size=4),
    st.sampled_from([1, 2, 5]),
)
@example([], 1, 1, [], 1)
@example([[(b"a", b"1\n")]], 1, 1, [b"a", b"b"], 1)
@example([[(b"%d" % number, b"1\n") for number in range(9)]], 1, 10**6, [b"3", b"4"], 5)
@example(
    [[(b"%d" % number, b"%d\n" % run) for number in range(9)] for run in range(3)], 128, 3, [], 1
)
def test_every_record_is_gathered_once_and_sorted(
    pile: list[list[Item]],
    block_rows: int,
    window_bytes: int,
    cuts: list[bytes],
    blocks_per_fence: int,
) -> None:
    """For any runs, blocks, windows, cuts and fences: each distinct record once, sorted by key and
    then by bytes.
    """
    check(pile, block_rows, window_bytes, sorted(set(cuts)), blocks_per_fence)


@pytest.mark.pairwise
@pytest.mark.parametrize("block_rows", [1, 2, 5, 16, 64])
@pytest.mark.parametrize("window_bytes", [1, 20, 200, 10**6])
@pytest.mark.parametrize("cuts", [[], [b"k"], [b"k", b"k\0"], [b"a", b"z"]])
def test_records_of_one_key_stay_together(
    block_rows: int, window_bytes: int, cuts: list[bytes]
) -> None:
    """All records of a key are in one window, sorted by bytes, even if they fill many blocks of
    many runs.
    """
    pile = []
    for number in range(3):
        same = [
            (b"k", b"%03d\n" % (value * 7 % 50)) for value in range(number * 10, number * 10 + 30)
        ]
        pile.append([(b"j", b"before\n"), *same, (b"l", b"after %d\n" % number)])
    windows = check(pile, block_rows, window_bytes, cuts)
    assert [key for window in windows for key, _ in groupby(window.keys)] == [b"j", b"k", b"l"]


def test_windows_have_a_bounded_size() -> None:
    """Of each run, a window holds at most twice its share and a block."""
    pile = [
        [(b"%06d" % (number * 3 + run), b"x" * 99 + b"\n") for number in range(400)]
        for run in range(3)
    ]
    windows = check(pile, 4, 5_000, [])
    sizes = [sum(map(len, window.texts)) for window in windows]
    assert max(sizes) <= 2 * 5_000 + 3 * 400
    assert 120_000 // 11_200 <= len(sizes) <= 120_000 // 4_000


def test_a_slice_reads_only_the_blocks_of_its_range(tmp_path: Path) -> None:
    """Blocks before and after the range are not read."""
    runs = spilled(
        str(tmp_path), [[(b"%04d" % number, b"%d\n" % number) for number in range(1_000)]], 10
    )
    piece = slice_run(runs[0], b"0500", b"0520")
    assert piece is not None
    starts = {fence.key: (fence.index_offset, fence.data_offset) for fence in runs[0].fences}
    assert (piece.index_start, piece.data_start) == starts[b"0490"]
    assert (piece.index_end, piece.data_end) == starts[b"0520"]
    assert slice_run(runs[0], None, b"0000") is None
    beyond = slice_run(runs[0], b"9", None)
    assert beyond is not None
    assert list(gather([beyond], b"9", None, 10)) == []


def test_temporary_files_are_private(tmp_path: Path) -> None:
    """Only the current user can read a run, because its records may be secret."""
    spilled(str(tmp_path), [[(b"a", b"1\n")]], 1)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "run-0": 0o600,
        "run-0.index": 0o600,
    }


def test_buffers_are_written_in_their_order(tmp_path: Path) -> None:
    """The file, its size and its hash are those of all buffers together."""
    texts = [b"%d," % number for number in range(3_000)]
    with ViewsWriter(str(tmp_path / "file")) as file:
        file.append([memoryview(text) for text in texts])
    assert (tmp_path / "file").read_bytes() == b"".join(texts)
    assert (file.size, file.hash()) == (len(b"".join(texts)), xxh3_128(b"".join(texts)).hexdigest())


def test_short_reads_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system reads less than requested, reading continues.

    A file that ends too early is an error.
    """
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))
    pread = os.pread
    monkeypatch.setattr(
        os, "pread", lambda descriptor, size, offset: pread(descriptor, min(size, 7), offset)
    )
    assert LOCAL.read_range(str(path), 100, 50) == bytes(range(50, 150))
    with pytest.raises(OSError, match="ends at byte 200, before byte 201") as caught:
        LOCAL.read_range(str(path), 101, 100)
    assert caught.value.filename == str(path)


def test_a_full_disk_is_an_os_error(tmp_path: Path) -> None:
    """If a run cannot be written, the error of the system is raised."""
    with Faults(tmp_path, "write", 1, errno.ENOSPC), pytest.raises(OSError, match="No space left"):
        spilled(str(tmp_path), [[(b"a", b"1\n"), (b"b", b"2\n")]], 1)


@given(
    st.lists(
        st.lists(
            st.integers().filter(lambda number: abs(number) < 2**63) | st.binary() | st.text()
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_blocks_are_read_one_by_one_as_written(blocks: list[list[Any]], compressed: bool) -> None:
    """Reading a file of blocks yields them as written."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/blocks"
        size, digest = write_blocks(path, blocks, compressed=compressed)
        assert Path(path).stat().st_size == size
        assert xxh3_128(Path(path).read_bytes()).hexdigest() == digest
        assert list(read_blocks(path)) == blocks


@pytest.mark.parametrize("compressed", [False, True])
def test_reads_may_end_anywhere(compressed: bool, tmp_path: Path) -> None:
    """Wherever a read ends, also within the length of a block, the blocks are the same."""
    path = str(tmp_path / "blocks")
    blocks = [[number] * number for number in range(12)]
    size, _ = write_blocks(path, blocks, compressed=compressed)
    for stretch in range(1, size):
        assert list(blocks_between(path, 0, size, stretch)) == blocks, stretch


@pytest.mark.parametrize("length", [1, 3, 4, 5, 9, 12])
def test_a_file_that_ends_inside_a_block_is_an_error(length: int, tmp_path: Path) -> None:
    """A file of blocks that was cut off is not taken for a shorter file."""
    path = tmp_path / "blocks"
    write_blocks(str(path), [[1, 2], ["three"]])
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DamagedFileError, match="it ends at byte") as caught:
        list(read_blocks(str(path)))
    assert caught.value.path == str(path)


def read_all_blocks(path: str, size: int) -> list[Any]:
    """The blocks of a file that should have this size."""
    return list(blocks_between(path, 0, size, 1 << 16))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_changed_byte_in_a_file_of_blocks_is_an_error(compressed: bool, tmp_path: Path) -> None:
    """Whatever byte of a file of blocks is changed, and wherever it is cut off, it is not read as
    another file.
    """
    path = tmp_path / "blocks"
    write_blocks(str(path), [[1, 2], ["three"]], compressed=compressed)
    whole = path.read_bytes()
    for offset in range(len(whole)):
        for damaged in (
            whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :],
            whole[:offset],
        ):
            path.write_bytes(damaged)
            with pytest.raises(DamagedFileError, match=r"blocks is damaged: "):
                read_all_blocks(str(path), len(whole))
    path.unlink()
    with pytest.raises(DamagedFileError, match="No such file"):
        read_all_blocks(str(path), len(whole))
    with pytest.raises(DamagedFileError, match="No such file"):
        list(read_blocks(str(path)))
