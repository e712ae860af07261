"""Determinism: parts and summary depend on the lines alone, and every rejected line has its
location.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.commands.generate import Recipe, lines
from fastrec.engine.base import SerialEngine
from fastrec.limits import Limits, use_limits
from fastrec.normalize import plan
from fastrec.normalize import run as module
from fastrec.schemas.hashes import sample_hash
from fastrec.sources.formats import Format
from tests.normalize.normalizing import (
    EVERYTHING,
    Corpus,
    check_locations,
    normalized,
    raw_of,
    shuffled_shards,
    without_long,
    write,
)
from tests.samples import question, sample
from tests.sizes import examples

MIB = 1 << 20
PART = 20_000


@cache
def mixed_lines() -> list[bytes]:
    """Lines of all kinds."""
    shares = EVERYTHING | {"conflicts": 0.15}
    recipe = Recipe(records=examples(130, 460), seed=17, text="words", warnings=0.2, **shares)
    return without_long(lines(recipe))


@pytest.fixture(scope="module")
def pile(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The lines in seven shards."""
    return list(shuffled_shards(mixed_lines(), 7, tmp_path_factory.mktemp("pile")))


@pytest.fixture(scope="module")
def expected(pile: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Their corpus, made in the simplest way: one process, all in memory."""
    return normalized(pile, tmp_path_factory.mktemp("expected") / "out", part_size=PART)


SMALL_RUNS = Limits(task_bytes=20_000, run_bytes=30_000, window_bytes=3_000)
"""Cut plain files every few lines, spill runs of a few records, and merge in small windows."""
DECOMPRESS_IN_DRIVER: dict[str, Any] = {
    "jobs": 2,
    "limits": Limits(small_input=0, task_bytes=100, decompressed_chunk_bytes=10_000),
}
"""Options with which the driver decompresses every compressed shard into small chunks."""


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all tasks in this process, as if there were several jobs."""
    monkeypatch.setattr(module, "make_engine", lambda *_: SerialEngine())


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system has no posix_fadvise")
def test_large_inputs_read_runs_once(
    pile: list[Path], expected: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the page cache cannot hold all runs, each byte of one leaves it exactly once.

    The corpus is the same.
    """
    dropped: dict[int, list[tuple[int, int]]] = defaultdict(list)
    needed: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def advise(file: int, start: int, size: int, advice: int) -> None:
        (needed if advice == os.POSIX_FADV_WILLNEED else dropped)[os.fstat(file).st_ino].append(
            (start, size)
        )

    monkeypatch.setattr(os, "posix_fadvise", advise)
    normalized(pile, tmp_path / "small", part_size=PART, limits=SMALL_RUNS)
    assert not dropped
    assert not needed
    monkeypatch.setattr(plan, "_memory", lambda: 100_000)
    assert (
        normalized(pile, tmp_path / "large", part_size=PART, limits=SMALL_RUNS).same_for_all
        == expected.same_for_all
    )
    assert len(dropped) > 5
    for ranges in map(sorted, dropped.values()):
        assert [start for start, _ in ranges] == [0, *(start + size for start, size in ranges[:-1])]
    assert len(needed) > 5
    for (
        file,
        ranges,
    ) in needed.items():  # what follows a part in a run is what one worker reads of it next
        assert {start for start, _ in ranges} <= {start + size for start, size in dropped[file]}


def test_the_lines_cover_all_cases(expected: Corpus) -> None:
    """The lines hold duplicates, conflicts and invalid lines, and make many parts."""
    assert len(expected.parts) > 5
    assert min(expected.line_counts.values()) > 0
    assert expected.summary["repeats"]["identities"] > 5
    assert expected.summary["sample_hash"]["replaced"] > 0


@pytest.mark.each_value
@pytest.mark.parametrize("jobs", [1, 2, 4])
@pytest.mark.parametrize("memory", [64 * MIB, 1024 * MIB])
def test_jobs_and_memory_do_not_change_the_corpus(
    jobs: int, memory: int, pile: list[Path], expected: Corpus, tmp_path: Path
) -> None:
    """1, 2 and 4 jobs, with little and much memory, publish the same bytes."""
    limits = Limits(small_input=0)
    corpus = normalized(
        pile, tmp_path / "out", part_size=PART, jobs=jobs, memory=memory, limits=limits
    )
    assert corpus.same_for_all == expected.same_for_all
    assert corpus.manifest == expected.manifest
    assert corpus.rejects == expected.rejects


@pytest.mark.parametrize("conflicts", ["keep", "first", "reject"])
def test_small_runs_and_windows_do_not_change_the_corpus(
    conflicts: str, pile: list[Path], tmp_path: Path
) -> None:
    """Hundreds of small runs, merged in many windows, give the same corpus as one run."""
    corpus = normalized(
        pile,
        tmp_path / "out",
        part_size=PART,
        conflicts=conflicts,
        repeats=conflicts,
        limits=SMALL_RUNS,
    )
    other = normalized(
        pile, tmp_path / "other", part_size=PART, conflicts=conflicts, repeats=conflicts
    )
    assert corpus.same_for_all == other.same_for_all
    assert corpus.rejects == other.rejects
    assert corpus.manifest == other.manifest


def test_many_runs_in_many_processes(tmp_path: Path) -> None:
    """Ranges of files, decompressed chunks and small shards in two processes give the same corpus
    as one task.
    """
    several = without_long(lines(Recipe(records=280, seed=11, text="words", **EVERYTHING)))
    shards = [
        write(tmp_path / "plain.jsonl", several[:70]),
        write(tmp_path / "fed.jsonl", several[70:140], Format.ZSTD),
    ]
    shards += shuffled_shards(several[140:], 5, tmp_path / "small")
    one = normalized(shards, tmp_path / "one", part_size=20_000)
    limits = Limits(small_input=0, task_bytes=35_000, decompressed_chunk_bytes=35_000)
    two = normalized(
        shards, tmp_path / "two", part_size=20_000, jobs=2, memory=2 * MIB, limits=limits
    )
    assert two.same_for_all == one.same_for_all
    assert two.rejects == one.rejects
    assert two.manifest["inputs"] == one.manifest["inputs"]


def test_the_order_of_arguments_does_not_change_the_corpus(
    pile: list[Path], expected: Corpus, tmp_path: Path
) -> None:
    """The same shards in any order publish the same bytes."""
    for seed in range(3):
        names = random.Random(seed).sample(pile, len(pile))
        corpus = normalized(names, tmp_path / f"out-{seed}", part_size=PART)
        assert corpus.same_for_all == expected.same_for_all


@pytest.mark.each_value
@pytest.mark.parametrize("count", [1, 7, 50])
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_number_of_shards_does_not_change_the_corpus(
    count: int, shuffled: bool, expected: Corpus, tmp_path: Path
) -> None:
    """The same lines in 1, 7 and 50 shards, in any compression and order, publish the same bytes."""
    several = (
        random.Random(count).sample(mixed_lines(), len(mixed_lines()))
        if shuffled
        else mixed_lines()
    )
    shards = list(shuffled_shards(several, count, tmp_path / "in"))
    corpus = normalized(shards, tmp_path / "out", part_size=PART)
    assert corpus.same_for_all == expected.same_for_all
    check_locations(corpus)


@pytest.mark.parametrize("part_size", [1_024, PART, 64 * MIB])
def test_normalizing_a_corpus_again_changes_nothing(
    part_size: int, pile: list[Path], tmp_path: Path
) -> None:
    """A corpus as input gives the same parts, byte for byte, with every hash verified."""
    corpus = normalized(pile, tmp_path / "out", part_size=part_size)
    again = normalized(tmp_path / "out" / "part-*.jsonl*", tmp_path / "again", part_size=part_size)
    assert [part.read_bytes() for part in again.parts] == [
        part.read_bytes() for part in corpus.parts
    ]
    assert [part.name for part in again.parts] == [part.name for part in corpus.parts]
    assert again.line_counts == {
        **dict.fromkeys(again.line_counts, 0),
        "lines": corpus.line_counts["kept"],
        "kept": corpus.line_counts["kept"],
    }
    assert again.summary["sample_hash"]["verified"] == corpus.line_counts["kept"]
    assert again.summary["evaluations"] == corpus.summary["evaluations"]


def test_duplicates_do_not_move_the_cuts(
    pile: list[Path], expected: Corpus, tmp_path: Path
) -> None:
    """Every line twice, and the corpus itself as a further input, publish the same parts."""
    twice = write(
        tmp_path / "twice.jsonl", [line for line in mixed_lines() for _ in range(2)], Format.GZIP
    )
    corpus = normalized([twice, *pile, *expected.parts], tmp_path / "out", part_size=PART)
    assert [part.read_bytes() for part in corpus.parts] == [
        part.read_bytes() for part in expected.parts
    ]


# Shards that are read in pieces


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("conflicts", ["keep", "first"])
def test_a_shard_decompressed_by_the_driver_gives_the_same_corpus(
    conflicts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of a compressed shard give the same bytes, and rejected lines with the same locations."""
    several = list(mixed_lines())
    shard = write(tmp_path / "in.jsonl", [b"\xef\xbb\xbf" + several[0], *several[1:]], Format.ZSTD)
    corpus = normalized(
        shard,
        tmp_path / "out",
        part_size=PART,
        conflicts=conflicts,
        repeats=conflicts,
        **DECOMPRESS_IN_DRIVER,
    )
    monkeypatch.undo()
    other = normalized(
        shard, tmp_path / "other", part_size=PART, conflicts=conflicts, repeats=conflicts
    )
    assert corpus.same_for_all == other.same_for_all
    assert corpus.rejects == other.rejects
    assert corpus.manifest == other.manifest
    check_locations(corpus)


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize(
    "head", [b"\xef\xbb\xbf", b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"BZh9", b"\xfd7zXZ\x00"]
)
def test_a_chunk_is_not_taken_for_the_beginning_of_a_file(head: bytes, tmp_path: Path) -> None:
    """A chunk may begin with the bytes of a byte order mark or of a compressed file."""
    several = [head + line for line in mixed_lines()[:60]]
    shard = write(tmp_path / "in.jsonl", [json.dumps(sample()).encode(), *several], Format.ZSTD)
    corpus = normalized(shard, tmp_path / "out", **DECOMPRESS_IN_DRIVER)
    assert [raw_of(reject) for reject in corpus.rejects] == several
    assert [reject["line"] for reject in corpus.rejects] == list(range(2, 62))
    assert corpus.line_counts["kept"] == 1
    check_locations(corpus)


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("places", [(0,), (3, 4), (9,), (0, 1, 9), tuple(range(10))])
def test_long_lines_between_chunks_keep_their_locations(
    places: tuple[int, ...], tmp_path: Path
) -> None:
    """Lines over the limit before, between and after chunks are rejected with the right line and
    offset.
    """
    long = b"x" * 30_000
    several = [long if number in places else mixed_lines()[number][:4_000] for number in range(10)]
    shard = write(tmp_path / "in.jsonl", several, Format.GZIP)
    corpus = normalized(shard, tmp_path / "out", max_line_bytes=20_000, **DECOMPRESS_IN_DRIVER)
    found = [reject["line"] for reject in corpus.rejects if reject.get("truncated")]
    assert found == [place + 1 for place in places]
    check_locations(corpus)


@pytest.mark.pairwise
@pytest.mark.parametrize("task_bytes", [1_000, 7_777, 100_000])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("conflicts", ["keep", "reject"])
def test_ranges_of_a_plain_file_have_the_right_line_numbers(
    task_bytes: int, mark: bytes, conflicts: str, tmp_path: Path
) -> None:
    """If a plain file is cut into ranges, every rejected line has its line number and offset,
    conflicts included.
    """
    shard = tmp_path / "in.jsonl"
    shard.write_bytes(mark + b"\n".join(mixed_lines()[:80]))
    corpus = normalized(
        shard,
        tmp_path / "out",
        conflicts=conflicts,
        repeats=conflicts,
        limits=Limits(task_bytes=task_bytes),
    )
    whole = normalized(shard, tmp_path / "whole", conflicts=conflicts, repeats=conflicts)
    assert corpus.same_for_all == whole.same_for_all
    assert corpus.rejects == whole.rejects
    assert corpus.manifest == whole.manifest
    check_locations(corpus)


@pytest.mark.usefixtures("one_process")
def test_a_stream_is_sorted_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is sorted in chunks, and its rejected lines have the right locations."""
    data = b"".join(line + b"\n" for line in mixed_lines()[:100])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    other = write(tmp_path / "in.jsonl", mixed_lines()[100:], Format.GZIP)
    corpus = normalized([other, "-"], tmp_path / "out", part_size=PART, **DECOMPRESS_IN_DRIVER)
    monkeypatch.undo()
    expected = normalized(
        write(tmp_path / "all.jsonl", mixed_lines()), tmp_path / "expected", part_size=PART
    )
    assert corpus.same_for_all == expected.same_for_all
    for reject in (reject for reject in corpus.rejects if reject["source"] == "-"):
        raw = raw_of(reject)
        assert (
            data[reject["offset"] : reject["offset"] + len(raw)]
            == raw
            == mixed_lines()[reject["line"] - 1]
        )


# Open files


@pytest.fixture
def few_files() -> Iterator[None]:
    """Limit the number of open files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("few_files")
@pytest.mark.parametrize("conflicts", ["keep", "first"])
def test_many_parts_and_runs_need_few_open_files(conflicts: str, tmp_path: Path) -> None:
    """Hundreds of parts and runs need fewer than 64 open files."""
    several = [
        json.dumps(
            sample(sample_id=number // 2, error=str(number), input=question(number // 2))
        ).encode()
        for number in range(320)
    ]
    options: dict[str, Any] = {
        "part_size": 4_096,
        "conflicts": conflicts,
        "repeats": conflicts,
        "limits": Limits(run_bytes=6_000),
    }
    corpus = normalized(write(tmp_path / "in.jsonl", several), tmp_path / "out", **options)
    assert len(corpus.parts) > 64
    assert len(corpus.rejects) == (160 if conflicts == "first" else 0)


def test_examples_of_replaced_hashes_do_not_depend_on_arrival(tmp_path: Path) -> None:
    """Examples that differ only in the computed hash have a fixed order."""
    several = [
        json.dumps(sample(sample_hash="wrong", input={"raw": raw, "reference": "42"})).encode()
        for raw in ("one", "two")
    ]
    one = normalized(write(tmp_path / "one.jsonl", several), tmp_path / "one")
    two = normalized(write(tmp_path / "two.jsonl", several[::-1]), tmp_path / "two")
    assert one.same_for_all == two.same_for_all


def test_columns_with_integers_beyond_arrays_do_not_depend_on_windows(tmp_path: Path) -> None:
    """The first and the last record have them, in different columns."""
    records = [sample(input=question(number), sample_id=number) for number in range(400)]
    by_hash = sorted(
        records,
        key=lambda record: sample_hash(record["input"]["raw"], record["input"]["reference"]),
    )
    by_hash[0]["token_usage"] = {"input_tokens": 10**20, "output_tokens": 1, "total_tokens": 10**20}
    by_hash[-1]["evaluation"]["score"] = 2**53 + 1
    shard = write(tmp_path / "in.jsonl", [json.dumps(record).encode() for record in records])
    columns = set()
    for name, limits in (("large", Limits()), ("small", Limits(window_bytes=1, read_bytes=1_000))):
        corpus = tmp_path / name
        with use_limits(limits):
            fastrec.normalize(shard, corpus)
        assert fastrec.verify(corpus).ok
        columns.add((corpus / "part-00000.columns").read_bytes())
    assert len(columns) == 1
