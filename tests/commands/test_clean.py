"""`clean`: what runs left for the next one is removed, and nothing else."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.corpus.lock import locked
from fastrec.errors import LockedError, UsageError
from fastrec.limits import use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from tests.normalize.normalizing import Corpus, normalized, write
from tests.normalize.test_failures import lines_of, names_in
from tests.normalize.test_resume import A_TASK_EACH, StopAfter
from tests.running import run_here


@pytest.fixture(autouse=True)
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some shards, a task each, in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FASTREC_WORK_DIR", raising=False)
    for name in "abc":
        write(tmp_path / "in" / f"{name}.jsonl", lines_of(name))
    return tmp_path / "in"


def interrupt(output: str = "out", stage: str = "sort", **options: Any) -> None:
    """Interrupt a run that has finished a task."""
    with pytest.raises(KeyboardInterrupt):
        use_limits(A_TASK_EACH)(run)(
            ["in"], output, Options(overwrite=True, **options), progress=StopAfter(1, stage)
        )


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = run_here("clean", *arguments, environment=environment)
    return subprocess.CompletedProcess(
        arguments, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def contents(directory: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(directory).iterdir())}


@pytest.mark.parametrize("stage", ["sort", "merge"])
@pytest.mark.parametrize("is_there", [True, False])
def test_work_of_an_interrupted_run(stage: str, is_there: bool) -> None:
    """Work and unpublished files are removed, and counted; a corpus stays as it was."""
    before = {}
    if is_there:
        normalized("in", Path("out"))
        before = contents("out")
    interrupt(stage=stage)
    left = {
        path.name: [file for file in path.rglob("*") if file.is_file()]
        for path in Path().glob(".out*")
    }
    assert set(left) == {".out.fastrec-work", ".out.fastrec-new"}
    found = fastrec.clean("out", dry_run=True)
    assert found.dry_run
    assert {Path(one.path).name: one.files for one in found.removed} == {
        name: len(left[name]) for name in left
    }
    assert found.bytes == sum(file.stat().st_size for files in left.values() for file in files) > 0
    removed = fastrec.clean("out")
    assert (removed.removed, removed.bytes, removed.dry_run) == (found.removed, found.bytes, False)
    assert names_in(Path()) == ["in", "out"][: 1 + is_there]
    assert not is_there or contents("out") == before
    assert fastrec.clean("out").removed == []
    assert normalized("in", Path("out"), overwrite=True).line_counts["kept"] == 15


def test_nothing_to_remove() -> None:
    """Neither for a corpus without work nor for an output that does not exist: both are fine."""
    normalized("in", Path("out"))
    before = names_in(Path())
    for output in ("out", "missing"):
        done = command(output)
        assert (done.returncode, done.stderr) == (0, "")
        nothing = f"nothing to remove: no run left work for {output}"
        assert done.stdout == f"{nothing}; if its runs had a --work-dir, give it here, too\n"
        assert command(output, "--work-dir", "work").stdout == f"{nothing}\n"
    assert names_in(Path()) == before


def test_what_the_command_says() -> None:
    interrupt()
    here = Path.cwd()
    done = command("out", "--dry-run")
    assert done.returncode == 0
    first, second = done.stdout.splitlines()
    assert first.startswith(f"would remove {here}/.out.fastrec-work: ")
    assert second == f"would remove {here}/.out.fastrec-new: 0 files, 0 B"
    assert command("out").stdout == done.stdout.replace("would remove", "removed")
    interrupt()
    document = json.loads(command("out", "--format", "json").stdout)
    assert document["output"] == "out"
    assert document["bytes"] == sum(one["bytes"] for one in document["removed"]) > 0
    assert json.loads(command("out", "--format", "json").stdout)["removed"] == []


@pytest.mark.parametrize("way", ["option", "variable", "settings", "Python"])
def test_work_in_another_directory(way: str) -> None:
    """It is found where `normalize` was told to put it; work of other outputs there stays."""
    interrupt(work_dir="work")
    interrupt("other", work_dir="work")
    interrupt()
    assert len(names_in(Path("work"))) == 2
    if way == "option":
        assert command("out", "--work-dir", "work").returncode == 0
    elif way == "variable":
        assert command("out", FASTREC_WORK_DIR="work").returncode == 0
    elif way == "settings":
        Path("fastrec.toml").write_text('work-dir = "work"\n')
        assert command("out").returncode == 0
    else:
        fastrec.clean("out", work_dir=Path("work"))
    (other,) = names_in(Path("work"))
    assert other.startswith(".other.")
    assert not list(Path().glob(".out*"))
    assert Path(".other.fastrec-new").exists()


def test_a_work_directory_that_does_not_exist_is_not_made() -> None:
    interrupt()
    assert len(fastrec.clean("out", work_dir="missing").removed) == 2
    assert not Path("missing").exists()


def test_a_work_directory_in_a_store() -> None:
    pytest.importorskip("fsspec")
    interrupt(work_dir="memory://cleaned/work")
    found = fastrec.clean("out", work_dir="memory://cleaned/work").removed
    assert [one.path.partition(":")[0] for one in found] == [
        str(Path(".out.fastrec-new").resolve()),
        "memory",
    ]
    assert found[1].files > 1
    assert found[1].bytes > 1_000
    assert fastrec.clean("out", work_dir="memory://cleaned/work").removed == []


def test_a_run_is_not_disturbed() -> None:
    """While a run writes the output, nothing is removed: exit code 3."""
    interrupt()
    before = sorted(map(str, Path().rglob("*")))
    with locked(Path("out").resolve(), 0):
        for arguments in (["out"], ["out", "--dry-run"]):
            done = command(*arguments)
            assert done.returncode == 3
            assert (
                f"{Path('out').resolve()} is being written by another run, process {os.getpid()}"
                in done.stderr
            )
        with pytest.raises(LockedError):
            fastrec.clean("out")
    assert sorted(map(str, Path().rglob("*"))) == before


def test_a_run_of_another_output_in_the_same_work_directory_is_not_disturbed() -> None:
    """The work is locked, too: on another machine there may be an output of the same name."""
    interrupt(work_dir="work")
    (work,) = Path("work").iterdir()
    with locked(work.resolve(), 0), pytest.raises(LockedError):
        fastrec.clean("out", work_dir="work")
    assert work.exists()


def test_a_refused_corpus_stays() -> None:
    """It is not work: `normalize` itself replaces it."""
    write(Path("in") / "bad.jsonl", [b"{"])
    run(["in"], "out", Options(max_rejects=0))
    interrupt()
    refused = contents("out.refused")
    assert len(fastrec.clean("out").removed) == 2
    assert contents("out.refused") == refused


def test_files_that_are_also_in_the_corpus_are_not_counted() -> None:
    """Removing one name of a file frees nothing while it has another one."""
    corpus = normalized("in", Path("out"))
    interrupt()
    free = fastrec.clean("out", dry_run=True)
    os.link(corpus.parts[0], ".out.fastrec-work/kept")
    Path(".out.fastrec-work/new").write_bytes(b"12345")
    os.link(".out.fastrec-work/new", ".out.fastrec-new/new")
    found = fastrec.clean("out")
    assert found.bytes == free.bytes + 5
    assert sum(one.files for one in found.removed) == sum(one.files for one in free.removed) + 3
    assert Corpus(Path("out")).text == corpus.text


def test_an_old_corpus_between_two_renames() -> None:
    """It is restored if it has no successor, and removed otherwise."""
    before = contents(str(normalized("in", Path("out")).path))
    interrupt()
    Path("out").rename(".out.fastrec-old")
    assert len(fastrec.clean("out", dry_run=True).removed) == 2
    assert len(fastrec.clean("out").removed) == 2
    assert contents("out") == before
    Path("out").rename(".out.fastrec-old")
    normalized("in", Path("new"))
    Path("new").rename("out")
    (removed,) = fastrec.clean("out").removed
    assert (Path(removed.path).name, removed.files) == (".out.fastrec-old", len(before))
    assert names_in(Path()) == ["in", "out"]


def test_a_link_to_the_output() -> None:
    """Work is beside the directory that the link leads to."""
    Path("there").mkdir()
    Path("link").symlink_to("there/out")
    interrupt("link")
    assert len(fastrec.clean("link").removed) == 2
    assert names_in(Path("there")) == []
    assert Path("link").is_symlink()


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("in", "in is not a corpus: it holds no manifest.json"),
        ("in/a.jsonl", "in/a.jsonl is not a corpus: it is a file"),
        ("missing/out", "missing/out is not a corpus: there is no directory "),
        ("/", "/ is not a corpus"),
        ("s3://bucket", "s3://bucket is a whole store: name a directory in it"),
    ],
)
def test_what_cannot_be_an_output(output: str, why: str) -> None:
    before = sorted(map(str, Path().rglob("*")))
    done = command(output)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {why}" in done.stderr
    assert sorted(map(str, Path().rglob("*"))) == before
    with pytest.raises(UsageError):
        fastrec.clean(output)


def test_what_cannot_be_removed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt()

    def fail(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", f"{path}/journal-00000000")

    monkeypatch.setattr(shutil, "rmtree", fail)
    done = command("out")
    assert (done.returncode, done.stdout) == (3, "")
    assert (
        f"error: {Path.cwd()}/.out.fastrec-work/journal-00000000: Permission denied" in done.stderr
    )
