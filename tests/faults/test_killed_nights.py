"""A night that is killed at any moment leaves the old corpus or the new one, and work that the next
night can use.

`make test-long` kills nights before every change that they make to a file.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastrec.limits import Limits
from fastrec.normalize.options import Options
from tests.faults.killed_nights import KilledNights, some_of
from tests.faults.night_run import NightRun
from tests.faults.processes import HAS_PROC
from tests.normalize.nights import ATTEMPTS, CONTENT, first_attempt, random_night
from tests.sizes import LONG, examples

EXAMPLES = examples(2, 1_000)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> KilledNights:
    return KilledNights(tmp_path_factory.mktemp("killed") / "scene")


@pytest.mark.timeout(60 + EXAMPLES * 3)
def test_a_night_is_killed_before_a_change_to_a_file(scene: KilledNights) -> None:
    """Moments spread over the whole night: writing, renaming, linking, removing."""
    total = scene.changes()
    assert total > 50
    for number in some_of(EXAMPLES, total, random.Random(16)):
        try:
            assert scene.kill_at(number), "the night has ended before"
        except AssertionError as exc:
            exc.add_note(f"the night was killed before change {number} of {total}")
            raise


@pytest.mark.timeout(120)
def test_a_night_is_killed_while_it_publishes_parts_that_are_not_linked(tmp_path: Path) -> None:
    """The list of kept work names parts in OUT, which are those of the old list until the new
    corpus is there.
    """
    scene = KilledNights(tmp_path / "scene", compression="none", part_size=64 << 10)
    total = scene.changes()
    found = set()
    for number in range(total, 1, -4 if LONG else -20):
        assert scene.kill_at(number)
        found.add(scene.was_published)
        if not scene.was_published:
            break
    assert found == {True, False}


@pytest.mark.skipif(not HAS_PROC, reason="needs /proc to see the workers")
@pytest.mark.timeout(60 + EXAMPLES)
def test_a_night_of_two_workers_is_killed_at_some_time(scene: KilledNights) -> None:
    """Also in the middle of a write, and while workers are busy."""
    dice = random.Random(16)
    killed = [
        scene.kill_after(dice.uniform(0.2, 0.7), jobs=2) for _ in range(max(EXAMPLES // 4, 2))
    ]
    assert any(killed), "all nights have ended before"


@pytest.mark.parametrize("content", CONTENT)
def test_a_night_in_its_own_process_has_the_same_options(content: dict[str, Any]) -> None:
    sent = msgspec.json.encode(NightRun(["in"], "out", content, Limits(task_bytes=3_000)))
    received = msgspec.json.decode(sent, type=NightRun)
    assert received.made_options() == Options(**content, incremental=True, overwrite=True)
    assert received.limits == Limits(task_bytes=3_000)


def test_the_random_nights_of_the_soak_test_have_valid_options() -> None:
    dice = random.Random(17)
    nights = [random_night(dice) for _ in range(200)]
    for night in nights:
        options = first_attempt(night)
        options.pop("limits", None)
        Options(**{"incremental": True, "overwrite": True, **options})
    assert {(night.attempt, night.check) for night in nights} == {
        (attempt, check) for attempt in range(len(ATTEMPTS)) for check in ("stat", "content")
    }
