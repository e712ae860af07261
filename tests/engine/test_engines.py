"""The same tests for all engines: serial, both kinds of pools, a new and an existing Dask cluster."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fastrec.commands.generate import Recipe, lines
from fastrec.corpus.publish import check_reachable
from fastrec.engine import make_engine
from fastrec.engine import pool as pools
from fastrec.engine.base import Engine
from fastrec.errors import ShardError
from fastrec.limits import Limits, current_limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import normalize as normalize_shards
from fastrec.progress import Progress
from tests.engine.test_pool import die_once, double, fail
from tests.normalize.normalizing import Corpus, normalized, without_long, write
from tests.services.dask import LOOSE, Cluster

pytestmark = LOOSE

MakeEngine = Callable[[], Engine]
KINDS = ["forked", "fresh", "a new cluster", "an existing cluster", "serial"]
ENGINES = [
    pytest.param(name, marks=pytest.mark.long_only if name == "a new cluster" else ())
    for name in KINDS
]
ONE_CLUSTER = pytest.mark.parametrize("kind", ENGINES, indirect=True)
"""A new cluster takes seconds to start, and is asked in the same way as an existing one."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A scheduler with two workers."""
    with Cluster(workers=2) as running:
        yield running


@pytest.fixture(params=KINDS, scope="module")
def kind(request: pytest.FixtureRequest) -> Iterator[dict[str, object]]:
    """The options of `normalize` that choose an engine."""
    name = request.param
    if name == "forked" and sys.platform != "linux":
        pytest.skip("workers are forked on Linux only")
    if name == "forked" and sys.version_info >= (3, 12) and threading.active_count() > 1:
        pytest.skip("forking beside the threads of the test runner is deprecated")
    if "cluster" in name and importlib.util.find_spec("distributed") is None:
        pytest.skip("the extra `dask` is not installed")
    options: dict[str, object] = {"jobs": 1 if name == "serial" else 2}
    if "cluster" in name:
        there = request.getfixturevalue("cluster").address if "existing" in name else None
        options |= {"engine": "dask", "scheduler": there}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "_has_one_thread", lambda: name == "forked")
        yield options


@pytest.fixture(scope="module")
def engine(kind: dict[str, object]) -> Iterator[Engine]:
    """An engine of each kind, for all tests: what one test does to it must not disturb the next."""
    options = Options(**kind)  # type: ignore[arg-type]
    limits = Limits(
        cluster_patience_seconds=8.0
    )  # so long it waits for the result of a dead worker
    with (
        use_limits(limits),
        make_engine(options.jobs, options.engine, options.scheduler) as running,
    ):
        yield running


def refuse(number: int) -> int:
    if number == 3:
        raise ShardError("a.jsonl", "is torn", 17)
    return number


def test_every_argument_gives_its_result(engine: Engine) -> None:
    """Each result has the number of its argument.

    `run` also takes an iterator and no arguments at all.
    """
    assert sorted(engine.run(double, range(20))) == [(number, 2 * number) for number in range(20)]
    assert sorted(engine.run(double, iter([5]))) == [(0, 10)]
    assert list(engine.run(double, [])) == []


def limit_of_tasks(number: int) -> int:
    return number + current_limits().task_bytes


@ONE_CLUSTER
def test_tasks_have_the_limits_of_the_caller(engine: Engine) -> None:
    """Of each call, although the workers are older."""
    for task_bytes in (100, 200):
        with use_limits(Limits(task_bytes=task_bytes)):
            assert sorted(engine.run(limit_of_tasks, [1, 2])) == [
                (0, task_bytes + 1),
                (1, task_bytes + 2),
            ]


@ONE_CLUSTER
def test_arguments_are_taken_lazily(engine: Engine) -> None:
    """Only a few arguments are taken ahead, so they can be an endless stream."""
    taken = []

    def arguments() -> Iterator[int]:
        for number in range(10_000):
            taken.append(number)
            yield number

    results = engine.run(double, arguments())
    next(results)
    assert len(taken) <= 12
    results.close()


@ONE_CLUSTER
def test_an_error_of_a_task_is_raised(engine: Engine) -> None:
    """Our own errors keep all their data."""
    with pytest.raises(ValueError, match="three"):
        list(engine.run(fail, range(10)))
    with pytest.raises(ShardError) as caught:
        list(engine.run(refuse, range(10)))
    assert (caught.value.path, caught.value.reason, caught.value.offset) == (
        "a.jsonl",
        "is torn",
        17,
    )


@ONE_CLUSTER
def test_directories_are_reachable(engine: Engine, tmp_path: Path) -> None:
    """Workers see what this process writes; the check leaves nothing behind."""
    check_reachable([str(tmp_path)], engine)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ENGINES[:-1], indirect=True)  # all but the serial engine
def test_a_dead_worker_costs_only_time(engine: Engine, tmp_path: Path) -> None:
    """Other workers run its tasks."""
    mark = str(tmp_path / "mark")
    assert sorted(engine.run(die_once, [(mark, number) for number in range(8)])) == [
        (n, n) for n in range(8)
    ]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards with duplicates, conflicts and rejected lines."""
    folder = tmp_path_factory.mktemp("shards")
    every = without_long(
        lines(Recipe(records=150, seed=4, text="words", duplicates=0.1, conflicts=0.1, rejects=0.1))
    )
    for number in range(6):
        write(folder / f"shard-{number}.jsonl", every[number::6])
    return folder


@pytest.fixture(scope="module")
def whole(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The corpus made from them in this process."""
    return normalized(
        shards, tmp_path_factory.mktemp("serial") / "out", part_size=100_000
    ).same_for_all


@ONE_CLUSTER
def test_the_same_bytes(
    kind: dict[str, object], shards: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    """All engines give the same corpus."""
    with use_limits(Limits(small_input=0)):
        normalize_shards([shards], tmp_path / "out", progress=Progress(), part_size=100_000, **kind)
    assert Corpus(tmp_path / "out").same_for_all == whole
