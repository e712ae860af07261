"""The rules for outputs in an object store, on a store in this process: an S3 server would take
five times as long.

`test_normalize_in_stores` and `test_faults_in_stores` write to an S3 server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import fastrec
from fastrec.commands.rejects import rejects
from fastrec.errors import UsageError
from fastrec.limits import Limits, use_limits
from fastrec.normalize import pass1 as targets
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.storage.object_store import OBJECT_STORE
from fastrec.storage.shared_object import SharedObject
from tests.normalize.normalizing import Corpus, StopAfter, write
from tests.samples import sample, sample_of
from tests.stores import test_normalize_in_stores as on_s3
from tests.stores.test_normalize_in_stores import comparable, dies_at, published

pytest.importorskip("fsspec")
from tests.stores.fake import Bucket, Faults

OUT = "fake://bucket/nightly/corpus"
normalize = partial(on_s3.normalize, output=OUT)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty store; files of runs that are not in it are in a directory of the test."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    yield Bucket()
    Faults()


@pytest.fixture
def inputs(store: Bucket, shards: Path) -> str:
    """The URL of the shards in the store."""
    for path in shards.iterdir():
        store.put(f"in/{path.name}", path.read_bytes())
    return "fake://bucket/in"


@pytest.fixture
def shard(store: Bucket, shards: Path) -> str:
    """The URL of a directory with one shard."""
    store.put("in/shard-0.jsonl", (shards / "shard-0.jsonl").read_bytes())
    return "fake://bucket/in"


def test_paths_in_documents_are_urls(inputs: str, shards: Path, store: Bucket) -> None:
    """The manifest and the rejects file name shards by their URLs."""
    normalize(inputs)
    manifest = json.loads(published(store)["manifest.json"])
    assert [entry["path"] for entry in manifest["inputs"]] == [
        f"fake://bucket/in/{name}" for name in sorted(path.name for path in shards.iterdir())
    ]
    sources = {place.source for group in rejects(OUT).groups for place in group.locations}
    assert sources
    assert sources <= {entry["path"] for entry in manifest["inputs"]}


def test_foreign_files_stay(shard: str, store: Bucket) -> None:
    """Replacing a corpus removes only files of runs; a manifest of another kind is refused."""
    normalize(shard)
    theirs = {"notes.txt", "summary-of-mine.txt", "deep/part-00000.jsonl.zst", ".hidden", ".cafe"}
    for name in theirs:
        store.put(f"nightly/corpus/{name}", b"mine")
    normalize(shard, overwrite=True, fresh=True)
    assert {
        name for name in theirs if f"nightly/corpus/{name}" in store.objects("nightly/")
    } == theirs
    store.put("other/manifest.json", b'{"of": "something else"}')
    with pytest.raises(UsageError, match=r"holds a manifest\.json that is not of a corpus"):
        normalize(shard, output="fake://bucket/other", overwrite=True)
    assert store.objects("other/") == {"other/manifest.json": b'{"of": "something else"}'}


def test_the_old_corpus_stays_until_the_new_one_is_there(
    inputs: str, store: Bucket, local: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new files have other names, one request publishes them, and then the old files are
    removed.
    """
    normalize(inputs)
    before = published(store)
    write = SharedObject.write
    seen = []

    def look(manifest: SharedObject, data: bytes) -> None:
        if b'"parts"' in data:
            objects = store.objects("nightly/corpus/")
            assert {name: objects[f"nightly/corpus/{name}"] for name in before} == before
            seen.append(len(list(fastrec.cat(OUT))))
        write(manifest, data)

    monkeypatch.setattr(SharedObject, "write", look)
    summary = normalize(f"{inputs}/shard-0.jsonl", overwrite=True)
    monkeypatch.setattr(SharedObject, "write", write)
    assert seen == [json.loads(before["manifest.json"])["records"]]
    after = published(store)
    assert not set(before) & set(after) - {"manifest.json"}
    assert len(list(fastrec.cat(OUT))) == summary.line_counts.kept < seen[0]
    normalize(inputs, overwrite=True)
    assert comparable(published(store)) == local.same_for_all


def test_an_unfinished_corpus_is_not_an_input(
    shard: str, store: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts of an unfinished corpus are not used as shards."""
    monkeypatch.setattr(OBJECT_STORE, "create", dies_at("/summary-", OBJECT_STORE.create))
    with pytest.raises(KeyboardInterrupt):
        normalize(shard)
    with pytest.raises(UsageError, match="an unfinished corpus: run `normalize` again"):
        fastrec.validate(["fake://bucket/nightly"])
    monkeypatch.undo()
    normalize(shard)
    published(store)


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long_only), 3])
def test_a_run_that_starts_again_with_another_schema_is_resumed(
    count: int, store: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run continues the journal of the target that was found, from another directory of
    the store.
    """
    monkeypatch.setattr(targets, "_PEEKED_BYTES", 1)
    old = [json.dumps(sample(sample_id=f"q-{number}")).encode() for number in range(30)]
    new = json.dumps(sample_of("0.3.0")).encode()
    shards = [write(tmp_path / "in" / f"{name}.jsonl", old[10 * name :][:10]) for name in range(3)]
    write(shards[1], [*old[:5], new, *old[25:]])
    limits = Limits(task_bytes=12_000, run_bytes=12_000)
    use_limits(limits)(run)(shards, tmp_path / "local", Options())
    options = Options(work_dir="fake://bucket/tmp")
    with pytest.raises(KeyboardInterrupt):
        use_limits(limits)(run)(shards, OUT, options, progress=StopAfter(count))
    notices = use_limits(limits)(run)(shards, OUT, options).notices
    assert sum("starting again" in notice for notice in notices) == (count == 1)
    assert any("finished tasks are reused" in notice for notice in notices)
    assert comparable(published(store)) == Corpus(tmp_path / "local").same_for_all


def test_an_output_that_exists_is_refused(shard: str, store: Bucket, local: Corpus) -> None:
    """Without --overwrite a corpus is not replaced; anything else is never replaced."""
    normalize(shard)
    before = published(store)
    with pytest.raises(UsageError, match="exists: give another output, or --overwrite"):
        normalize(shard)
    assert published(store) == before
    store.put("other/notes.txt", b"mine")
    with pytest.raises(
        UsageError, match=r"holds something other than a corpus, fake://bucket/other/notes\.txt"
    ):
        normalize(shard, output="fake://bucket/other", overwrite=True)
    store.remove("other/notes.txt")
    with pytest.raises(UsageError, match="is a whole store"):
        normalize(str(local.path), output="fake://bucket")


def test_foreign_files_that_look_like_parts_stay(shard: str, store: Bucket) -> None:
    """Without a lease or a manifest, even files named like parts belong to somebody else: shards
    have such names.
    """
    store.put("mine/part-00000.jsonl.gz", b"precious")
    for options in ({}, {"overwrite": True}, {"fresh": True}):
        with pytest.raises(
            UsageError, match=r"holds something other than a corpus, fake://bucket/mine/part-00000"
        ):
            normalize(shard, output="fake://bucket/mine", **options)
    assert store.objects("mine/") == {"mine/part-00000.jsonl.gz": b"precious"}
    store.put("folder/", b"")  # as the console of a store makes one
    normalize(shard, output="fake://bucket/folder")


def test_from_a_store_to_this_machine_and_back(
    inputs: str, store: Bucket, shards: Path, local: Corpus, tmp_path: Path
) -> None:
    """Only input or output is in a store.

    The work files of a local corpus can be in a store too.
    """
    normalize(inputs, output=str(tmp_path / "corpus"), work_dir="fake://bucket/tmp")
    assert Corpus(tmp_path / "corpus").same_for_all == local.same_for_all
    normalize(str(shards))
    assert comparable(published(store)) == local.same_for_all
