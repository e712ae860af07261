"""Processes are killed, interrupted and terminated at certain moments: nothing is lost, and no
process is left.

Every test counts the signals that reached a process, and fails if there were none.
"""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.faults.failing import contents
from tests.faults.processes import (
    HAS_PROC,
    MOMENTS,
    Pile,
    Process,
    check_after,
    command,
    generate,
    make_pile,
    wait_for,
)
from tests.running import run_here
from tests.sizes import examples

ATTEMPTS = 5
"""Runs until a signal comes in time."""
CHOSEN = [
    pytest.param(
        moment, marks=pytest.mark.long_only if moment == "half of the runs are sorted" else ()
    )
    for moment in MOMENTS
]
"""Both passes are tried in any case."""

pytestmark = pytest.mark.skipif(not HAS_PROC, reason="needs /proc to see the workers")


@pytest.fixture(scope="module")
def pile(tmp_path_factory: pytest.TempPathFactory) -> Pile:
    folder = tmp_path_factory.mktemp("pile")
    shards = generate(folder / "in", examples(700, 2_000))
    # Inputs below 8 MB have no workers. Blank lines take no time to judge and sort.
    (shards / "blank.jsonl").write_bytes((b" " * 99_999 + b"\n") * 50)
    return make_pile(shards, folder / "out")


def run_again(pile: Pile, out: Path, *more: str) -> str:
    """Run again: the corpus must be as expected, with no other files beside it."""
    done = run_here(*command(pile.shards, out, *more)[3:])
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert contents(out) == pile.whole
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    return said


def started_until(moment: str, pile: Pile, out: Path) -> Process:
    """Start a run, and wait for a moment.

    A run may be too fast on a busy machine, so there are some attempts.
    """
    for _ in range(ATTEMPTS):
        process = Process(command(pile.shards, out, "--overwrite"))
        if wait_for(process, moment, out):
            return process
        process.end()
        shutil.rmtree(out)
    raise AssertionError(f"no run was seen at the moment when {moment}")


@pytest.mark.parametrize("moment", CHOSEN)
def test_the_parent_is_killed(moment: str, pile: Pile, tmp_path: Path) -> None:
    """At any moment: OUT is absent or whole, and the next run, at once, gives the expected bytes."""
    out = tmp_path / "out"
    killed = 0
    for _ in range(ATTEMPTS):
        process = started_until(moment, pile, out)
        killed += process.send(signal.SIGKILL)
        code, said = process.end()
        if code == -signal.SIGKILL:
            break
        assert code == 0, said  # the run ended at the same moment
    assert killed
    assert code == -signal.SIGKILL
    check_after(out, [None, pile.whole])
    run_again(pile, out, "--overwrite")
    process.workers_end()


@pytest.mark.parametrize("moment", CHOSEN[1:])
def test_a_worker_is_killed(moment: str, pile: Pile, tmp_path: Path) -> None:
    """A worker that dies costs nothing but time."""
    out = tmp_path / "out"
    killed = 0
    for _ in range(ATTEMPTS):
        process = started_until(moment, pile, out)
        killed = sum(process.send(signal.SIGKILL, worker) for worker in process.workers()[:1])
        code, said = process.end()
        assert code == 0, said
        assert contents(out) == pile.whole
        process.workers_end()
        if killed:
            break
    assert killed


@pytest.mark.each_value
@pytest.mark.parametrize("to_all", [False, True])
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "the first run is sorted"),
        pytest.param(signal.SIGTERM, "half of the runs are sorted", marks=pytest.mark.long_only),
        pytest.param(signal.SIGINT, "the first part is merged", marks=pytest.mark.long_only),
        (signal.SIGTERM, "the first part is merged"),
    ],
)
def test_a_signal(
    number: signal.Signals, moment: str, to_all: bool, pile: Pile, tmp_path: Path
) -> None:
    """All workers end within two seconds, the exit code says why, and stderr how to resume."""
    out = tmp_path / "out"
    for _ in range(ATTEMPTS):
        process = started_until(moment, pile, out)
        sent = time.monotonic()
        assert (process.send_all if to_all else process.send)(number)
        code, said = process.end()
        assert time.monotonic() - sent < max(2, pile.seconds)  # of a whole run, on a slow machine
        assert process.workers_end() < max(0.5, pile.seconds / 4)
        if code != 0:
            break
        assert contents(out) == pile.whole  # it was too late
        shutil.rmtree(out)
    assert code == 128 + number, said
    assert "error: interrupted" in said if number == signal.SIGINT else "error: terminated" in said
    assert not out.exists()
    assert "the same command resumes from there, or starts over with --fresh" in said
    run_again(pile, out)


def test_a_signal_after_a_finished_task(pile: Pile, tmp_path: Path) -> None:
    """The next run reuses it."""
    out = tmp_path / "out"
    for _ in range(ATTEMPTS):
        process = Process(command(pile.shards, out))
        process.wait_until(lambda: any(tmp_path.glob(".out.fastrec-work/journal-*")))
        process.send(signal.SIGTERM)
        code, said = process.end()
        if code != 0:
            break
        shutil.rmtree(out)  # it was too late
    assert code == 128 + signal.SIGTERM, said
    assert "resuming an interrupted run" in run_again(pile, out)


def test_a_second_interrupt_stops_at_once(pile: Pile, tmp_path: Path) -> None:
    """A second Ctrl-C ends the run at once, and the next run still gives the expected bytes."""
    out = tmp_path / "out"
    for _ in range(ATTEMPTS):
        process = started_until("the first run is sorted", pile, out)
        process.workers()
        process.send(signal.SIGINT)
        time.sleep(0.02)
        process.send(signal.SIGINT)
        code, _ = process.end()
        if code != 0:
            break
        assert contents(out) == pile.whole  # it was too late
        shutil.rmtree(out)
    assert code in (130, -signal.SIGINT)
    run_again(pile, out)
    process.workers_end()


def test_two_workers_are_lost_in_two_ways(pile: Pile, tmp_path: Path) -> None:
    """If one worker is stopped and the other one killed, the run does not wait for the stopped one
    for ever.
    """
    out = tmp_path / "out"
    process = Process(command(pile.shards, out))
    assert process.wait_until(lambda: len(process.workers()) == 2)
    stopped, killed = process.workers()
    assert process.send(signal.SIGSTOP, stopped)
    assert process.send(signal.SIGKILL, killed)
    code, said = process.end()
    assert code == 0, said
    assert contents(out) == pile.whole
