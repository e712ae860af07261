"""Failures: bad shards, existing outputs, full disks.

Nothing incomplete is published, and nothing is left behind.
"""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastrec.corpus import publish
from fastrec.corpus.lock import locked
from fastrec.corpus.output import work_root_of
from fastrec.corpus.publish import LocalOutput
from fastrec.engine.base import SerialEngine
from fastrec.errors import (
    BadShardsError,
    FastrecError,
    LockedError,
    ShardCorruptError,
    ShardTruncatedError,
    UsageError,
)
from fastrec.limits import Limits, use_limits
from fastrec.normalize import driver
from fastrec.normalize import run as module
from fastrec.normalize.run import normalize
from fastrec.progress import Progress
from fastrec.sorting.files import ViewsWriter
from fastrec.sources.formats import Format
from tests.faults.injecting import Faults
from tests.normalize.normalizing import Corpus, normalized, run_limited, write
from tests.samples import question, sample
from tests.sources.compressing import compressed
from tests.systems import needs_memory_limit


def lines_of(source: str, count: int = 5) -> list[bytes]:
    """Lines of a run, each of another question."""
    several = (
        sample(evaluation_id=source, sample_id=number, input=question(number))
        for number in range(count)
    )
    return [json.dumps(one).encode() for one in several]


def text_of(source: str, count: int = 5) -> bytes:
    return b"".join(line + b"\n" for line in lines_of(source, count))


def sources(corpus: Corpus) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in corpus.lines:
        source = json.loads(line)["evaluation_id"]
        found[source] = found.get(source, 0) + 1
    return found


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Good shards, and two bad ones between them."""
    folder = tmp_path / "in"
    write(folder / "a.jsonl", lines_of("a"))
    (folder / "b.jsonl.zst").write_bytes(compressed(Format.ZSTD, text_of("b", 120))[:-5])
    write(folder / "c.jsonl", lines_of("c"), Format.GZIP)
    spoilt = bytearray(compressed(Format.GZIP, text_of("d", 120)))
    spoilt[-6] ^= 1
    (folder / "d.jsonl.gz").write_bytes(bytes(spoilt))
    write(folder / "e.jsonl", lines_of("e"), Format.ZSTD)
    return folder


DECOMPRESS_IN_DRIVER = {
    "jobs": 2,
    "limits": Limits(small_input=0, task_bytes=900, decompressed_chunk_bytes=1_000),
}
"""Options with which the driver decompresses every compressed shard into small chunks."""

WAYS: dict[str, dict[str, Any]] = {
    "one task": {},
    "a task each": {"limits": Limits(task_bytes=4_000)},
    "decompressed by the driver": DECOMPRESS_IN_DRIVER,
    "a pool": {"jobs": 2, "limits": Limits(small_input=0)},
}


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all tasks in this process, as if there were several jobs."""
    monkeypatch.setattr(module, "make_engine", lambda *_: SerialEngine())


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options for each way in which a worker gets a shard."""
    if request.param == "decompressed by the driver":
        request.getfixturevalue("one_process")
    return WAYS[request.param]


# Bad shards


def test_all_bad_shards_are_named_and_nothing_is_published(
    shards: Path, tmp_path: Path, way: dict[str, Any]
) -> None:
    """All bad shards are listed, whichever way workers get them, and nothing is published."""
    with pytest.raises(BadShardsError) as caught:
        run_limited([shards], tmp_path / "out", way)
    assert [(type(error), Path(error.path).name) for error in caught.value.errors] == [
        (ShardTruncatedError, "b.jsonl.zst"),
        (ShardCorruptError, "d.jsonl.gz"),
    ]
    assert "b.jsonl.zst" in str(caught.value)
    assert "d.jsonl.gz" in str(caught.value)
    assert names_in(tmp_path) == [".out.fastrec-new", ".out.fastrec-work", "in"]


def test_good_shards_are_published_on_request(
    shards: Path, tmp_path: Path, way: dict[str, Any]
) -> None:
    """Skipping bad shards gives the corpus of the good ones, and the manifest lists the skipped
    ones.
    """
    corpus = normalized(shards, tmp_path / "out", skip_bad_shards=True, **way)
    assert sources(corpus) == {"a": 5, "c": 5, "e": 5}
    assert [Path(entry["path"]).name for entry in corpus.manifest["inputs"]] == [
        "a.jsonl",
        "c.jsonl.gz",
        "e.jsonl.zst",
    ]
    assert [("b.jsonl.zst" in one, "d.jsonl.gz" in one) for one in corpus.manifest["skipped"]] == [
        (True, False),
        (False, True),
    ]
    good = [shards / "a.jsonl", shards / "c.jsonl.gz", shards / "e.jsonl.zst"]
    assert corpus.same_for_all == normalized(good, tmp_path / "good").same_for_all


def test_all_shards_may_be_bad(shards: Path, tmp_path: Path, way: dict[str, Any]) -> None:
    """If every shard would be skipped, all are named and nothing is published, unless the corpus
    may be empty.
    """
    bad = [shards / "b.jsonl.zst", shards / "d.jsonl.gz"]
    with pytest.raises(BadShardsError) as caught:
        normalized(bad, tmp_path / "out", skip_bad_shards=True, allow_empty=False, **way)
    assert len(caught.value.errors) == 2
    corpus = normalized(bad, tmp_path / "out", skip_bad_shards=True, **way)
    assert (
        corpus.line_counts["lines"],
        corpus.manifest["inputs"],
        len(corpus.manifest["skipped"]),
    ) == (0, [], 2)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Meddler(Progress):
    """Changes the inputs when a task is done."""

    def __init__(self, *deeds: Callable[[], object]) -> None:
        self.deeds = list(deeds)

    def advance(self, *_: int) -> None:
        if self.deeds:
            self.deeds.pop(0)()


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_a_file_that_grows_between_its_ranges_is_bad(tmp_path: Path) -> None:
    """A plain file that changes while its ranges are read is left out as a whole."""
    limits = Limits(task_bytes=2_000)
    growing = write(tmp_path / "growing.jsonl", lines_of("growing", 20))
    good = write(tmp_path / "later.jsonl", lines_of("good"))
    for skip in (False, True):
        meddler = Meddler(lambda: append(growing, text_of("growing", 1)))
        if skip:
            corpus = normalized(
                [growing, good], tmp_path / "out", meddler, skip_bad_shards=True, limits=limits
            )
            assert sources(corpus) == {"good": 5}
            assert "growing.jsonl: changed after it was found" in corpus.manifest["skipped"][0]
        else:
            with pytest.raises(BadShardsError, match=r"growing\.jsonl: changed after it was found"):
                use_limits(limits)(normalize)([growing, good], tmp_path / "out", progress=meddler)
    assert not list(tmp_path.glob(".*"))


def test_a_shard_that_shares_a_task_with_a_bad_one_is_read_once(
    shards: Path, tmp_path: Path
) -> None:
    """A bad shard is left out of its task, so the other shards of the task are not read again."""
    meddler = Meddler(lambda: append(shards / "c.jsonl.gz", b"x"))
    corpus = normalized(shards, tmp_path / "out", meddler, skip_bad_shards=True)
    assert sources(corpus) == {"a": 5, "c": 5, "e": 5}
    assert [Path(one.split(":")[0]).name for one in corpus.manifest["skipped"]] == [
        "b.jsonl.zst",
        "d.jsonl.gz",
    ]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("place", [0, 1])
def test_a_stream_is_not_lost_with_a_bad_shard(
    place: int, jobs: int, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input can be read only once, so a bad shard must not cost its lines."""
    monkeypatch.setattr(module, "make_engine", lambda *_: SerialEngine())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text_of("stdin"))))
    names = [str(shards / "b.jsonl.zst"), str(shards / "a.jsonl")]
    names.insert(place, "-")
    corpus = normalized(names, tmp_path / "out", skip_bad_shards=True, jobs=jobs)
    assert sources(corpus) == {"stdin": 5, "a": 5}


def test_a_missing_shard_is_a_wrong_argument(tmp_path: Path) -> None:
    """A path that does not exist is refused before anything is done."""
    with pytest.raises(UsageError, match="missing"):
        normalize([write(tmp_path / "in.jsonl", []), tmp_path / "missing.jsonl"], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


# The output


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    return write(tmp_path / "in" / "a.jsonl", lines_of("a"))


def test_an_output_that_exists_is_refused(shard: Path, tmp_path: Path) -> None:
    """An existing output is kept, and the message says how to replace it."""
    first = normalized(shard, tmp_path / "out")
    before = first.same_for_all
    (tmp_path / "empty").mkdir()
    for name in ("out", "empty"):
        with pytest.raises(UsageError, match="exists: give another output, or --overwrite"):
            normalize(shard, tmp_path / name)
    assert Corpus(tmp_path / "out").same_for_all == before


def test_an_old_corpus_is_replaced_on_request(shard: Path, tmp_path: Path) -> None:
    """Nothing of the old corpus remains, not even parts that the new one does not have."""
    normalized(shard, tmp_path / "out", compression="gz", conflicts="keep")
    other = write(tmp_path / "other.jsonl", lines_of("b"))
    corpus = normalized(other, tmp_path / "out", overwrite=True)
    assert sources(corpus) == {"b": 5}
    assert [part.name for part in corpus.parts] == ["part-00000.jsonl.zst"]
    (tmp_path / "empty").mkdir()
    normalized(other, tmp_path / "empty", overwrite=True)
    normalized(other, tmp_path / "new", overwrite=True)


def test_the_old_corpus_stays_until_the_new_one_is_ready(
    shard: Path, shards: Path, tmp_path: Path
) -> None:
    """The old corpus can be read during the run, and stays unchanged if the run fails."""
    before = normalized(shard, tmp_path / "out").same_for_all
    seen = []
    meddler = Meddler(lambda: seen.append(Corpus(tmp_path / "out").same_for_all))
    with pytest.raises(BadShardsError):
        normalize(shards, tmp_path / "out", overwrite=True, progress=meddler)
    assert seen == [before]
    assert Corpus(tmp_path / "out").same_for_all == before
    assert names_in(tmp_path) == [".out.fastrec-new", ".out.fastrec-work", "in", "out"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_only_a_corpus_can_be_replaced(kind: str, shard: Path, tmp_path: Path) -> None:
    """A file, or a directory with anything else in it, is never overwritten."""
    if kind == "file":
        (tmp_path / "out").write_text("precious")
        precious = tmp_path / "out"
    else:
        precious = tmp_path / "out" / "thesis.tex"
        precious.parent.mkdir()
        precious.write_text("precious")
    with pytest.raises(UsageError, match=r"is not a directory|holds something other than a corpus"):
        normalize(shard, tmp_path / "out", overwrite=True)
    assert precious.read_text() == "precious"


def test_files_of_others_are_not_replaced_with_a_corpus(shard: Path, tmp_path: Path) -> None:
    """A note that somebody put into a corpus is not lost; files that systems put there are."""
    normalized(shard, tmp_path / "out")
    (tmp_path / "out" / ".DS_Store").write_text("")
    normalize(shard, tmp_path / "out", overwrite=True)
    for name in ("notes.txt", "deep/notes.txt", ".hidden"):
        note = tmp_path / "out" / name
        note.parent.mkdir(exist_ok=True)
        note.write_text("precious")
        with pytest.raises(
            UsageError, match=rf"out holds {name.split('/')[0]}, which is not part of a corpus"
        ):
            normalize(shard, tmp_path / "out", overwrite=True)
        assert note.read_text() == "precious"
        note.unlink()
        if note.parent.name == "deep":
            note.parent.rmdir()
    normalize(shard, tmp_path / "out", overwrite=True)


@pytest.mark.parametrize("document", ["{}", '{"name": "My App", "icons": []}', "no JSON", "[1]"])
def test_a_manifest_of_something_else_is_not_replaced(
    document: str, shard: Path, tmp_path: Path
) -> None:
    """Web applications, for one, have a manifest.json too."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text(document)
    with pytest.raises(
        UsageError, match=r"out holds a manifest\.json that is not of a corpus: it is not replaced"
    ):
        normalize(shard, tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "manifest.json").read_text() == document


def test_a_work_directory_is_used_by_one_run(
    shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines that share it may have an output of the same name each."""
    work = work_root_of(str(tmp_path / "out"), str(tmp_path / "work"))
    (tmp_path / "work").mkdir()
    with (
        locked(Path(work), 0),
        pytest.raises(LockedError, match="fastrec-work is being written by another run"),
    ):
        normalize(shard, tmp_path / "out", work_dir=str(tmp_path / "work"))
    seen = []
    monkeypatch.setattr(
        publish, "LocalOutput", lambda *given: seen.append(given[2]) or LocalOutput(*given)
    )
    for host in ("here", "there"):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        normalize(shard, tmp_path / "out", work_dir="memory://work", overwrite=True)
    assert len(set(seen)) == 2


def test_an_input_inside_of_the_output_is_refused(
    shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus cannot be replaced by one made from itself, under any name or link."""
    normalized(shard, tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    monkeypatch.chdir(tmp_path)
    for name in (tmp_path / "out", Path("out"), tmp_path / "in" / ".." / "out", tmp_path / "link"):
        with pytest.raises(UsageError, match="is input and output at once"):
            normalize([shard, name], tmp_path / "out", overwrite=True)
    with pytest.raises(UsageError, match="lies in the output"):
        normalize(tmp_path / "out" / "part-00000.jsonl.zst", tmp_path / "out", overwrite=True)
    with pytest.raises(UsageError, match="lies in the output"):
        normalize(shard, shard, overwrite=True)
    (shard.parent / "linked.jsonl.zst").symlink_to(tmp_path / "out" / "part-00000.jsonl.zst")
    for name in (shard.parent, Path("in"), tmp_path / "in" / ".." / shard.parent.name):
        with pytest.raises(UsageError, match=r"linked\.jsonl\.zst lies in the output"):
            normalize(name, tmp_path / "out", overwrite=True)


@pytest.mark.parametrize("name", ["out", "below/it/out", "."])
def test_an_output_inside_of_an_input_is_refused(
    name: str, shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus below an input directory would be its own input in the next run, so it is refused."""
    (tmp_path / "link").symlink_to(shard.parent)
    monkeypatch.chdir(shard.parent)
    for folder in (shard.parent, tmp_path / "link", Path()):
        with pytest.raises(UsageError, match=r"lies in the input|input and output at once"):
            normalize(folder, shard.parent / name, overwrite=True)
    assert names_in(shard.parent) == ["a.jsonl"]


def test_parents_of_the_output_are_made(
    shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing parent directories are made; a name without a directory works too."""
    normalized(shard, tmp_path / "some" / "where" / "out")
    monkeypatch.chdir(tmp_path)
    normalized(shard, Path("plain"))
    assert (tmp_path / "plain" / "manifest.json").exists()


@pytest.mark.parametrize("old", [False, True])
def test_an_output_may_be_a_link(old: bool, shard: Path, tmp_path: Path) -> None:
    """The target of a link is made or replaced; the link stays, and no file is left beside it."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    if old:
        normalized(write(tmp_path / "other.jsonl", lines_of("b")), tmp_path / "real")
    for _ in range(2):
        assert sources(normalized(shard, tmp_path / "link", overwrite=True)) == {"a": 5}
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "manifest.json").exists()
    assert not list(tmp_path.glob(".*"))


def test_the_current_directory_can_be_the_output(
    shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty current directory is replaced like any other."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    normalize(shard, ".", overwrite=True)
    assert (tmp_path / "here" / "manifest.json").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "in"]


def test_temporary_files_go_to_the_work_directory(shard: Path, tmp_path: Path) -> None:
    """With a work directory, only the staged corpus is beside the output, and nothing stays in
    either.
    """
    seen: list[list[str]] = []

    def look() -> None:
        seen.append([path.name for path in (tmp_path / "work").iterdir()])
        seen.append([path.name for path in tmp_path.glob(".*")])

    normalized(shard, tmp_path / "out", Meddler(look), work_dir=str(tmp_path / "work"))
    assert [len(names) for names in seen] == [2, 2]  # the work and its lock
    assert sorted(seen[1]) == [".out.fastrec-lock", ".out.fastrec-new"]
    assert list((tmp_path / "work").iterdir()) == []


def test_a_published_corpus_has_the_usual_permissions(shard: Path, tmp_path: Path) -> None:
    """The permissions of a corpus follow the umask, though its temporary files are private."""
    umask = os.umask(0o027)
    try:
        corpus = normalized(shard, tmp_path / "out")
    finally:
        os.umask(umask)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750
    assert {path.stat().st_mode & 0o777 for path in corpus.path.iterdir()} == {0o640}


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_a_full_disk_publishes_nothing(name: str, shard: Path, tmp_path: Path) -> None:
    """If a run or a part cannot be written, the error names the file, and nothing is published."""
    full = Faults(tmp_path, name, 1, errno.ENOSPC, lasting=True)
    with full, pytest.raises(OSError, match="No space left") as caught:
        normalize(shard, tmp_path / "out")
    assert ".fastrec-" in caught.value.filename
    assert not (tmp_path / "out").exists()
    assert sources(normalized(shard, tmp_path / "out")) == {"a": 5}


def test_a_failed_run_leaves_room_for_the_next_one(
    shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook keeps the last error, with all that its functions held."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(ViewsWriter, "append", full)
        with pytest.raises(OSError, match="No space left") as caught:
            normalize(shard, tmp_path / "out")
    write(shard, lines_of("more", 500))
    assert sources(normalized(shard, tmp_path / "out")) == {"more": 500}
    assert caught.tb


def test_a_corpus_that_loses_a_line_is_not_published(
    shard: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If line counts do not add up, the error says that this is a bug."""
    real = driver.input_entries

    def one_too_few(*arguments: Any) -> Any:
        entries = real(*arguments)
        entries[0].kept -= 1
        return entries

    monkeypatch.setattr(driver, "input_entries", one_too_few)
    with pytest.raises(FastrecError, match=r"a\.jsonl do not add up: 5 lines, but 4 kept"):
        normalize(shard, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@needs_memory_limit
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_line_too_large_for_memory_names_its_shard(
    jobs: int, shard: Path, tmp_path: Path
) -> None:
    """A giant line is an error that names its shard; the process is not killed."""
    giant = json.loads(lines_of("giant", 1)[0])
    giant["input"]["raw"] = "@"
    (tmp_path / "in" / "giant.jsonl").write_bytes(
        json.dumps(giant).encode().replace(b"@", b"x" * 100_000_000)
    )
    command = [
        sys.executable,
        "-m",
        "fastrec",
        "normalize",
        str(tmp_path / "in"),
        "-o",
        str(tmp_path / "out"),
    ]
    limit = 250 << 20
    done = subprocess.run(
        [*command, "--jobs", str(jobs)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3
    assert "giant.jsonl: one of its lines needs more memory than there is" in done.stderr
    assert shard.name not in done.stderr
    assert not (tmp_path / "out").exists()
