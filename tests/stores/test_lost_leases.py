"""Two runs, one output in a store: whatever the moment at which one stalls, dies or loses an
answer, a corpus is whole.

Each test repeats a run, and lets something happen at one of its requests: at some with `make test`,
at every one with `make test-long`.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import fastrec
from fastrec.corpus import lock as leases
from fastrec.errors import LockedError, LostLeaseError, UsageError
from fastrec.limits import Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from tests.normalize.normalizing import write
from tests.normalize.test_failures import lines_of
from tests.services.s3 import without_token

pytest.importorskip("fsspec")
from tests.sizes import LONG, examples
from tests.stores.fake import FakeStore, Faults

OUT = "fake://bucket/nightly/corpus"
SMALL = {"task_bytes": 2_000}
OPTIONS: dict[str, Any] = {"part_size": 4_000, "memory": 5 << 20, "level": 1, "overwrite": True}
PATIENT = Limits(**SMALL)
HASTY = Limits(**SMALL, lease_renew_seconds=0.001, lease_lapse_seconds=0.0)
"""The limits of a run that presumes every other one dead."""

CONDITIONS = ["kept", "ignored", "unsupported"]
"""What a store does about the conditions of requests."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    yield Faults()
    Faults()


@pytest.fixture
def shards(tmp_path: Path) -> dict[str, Path]:
    """Shards of three runs; their records say whose they are."""
    for name in ("old", "a", "b"):
        write(tmp_path / name / "one.jsonl", [*lines_of(name, 4), b"{"])
        write(tmp_path / name / "two.jsonl", lines_of(f"{name}-too", 3))
    return {name: tmp_path / name for name in ("old", "a", "b")}


def normalize(shards: Path, limits: Limits = PATIENT) -> None:
    use_limits(limits)(run)([shards], OUT, Options(**OPTIONS))


def published() -> str | None:
    """Check the corpus; return whose records it has, None if there is no corpus."""
    if "/bucket/nightly/corpus/manifest.json" not in FakeStore.store:
        return None
    FakeStore.faults.calm()
    assert fastrec.verify(OUT).problems == []
    owners = {json.loads(line)["evaluation_id"].removesuffix("-too") for line in fastrec.cat(OUT)}
    assert len(owners) == 1
    return str(owners.pop())


def at_request(store: Faults, number: int, then: Callable[[], None]) -> list[str]:
    """Do something before the request of this thread with some number, once.

    Return a list that has it afterwards.
    """
    thread = threading.current_thread()
    count = itertools.count()
    hit = list[str]()

    def before(request: str) -> None:
        if threading.current_thread() is thread and not hit and next(count) == number:
            hit.append(request)
            then()

    store.before = before
    return hit


def moments(store: Faults, old: Path, step: int = 1) -> Iterator[int]:
    """Yield the numbers of requests, each time with the same old corpus, until a test stops."""
    normalize(old)
    before = dict(FakeStore.store)
    # Each kind of store gets other moments.
    few = 3 * step if store.conditions == "kept" else 11
    for number in range(0 if LONG else CONDITIONS.index(store.conditions), 200, 1 if LONG else few):
        FakeStore.store.clear()
        FakeStore.store.update(before)
        store.requests.clear()
        yield number
    raise AssertionError("a run never ends")


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_a_run_stalls_and_another_one_publishes(
    conditions: str, store: Faults, shards: dict[str, Path]
) -> None:
    """It wakes up without knowing it. What it writes and removes is not the other run's."""
    store.conditions = conditions
    lost = 0
    for number in moments(store, shards["old"]):
        hit = at_request(store, number, lambda: normalize(shards["b"], HASTY))
        try:
            normalize(shards["a"])
        except LostLeaseError:
            lost += 1
            assert published() == "b", hit
        else:
            assert published() in ("a", "b"), hit
        if not hit:
            break
    assert lost > (examples(5, 10) if conditions == "kept" else 1)


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_a_run_stalls_and_wakes_up_while_another_one_works(
    conditions: str, store: Faults, shards: dict[str, Path]
) -> None:
    """The other one has written its parts, and is about to publish. One of them publishes."""
    store.conditions = conditions
    ends: Counter[str | None] = Counter()
    for number in moments(store, shards["old"], 2):
        reached = threading.Event()
        woken = threading.Event()

        def other(reached: threading.Event = reached, woken: threading.Event = woken) -> None:
            own = threading.current_thread()
            stall = store.before

            def before(request: str) -> None:
                if (
                    threading.current_thread() is own
                    and request.startswith("PUT")
                    and "manifest" in request
                ):
                    reached.set()
                    woken.wait(10)
                stall(request)

            store.before = before
            with contextlib.suppress(LockedError):
                normalize(shards["b"], HASTY)
            reached.set()

        thread = threading.Thread(target=other)
        hit = at_request(
            store, number, lambda thread=thread, reached=reached: (thread.start(), reached.wait(10))
        )
        with contextlib.suppress(LockedError):
            normalize(shards["a"])
        woken.set()
        if not hit:
            break
        thread.join(10)
        ends[published()] += 1
        assert ends.keys() <= {"a", "b"}, hit
    assert len(ends) == (2 if conditions == "kept" else 1)  # else the last one to write always wins


def test_a_run_that_may_have_lost_its_lease_asks_before_it_writes(
    store: Faults, shards: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it was stopped for a while, it ends before it writes or removes anything more."""
    ahead = 0.0
    monkeypatch.setattr(leases, "_clocks", lambda: (time.monotonic() + ahead, time.time() + ahead))
    lost = 0
    for number in moments(store, shards["old"]):

        def stall() -> None:
            nonlocal ahead
            normalize(shards["b"], HASTY)
            ahead += 1_000
            store.requests.clear()

        hit = at_request(store, number, stall)
        try:
            normalize(shards["a"])
        except LostLeaseError:
            lost += 1
            changes = [one for one in store.requests if not one.startswith(("HEAD", "GET", "LIST"))]
            assert {one for one in changes if not one.endswith(".fastrec-writing")} == set(), hit
        if not hit:
            break
    assert lost > examples(5, 10)


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_a_run_is_killed(conditions: str, store: Faults, shards: dict[str, Path]) -> None:
    """The next one makes the same corpus, and removes what the killed one left if that is safe."""

    class Killed(BaseException):
        """Nothing is sent any more, not even to clean up."""

    store.conditions = conditions
    killed = 0
    for number in moments(store, shards["old"], 2):
        count = itertools.count()

        def before(request: str, number: int = number, count: Iterator[int] = count) -> None:
            if next(count) >= number:
                raise Killed(request)

        store.before = before
        try:
            normalize(shards["a"])
        except Killed:
            pass
        else:
            break
        assert published() in ("old", "a")
        killed += 1
        normalize(shards["a"], HASTY)
        assert published() == "a"
        if conditions == "kept":
            names = sorted(without_token(name.rpartition("/")[2]) for name in store.objects)
            assert names == [
                "manifest.json",
                "part-00000.columns",
                "part-00000.jsonl.zst",
                "part-00001.columns",
                "part-00001.jsonl.zst",
                "rejects.jsonl.zst",
                "summary.json",
            ]
    assert killed > (examples(6, 12) if conditions == "kept" else 4)


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_an_answer_is_lost(conditions: str, store: Faults, shards: dict[str, Path]) -> None:
    """The request has succeeded, but the client does not know it.

    The corpus is whole, and so is the next one.
    """
    store.conditions = conditions
    failed = 0
    for number in moments(store, shards["old"]):
        count = itertools.count()
        hit = list[str]()

        def after(
            request: str, number: int = number, count: Iterator[int] = count, hit: list[str] = hit
        ) -> None:
            if next(count) == number:
                hit.append(request)
                raise OSError(errno.ETIMEDOUT, "no answer")

        store.after = after
        try:
            normalize(shards["a"])
            assert published() == "a", hit
        except OSError:
            failed += 1
            assert published() == "old", hit
            normalize(shards["a"], HASTY)
            assert published() == "a", hit
        if not hit:
            break
    assert failed > (examples(2, 5) if conditions == "kept" else 1)


def test_requests_are_repeated(store: Faults, shards: dict[str, Path]) -> None:
    """A client repeats requests whose answers were lost.

    The second one finds the object changed: by the first.
    """
    store.repeat = True
    for name in ("old", "a"):
        normalize(shards[name])
        assert published() == name
    assert not [name for name in store.objects if ".fastrec" in name]


def test_parts_of_another_run_are_copied(
    store: Faults, shards: dict[str, Path], tmp_path: Path
) -> None:
    """A run that resumes uses copies with its own names, and does not depend on what the other run
    does to its own.
    """

    def die(request: str) -> None:
        if "/summary-" in request:
            raise KeyboardInterrupt

    normalize(shards["old"])
    store.before = die
    with pytest.raises(KeyboardInterrupt):
        normalize(shards["a"])
    left = [name for name in store.objects if "/part-" in name]
    FakeStore.faults.calm()
    store.requests.clear()
    normalize(shards["a"], HASTY)
    assert published() == "a"
    assert len([one for one in store.requests if one.startswith("COPY")]) == 4
    assert not [one for one in store.requests if one.startswith("PUT") and "/part-" in one]
    assert set(left).isdisjoint(store.objects)
    assert [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()] == []


def test_a_run_that_lost_its_lease_does_not_mislead_the_next_one(
    store: Faults, shards: dict[str, Path]
) -> None:
    """It adds its finished tasks to its own journal, not to that of a run with other options."""

    def attempt(algorithm: Literal["sha256", "xxh3_128"]) -> None:
        limits = PATIENT if algorithm == "xxh3_128" else HASTY
        options = Options(**OPTIONS, hash_algorithm=algorithm, work_dir="fake://bucket/tmp")
        use_limits(limits)(run)([shards["a"]], OUT, options)

    def die(request: str) -> None:
        if "/summary-" in request:
            raise KeyboardInterrupt

    def stall(request: str) -> None:
        if "/rejects-000001-" in request and request.startswith("PUT"):
            store.before = die
            with pytest.raises(KeyboardInterrupt):
                attempt("sha256")
            store.calm()

    store.before = stall
    with pytest.raises(LostLeaseError):
        attempt("xxh3_128")
    attempt("sha256")
    assert published() == "a"
    assert {len(json.loads(line)["sample_hash"]) for line in fastrec.cat(OUT)} == {64}


def test_a_refused_run_keeps_the_lease_of_another_one(
    store: Faults, shards: dict[str, Path]
) -> None:
    """Without it, nobody would know whose files are in the output."""

    def die(request: str) -> None:
        if "/summary-" in request:
            raise KeyboardInterrupt

    store.before = die
    with pytest.raises(KeyboardInterrupt):
        normalize(shards["a"])
    store.calm()
    FakeStore().pipe_file(f"{OUT}/notes.txt", b"mine")
    with pytest.raises(
        UsageError,
        match=r"holds something other than a corpus, fake://bucket/nightly/corpus/notes\.txt",
    ):
        normalize(shards["a"])
    del store.objects["/bucket/nightly/corpus/notes.txt"]
    normalize(shards["a"])
    assert published() == "a"


def test_a_file_that_appears_late_is_removed_by_the_next_run(
    store: Faults, shards: dict[str, Path]
) -> None:
    """The store applies a request of a killed run after another one has published."""
    late = f"/bucket/nightly/corpus/part-00000-{'f' * 16}.jsonl.zst"

    def after(request: str) -> None:
        if request.startswith("PUT") and request.endswith("/manifest.json"):
            store.objects[late] = next(
                data for name, data in store.objects.items() if "/part-" in name
            )

    store.after = after
    normalize(shards["a"])
    assert late in store.objects
    assert published() == "a"
    normalize(shards["b"])
    assert published() == "b"
    assert not [name for name in store.objects if name == late or ".fastrec" in name]
