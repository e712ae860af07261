"""Each system call of a run fails once, one after the other: nothing is lost.

`make test` lets one call for each kind of file fail, `make test-long` every call.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from tests.faults.failing import LASTING, Scene, make_scene, no_exchange, try_fault
from tests.faults.injecting import OPERATIONS, REASONS, Faults
from tests.normalize.test_merge_rounds import MERGE_EARLY
from tests.sizes import LONG

SCENES: dict[str, dict[str, Any]] = {
    "new": {"replace": False},
    "replaced": {"replace": True, "conflicts": "first", "repeats": "first"},
    "two renames": {"replace": True, "compression": "gz"},
    "sources": {"replace": True, "track_sources": True},
    "rounds": {
        "replace": False,
        "conflicts": "first",
        "repeats": "first",
        "limits": replace(MERGE_EARLY, task_bytes=2_000),
    },
}
ONLY = {
    "two renames": ("rename", "fsync", "stat", "unlink", "rmdir"),
    "sources": ("open", "write", "rename", "fsync", "unlink"),
    "rounds": ("open", "close", "pread", "write", "rename", "unlink"),
}
LIKE = {"replaced": "new", "two renames": "replaced", "sources": "replaced", "rounds": "new"}
Calls = dict[str, list[str]]
"""The files that each operation is about."""
CASES = [
    (scene, operation)
    for scene in SCENES
    for operation in OPERATIONS
    if operation in ONLY.get(scene, OPERATIONS)
]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scene]:
    """Makes each scene once: every attempt restores its initial state."""
    return cache(lambda name: make_scene(tmp_path_factory.mktemp("scene"), **SCENES[name]))


@pytest.fixture(scope="module")
def calls(scenes: Callable[[str], Scene]) -> Callable[[str], Calls]:
    """The calls of an undisturbed run of each scene, found once."""
    return cache(lambda name: calls_of(scenes(name)))


@pytest.fixture
def scene(
    request: pytest.FixtureRequest, scenes: Callable[[str], Scene], monkeypatch: pytest.MonkeyPatch
) -> Scene:
    """A new corpus, or one that replaces another."""
    if request.param == "two renames":
        no_exchange(monkeypatch)
    return scenes(request.param)


@pytest.mark.parametrize(("scene", "operation"), CASES, indirect=["scene"])
def test_any_call_may_fail(
    operation: str, scene: Scene, calls: Callable[[str], Calls], request: pytest.FixtureRequest
) -> None:
    """OUT is missing or unchanged, the error names file and reason, and the next run gives the
    expected bytes.

    Calls that are tried with a scene like this one are tried here with `make test-long`, or one if
    there are no others.
    """
    name = request.node.callspec.params["scene"]
    others = calls(LIKE[name]).get(operation, []) if name in LIKE else []
    numbers = calls_that_fail(calls(name).get(operation, []), operation, set(map(kind_of, others)))
    tried = [attempt(scene, operation, nth) for nth in numbers]
    assert all(tried[:-1])  # a run may make a call more or less than the one before
    assert any(tried)


def attempt(scene: Scene, operation: str, nth: int) -> bool:
    reason = OPERATIONS[operation] if nth % 2 else REASONS[nth // 2 % len(REASONS)]
    lasting = reason in LASTING and operation not in ("rename", "stat")  # a way back must be left
    return try_fault(scene, Faults(scene.folder, operation, nth, reason, lasting=lasting))


def calls_of(scene: Scene) -> Calls:
    """The files that each operation of an undisturbed run is about."""
    scene.begin()
    with Faults(scene.folder) as faults:
        scene.run()
    folder = os.fspath(scene.folder)
    return {
        operation: [path.removeprefix(folder) for path in paths]
        for operation, paths in faults.calls.items()
    }


def kind_of(path: str) -> str:
    return re.sub(r"[0-9a-f]{4,}|\d+", "*", path)


def calls_that_fail(files: list[str], operation: str, others: set[str]) -> list[int]:
    """The numbers of calls to try: one for each kind of file that is tried nowhere else, or one
    other; or all.
    """
    if LONG:
        return list(range(1, len(files) + 1))
    kinds: dict[str, list[int]] = {}
    for number, path in enumerate(files, 1):
        kinds.setdefault(kind_of(path), []).append(number)
    dice = random.Random(operation)
    known = sorted(kinds.keys() & others)
    chosen = kinds.keys() - others or set(dice.sample(known, min(len(known), 1)))
    return sorted(dice.choice(kinds[kind]) for kind in sorted(chosen))
