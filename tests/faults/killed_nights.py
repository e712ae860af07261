"""Nights that are killed: OUT is the corpus of the night before or of this one, and the next night
gives the bytes.

Every case builds the same pile in the same directory, so that the corpora have the same bytes.
"""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastrec
from fastrec.limits import Limits
from fastrec.normalize.run import NormalizeResult
from fastrec.sources.formats import Format
from tests.faults.failing import contents
from tests.faults.night_run import NightRun
from tests.faults.processes import Process
from tests.normalize.nights import Nights, check_same
from tests.normalize.piles import MODELS, Pile, answers

SMALL = Limits(task_bytes=4_000)
TWO_JOBS = Limits(small_input=0, task_bytes=4_000)


class KilledNights:
    """A pile, its corpora before and after a day of changes, and the second night."""

    def __init__(self, folder: Path, **content: Any) -> None:
        self.folder = folder
        self.content: dict[str, Any] = {
            "part_size": 8 << 10,
            "repeats": "first",
            "track_sources": True,
            **content,
        }
        scene = self.begin()
        self.before = scene.full()
        self.unchanged = self.change(scene)
        self.after = scene.full()
        assert self.before != self.after
        self.was_published = False
        """Whether the night that was killed last had published its corpus."""

    def begin(self) -> Nights:
        """Start over: one night has passed."""
        shutil.rmtree(self.folder, ignore_errors=True)
        pile = Pile(self.folder / "in", evaluations=4, models=2)
        pile.add(
            [
                *answers("eval-1", MODELS[0], score=0.0),
                b"{",
                b"",
                *answers("eval-2", MODELS[1], range(3)),
            ]
        )
        scene = Nights(self.folder, pile)
        scene.content = dict(self.content)
        scene.run()
        return scene

    def change(self, scene: Nights) -> int:
        """Let a day pass; return how many shards did not change."""
        pile = scene.pile
        pile.add(answers("eval-2", MODELS[3]), Format.ZSTD)
        pile.add([*answers("eval-7", MODELS[0]), b"{"])
        pile.write(pile.paths[0], answers("eval-0", MODELS[0], epoch=1))
        pile.remove(pile.paths[3])
        return len(pile.paths) - 3

    def night(self, scene: Nights, kill_at: int = 0, jobs: int = 1) -> NightRun:
        """Return the second night, in a process of its own."""
        limits = SMALL if jobs == 1 else TWO_JOBS
        return NightRun(
            [str(path) for path in scene.pile.paths],
            str(scene.out),
            {**self.content, "jobs": jobs},
            limits,
            kill_at,
        )

    def changes(self) -> int:
        """Return how many changes to files the second night makes."""
        scene = self.begin()
        self.change(scene)
        code, said = Process(self.night(scene).command).end()
        assert code == 0, said
        check_same(contents(scene.out), self.after)
        return int(said.split()[-1])

    def kill_at(self, number: int) -> bool:
        """Kill the second night before a change; return whether it came so far."""
        return self._kill(lambda scene: self._killed_at(scene, number))

    def kill_after(self, seconds: float, jobs: int) -> bool:
        """Kill the second night after some time; return whether it was still running."""
        return self._kill(lambda scene: self._killed_after(scene, seconds, jobs))

    def _killed_at(self, scene: Nights, number: int) -> bool:
        code, said = Process(self.night(scene, number).command).end()
        assert code in (0, -signal.SIGKILL), said
        return code != 0

    def _killed_after(self, scene: Nights, seconds: float, jobs: int) -> bool:
        process = Process(self.night(scene, jobs=jobs).command)
        process.sleep(seconds)
        was_running = process.send(signal.SIGKILL)
        code, said = process.end()
        assert code in (0, -signal.SIGKILL), said
        process.workers_end()
        return was_running

    def _kill(self, end: Callable[[Nights], bool]) -> bool:
        scene = self.begin()
        self.change(scene)
        killed = end(scene)
        found = contents(scene.out)
        self.was_published = found != self.before
        if self.was_published:
            check_same(found, self.after)
        assert fastrec.verify(scene.out).problems == []
        self._check_next(scene, scene.run())
        return killed

    def _check_next(self, scene: Nights, result: NormalizeResult) -> None:
        """Check the night after the kill: the bytes of a full run, and the work of the first night
        was usable.
        """
        check_same(contents(scene.out), self.after)
        assert result.unchanged >= self.unchanged, (
            f"{result.unchanged} shards unchanged, expected {self.unchanged}"
        )
        assert not [line for line in result.notices if not line.startswith("resuming")], (
            result.notices
        )
        assert sorted(path.name for path in scene.out.parent.iterdir()) == [
            ".out.fastrec-work",
            "out",
        ]
        again = scene.run()
        assert (again.unchanged, again.parts_written) == (len(scene.pile.paths), 0)
        check_same(contents(scene.out), self.after)


def some_of(count: int, total: int, dice: random.Random) -> list[int]:
    """Choose numbers from 1 to a total, one from each of equal ranges."""
    if count >= total:
        return list(range(1, total + 1))
    return [
        1 + number * total // count + dice.randrange(max(total // count, 1))
        for number in range(count)
    ]
