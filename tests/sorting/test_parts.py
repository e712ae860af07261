"""Parts of a corpus are gathered like runs: with their origins, without removed pieces, and never
if damaged.
"""

from __future__ import annotations

import errno
import os
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastrec.errors import DamagedFileError
from fastrec.normalize.plan import merge_runs
from fastrec.sorting.gather import Window, gather, gather_keys
from fastrec.sorting.runs import IndexWriter, Origins, Run, index_of, spill, union
from fastrec.sorting.slices import RunSlice, slice_run, whole_run
from fastrec.sources.formats import Format
from tests.sizes import examples
from tests.sorting.test_runs import keys, origins_in
from tests.sources.compressing import compressed

Copy = tuple[bytes, bytes, int]
"""The key and text of a record, and its piece."""

texts = st.sampled_from([b"", b"1", b"2", b"33", b"four" * 5]).map(lambda text: text + b"\n")
origins = st.tuples(keys, texts, st.integers(0, 4))
nights = st.lists(
    st.fixed_dictionaries(
        {
            "runs": st.lists(st.lists(origins, min_size=1, max_size=20), max_size=3),
            "removed": st.frozensets(st.integers(0, 4), max_size=3),
            "format": st.sampled_from([Format.PLAIN, Format.ZSTD, Format.GZIP]),
        }
    ),
    min_size=1,
    max_size=3,
)


class Corpus:
    """One part, made again every night from the last one and from new runs; and what it should
    hold.
    """

    def __init__(self, folder: str, block_rows: int, window_bytes: int) -> None:
        self._folder = folder
        self._block_rows = block_rows
        self._window_bytes = window_bytes
        self._lines: Counter[int] = Counter()
        self._night = 0
        self.model: dict[tuple[bytes, bytes], Origins] = {}
        self.part: RunSlice | None = None

    def spill(self, run: list[Copy]) -> Run:
        """Write a run; its pieces may also be in other runs, with other lines."""
        text = bytearray()
        ends = []
        rows = []
        for key, body, piece in run:
            text += body
            ends.append(len(text))
            rows.append((piece, self._lines[piece], key.hex()))
            known = self.model.get((key, body), ())
            self.model[key, body] = union([known, ((piece, self._lines[piece], 1),)])
            self._lines[piece] += 1
        path = f"{self._folder}/run-{self._lines.total()}"
        return spill(
            path, text, ends, [key for key, _, _ in run], rows, block_rows=self._block_rows
        )

    def remove(self, removed: frozenset[int]) -> None:
        """Expect no copies of some pieces any more."""
        left = {
            item: tuple(one for one in origins if one[0] not in removed)
            for item, origins in self.model.items()
        }
        self.model = {item: origins for item, origins in left.items() if origins}

    def write(self, windows: list[Window], format_: Format) -> None:
        """Write the part."""
        self._night += 1
        path = f"{self._folder}/part-{self._night}"
        text = b"".join(bytes(text) for window in windows for text in window.texts)
        Path(path).write_bytes(compressed(format_, text))
        with IndexWriter(f"{path}-index", self._block_rows) as index:
            for window in windows:
                index.add(
                    window.keys,
                    list(map(len, window.texts)),
                    window.fingerprints,
                    window.rows,
                    window.origins,
                )
        assert index.data_offset == len(text)
        self.part = part_slice(path, len(text), f"{path}-index", index.size)


def part_slice(
    path: str, text_bytes: int, index: str, index_bytes: int, removed: Iterable[int] = ()
) -> RunSlice:
    """A part without the records that come from removed pieces alone."""
    pieces = tuple(sorted(removed))
    return RunSlice(path, 0, index_bytes, 0, text_bytes, index, is_part=True, removed=pieces)


def without_pieces(part: RunSlice, removed: frozenset[int]) -> RunSlice:
    return part_slice(part.path, part.data_end, part.index, part.index_end, removed)


def check_keys(
    slices: list[RunSlice], low: bytes | None, high: bytes | None, window_bytes: int
) -> None:
    """The indexes alone have the same keys and sizes as the records."""
    wanted = [
        (key, len(text))
        for window in gather(slices, low, high, window_bytes)
        for key, text in zip(window.keys, window.texts, strict=True)
    ]
    windows = list(gather_keys(slices, low, high, window_bytes))
    found = [pair for window in windows for pair in zip(*window, strict=True)]
    assert [key for key, _ in found] == [key for key, _ in wanted]
    assert sorted(found) == sorted(wanted)
    assert len({key for keys, _ in windows for key in keys}) == sum(
        len(set(keys)) for keys, _ in windows
    )


@given(
    nights,
    st.sampled_from([1, 3, 128]),
    st.sampled_from([1, 40, 10**6]),
    st.lists(keys, max_size=2),
    st.booleans(),
)
@example([{"runs": [], "removed": frozenset(), "format": Format.ZSTD}] * 2, 1, 1, [], False)
def test_nights_on_top_of_each_other_equal_all_records_at_once(
    several: list[dict[str, Any]],
    block_rows: int,
    window_bytes: int,
    cuts: list[bytes],
    is_merged: bool,
) -> None:
    """The last part without removed pieces, and new runs: all distinct records, with the origins of
    every copy.
    """
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus(folder, block_rows, window_bytes)
        for night, one in enumerate(several):
            corpus.remove(one["removed"])
            runs = list(map(corpus.spill, one["runs"]))
            if is_merged and runs:
                runs = [
                    merge_runs(
                        f"{folder}/merged-{night}", list(map(whole_run, runs)), window_bytes, []
                    )
                ]
            windows: list[Window] = []
            for low, high in pairwise([None, *sorted(set(cuts)), None]):
                slices = [
                    whole_run(run) if is_merged else slice_run(run, low, high) for run in runs
                ]
                if corpus.part:
                    slices.append(without_pieces(corpus.part, one["removed"]))
                found = [piece for piece in slices if piece]
                check_keys(found, low, high, window_bytes)
                windows += gather(found, low, high, window_bytes)
            check_windows(windows, corpus.model)
            corpus.write(windows, one["format"])


def check_windows(windows: list[Window], model: dict[tuple[bytes, bytes], Origins]) -> None:
    found = [
        (key, bytes(text))
        for window in windows
        for key, text in zip(window.keys, window.texts, strict=True)
    ]
    assert found == sorted(model)
    assert origins_in(windows) == [model[item] for item in found]
    assert [row[2] for window in windows for row in window.rows] == [key.hex() for key, _ in found]
    for window in windows:
        ends = [(key, len(list(group))) for key, group in groupby(window.keys)]
        assert [end - first for first, end in window.groups] == [
            count for _, count in ends if count > 1
        ]
        assert all(len(set(window.keys[first:end])) == 1 for first, end in window.groups)


# Damage


def part_of(folder: Path, format_: Format, count: int = 12) -> RunSlice:
    corpus = Corpus(str(folder), 5, 100)
    run = corpus.spill(
        [
            (b"%03d" % (number % count), b"%d\n" % (number % count), number % 3)
            for number in range(40)
        ]
    )
    corpus.write(list(gather([whole_run(run)], None, None, 100)), format_)
    assert corpus.part
    return corpus.part


def contents(part: RunSlice) -> list[Any]:
    windows = list(gather([part], None, None, 30))
    return [
        (
            window.keys,
            window.rows,
            [bytes(text) for text in window.texts],
            window.origins,
            window.groups,
        )
        for window in windows
    ]


@pytest.mark.parametrize("format_", [Format.PLAIN, Format.ZSTD, Format.GZIP])
def test_a_damaged_part_is_never_taken_for_another(format_: Format, tmp_path: Path) -> None:
    """A changed byte changes nothing, as in the header of gzip, or is an error.

    So are a missing end, and more text.
    """
    part = part_of(tmp_path, format_)
    path = Path(part.path)
    whole = Path(part.path).read_bytes()
    expected = contents(part)
    errors = 0
    for offset in range(len(whole)):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 0x11]) + whole[offset + 1 :])
        try:
            assert contents(part) == expected
        except DamagedFileError:
            errors += 1
    assert errors >= len(whole) - 6  # gzip has a time and a system, which are not checked
    for damaged in [
        *(whole[:size] for size in range(len(whole))),
        whole + compressed(format_, b"1\n"),
    ]:
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match="is damaged: ") as caught:
            contents(part)
        assert caught.value.path == part.path
    path.unlink()
    with pytest.raises(DamagedFileError, match="No such file"):
        contents(part)


def test_a_damaged_index_is_never_taken_for_another(tmp_path: Path) -> None:
    """A changed byte, a missing end and a missing file are errors, with and without the texts."""
    part = part_of(tmp_path, Format.ZSTD, 6)
    path = Path(part.index)
    whole = Path(part.index).read_bytes()
    for offset in range(len(whole)):
        for damaged in (
            whole[:offset] + bytes([whole[offset] ^ 0x11]) + whole[offset + 1 :],
            whole[:offset],
        ):
            path.write_bytes(damaged)
            for read in (contents, lambda piece: list(gather_keys([piece], None, None, 30))):
                with pytest.raises(DamagedFileError) as caught:
                    read(part)
                assert caught.value.path == part.index
    path.unlink()
    with pytest.raises(DamagedFileError, match="No such file"):
        contents(part)


def test_the_index_of_another_part_is_an_error(tmp_path: Path) -> None:
    """An index with fewer records than the part, or with others, does not fit."""
    (tmp_path / "a").mkdir()
    part = part_of(tmp_path, Format.ZSTD)
    other = part_of(tmp_path / "a", Format.ZSTD, 11)
    index_bytes = other.index_end
    with pytest.raises(DamagedFileError, match="bytes of text"):
        contents(part_slice(part.path, part.data_end, other.index, index_bytes))
    with pytest.raises(DamagedFileError, match="ends too early"):
        contents(part_slice(other.path, other.data_end, part.index, part.index_end))
    Path(part.path).write_bytes(compressed(Format.ZSTD, b"x" * part.data_end))
    with pytest.raises(DamagedFileError, match="fingerprint"):
        contents(part)


def test_a_failed_read_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the system says nothing about the file, so it is raised as it is."""
    part = part_of(tmp_path, Format.ZSTD)
    expected = contents(part)

    def fail(*_: Any) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for name in ("read", "pread"):  # of the part, and of its index
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="Input/output error"):
                contents(part)
    assert contents(part) == expected


# Origins


def test_equal_origins_are_one_object(tmp_path: Path) -> None:
    """Thousands of records may come from the same hundreds of pieces, so they share one tuple."""
    runs = []
    for piece in range(20):
        text = bytearray(b"x\n" * 50)
        ends = list(range(2, 102, 2))
        rows = [(piece, 7)] * 50
        runs.append(
            spill(
                f"{tmp_path}/{piece}", text, ends, [b"%03d" % number for number in range(50)], rows
            )
        )
    merged = merge_runs(f"{tmp_path}/merged", list(map(whole_run, runs)), 500, [])
    for slices in ([*map(whole_run, runs)], [whole_run(merged)]):
        windows = list(gather(slices, None, None, 500))
        objects = {id(origins) for window in windows for origins in window.origins if origins}
        assert len(objects) == 1
        assert origins_in(windows) == [tuple((piece, 7, 1) for piece in range(20))] * 50


def test_origins_count_for_the_size_of_windows(tmp_path: Path) -> None:
    """A record with many origins takes more memory than its text, so a window has fewer of them."""
    origins = tuple((piece, 3, 1) for piece in range(100))
    with IndexWriter(index_of(f"{tmp_path}/run"), 16) as index:
        for number in range(200):
            index.add([b"%03d" % number], [2], [0], [(0, 3)], [origins])
    (tmp_path / "run").write_bytes(b"x\n" * 200)
    run = Run(f"{tmp_path}/run", 200, 400, index.size, index.fences)
    windows = list(gather([whole_run(run)], None, None, 100_000))
    assert sum(len(window.keys) for window in windows) == 200
    assert max(len(window.keys) for window in windows) < 50


@settings(max_examples=examples(7, 80))
@given(st.sampled_from([1, 4, 16]), st.lists(st.integers(1, 20), max_size=6))
def test_an_index_has_the_same_blocks_however_records_are_added(
    block_rows: int, steps: list[int]
) -> None:
    """The blocks depend on the records alone."""
    count = sum(steps)
    some = [(b"%03d" % number, number % 5, number, (number, 1)) for number in range(count)]
    several: dict[int, Origins] = {number: ((number, 1, 2),) for number in range(0, count, 3)}
    with tempfile.TemporaryDirectory() as folder:
        hashes = []
        for ends in ([count], steps):
            with IndexWriter(f"{folder}/index", block_rows) as index:
                first = 0
                for size in ends:
                    lists = [
                        list(column) for column in zip(*some[first : first + size], strict=True)
                    ] or [[]] * 4
                    origins = list(map(several.get, range(first, first + size)))
                    index.add(lists[0], lists[1], lists[2], lists[3], origins)
                    first += size
            hashes.append((index.hash(), index.size, index.fences, index.records))
        assert hashes[0] == hashes[1]
        assert len(hashes[0][2]) == -(-count // block_rows)


def test_a_part_is_not_held_in_memory(tmp_path: Path) -> None:
    """A part of 16 MB is read with a fraction of that."""
    body = b"x" * 9_999 + b"\n"
    corpus = Corpus(str(tmp_path), 64, 100)
    run = spill(
        f"{tmp_path}/run",
        bytearray(body * 1_600),
        [len(body) * (number + 1) for number in range(1_600)],
        [b"%04d" % number for number in range(1_600)],
        [(0, number) for number in range(1_600)],
    )
    corpus.write(list(gather([whole_run(run)], None, None, 1 << 20)), Format.ZSTD)
    assert corpus.part
    tracemalloc.start()
    try:
        count = 0
        for window in gather([corpus.part], b"0100", b"1500", 200_000):
            count += len(window.keys)
            del window
        assert count == 1_400
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
