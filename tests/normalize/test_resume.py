"""Resume: the next run reuses the finished work of an interrupted run, if it is unchanged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastrec import build
from fastrec.corpus import publish
from fastrec.engine.base import SerialEngine
from fastrec.errors import BadShardsError, LockedError, UsageError
from fastrec.limits import Limits, use_limits
from fastrec.normalize import driver, parts, pass1, pass1_driver
from fastrec.normalize import options as options_module
from fastrec.normalize import run as module
from fastrec.normalize.options import Options
from fastrec.normalize.results import SortResult
from fastrec.normalize.run import normalize, run
from fastrec.progress import Progress
from fastrec.sources.formats import Format
from tests.normalize import normalizing
from tests.normalize.normalizing import Corpus, run_limited, write
from tests.normalize.test_failures import lines_of, names_in, text_of
from tests.sources.compressing import compressed

A_TASK_EACH = Limits(task_bytes=5_000)
"""Make one task per shard of `shards`."""


def normalized(inputs: Any, output: Path, **options: Any) -> Corpus:
    return normalizing.normalized(inputs, output, **{"limits": A_TASK_EACH, **options})


class StopAfter(Progress):
    """Interrupts a run after some tasks or parts."""

    def __init__(self, count: int, stage: str = "sort") -> None:
        self.count = count
        self.stage = stage
        self.now = ""

    def start(self, stage: str, _: int) -> None:
        self.now = stage

    def advance(self, *_: int) -> None:
        if self.now == self.stage:
            self.count -= 1
            if self.count <= 0:
                raise KeyboardInterrupt

    def reuse(self, *_: int) -> None:
        """Count work that is reused, too."""
        self.advance()


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Six shards, a task each, with duplicates within and across them."""
    for name in "bcdefg":
        suffix, pack = (".jsonl.zst", Format.ZSTD) if name in "ce" else (".jsonl", Format.PLAIN)
        text = text_of(name) + text_of("same", 3) + (b"{\n" if name == "d" else b"")
        path = tmp_path / "in" / f"{name}{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(compressed(pack, text))
    return tmp_path / "in"


@pytest.fixture
def sorted_tasks(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The shards of every task that really runs."""
    tasks: list[list[str]] = []

    def note(task: pass1.SortTask) -> SortResult:
        tasks.append([Path(piece.source).name[0] for piece in task.pieces])
        return pass1.sort_pieces(task)

    monkeypatch.setattr(pass1_driver, "sort_pieces", note)
    return tasks


def everything(corpus: Corpus) -> dict[str, bytes]:
    """All files of a corpus, the manifest included."""
    return {path.name: path.read_bytes() for path in sorted(corpus.path.iterdir())}


def interrupt(
    shards: Path, out: Path, count: int = 3, stage: str = "sort", **options: Any
) -> KeyboardInterrupt:
    with pytest.raises(KeyboardInterrupt) as caught:
        run_limited(
            [shards], out, {"limits": A_TASK_EACH, **options}, progress=StopAfter(count, stage)
        )
    assert not out.exists()
    return caught.value


@pytest.mark.parametrize("count", range(1, 7))
def test_finished_tasks_are_not_repeated(
    count: int, shards: Path, tmp_path: Path, sorted_tasks: list[list[str]]
) -> None:
    """Wherever a run is interrupted, the next one does the rest, says so, and publishes the same
    bytes.
    """
    whole = everything(normalized(shards, tmp_path / "whole"))
    sorted_tasks.clear()
    error = interrupt(shards, tmp_path / "out", count)
    assert "the same command resumes from there" in error.__notes__[0]
    assert len(sorted_tasks) == count
    report = use_limits(A_TASK_EACH)(run)([shards], tmp_path / "out", Options())
    assert sorted(chain(*sorted_tasks)) == list("bcdefg")
    assert (
        f"resuming an interrupted run: {count} of its {count} finished tasks are reused"
        in report.notices
    )
    assert everything(Corpus(tmp_path / "out")) == whole
    assert names_in(tmp_path) == ["in", "out", "whole"]


def test_a_run_is_killed_while_it_writes_its_journal(shards: Path, tmp_path: Path) -> None:
    """Files have longer names until they are complete; those that stay are no journals."""
    whole = everything(normalized(shards, tmp_path / "whole"))
    interrupt(shards, tmp_path / "out")
    *_, journal = sorted(tmp_path.glob(".out.*/journal-*"))
    journal.with_name(f"{journal.name}.b284ec1a").write_bytes(journal.read_bytes()[:20])
    report = use_limits(A_TASK_EACH)(run)([shards], tmp_path / "out", Options())
    assert any("finished tasks are reused" in notice for notice in report.notices)
    assert everything(Corpus(tmp_path / "out")) == whole
    assert names_in(tmp_path) == ["in", "out", "whole"]


def add_first(shards: Path) -> str:
    write(shards / "a.jsonl", lines_of("a"))
    return "aefg"


def add_last(shards: Path) -> str:
    write(shards / "z.jsonl", [*lines_of("z"), *lines_of("same", 3)])
    return "efgz"


def change(shards: Path) -> str:
    write(shards / "b.jsonl", lines_of("new"))
    return "befg"


def change_within(shards: Path) -> str:
    """Change one byte, but neither size nor time."""
    path = shards / "b.jsonl"
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"same", b"sane", 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return "befg"


def touch(shards: Path) -> str:
    """Change the time, but no byte."""
    os.utime(shards / "b.jsonl")
    return "efg"


def remove(shards: Path) -> str:
    (shards / "b.jsonl").unlink()
    return "efg"


def rename(shards: Path) -> str:
    (shards / "b.jsonl").rename(shards / "y.jsonl")
    return "efgy"


def nothing(_: Path) -> str:
    return "efg"


@pytest.mark.parametrize(
    "deed",
    [nothing, touch, add_first, add_last, change, change_within, remove, rename],
    ids=lambda deed: deed.__name__,
)
def test_only_tasks_of_changed_shards_are_repeated(
    deed: Callable[[Path], str], shards: Path, tmp_path: Path, sorted_tasks: list[list[str]]
) -> None:
    """A changed, new or removed shard costs its own task only, and the corpus is that of a fresh
    run.
    """
    interrupt(shards, tmp_path / "out", 3)
    expected = deed(shards)
    sorted_tasks.clear()
    corpus = normalized(shards, tmp_path / "out")
    assert sorted(chain(*sorted_tasks)) == sorted(expected)
    assert everything(corpus) == everything(normalized(shards, tmp_path / "fresh"))


@pytest.mark.parametrize("conflicts", ["keep", "first"])
def test_finished_parts_are_not_repeated(
    conflicts: str, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was interrupted in pass 2 resumes with the missing parts."""
    limits = Limits(task_bytes=5_000)
    options: dict[str, Any] = {
        "part_size": 2_000,
        "conflicts": conflicts,
        "repeats": conflicts,
        "limits": limits,
    }
    whole = normalized(shards, tmp_path / "whole", **options)
    assert len(whole.parts) > 3
    interrupt(shards, tmp_path / "out", 2, "merge", **options)
    made = []
    monkeypatch.setattr(
        parts, "make_part", lambda task: made.append(task.number) or pass2_make(task)
    )
    corpus = normalized(shards, tmp_path / "out", **options)
    assert len(made) == len(whole.parts) - 2
    assert everything(corpus) == everything(whole)


pass2_make = parts.make_part


def test_fresh_reuses_nothing(shards: Path, tmp_path: Path, sorted_tasks: list[list[str]]) -> None:
    """With `fresh`, all tasks are repeated."""
    interrupt(shards, tmp_path / "out")
    sorted_tasks.clear()
    report = use_limits(A_TASK_EACH)(run)([shards], tmp_path / "out", Options(fresh=True))
    assert sorted(chain(*sorted_tasks)) == list("bcdefg")
    assert report.notices == []


@pytest.mark.parametrize("what", ["fastrec", "zstd", "msgspec", "jsonschema-rs"])
def test_work_of_another_build_is_not_reused(
    what: str,
    shards: Path,
    tmp_path: Path,
    sorted_tasks: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another commit or another library may give other bytes: its work is ignored, and one line
    says so.
    """
    here = build.identity()
    monkeypatch.setattr(options_module, "identity", lambda: {**here, what: "0.0"})
    interrupt(shards, tmp_path / "out")
    monkeypatch.setattr(options_module, "identity", lambda: here)
    sorted_tasks.clear()
    report = use_limits(A_TASK_EACH)(run)([shards], tmp_path / "out", Options())
    assert sorted(chain(*sorted_tasks)) == list("bcdefg")
    reason = f"it was made with {what} 0.0 instead of {here[what]}"
    assert report.notices == [f"finished work of an interrupted run is not reused: {reason}"]


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["run-", ".index", "rejects-"])
@pytest.mark.parametrize("how", ["damaged", "cut", "gone"])
def test_damaged_work_is_repeated(kind: str, how: str, shards: Path, tmp_path: Path) -> None:
    """A file of the work directory is not used if a single byte has changed."""
    whole = everything(normalized(shards, tmp_path / "whole"))
    interrupt(shards, tmp_path / "out", 5)
    files = [
        path
        for path in (tmp_path / ".out.fastrec-work").iterdir()
        if kind in path.name and path.stat().st_size
    ]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        if how == "gone":
            path.unlink()
            continue
        data[len(data) // 2] ^= 1
        path.write_bytes(data if how == "damaged" else data[:-1])
    assert everything(normalized(shards, tmp_path / "out")) == whole


def test_a_damaged_journal_is_read_up_to_the_damage(shards: Path, tmp_path: Path) -> None:
    """A journal that is truncated or damaged anywhere costs repeated work, but changes no byte and
    causes no error.
    """
    whole = everything(normalized(shards, tmp_path / "whole"))
    interrupt(shards, tmp_path / "out", 5)
    work = tmp_path / ".out.fastrec-work"
    kept = tmp_path / "kept"
    shutil.copytree(work, kept)
    journals = sorted(path.name for path in work.glob("journal-*"))
    assert len(journals) == 5
    journal = journals[2]
    size = (work / journal).stat().st_size
    for position in [0, 1, 11, 12, 13, size // 3, size // 2, size - 1]:
        for garbled in (False, True):
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(kept, work)
            data = bytearray((work / journal).read_bytes())
            if garbled:
                data[position] ^= 0x55
            else:
                del data[position:]
            (work / journal).write_bytes(data)
            assert everything(normalized(shards, tmp_path / "out", overwrite=True)) == whole


def test_sorted_chunks_of_a_shard_are_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sorted_tasks: list[list[str]]
) -> None:
    """A large compressed shard is decompressed again, but its sorted chunks are reused."""
    limits = Limits(task_bytes=1_000, decompressed_chunk_bytes=2_000, small_input=0)
    options: dict[str, Any] = {"jobs": 2, "limits": limits}
    monkeypatch.setattr(module, "make_engine", lambda *_: SerialEngine())
    path = tmp_path / "in" / "huge.jsonl.zst"
    path.parent.mkdir()
    path.write_bytes(compressed(Format.ZSTD, text_of("huge", 40)))
    whole = everything(normalized(path.parent, tmp_path / "whole", **options))
    total = len(sorted_tasks)
    assert total > 4
    interrupt(path.parent, tmp_path / "out", 3, **options)
    sorted_tasks.clear()
    assert everything(normalized(path.parent, tmp_path / "out", **options)) == whole
    assert len(sorted_tasks) == total - 3


def test_a_bad_shard_can_be_fixed(
    shards: Path, tmp_path: Path, sorted_tasks: list[list[str]]
) -> None:
    """After a bad shard is fixed, the next run reads only that one."""
    whole = everything(normalized(shards, tmp_path / "whole"))
    good = (shards / "c.jsonl.zst").read_bytes()
    (shards / "c.jsonl.zst").write_bytes(good[:-5])
    with pytest.raises(BadShardsError):
        use_limits(A_TASK_EACH)(normalize)(shards, tmp_path / "out")
    (shards / "c.jsonl.zst").write_bytes(good)
    sorted_tasks.clear()
    assert everything(normalized(shards, tmp_path / "out")) == whole
    assert sorted_tasks == [["c"]]


# The lock, and a crash between two renames


def test_a_second_run_is_refused(shards: Path, tmp_path: Path) -> None:
    """Another process that wants to write the same output is refused, and the message says why."""
    command = [
        sys.executable,
        "-m",
        "fastrec",
        "normalize",
        str(shards),
        "-o",
        str(tmp_path / "out"),
    ]
    rivals = []

    class Rival(Progress):
        def finish(self) -> None:
            rivals.append(
                subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            )

    normalize(shards, tmp_path / "out", progress=Rival())
    for rival in rivals:
        assert rival.returncode == 3
        assert f"is being written by another run, process {os.getpid()} on " in rival.stderr
    assert len(rivals) == 2
    assert names_in(tmp_path) == ["in", "out"]


def test_two_threads_do_not_write_one_output(shards: Path, tmp_path: Path) -> None:
    """Within one process too, an output has one writer at a time; other outputs are independent."""

    class Rival(Progress):
        def finish(self) -> None:
            with pytest.raises(LockedError, match="another run, process"):
                normalize(shards, tmp_path / "out")
            normalize(shards, tmp_path / "other", overwrite=True)

    normalize(shards, tmp_path / "out", progress=Rival())
    assert names_in(tmp_path) == ["in", "other", "out"]


def test_parts_in_another_compression_are_not_mixed_in(shards: Path, tmp_path: Path) -> None:
    """Parts that a run with other options left in the staging directory are not published."""
    interrupt(shards, tmp_path / "out", 1, "merge", compression="gz")
    assert any((tmp_path / ".out.fastrec-new").iterdir())
    corpus = normalized(shards, tmp_path / "out")
    assert everything(corpus) == everything(normalized(shards, tmp_path / "fresh"))


def test_the_lock_of_a_dead_process_is_ignored(shards: Path, tmp_path: Path) -> None:
    """A lock file that no process holds does not block a run."""
    (tmp_path / ".out.fastrec-lock").write_text("process 1 on earth since ever\n")
    normalize(shards, tmp_path / "out")
    assert names_in(tmp_path) == ["in", "out"]


@pytest.mark.parametrize("nth", [1, 2])
def test_a_crash_between_the_renames_loses_nothing(
    nth: int, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a run is killed after it moved the old corpus aside, the next run moves it back first."""
    old = everything(normalized(write(tmp_path / "old.jsonl", lines_of("old")), tmp_path / "out"))
    real = Path.rename
    calls = []

    def rename(path: Path, target: Path) -> Path:
        if "part-" not in path.name:
            calls.append(path)
            if len(calls) == nth:
                raise KeyboardInterrupt
        return real(path, target)

    monkeypatch.setattr(publish, "exchange", lambda *_: False)
    monkeypatch.setattr(
        publish._Place, "_undo", lambda *_: None
    )  # a killed process does nothing more
    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        normalize(shards, tmp_path / "out", overwrite=True)
    assert (tmp_path / "out").exists() is (nth == 1)
    monkeypatch.undo()
    with pytest.raises(UsageError, match="exists"):
        normalize(shards, tmp_path / "out")
    assert everything(Corpus(tmp_path / "out")) == old
    corpus = normalized(shards, tmp_path / "out", overwrite=True)
    assert everything(corpus) == everything(normalized(shards, tmp_path / "fresh"))
    assert names_in(tmp_path) == ["fresh", "in", "old.jsonl", "out"]


def test_too_little_space_is_noticed_before_the_work(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the estimated disk usage exceeds the free space, a notice says so."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    heard: list[str] = []
    report = use_limits(A_TASK_EACH)(run)(
        [shards], tmp_path / "out", Options(), notice=heard.append
    )
    assert "has 0.0 GB left" in heard[0]
    assert report.notices == heard


def test_an_incomplete_old_corpus_is_not_moved_back(shards: Path, tmp_path: Path) -> None:
    """An old corpus that was being removed has lost its manifest first, so it does not count as a
    corpus.
    """
    old = tmp_path / ".out.fastrec-old"
    normalize(write(tmp_path / "old.jsonl", lines_of("old")), old)
    (old / "manifest.json").unlink()
    assert everything(normalized(shards, tmp_path / "out")) == everything(
        normalized(shards, tmp_path / "fresh")
    )


def test_parts_for_other_options_are_not_published(shards: Path, tmp_path: Path) -> None:
    """Parts of an interrupted run are not published in a corpus with another compression."""
    interrupt(shards, tmp_path / "out", 1, "merge")
    corpus = normalized(shards, tmp_path / "out", compression="gz")
    assert everything(corpus) == everything(
        normalized(shards, tmp_path / "fresh", compression="gz")
    )


def test_conflicts_of_removed_parts_are_not_listed(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a resumed run has fewer parts, records that the other parts left out are not rejected."""
    limits = Limits(task_bytes=5_000)
    options: dict[str, Any] = {
        "part_size": 1_100,
        "conflicts": "reject",
        "repeats": "reject",
        "limits": limits,
    }
    conflicting = [line.replace(b'"score": ', b'"score": 1') for line in lines_of("same", 9)]
    write(shards / "h.jsonl", [*conflicting, *lines_of("same", 9)])
    parts_before: list[int] = []

    def stop(*arguments: Any) -> None:
        parts_before.append(len(arguments[2]))  # files of the records that parts left out
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(driver, "write_rejects", stop)
        run_limited([shards], tmp_path / "out", options)
    for name in "cdefgh":
        next(shards.glob(f"{name}.*")).unlink()
    corpus = normalized(shards, tmp_path / "out", **options)
    assert [len(corpus.parts) < count for count in parts_before] == [True]
    assert everything(corpus) == everything(normalized(shards, tmp_path / "fresh", **options))
