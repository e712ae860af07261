"""`clean` in a store: under the lease of the output, and without the files that a run may yet
publish.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("fsspec")
import fastrec
from fastrec.commands.clean import Cleaned
from fastrec.corpus.lock import this_machine
from fastrec.corpus.manifest import listed_files
from fastrec.corpus.store_output import token_in
from fastrec.errors import LockedError, LostLeaseError, UsageError
from fastrec.limits import use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.storage.object_store import OBJECT_STORE
from tests.normalize.test_resume import StopAfter
from tests.stores.fake import FakeStore, Faults
from tests.stores.test_leases import put_lease
from tests.stores.test_lost_leases import (
    CONDITIONS,
    HASTY,
    OPTIONS,
    OUT,
    PATIENT,
    at_request,
    moments,
    normalize,
    published,
    shards,
    store,
)

__all__ = ["shards", "store"]

MARKED = "/bucket/nightly/corpus/.fastrec-writing"


def interrupt(shards: Path, work_dir: str | None = None) -> None:
    """Interrupt a run that has made a part."""
    with pytest.raises(KeyboardInterrupt):
        use_limits(PATIENT)(run)(
            [shards], OUT, Options(**OPTIONS, work_dir=work_dir), progress=StopAfter(1, "merge")
        )


def names() -> list[str]:
    return sorted(FakeStore.store)


def own_names() -> list[str]:
    return [
        name.removeprefix("/bucket/nightly/corpus/")
        for name in names()
        if "/nightly/corpus/" in name
    ]


def removed(found: Cleaned) -> dict[str, int]:
    return {one.path: one.files for one in found.removed}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.usefixtures("store")
def test_work_of_an_interrupted_run(
    shards: dict[str, Path], tmp_path: Path, is_there: bool, beside: bool
) -> None:
    """Unpublished files and work are removed, in the store or on this machine; a corpus stays."""
    if is_there:
        normalize(shards["old"])
    before = names()
    interrupt(shards["a"], "fake://bucket/nightly" if beside else None)
    left = [name for name in names() if name not in before and name != MARKED]
    unpublished = [name for name in left if "corpus/part-" in name]
    assert unpublished
    found = fastrec.clean(OUT, dry_run=True)
    assert len(names()) == len(before) + len(left) + 1
    assert removed(found)[OUT] == len(unpublished)
    assert found.removed[-1].bytes == sum(
        FakeStore.store[name].getbuffer().nbytes for name in unpublished
    )
    assert len(found.removed) == 2
    assert found.removed[0].path.startswith("fake://" if beside else str(tmp_path))
    again = fastrec.clean(OUT)
    assert (removed(again), again.bytes, again.left) == (removed(found), found.bytes, [])
    assert names() == before
    assert not list((tmp_path / "scratch").glob("fastrec-*/.corpus*work"))
    assert published() == ("old" if is_there else None)
    assert fastrec.clean(OUT).removed == []


@pytest.mark.usefixtures("store")
def test_nothing_to_remove(shards: dict[str, Path]) -> None:
    """An output without work, or without anything, needs no lease."""
    assert fastrec.clean(OUT).removed == []
    assert names() == []
    normalize(shards["old"])
    before = names()
    requests = FakeStore.faults.requests
    requests.clear()
    assert fastrec.clean(OUT).removed == []
    assert names() == before
    assert not [request for request in requests if request.startswith(("PUT", "DELETE"))]


def test_a_run_is_not_disturbed(store: Faults, shards: dict[str, Path]) -> None:
    """While its lease is valid, nothing is removed."""
    interrupt(shards["a"])
    put_lease(alive=time.time())
    before = names()
    for dry_run in (True, False):
        with pytest.raises(LockedError, match="is being written by another run"):
            fastrec.clean(OUT, dry_run=dry_run)
    assert names() == before
    assert store.objects


@pytest.mark.usefixtures("store")
def test_files_of_a_run_that_may_be_alive_stay(shards: dict[str, Path]) -> None:
    """Its lease has lapsed, but it may be just about to publish; its work can go."""
    normalize(shards["old"])
    interrupt(shards["a"])
    listed = listed_files(OBJECT_STORE.read_all(f"{OUT}/manifest.json"))
    (token,) = {token_in(name) for name in own_names() if name not in listed} - {None}
    put_lease(token=token, alive=1.0, machine="another")
    found = use_limits(HASTY)(fastrec.clean)(OUT)
    assert OUT not in removed(found)
    assert found.left
    assert all(str(token) in path for path in found.left)
    assert MARKED in names()
    put_lease(token=token, alive=1.0, machine=this_machine(), process=2**30)
    found = use_limits(HASTY)(fastrec.clean)(OUT)
    assert removed(found).keys() == {OUT}
    assert found.left == []
    assert MARKED not in names()
    assert published() == "old"


@pytest.mark.parametrize("conditions", CONDITIONS)
def test_a_run_stalls_and_is_cleaned(
    conditions: str, store: Faults, shards: dict[str, Path]
) -> None:
    """It wakes up without knowing it: it publishes a whole corpus, or none."""
    store.conditions = conditions
    ends = set()
    for number in moments(store, shards["old"]):
        hit = at_request(store, number, lambda: use_limits(HASTY)(fastrec.clean)(OUT))
        try:
            normalize(shards["a"])
        except (LostLeaseError, OSError):
            assert published() in ("old", "a"), hit
            ends.add("lost")
        else:
            assert published() == "a", hit
            ends.add("published")
        if not hit:
            break
    assert ends == {"lost", "published"}


@pytest.mark.usefixtures("store")
def test_what_is_not_ours_stays() -> None:
    FakeStore().pipe_file(f"{OUT}/notes.txt", b"ours")
    with pytest.raises(UsageError, match=r"holds something other than a corpus, .*notes.txt"):
        fastrec.clean(OUT)
    assert names() == ["/bucket/nightly/corpus/notes.txt"]
