"""The lease of an output in a store: who holds it, who may take it, and how it is kept."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fsspec")
from fastrec.corpus import lock as leases
from fastrec.corpus.lock import this_machine
from fastrec.errors import LockedError, LostLeaseError
from fastrec.limits import LIMITS, Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.storage.object_store import ObjectStore
from tests.normalize.normalizing import write
from tests.normalize.test_failures import lines_of
from tests.stores.fake import FakeStore, Faults

OUT = "fake://bucket/nightly/corpus"
THERE: dict[str, Any] = {"token": "x", "process": os.getpid(), "host": "elsewhere", "since": "noon"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    write(tmp_path / "in" / "a.jsonl", lines_of("a"))
    monkeypatch.chdir(tmp_path)
    yield Faults()
    Faults()


def normalize(limits: Limits = LIMITS) -> None:
    use_limits(limits)(run)(["in"], OUT, Options(overwrite=True))


def put_lease(content: bytes = b"", **more: Any) -> None:
    FakeStore().pipe_file(f"{OUT}/.fastrec-writing", content or json.dumps(THERE | more).encode())


def has_corpus(store: Faults) -> bool:
    return "/bucket/nightly/corpus/manifest.json" in store.objects


def test_one_run_at_a_time(store: Faults) -> None:
    """A second run is refused, with the process of the first.

    The lease of an ended run does not matter.
    """
    put_lease(alive=time.time())
    with pytest.raises(
        LockedError,
        match=r"is being written by another run, process [0-9]+ on elsewhere since noon",
    ):
        normalize()
    assert not has_corpus(store)
    put_lease(alive=0)
    normalize()
    assert has_corpus(store)
    put_lease(b"no lease at all")
    normalize()
    assert not [name for name in store.objects if "/.fastrec" in name]


def test_host_names_prove_nothing(store: Faults) -> None:
    """A process that does not exist here may run in another container of the same name."""
    gone = {"process": 2**30, "host": socket.gethostname(), "alive": time.time()}
    put_lease(**gone, machine="another")
    with pytest.raises(LockedError):
        normalize()
    put_lease(**gone, machine=this_machine())
    normalize()
    assert has_corpus(store)


@pytest.mark.parametrize("wrong", [-3_600, 3_600])
def test_clocks_that_differ(wrong: int, store: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder that renews its lease while it is watched is alive, and one that does not is dead."""
    watched: list[float] = []

    def watch(seconds: float) -> None:
        watched.append(seconds)
        if len(watched) == 1:
            put_lease(alive=time.time() + wrong + seconds)

    monkeypatch.setattr(leases.time, "sleep", watch)
    put_lease(alive=time.time() + wrong)
    with pytest.raises(LockedError):
        normalize()
    assert not has_corpus(store)
    normalize()
    assert has_corpus(store)
    assert watched == [1.5 * LIMITS.lease_renew_seconds] * 2


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("jump", [-3_600, 3_600])
def test_the_clock_is_set_while_a_run_holds_its_lease(
    jump: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run renews its lease before it relies on it again."""
    lease = leases.Lease(ObjectStore(), f"{OUT}/.fastrec-writing", OUT)
    clock = time.time
    with lease.held():
        monkeypatch.setattr(leases.time, "time", lambda: clock() + jump)
        lease.check()
        alive = json.loads(FakeStore().cat_file(f"{OUT}/.fastrec-writing"))["alive"]
        assert abs(alive - clock() - jump) < 60


def test_a_lease_is_renewed_while_a_run_waits(store: Faults) -> None:
    """By a thread of its own."""
    renewed = threading.Event()

    def before(request: str) -> None:
        if threading.current_thread().name == "fastrec-lease":
            renewed.set()
        elif "/part-" in request:
            assert renewed.wait(10)

    store.before = before
    normalize(Limits(lease_renew_seconds=0.01))
    assert has_corpus(store)
    assert renewed.is_set()


def test_a_lost_lease_names_the_other_run(store: Faults) -> None:
    """It was presumed dead, and another run took its lease."""

    def after(request: str) -> None:
        if "/summary-" in request:
            put_lease(alive=0)

    store.after = after
    with pytest.raises(
        LostLeaseError, match=r"taken over by another run, process [0-9]+ on elsewhere since noon"
    ):
        normalize()
    assert not has_corpus(store)
