"""Every call to the operating system that a run makes is let fail, one after the other: nothing is lost."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.faults.failing import LASTING, Scene, cut_small, make_scene, no_exchange, try_fault
from tests.faults.injecting import OPERATIONS, REASONS, Faults

SCENES: dict[str, dict[str, Any]] = {
    "new": {"replace": False},
    "replaced": {"replace": True, "conflicts": "first"},
    "two renames": {"replace": True, "compression": "gz"},
}
CASES = [
    (scene, operation)
    for scene in SCENES
    for operation in OPERATIONS
    if scene != "two renames" or operation in ("rename", "fsync", "stat", "unlink", "rmdir")
]


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A new corpus, or one that takes the place of another."""
    cut_small(monkeypatch)
    if request.param == "two renames":
        no_exchange(monkeypatch)
    return make_scene(tmp_path, **SCENES[request.param])


@pytest.mark.parametrize(("scene", "operation"), CASES, indirect=["scene"])
def test_any_call_may_fail(operation: str, scene: Scene) -> None:
    """OUT is absent or as it was, the error names file and reason, and the next run gives the undisturbed bytes."""
    # What takes hundreds of calls is tried at each of them for a new corpus, and at every fourth for the others.
    step = 4 if scene.old and operation in ("open", "close", "pread") else 1
    for nth in count(1, step):
        reason = OPERATIONS[operation] if nth % 2 else REASONS[nth // 2 % len(REASONS)]
        lasting = reason in LASTING and operation not in ("rename", "stat")  # a way back must be left
        if not try_fault(scene, Faults(scene.folder, operation, nth, reason, lasting=lasting)):
            break
    assert nth > step
