"""Feeding workers: which large shards the driver decompresses, and in which order tasks come."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from fastrec.engine.base import SerialEngine
from fastrec.limits import Limits, use_limits
from fastrec.normalize import pass1, pass1_driver
from fastrec.normalize import run as module
from fastrec.normalize.options import Options
from fastrec.normalize.pass1_driver import SortTasks
from fastrec.normalize.results import SortResult
from fastrec.normalize.resume import Reusable
from fastrec.sources.formats import Format
from fastrec.sources.inputs import find_shards
from fastrec.sources.shard import Shard
from tests.normalize.normalizing import normalized, write
from tests.normalize.test_determinism import mixed_lines

GB = 1 << 30


def tasks_of(shards: list[Shard], directory: str, workers: int) -> SortTasks:
    options = Options(jobs=max(workers, 1))
    return SortTasks(shards, directory, options, options.target, workers=workers)


def decompressed_here(gigabytes: list[float], workers: int) -> list[int]:
    """Return the numbers of the compressed shards that the driver decompresses."""
    shards = [
        Shard(f"{number}.zst", int(size * GB), Format.ZSTD) for number, size in enumerate(gigabytes)
    ]
    by_workers = {number for number, _ in tasks_of(shards, "", workers).slices().values()}
    return [number for number in range(len(shards)) if number not in by_workers]


@pytest.mark.parametrize(
    ("gigabytes", "jobs", "expected"),
    [
        ([8], 2, [0]),
        ([8], 100, [0]),
        ([8, 8], 100, [0, 1]),  # the driver needs less time for both than a worker for one
        (
            [8] * 200,
            100,
            6,
        ),  # it decompresses as fast as three workers sort, and each has two shards to do
        ([1] * 40, 2, []),  # no shard is large
        (
            [1] * 40,
            4,
            30,
        ),  # each shard is a tenth of the work of a worker; the driver feeds three workers of four
        ([0.001] * 9 + [1], 8, [9]),
        ([0.001] * 9, 8, []),  # small
    ],
)
def test_the_driver_decompresses_as_much_as_it_can(
    gigabytes: list[float], jobs: int, expected: list[int] | int
) -> None:
    """Large shards are shared by all workers, unless the driver would be slower than the workers."""
    found = decompressed_here(gigabytes, jobs)
    assert (len(found) if isinstance(expected, int) else found) == expected


def test_a_single_process_decompresses_as_it_sorts() -> None:
    """No chunk is written to disk for a process that reads it again itself.

    The worker of a cluster is another one.
    """
    assert decompressed_here([8], 0) == []
    assert decompressed_here([8], 1) == [0]


def test_chunks_and_other_tasks_come_in_turns(tmp_path: Path) -> None:
    """While the driver decompresses, workers have other tasks: the chunks do not all come first."""
    large = write(tmp_path / "large.jsonl", mixed_lines()[:200], Format.ZSTD)
    small = [write(tmp_path / f"{number}.jsonl", mixed_lines()[:20]) for number in range(6)]
    limits = Limits(task_bytes=1_000, decompressed_chunk_bytes=20_000, small_input=0)
    shards, _ = find_shards([str(path) for path in (large, *small)])
    with use_limits(limits):
        tasks = list(tasks_of(shards, str(tmp_path), 2).make(Reusable()))
    kinds = [task.pieces[0].temporary for task in tasks]
    assert len({task.number for task in tasks}) == len(tasks)
    assert kinds.count(True) > 10
    assert kinds.count(False) > 4
    turns = [(kind, len(list(group))) for kind, group in groupby(kinds)]
    assert turns[0][0], "the first task is a chunk"
    assert (
        max(length for _, length in turns[:8])
        <= 1 + max(kinds.count(True), kinds.count(False)) // 4
    )


def test_a_cluster_is_fed_by_its_own_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the cluster counts, not the driver's `--jobs`: the large shard is shared, with
    the same bytes.
    """
    shards = [write(tmp_path / "large.jsonl", mixed_lines()[:6], Format.ZSTD)]
    shards += [write(tmp_path / f"{number}.jsonl", mixed_lines()[:6]) for number in range(40)]
    limits = Limits(task_bytes=shards[0].stat().st_size, decompressed_chunk_bytes=10_000)
    chunks: list[bool] = []

    class Cluster(SerialEngine):
        """Pretends to be a cluster."""

        def __init__(self, workers: int) -> None:
            self.jobs = workers

    def note(task: pass1.SortTask) -> SortResult:
        chunks.append(task.pieces[0].temporary)
        return pass1.sort_pieces(task)

    monkeypatch.setattr(pass1_driver, "sort_pieces", note)
    corpora = []
    for workers, is_shared in ((1, False), (20, True)):
        monkeypatch.setattr(module, "make_engine", lambda *_, workers=workers: Cluster(workers))
        chunks.clear()
        corpora.append(
            normalized(shards, tmp_path / f"{workers}", engine="dask", jobs=2, limits=limits)
        )
        assert any(chunks) is is_shared
    assert corpora[0].same_for_all == corpora[1].same_for_all
