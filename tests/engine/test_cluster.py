"""The cluster engine, on a real scheduler with three worker processes over TCP."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fastrec import generate
from fastrec.build import identity
from fastrec.corpus.publish import check_reachable
from fastrec.engine import cluster
from fastrec.engine.cluster import ClusterEngine
from fastrec.errors import ClusterError, UsageError, WorkerDiedError
from fastrec.limits import Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from tests.engine.test_pool import die_always
from tests.normalize.normalizing import Corpus, normalized
from tests.normalize.test_merge_rounds import check_rounds
from tests.services.dask import LOOSE, Cluster, Killer

pytestmark = LOOSE

IMPATIENT = Limits(cluster_patience_seconds=3.0)
VERY_IMPATIENT = Limits(cluster_patience_seconds=1.0)
"""For tests that wait for so long."""


@pytest.fixture(scope="module")
def lasting() -> Iterator[Cluster]:
    """A scheduler that tests do not damage. They may kill its workers."""
    with Cluster(workers=3) as running:
        yield running


@pytest.fixture
def three(lasting: Cluster) -> Cluster:
    """A scheduler with three workers."""
    lasting.restore(3)
    return lasting


@pytest.fixture
def one(lasting: Cluster) -> Cluster:
    """A scheduler with one worker."""
    lasting.restore(1)
    return lasting


@pytest.fixture
def own() -> Iterator[Cluster]:
    """A scheduler with one worker that a test may damage."""
    with Cluster(workers=1) as running:
        yield running


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards for many tasks and parts."""
    folder = tmp_path_factory.mktemp("shards")
    generate(folder / "in", records=400, shards=12, text="words")
    return folder / "in"


@pytest.fixture(scope="module")
def whole(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The corpus made from them in this process."""
    return normalized(
        shards, tmp_path_factory.mktemp("serial") / "out", part_size=200_000
    ).same_for_all


def slowly(number: int) -> int:
    time.sleep(0.1)
    return number


def one_dies(mark: Path) -> str:
    with contextlib.suppress(FileExistsError):
        mark.touch(exist_ok=False)
        os._exit(1)
    return "alive"


def whoami(_: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def too_slow(_: int) -> None:
    raise TimeoutError("the store is slow")


class Pretending:
    """Returns another identity in this process; workers that get it return their own."""

    def __init__(self, here: dict[str, str]) -> None:
        self.here = here

    def __call__(self) -> dict[str, str]:
        return self.here

    def __reduce__(self) -> tuple[object, tuple[object]]:
        return partial, (identity,)


def test_a_killed_worker_costs_only_time(three: Cluster) -> None:
    """Other workers run its tasks."""
    with ClusterEngine(1, three.address) as engine:
        results = engine.run(slowly, range(12))
        got = [next(results)]
        three.workers[0].send_signal(signal.SIGKILL)
        assert sorted([*got, *results]) == [(number, number) for number in range(12)]


def test_a_task_that_keeps_killing_is_named(three: Cluster) -> None:
    """If the scheduler gives up on a task, the error names it."""
    three.workers += [three.start_worker() for _ in range(2)]
    with pytest.raises(WorkerDiedError) as caught, ClusterEngine(1, three.address) as engine:
        engine._client.wait_for_workers(5, timeout=30)
        list(engine.run(die_always, [3]))
    assert caught.value.task == "3"


@pytest.mark.parametrize("who", ["workers", "scheduler"])
def test_the_run_fails_when_the_cluster_is_gone(who: str, request: pytest.FixtureRequest) -> None:
    """If all workers or the scheduler are dead, an error is raised within the time limit."""
    running: Cluster = request.getfixturevalue("three" if who == "workers" else "own")
    begin = time.monotonic()
    killed = False
    with (
        pytest.raises(ClusterError) as caught,
        use_limits(VERY_IMPATIENT),
        ClusterEngine(1, running.address) as engine,
    ):
        for number, _ in engine.run(slowly, range(100)):
            if number == 2:
                killed = True
                for process in running.workers if who == "workers" else [running.scheduler]:
                    process.kill()
    assert time.monotonic() - begin < 40
    assert running.address in str(caught.value)
    assert killed


def test_a_result_lost_with_its_worker_is_computed_again(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a worker dies before its result is fetched, another worker runs the task."""
    with use_limits(IMPATIENT), ClusterEngine(1, three.address) as engine:
        wait = engine._finished

        def all_but_one_die(running: Iterable[object]) -> list[object]:
            done = wait(running)
            for process in three.workers[1:]:
                process.kill()
                process.wait()
            return done

        monkeypatch.setattr(engine, "_finished", all_but_one_die)
        assert sorted(engine.run(slowly, range(6))) == [(number, number) for number in range(6)]


def test_a_timeout_of_a_task_is_raised(three: Cluster) -> None:
    """A TimeoutError of a task is not mistaken for a late result."""
    with (
        pytest.raises(TimeoutError, match="the store is slow"),
        ClusterEngine(1, three.address) as engine,
    ):
        list(engine.run(too_slow, [1]))


def test_a_missing_scheduler_is_named() -> None:
    """A wrong address is reported within seconds."""
    with (
        pytest.raises(ClusterError, match=r"tcp://127\.0\.0\.1:9: no scheduler with workers"),
        use_limits(Limits(cluster_connect_seconds=0.5)),
        ClusterEngine(1, "tcp://127.0.0.1:9"),
    ):
        pass


def test_a_frozen_scheduler_is_reported_at_the_start(
    own: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler that accepts connections but never answers, or only the handshake: an error, no
    hang.
    """
    with use_limits(Limits(cluster_connect_seconds=30.0)), ClusterEngine(1, own.address):
        pass
    impatient = use_limits(Limits(cluster_connect_seconds=0.7))
    own.scheduler.send_signal(signal.SIGSTOP)
    with pytest.raises(ClusterError, match="no scheduler with workers answers there"):
        impatient(ClusterEngine(1, own.address).__enter__)()
    own.scheduler.send_signal(signal.SIGCONT)
    monkeypatch.setattr(cluster, "_LOOK_SECONDS", 0.02)
    connect = cluster._bounded_client

    def freeze(address: object, _: float) -> object:
        client = connect(address, 30.0)
        own.scheduler.send_signal(signal.SIGSTOP)
        return client

    monkeypatch.setattr(cluster, "_bounded_client", freeze)
    with pytest.raises(ClusterError, match="no scheduler with workers answers there"):
        impatient(ClusterEngine(1, own.address).__enter__)()


def test_a_worker_that_dies_while_it_is_asked_is_ignored(three: Cluster, tmp_path: Path) -> None:
    """A worker that dies during the first question is ignored."""
    with ClusterEngine(1, three.address) as engine:
        engine._client.wait_for_workers(3, timeout=30)
        assert list(engine.on_every_worker(one_dies, tmp_path / "mark").values()) == [
            "alive",
            "alive",
        ]


def test_a_worker_without_fastrec_is_named(tmp_path: Path) -> None:
    """The error names the worker."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['fastrec'] = None")
    with (
        Cluster(workers=1, PYTHONPATH=str(tmp_path)) as one,
        pytest.raises(
            ClusterError, match=r"worker tcp://.* cannot be asked .*ModuleNotFoundError.*fastrec"
        ),
    ):
        ClusterEngine(1, one.address).__enter__()


@pytest.mark.long_only  # as workers that are there at the start
def test_a_late_worker_of_another_build_is_refused(own: Cluster, tmp_path: Path) -> None:
    """A worker that joins after the builds were compared could produce other bytes."""
    (tmp_path / "sitecustomize.py").write_text(
        "import zstandard\nzstandard.ZSTD_VERSION = (1, 0, 0)"
    )
    with ClusterEngine(1, own.address) as engine:
        own.environment["PYTHONPATH"] += f":{tmp_path}"
        own.workers.append(own.start_worker())
        engine._client.wait_for_workers(2, timeout=30)
        with pytest.raises(ClusterError, match=r"worker tcp://\S+ has zstd 1\.0\.0 instead of "):
            list(engine.run(slowly, range(20)))


def test_a_slow_close_does_not_fail_the_run(
    three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tasks have finished when a frozen worker delays the end."""
    with ClusterEngine(1, three.address) as engine:
        close = engine._client.close

        def late(timeout: float) -> None:
            close(timeout)
            raise TimeoutError

        monkeypatch.setattr(engine._client, "close", late)
        assert list(engine.run(slowly, [1])) == [(0, 1)]


def test_a_worker_that_does_not_answer_at_the_start_is_reported(own: Cluster) -> None:
    """The start does not wait for a frozen worker for ever."""
    with ClusterEngine(1, own.address) as engine:
        engine._client.wait_for_workers(1, timeout=30)
    own.workers[0].send_signal(signal.SIGSTOP)
    with pytest.raises(ClusterError, match="some workers did not answer for 1 seconds"):
        use_limits(VERY_IMPATIENT)(ClusterEngine(1, own.address).__enter__)()


@pytest.mark.parametrize("what", ["fastrec", "zstd", "Python"])
def test_workers_of_another_build_are_refused(
    what: str, three: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker answers with its own build.

    The error names the worker, what differs, and what to do.
    """
    here = {**identity(), what: "0.0"}
    monkeypatch.setattr(cluster, "identity", Pretending(here))
    pattern = (
        rf"worker tcp://\S+ has {what} .+ instead of 0\.0, .* install the same packages "
        r"there as here"
    )
    with pytest.raises(ClusterError, match=pattern), ClusterEngine(1, three.address):
        pass


def test_a_directory_that_workers_cannot_see_is_refused(
    three: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that this process can write to, but a worker cannot, is reported before any work."""
    directories = [str(tmp_path)]
    with ClusterEngine(1, three.address) as engine:
        check_reachable(directories, engine)
        ask = engine.on_every_worker
        monkeypatch.setattr(
            engine, "on_every_worker", lambda question, probe: ask(question, "/nowhere" + probe)
        )
        with pytest.raises(UsageError, match="cannot be reached by tcp://"):
            check_reachable(directories, engine)
        monkeypatch.setattr(engine, "on_every_worker", lambda *_: ask(time.sleep, 1))
        impatient = use_limits(Limits(cluster_patience_seconds=0.1))
        with impatient, pytest.raises(ClusterError, match="some workers did not answer"):
            check_reachable(directories, engine)
    assert list(tmp_path.iterdir()) == []


def test_a_worker_killed_in_each_pass_changes_no_byte(
    three: Cluster, shards: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    """A run whose workers are killed finishes with the same bytes."""
    killer = Killer(three, "sort", "merge")
    options = Options(engine="dask", scheduler=three.address, part_size=200_000)
    run([shards], tmp_path / "out", options, progress=killer)
    assert killer.left == []
    assert Corpus(tmp_path / "out").same_for_all == whole


@pytest.mark.long_only  # rounds do not depend on the engine
def test_rounds_on_a_cluster(three: Cluster, tmp_path: Path) -> None:
    """A cluster that merges runs between the passes gives the same bytes, also with filters."""
    check_rounds(tmp_path, engine="dask", scheduler=three.address)


# With one worker


def test_workers_that_join_later_get_work(one: Cluster) -> None:
    """A growing cluster gets more tasks."""
    with use_limits(Limits(cluster_count_seconds=0.0)), ClusterEngine(1, one.address) as engine:
        results = engine.run(whoami, range(40))
        seen = {next(results)[1]}
        assert engine.jobs == 1
        one.workers += [one.start_worker()]
        engine._client.wait_for_workers(2, timeout=30)
        seen.update(process for _, process in results)
        assert engine.jobs == len(seen) == 2


def test_a_result_lost_with_the_last_worker_ends_the_run(
    one: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task has finished, and no worker is left to send its result or to run it again: an error,
    no hang.
    """
    gone = pytest.raises(ClusterError, match="there were no workers")
    with gone, use_limits(VERY_IMPATIENT), ClusterEngine(1, one.address) as engine:
        wait = engine._finished

        def all_die(running: Iterable[object]) -> list[object]:
            done = wait(running)
            for process in one.workers:
                process.kill()
                process.wait()
            return done

        monkeypatch.setattr(engine, "_finished", all_die)
        list(engine.run(slowly, range(3)))
