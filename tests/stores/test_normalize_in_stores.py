"""`normalize` with inputs, output or work in an object store: the same bytes as on this machine,
nothing left over.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.commands.generate import Recipe, lines
from fastrec.corpus import lock as leases
from fastrec.corpus.store_output import StoreOutput
from fastrec.errors import LockedError, UsageError
from fastrec.limits import Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.storage.object_store import OBJECT_STORE
from fastrec.storage.shared_object import SharedObject
from tests.normalize.normalizing import Corpus, write
from tests.services.s3 import S3, without_token

OUT = "s3://bucket/nightly/corpus"
PART_SIZE = 50_000


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for work files that are not in the store."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    return directory


def published(s3: S3, prefix: str = "nightly/corpus/") -> dict[str, bytes]:
    """Return the files in the bucket; check that they are a corpus and nothing else."""
    objects = {key: data for key, data in s3.objects().items() if not key.startswith("in/")}
    assert all(key.startswith(prefix) for key in objects), sorted(objects)
    assert s3.uploads() == []
    files = {key.removeprefix(prefix): data for key, data in objects.items()}
    manifest = json.loads(files["manifest.json"])
    named = {part["file"] for part in manifest["parts"]} | {
        manifest["summary_file"],
        "manifest.json",
    }
    named |= {part["columns"]["file"] for part in manifest["parts"]}
    assert set(files) == named | ({manifest["rejects"]["file"]} if manifest["rejects"] else set())
    return files


def comparable(files: dict[str, bytes]) -> dict[str, bytes]:
    return {
        without_token(name): data
        for name, data in files.items()
        if name.startswith(("part-", "summary"))
    }


def normalize(inputs: Any, output: str = OUT, **options: Any) -> fastrec.Summary:
    return run([inputs], output, Options(part_size=PART_SIZE, **options)).summary


@pytest.mark.parametrize(
    ("jobs", "work_dir"),
    [
        (1, None),
        (2, "s3://bucket/tmp"),
        (1, "a directory"),
        pytest.param(2, None, marks=pytest.mark.long_only),
        pytest.param(1, "s3://bucket/tmp", marks=pytest.mark.long_only),
        pytest.param(2, "a directory", marks=pytest.mark.long_only),
    ],
)
def test_the_same_bytes_as_on_this_machine(
    jobs: int, work_dir: str | None, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """From store to store, wherever the work files are; they are removed afterwards."""
    s3: S3 = request.getfixturevalue("s3")
    work = str(tmp_path / "work") if work_dir == "a directory" else work_dir
    use_limits(Limits(small_input=0))(normalize)(
        request.getfixturevalue("inputs"), jobs=jobs, work_dir=work
    )
    assert comparable(published(s3)) == request.getfixturevalue("local").same_for_all
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_names_that_look_like_globs_match_nothing_else(shard: str, s3: S3) -> None:
    """A name with glob characters removes only that object, not those that match it."""
    theirs = {f"run1/corpus/{name}" for name in (".fastrec-writing", "part-00000.jsonl.zst")}
    for key in theirs:
        s3.put(key, b"theirs")
    normalize(shard, "s3://bucket/run?/corpus", work_dir="s3://bucket/[t]mp")
    after = {key for key in s3.objects() if not key.startswith("in/")}
    assert theirs < after
    assert {key.rpartition("/")[0] for key in after - theirs} == {"run?/corpus"}
    assert "run?/corpus/.fastrec-writing" not in after


def test_files_of_a_killed_run_are_reused_or_removed(
    inputs: str, s3: S3, local: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that dies before its manifest leaves no corpus.

    The next one resumes, and removes useless files.
    """
    monkeypatch.setattr(OBJECT_STORE, "create", dies_at("/summary-", OBJECT_STORE.create))
    with pytest.raises(KeyboardInterrupt):
        normalize(inputs, work_dir="s3://bucket/tmp")
    monkeypatch.undo()
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    assert "nightly/corpus/part-00000.jsonl.zst" in map(without_token, s3.objects("nightly/"))
    with pytest.raises(UsageError, match=r"is not a corpus: it holds no manifest\.json"):
        list(fastrec.cat(OUT))
    s3.put(f"nightly/corpus/part-99999-{'0' * 16}.jsonl.zst", b"of another run")
    notices: list[str] = []
    s3.requests()
    run(
        [inputs],
        OUT,
        Options(part_size=PART_SIZE, work_dir="s3://bucket/tmp"),
        notice=notices.append,
    )
    assert "resuming an interrupted run" in notices[0]
    assert not [
        request
        for request in s3.requests()
        if request.startswith("POST /bucket/nightly/corpus/part-")
    ]
    assert comparable(published(s3)) == local.same_for_all


def dies_at(name: str, function: Any) -> Any:
    def dying(path: str, **options: Any) -> Any:
        if name in path:
            raise KeyboardInterrupt
        return function(path, **options)

    return dying


def test_incomplete_uploads_are_aborted(
    shard: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are invisible and cost money.

    Those of other outputs stay, and those of a run that took over.
    """
    publish = StoreOutput.publish
    theirs = f"nightly/corpus/part-00000-{'f' * 16}.jsonl.zst"

    def late(output: StoreOutput) -> None:
        s3.begin_upload(theirs)
        s3.begin_upload(output.named("nightly/corpus/part-00000", ".jsonl.zst"))
        publish(output)

    monkeypatch.setattr(StoreOutput, "publish", late)
    s3.begin_upload("nightly/corpus/part-00000.jsonl.zst")
    s3.begin_upload("elsewhere/part-00000.jsonl.zst")
    normalize(shard)
    assert s3.uploads() == ["elsewhere/part-00000.jsonl.zst", theirs]


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("s3://bucket/in", "s3://bucket/in"),
        ("s3://bucket/in", "s3://bucket/in/out"),
        ("s3://bucket/in/shard-0.jsonl", "s3://bucket/in"),
        ("s3://bucket/in", "s3a://bucket/in/out"),
    ],
)
def test_an_output_in_an_input_is_refused(name: str, output: str, inputs: str) -> None:
    """The same rules hold as on this machine."""
    assert inputs
    with pytest.raises(UsageError, match="give another output"):
        normalize(name, output)


def test_objects_in_memory(shards: Path, local: Corpus) -> None:
    """Any fsspec file system works, even one that only this process sees."""
    fs = pytest.importorskip("fsspec").filesystem("memory")
    for path in shards.iterdir():
        fs.pipe_file(f"/in/{path.name}", path.read_bytes())
    normalize("memory://in", "memory://out/corpus", jobs=2)
    files = {path.rpartition("/")[2]: fs.cat_file(path) for path in fs.find("/out/corpus")}
    assert comparable(files) == local.same_for_all
    with pytest.raises(UsageError, match="a cluster cannot read files in the memory"):
        normalize("memory://in", "memory://out/other", engine="dask")


def test_files_of_this_machine_by_their_urls(shards: Path, local: Corpus, tmp_path: Path) -> None:
    """`file://` URLs mean the same as paths: for duplicates, for an output in an input, and for
    publishing.
    """
    url = f"file://{tmp_path}/deep/corpus"
    options = Options(part_size=PART_SIZE, work_dir=f"file://{tmp_path}/work")
    report = run([f"file://{shards}", shards], url, options)
    count = len(list(shards.iterdir()))
    assert (report.shards, len(report.notices)) == (count, count)
    assert Corpus(tmp_path / "deep/corpus").same_for_all == local.same_for_all
    assert not list(tmp_path.rglob(".fastrec-writing"))
    with pytest.raises(UsageError, match="lies in the input"):
        normalize(shards, f"file://{shards}/out")


def test_only_one_of_two_simultaneous_runs_gets_the_lease(
    shard: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find the same lease, or none; the other run writes its lease a moment earlier."""
    write = SharedObject.write
    for left in (None, b'{"token":"x","process":1,"host":"b","since":"c","alive":0}'):
        if left:
            s3.put("nightly/corpus/.fastrec-writing", left)
        other = leases.Lease(OBJECT_STORE, f"{OUT}/.fastrec-writing", OUT)
        late: list[bytes] = []

        def write_late(
            lease: SharedObject, data: bytes, other: Any = other, late: list[bytes] = late
        ) -> None:
            if not late:
                late.append(data)
                holding.enter_context(other.held())
            write(lease, data)

        monkeypatch.setattr(SharedObject, "write", write_late)
        with contextlib.ExitStack() as holding:
            with pytest.raises(LockedError, match=f"process {os.getpid()}"):
                normalize(shard)
            other.renew()
        assert late
        assert not [key for key in s3.objects() if not key.startswith("in/")]


def test_a_corpus_goes_to_a_store_and_back(tmp_path: Path, s3: S3) -> None:
    """Without records of one identity, its parts and columns are copied unread."""
    corpora = [tmp_path / "here", "s3://bucket/nightly/corpus", tmp_path / "back"]
    source: Any = write(tmp_path / "in.jsonl", list(lines(Recipe(records=50, seed=17))))
    for corpus in corpora:
        fastrec.normalize(source, corpus)
        source = corpus
        assert fastrec.verify(corpus).ok
    names = [path.name for path in corpora[0].glob("part-*")]  # type: ignore[union-attr]
    assert len(names) >= 2
    for name in names:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "back" / name).read_bytes()
    assert len(s3.objects()) >= len(names)


def test_a_work_directory_in_the_output_is_refused(tmp_path: Path, s3: S3, shards: Path) -> None:
    for output in (str(tmp_path / "out"), "s3://bucket/out"):
        with pytest.raises(UsageError, match="--work-dir lies in the output"):
            fastrec.normalize(shards, output, work_dir=f"{output}/work")
    assert not (tmp_path / "out").exists()
    assert not s3.objects()
