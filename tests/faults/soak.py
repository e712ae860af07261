"""The soak test: random faults for a given time. `make soak` runs it.

A case depends only on the seed and its number, so `--case 17` repeats one. out/soak/state.json
records the next case, and the next call continues there. The test prints how many faults of each
kind it has injected. It exits 1 if anything was lost, or if a kind was never injected. It needs
/proc, and s3fs and moto for the cases in a store.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastrec.normalize.options import Options
from fastrec.normalize.task_settings import Choice
from tests.faults.failing import LASTING, Scene, contents, make_scene, no_exchange, try_fault
from tests.faults.fuzzing import damaged, try_shards
from tests.faults.injecting import OPERATIONS, REASONS, Faults
from tests.faults.processes import (
    Pile,
    Process,
    check_after,
    command,
    generate,
    generate_one,
    make_pile,
)
from tests.faults.soak_nights import NightCases
from tests.faults.soak_stores import StoreCases

HOME = Path("out/soak")
CHOICES: tuple[Choice, ...] = ("keep", "first", "reject")
LONGEST = 120  # seconds that a case may take


class Counts(msgspec.Struct):
    """Counts of the cases that ran, of the faults that were really injected, and of failures."""

    cases: int = 0
    bytes: int = 0
    injected: dict[str, int] = {}
    """By kind of fault."""
    losses: int = 0
    hangs: int = 0
    tracebacks: int = 0

    @property
    def bad(self) -> int:
        return self.losses + self.hangs + self.tracebacks

    def add(self, kind: str, count: int = 1) -> None:
        self.injected[kind] = self.injected.get(kind, 0) + count

    def __add__(self, other: Counts) -> Counts:
        numbers = {name: getattr(self, name) + getattr(other, name) for name in COUNTED}
        kinds = self.injected.keys() | other.injected.keys()
        return Counts(
            **numbers, injected={kind: self.of(kind) + other.of(kind) for kind in sorted(kinds)}
        )

    def of(self, kind: str) -> int:
        return self.injected.get(kind, 0)

    def __str__(self) -> str:
        faults = ", ".join(f"{count:,} {kind}" for kind, count in self.injected.items())
        failures = f"{self.losses} losses, {self.hangs} hangs, {self.tracebacks} tracebacks"
        return f"{self.cases:,} cases, {self.bytes / 1e6:,.1f} MB; injected: {faults}; {failures}"


COUNTED = ("cases", "bytes", "losses", "hangs", "tracebacks")

KINDS = {
    "fault": "failed calls",
    "fuzz": "damaged inputs",
    "kill_parent": "killed runs",
    "kill_worker": "killed or stopped workers",
    "interrupt": "signals",
    "stop_in_store": "runs stopped until their lease lapsed",
    "kill_in_store": "runs killed during a request",
    "race_in_store": "pairs of runs at once",
    "fail_in_store": "failed requests",
    "disturb_nights": "interruptions and damage of nights",
    "kill_night": "killed nights",
    "kill_nights": "killed nights of random piles",
}
"""The kinds of cases, and what each injects."""

CYCLE = (
    *(
        "stop_in_store",
        "fault",
        "fuzz",
        "kill_parent",
        "fault",
        "fuzz",
        "kill_in_store",
        "fault",
        "fuzz",
        "kill_worker",
    ),
    *(
        "race_in_store",
        "fault",
        "fuzz",
        "interrupt",
        "fault",
        "fuzz",
        "fail_in_store",
        "fault",
        "fuzz",
    ),
    *("disturb_nights", "kill_night", "kill_nights"),
)
"""The order of cases, so that a short test has all kinds too."""


class State(msgspec.Struct):
    """The state of a soak test."""

    seed: int
    next: int = 0
    counts: Counts = msgspec.field(default_factory=Counts)


class Hang(BaseException):
    """A case took too long."""


class Soak:
    """The directory and the corpora that cases use."""

    def __init__(self, folder: Path, counts: Counts) -> None:
        self.counts = counts
        self._folder = folder
        self._patch = pytest.MonkeyPatch()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._scenes = [
            self._scene("new", replace=False),
            self._scene("replaced", replace=True, conflicts="first", repeats="first"),
        ]
        self._scenes.append(
            self._scene(
                "rejected", replace=True, conflicts="reject", repeats="reject", compression="gz"
            )
        )
        self._piles = [
            make_pile(generate(folder / "many"), folder / "made of many"),
            make_pile(generate_one(folder / "one"), folder / "made of one"),
        ]
        self._stores = StoreCases((folder / "stores").resolve())
        self._nights = NightCases((folder / "nights").resolve())

    def _scene(self, name: str, **options: Any) -> Scene:
        (self._folder / name).mkdir()
        return make_scene((self._folder / name).resolve(), **options)

    def play(self, number: int, dice: random.Random) -> None:
        """Run one case, and count the faults that it has injected."""
        kind = CYCLE[number % len(CYCLE)]
        self.counts.add(KINDS[kind], 0)
        injected = getattr(self, kind)(dice)
        self.counts.add(KINDS[kind], injected)

    def stop_in_store(self, dice: random.Random) -> int:
        return self._stores.stop(dice)

    def kill_in_store(self, dice: random.Random) -> int:
        return self._stores.kill(dice)

    def race_in_store(self, dice: random.Random) -> int:
        return self._stores.race(dice)

    def fail_in_store(self, dice: random.Random) -> int:
        return self._stores.fail(dice)

    def disturb_nights(self, dice: random.Random) -> int:
        return self._of_nights(self._nights.disturb, dice)

    def kill_night(self, dice: random.Random) -> int:
        return self._of_nights(self._nights.kill, dice)

    def kill_nights(self, dice: random.Random) -> int:
        return self._of_nights(self._nights.kill_many, dice)

    def _of_nights(self, case: Callable[[random.Random], int], dice: random.Random) -> int:
        before = self._nights.bytes
        injected = case(dice)
        self.counts.bytes += self._nights.bytes - before
        return injected

    def close(self) -> None:
        """Stop the server."""
        self._stores.close()

    def fault(self, dice: random.Random) -> int:
        """One call of a run fails, or that call and all later ones of its kind."""
        operation = dice.choice(list(OPERATIONS))
        reason = dice.choice(REASONS)
        with self._patch.context() as patch:
            if dice.random() < 0.3:
                no_exchange(patch)
            scene = dice.choice(self._scenes)
            lasting = (
                dice.random() < 0.5 and reason in LASTING and operation not in ("rename", "stat")
            )
            nth = int(50 ** dice.random())  # of most operations there are few calls
            faults = Faults(scene.folder, operation, nth, reason, lasting=lasting)
            injected = try_fault(scene, faults)
        self.counts.bytes += sum(path.stat().st_size for path in scene.shards.iterdir())
        return injected

    def fuzz(self, dice: random.Random) -> int:
        """Damaged shards."""
        shards = damaged(dice)
        options = Options(
            conflicts=dice.choice(CHOICES),
            repeats=dice.choice(CHOICES),
            memory=5 << 20,
            max_line_bytes=1 << 14,
            allow_empty=True,
        )
        try_shards(self._folder / "fuzz", shards, options)
        self.counts.bytes += sum(len(data) for _, data in shards)
        return 1

    def kill_parent(self, dice: random.Random) -> int:
        """The command is killed, perhaps several times."""
        out = self._new_place()
        pile = dice.choice(self._piles)
        killed = 0
        for _ in range(dice.randint(1, 3)):
            process = self._start(pile, out, dice)
            killed += process.send(signal.SIGKILL)
            process.end()
            check_after(out, [None, pile.whole])
            if dice.random() < 0.5:
                process.workers_end()  # else the next run meets those of this one
        self._run_again(pile, out)
        return killed

    def kill_worker(self, dice: random.Random) -> int:
        """A worker is killed, and perhaps another one stopped: the run succeeds all the same."""
        out = self._new_place()
        pile = dice.choice(self._piles)
        process = self._start(pile, out, dice)
        process.wait_until(process.workers)
        workers = process.workers()[: dice.randint(1, 2)]
        sent = sum(map(process.send, (signal.SIGKILL, signal.SIGSTOP), workers))
        code, said = process.end()
        assert code == 0, said
        assert contents(out) == pile.whole
        process.workers_end()
        return sent

    def interrupt(self, dice: random.Random) -> int:
        """The command is interrupted or terminated, once or twice."""
        out = self._new_place()
        pile = dice.choice(self._piles)
        sent = 0
        process = self._start(pile, out, dice, at_least=0.5)
        number = dice.choice([signal.SIGINT, signal.SIGTERM])
        send = dice.choice([process.send, process.send_all])
        for _ in range(dice.randint(1, 2)):
            sent += send(number)
            time.sleep(dice.choice([0, 0.01, 0.1]))
        code, said = process.end()
        assert code in (0, 128 + number, -number), said
        process.workers_end()
        check_after(out, [None, pile.whole])
        self._run_again(pile, out)
        return sent

    def _new_place(self) -> Path:
        place = self._folder / "place"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place / "out"

    def _start(self, pile: Pile, out: Path, dice: random.Random, at_least: float = 0.05) -> Process:
        process = Process(command(pile.shards, out, "--overwrite"))
        process.sleep(dice.uniform(at_least, max(pile.seconds, at_least)))
        return process

    def _run_again(self, pile: Pile, out: Path) -> None:
        code, said = Process(command(pile.shards, out, "--overwrite")).end()
        assert code == 0, said
        assert contents(out) == pile.whole
        assert [path.name for path in out.parent.iterdir()] == ["out"]
        self.counts.bytes += pile.bytes


def try_case(soak: Soak, seed: int, number: int) -> None:
    """Run a case, and count failures."""
    signal.alarm(LONGEST)
    try:
        soak.play(number, random.Random(f"{seed} {number}"))
    except AssertionError as exc:
        words = str(exc)
        if words.startswith("hang"):
            soak.counts.hangs += 1
        elif "Traceback" in words:
            soak.counts.tracebacks += 1
        else:
            soak.counts.losses += 1
        traceback.print_exc()
    except Hang:
        soak.counts.hangs += 1
        traceback.print_exc()
    except Exception:  # noqa: BLE001 - whatever a run raises beside its own errors would be a traceback
        soak.counts.tracebacks += 1
        traceback.print_exc()
    else:
        return
    finally:
        signal.alarm(0)
        soak.counts.cases += 1
    print(f"case {number} failed; repeat it with --seed {seed} --case {number}", flush=True)


def load(seed: int | None) -> State:
    """Load the state of the last call, unless another seed is given."""
    try:
        state = msgspec.json.decode((HOME / "state.json").read_bytes(), type=State)
    except (OSError, msgspec.MsgspecError):
        return State(seed or 0)
    return state if seed in (None, state.seed) else State(seed)


def wake(*_: object) -> None:
    raise Hang


def main() -> None:
    """Run cases until the time is up."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--minutes", type=float, default=10.0, help="duration")
    parser.add_argument(
        "--seed", type=int, help="seed of the cases; default: that of the last call"
    )
    parser.add_argument("--case", type=int, help="run only this case")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, wake)
    state = load(given.seed)
    counts = Counts()
    soak = Soak(HOME / "work", counts)
    print(
        f"seed {state.seed}, from case {state.next if given.case is None else given.case}",
        flush=True,
    )
    if given.case is not None:
        try_case(soak, state.seed, given.case)
    else:
        until = said = time.monotonic()
        until += given.minutes * 60
        while time.monotonic() < until:
            try_case(soak, state.seed, state.next)
            state.next += 1
            whole = msgspec.structs.replace(state, counts=state.counts + counts)
            (HOME / "state.json").write_bytes(msgspec.json.encode(whole))
            if time.monotonic() - said > 30:
                said = time.monotonic()
                print(counts, flush=True)
    print(counts)
    soak.close()
    shutil.rmtree(HOME / "work", ignore_errors=True)
    missing = [kind for kind in KINDS.values() if not counts.of(kind)] if given.case is None else []
    if missing:
        print(f"never injected: {', '.join(missing)}; give the test more time")
    sys.exit(1 if counts.bad or missing else 0)


if __name__ == "__main__":
    main()
