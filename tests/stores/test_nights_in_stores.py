"""Incremental nights with shards, output or kept work in an object store, and with tasks on a
cluster.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.limits import Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import NormalizeResult, run
from tests.faults.killed_nights import some_of
from tests.normalize.nights import Nights, check_same
from tests.normalize.piles import DEEDS, MODELS, Pile, answers, settle
from tests.services.dask import LOOSE, Cluster
from tests.services.s3 import without_token

pytest.importorskip("fsspec")
from tests.sizes import examples
from tests.stores.fake import FakeStore, Faults

OUT = "fake://bucket/nightly/corpus"
FULL = "fake://bucket/full/corpus"
SMALL = Limits(task_bytes=4_000)
HASTY = Limits(task_bytes=4_000, lease_renew_seconds=0.001, lease_lapse_seconds=0.0)
"""The limits of a run that presumes every other one dead."""
OPTIONS: dict[str, Any] = {"part_size": 4 << 10, "repeats": "first", "level": 1, "overwrite": True}
WORK = [None, "fake://bucket/work"]
EXAMPLES = examples(5, 100)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    yield Faults()
    Faults()


def put(pile: Pile) -> list[str]:
    """Make the objects of the store those of a pile; return their URLs in the order of the pile."""
    wanted = {
        f"/bucket/in/{path.relative_to(pile.folder).as_posix()}": path.read_bytes()
        for path in pile.paths
    }
    store = FakeStore()
    for name in [name for name in FakeStore.store if name.startswith("/bucket/in/")]:
        if name not in wanted:
            del FakeStore.store[name]
    for name, data in wanted.items():
        if name not in FakeStore.store or FakeStore.store[name].getvalue() != data:
            store.pipe_file(name, data)
    return [f"fake:/{name}" for name in wanted]


def night(names: list[str], limits: Limits = SMALL, **more: Any) -> NormalizeResult:
    return use_limits(limits)(run)(names, OUT, Options(**{**OPTIONS, "incremental": True, **more}))


def files_of(url: str) -> dict[str, bytes]:
    """Return the files of a corpus, without the tokens of runs."""
    prefix = url.removeprefix("fake:/") + "/"
    found = {
        name.removeprefix(prefix): data
        for name, data in FakeStore.store.items()
        if name.startswith(prefix)
    }
    files = {without_token(name): data.getvalue() for name, data in found.items()}
    assert len(files) == len(found), f"files of several runs: {sorted(found)}"
    files["manifest.json"] = re.sub(
        rb"-[0-9a-f]{16}(?=\.json|\.columns|\.sources)", b"", files["manifest.json"]
    )
    return files


def check(names: list[str], **more: Any) -> None:
    """Check that the corpus is that of a full run into the store."""
    run(names, FULL, Options(**{**OPTIONS, **more}))
    check_same(files_of(OUT), files_of(FULL))


def part_names() -> set[str]:
    manifest = json.loads(FakeStore.store["/bucket/nightly/corpus/manifest.json"].getvalue())
    return {part["file"] for part in manifest["parts"]}


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("work_dir", "track"),
    [
        (None, False),
        pytest.param(None, True, marks=pytest.mark.long_only),
        ("fake://bucket/work", True),
    ],
)
def test_nights_in_a_store(work_dir: str | None, track: bool, tmp_path: Path) -> None:
    """Any changes: after each night, the corpus in the store is that of a full run."""
    pile = Pile(tmp_path / "in", evaluations=3)
    dice = random.Random(16)
    names = put(pile)
    night(names, work_dir=work_dir, track_sources=track)
    for _ in range(examples(2, 5)):
        unchanged = night(names, work_dir=work_dir, track_sources=track)
        assert (unchanged.unchanged, unchanged.parts_written) == (len(names), 0)
        for _ in range(3):
            DEEDS[dice.choice(sorted(DEEDS))](pile, dice)
        settle(pile)
        names = put(pile)
        night(names, work_dir=work_dir, track_sources=track)
        check(names, track_sources=track)
    assert fastrec.verify(OUT).problems == []


@pytest.mark.parametrize("work_dir", WORK)
def test_unchanged_parts_are_not_sent_again(
    work_dir: str | None, store: Faults, tmp_path: Path
) -> None:
    """They keep their names, or the store copies them.

    One changed evaluation sends its own parts only.
    """
    pile = Pile(tmp_path / "in", evaluations=5)
    night(put(pile), work_dir=work_dir)
    total = len(part_names())
    assert total > 5
    store.requests.clear()
    result = night(put(pile), work_dir=work_dir)
    assert (result.unchanged, result.parts_written) == (len(pile.paths), 0)
    assert sent(store) == []
    assert set(reads(store).values()) == {1}, "more than the first bytes of shards was read"
    pile.add(answers("eval-2", MODELS[3]))
    names = put(pile)
    store.requests.clear()
    result = night(names, work_dir=work_dir)
    assert (result.unchanged, result.new) == (len(pile.paths) - 1, 1)
    assert 0 < result.parts_written == len(sent(store)) < total / 2
    assert {name for name, count in reads(store).items() if count > 1} == {names[-1][6:]}
    check(names)


def test_sources_are_sent_if_a_shard_is_renamed(store: Faults, tmp_path: Path) -> None:
    """Those of its own parts only, and no parts. On other nights, nothing is sent."""
    pile = Pile(tmp_path / "in", evaluations=5)
    night(put(pile), track_sources=True)
    store.requests.clear()
    assert night(put(pile), track_sources=True).parts_written == 0
    assert sent(store) == []
    pile.rename(pile.paths[0], tmp_path / "in" / "renamed.jsonl")
    names = put(pile)
    store.requests.clear()
    result = night(names, track_sources=True, check="content")
    assert result.parts_written == 0
    written = sent(store)
    assert 0 < len(written) < len(part_names())
    assert all(".sources.zst" in one for one in written)
    check(names, track_sources=True)


def reads(store: Faults) -> Counter[str]:
    """Return how often each shard was read; the first bytes tell its format."""
    return Counter(one.split()[1] for one in store.requests if one.startswith("GET /bucket/in/"))


def sent(store: Faults) -> list[str]:
    """Return the requests that have sent parts, without their columns."""
    parts = [one for one in store.requests if one.startswith("PUT /bucket/nightly/corpus/part-")]
    return [one for one in parts if not one.endswith(".columns")]


@pytest.mark.parametrize(
    "work_dir", [pytest.param(None, marks=pytest.mark.long_only), "fake://bucket/work"]
)
def test_a_night_is_killed_in_a_store(work_dir: str | None, store: Faults, tmp_path: Path) -> None:
    """At any request: the corpus is that of the night before or of tonight, and the next night
    gives the bytes.
    """

    class Killed(BaseException):
        """Nothing is sent any more, not even to clean up."""

    total = 0
    for number in [
        0,
        *some_of(EXAMPLES // 2, 1_000, random.Random(16)),
    ]:  # thousandths of a night; 0: no kill
        pile = Pile(tmp_path / f"in-{number}", evaluations=3)
        night(put(pile), work_dir=work_dir, limits=HASTY)
        before = str(manifest_of(OUT)["text_xxh3_128"])
        pile.add(answers("eval-1", MODELS[3]))
        pile.remove(pile.paths[0])
        names = put(pile)
        count = itertools.count(1)
        if number:
            nth = number * total // 1_000

            def die(request: str, nth: int = nth, count: Iterator[int] = count) -> None:
                if next(count) >= nth:
                    raise Killed(request)

            store.before = die
        store.requests.clear()
        with contextlib.suppress(Killed):
            night(names, work_dir=work_dir)
        total = total if number else len(store.requests)
        store.calm()
        assert fastrec.verify(OUT).problems == []
        assert manifest_of(OUT)["text_xxh3_128"] in (before, full_hash(names)), (
            f"killed after {number} ‰ of a night"
        )
        result = night(names, work_dir=work_dir, limits=HASTY)
        assert result.unchanged >= len(names) - 1, result.notices
        check(names)


def manifest_of(url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        FakeStore.store[url.removeprefix("fake:/") + "/manifest.json"].getvalue()
    )
    return found


def full_hash(names: list[str]) -> str:
    run(names, FULL, Options(**OPTIONS))
    return str(manifest_of(FULL)["text_xxh3_128"])


@pytest.mark.usefixtures("store")
def test_kept_work_of_a_store_on_this_machine_does_not_grow(tmp_path: Path) -> None:
    """Each run has a directory of its own: those without kept files are removed."""
    names = put(Pile(tmp_path / "in", evaluations=2))
    for number in range(4):
        result = night(names, work_dir=str(tmp_path / "work"))
        assert result.unchanged == (len(names) if number else 0)
        directories = [path for path in (tmp_path / "work").glob(".corpus.*/*") if path.is_dir()]
        assert len(directories) == min(number + 1, 2), "those of the first night, and of tonight"
        assert all(any(path.iterdir()) for path in directories)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("where", ["inputs", "output", "work"])
def test_stores_and_directories_can_be_mixed(where: str, tmp_path: Path) -> None:
    """Only the shards, only the corpus, or only kept work is in a store."""
    scene = Nights(tmp_path, Pile(tmp_path / "in", evaluations=3))
    out = OUT if where == "output" else str(scene.out)
    options = {"work_dir": "fake://bucket/work"} if where == "work" else {}
    for number in range(3):
        names = put(scene.pile) if where == "inputs" else [str(path) for path in scene.pile.paths]
        result = run(names, out, Options(**OPTIONS, **options, incremental=True))
        assert result.unchanged == (len(names) - 1 if number else 0)
        if where == "output":
            check(names)
        else:
            full = tmp_path / f"full-{number}"
            run(names, full, Options(**OPTIONS))
            check_same(
                {path.name: path.read_bytes() for path in scene.out.iterdir()},
                {path.name: path.read_bytes() for path in full.iterdir()},
            )
        scene.pile.add(answers(f"eval-{number}", MODELS[4]))


class TestOnACluster:
    """Tasks on a Dask cluster, shards and corpus on this machine."""

    pytestmark = LOOSE

    @pytest.mark.long_only  # other tests try nights in a store, and clusters
    def test_nights_on_a_cluster(self, tmp_path: Path) -> None:
        """Work that a pool has kept is good for a cluster, and the other way round."""
        pytest.importorskip("distributed", reason="the extra `dask` is not installed")
        scene = Nights(tmp_path, Pile(tmp_path / "in", evaluations=3))
        dice = random.Random(4)
        scene.content["track_sources"] = True
        scene.run()
        with Cluster(workers=2) as running:
            for number in range(examples(2, 4)):
                for _ in range(2):
                    DEEDS[dice.choice(["new_model", "rewrite", "remove", "rename", "share_lines"])](
                        scene.pile, dice
                    )
                settle(scene.pile)
                cluster = {"engine": "dask", "scheduler": running.address, "limits": SMALL}
                scene.run(**(cluster if number % 2 == 0 else {}))
                scene.check()
                again = scene.run(**cluster)
                assert (again.unchanged, again.parts_written) == (len(scene.pile.paths), 0)


@pytest.mark.usefixtures("store")
def test_a_run_that_is_not_incremental_removes_kept_work(tmp_path: Path) -> None:
    """Nothing of the last night is left in the store, wherever this run has its temporary files."""
    names = put(Pile(tmp_path / "in", evaluations=2, models=2))
    night(names)
    assert any(".fastrec-work/" in name for name in FakeStore.store)
    night(names, incremental=False)
    assert not [name for name in FakeStore.store if ".fastrec-work" in name]
    check(names)
