"""Processes are killed, interrupted and terminated at random moments: nothing is lost, and no process is left."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.faults.failing import contents
from tests.faults.processes import HAS_PROC, Pile, Process, check_after, command, generate, make_pile

pytestmark = pytest.mark.skipif(not HAS_PROC, reason="needs /proc to see the workers")


@pytest.fixture(scope="module")
def pile(tmp_path_factory: pytest.TempPathFactory) -> Pile:
    folder = tmp_path_factory.mktemp("pile")
    return make_pile(generate(folder / "in"), folder / "out")


def run_again(pile: Pile, out: Path, *more: str) -> str:
    """Run again: the corpus must be as expected, with no other files beside it."""
    code, said = Process(command(pile.shards, out, *more)).end()
    assert code == 0, said
    assert contents(out) == pile.whole
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    return said


@pytest.mark.parametrize("seed", range(20))
def test_kill_9(seed: int, pile: Pile, tmp_path: Path) -> None:
    """The parent or a worker is killed at a random moment: the next run, at once, gives the expected bytes."""
    dice = random.Random(seed)
    out = tmp_path / "out"
    process = Process(command(pile.shards, out, "--overwrite"))
    process.sleep(dice.uniform(0.1, pile.seconds))
    kill_parent = bool(seed % 2)
    for victim in [process.pid] if kill_parent else process.workers()[:1]:
        process.send(signal.SIGKILL, victim)
    code, said = process.end()
    if kill_parent:
        assert code in (-signal.SIGKILL, 0), said
        check_after(out, [None, pile.whole])
        run_again(pile, out, "--overwrite")
    else:
        assert code == 0, said  # a worker that dies costs nothing but time
        assert contents(out) == pile.whole
    process.workers_end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seed", range(4))
def test_a_signal_at_a_random_moment(seed: int, number: signal.Signals, pile: Pile, tmp_path: Path) -> None:
    """All workers end within two seconds, the exit code says why, and stderr how to resume."""
    dice = random.Random(f"{seed} {number}")
    out = tmp_path / "out"
    process = Process(command(pile.shards, out))
    work = tmp_path / ".out.fastrec-work"
    assert process.wait_until(lambda: process.workers() and is_journalled(work / "journal"))
    process.sleep(dice.uniform(0, pile.seconds * 0.4))
    sent = time.monotonic()
    if seed % 2:
        process.send_all(number)
    else:
        process.send(number)
    code, said = process.end()
    assert time.monotonic() - sent < 2
    assert process.workers_end() < 0.5
    if code == 0:
        assert contents(out) == pile.whole  # it was too late
        return
    assert code == 128 + number, said
    assert "error: interrupted" in said if number == signal.SIGINT else "error: terminated" in said
    if not out.exists():
        assert "the same command resumes from there, or starts over with --fresh" in said
        assert "resuming an interrupted run" in run_again(pile, out)


def is_journalled(journal: Path) -> bool:
    """Return whether a journal has entries, so that a task is finished."""
    return journal.exists() and journal.stat().st_size > 1_000


def test_a_second_interrupt_stops_at_once(pile: Pile, tmp_path: Path) -> None:
    """A second Ctrl-C ends the run at once, and the next run still gives the expected bytes."""
    out = tmp_path / "out"
    process = Process(command(pile.shards, out))
    assert process.wait_until(lambda: list((tmp_path / ".out.fastrec-work").glob("run-*")))
    process.workers()
    for _ in range(2):
        process.send(signal.SIGINT)
        time.sleep(0.02)
    code, _ = process.end()
    assert code in (130, -signal.SIGINT)
    run_again(pile, out)
    process.workers_end()


def test_two_workers_are_lost_in_two_ways(pile: Pile, tmp_path: Path) -> None:
    """If one worker is stopped and the other one killed, the run does not wait for the stopped one for ever."""
    out = tmp_path / "out"
    process = Process(command(pile.shards, out))
    assert process.wait_until(lambda: len(process.workers()) == 2)
    stopped, killed = process.workers()
    process.send(signal.SIGSTOP, stopped)
    process.send(signal.SIGKILL, killed)
    code, said = process.end()
    assert code == 0, said
    assert contents(out) == pile.whole
