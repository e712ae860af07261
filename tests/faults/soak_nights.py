"""Cases of the soak test with incremental nights: any changes to the pile, interruptions, damage
and kills.
"""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import msgspec

from fastrec.limits import LIMITS, Limits
from tests.faults.failing import contents
from tests.faults.killed_nights import KilledNights
from tests.faults.night_run import NightRun
from tests.faults.processes import Process
from tests.normalize.nights import CONTENT, HOW_DAMAGED, WAYS, Night, Nights, random_night
from tests.normalize.piles import DEEDS, Pile


class NightCases:
    """Piles that change from night to night."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._killed = KilledNights(folder / "killed")
        self._changes = self._killed.changes()
        self.bytes = 0
        """Text that nights have read."""

    def disturb(self, dice: random.Random) -> int:
        """A sequence of nights with changes, interruptions and damage.

        Return how many of these there were.
        """
        scene = self._scene(dice)
        injected = 0
        for _ in range(dice.randint(2, 5)):
            night = random_night(dice)
            if not injected:
                night = msgspec.structs.replace(
                    night, damage=(dice.choice(HOW_DAMAGED), dice.randrange(1_000))
                )
            self.bytes += scene.night(night).text_bytes
            injected += bool(night.stop) + bool(night.damage)
        scene.verify()
        return injected

    def kill(self, dice: random.Random) -> int:
        """A night is killed before some change to a file, or some time after it began."""
        if dice.random() < 0.5:
            return self._killed.kill_at(dice.randint(1, self._changes))
        return self._killed.kill_after(dice.uniform(0.1, 0.8), jobs=dice.choice([1, 2]))

    def kill_many(self, dice: random.Random) -> int:
        """Any nights, each killed once or twice, perhaps with changes to the pile in between."""
        scene = self._scene(dice)
        killed = 0
        for _ in range(dice.randint(1, 3)):
            before = contents(scene.out)
            for _ in range(dice.randint(1, 2)):
                for _ in range(dice.randint(0, 3)):
                    scene.change(dice.choice(sorted(DEEDS)), dice.randrange(1_000))
                code, said = Process(self._killed_run(scene, dice).command).end()
                assert code in (0, -signal.SIGKILL), said
                killed += code != 0
                if contents(scene.out) != before:
                    scene.check()
                    before = contents(scene.out)
            scene.forget()
            self.bytes += scene.night(Night(way=dice.randrange(len(WAYS)))).text_bytes
        scene.verify()
        return killed

    def _scene(self, dice: random.Random) -> Nights:
        shutil.rmtree(self._folder / "nights", ignore_errors=True)
        pile = Pile(self._folder / "nights" / "in", dice.randint(1, 6), dice.randint(1, 3))
        scene = Nights(self._folder / "nights", pile, dice.randrange(len(CONTENT)))
        scene.night(Night(way=dice.randrange(len(WAYS))))
        return scene

    def _killed_run(self, scene: Nights, dice: random.Random) -> NightRun:
        paths = [str(path) for path in scene.pile.paths]
        limits = dice.choice(
            [
                LIMITS,
                Limits(task_bytes=3_000),
                Limits(task_bytes=3_000, unmerged_runs=2, merged_runs=2),
            ]
        )
        return NightRun(
            paths, str(scene.out), scene.content, limits, int(self._changes ** dice.random()) + 1
        )
