"""Indexes in the cache directory: reused, built again if damaged, removed if unused; and other uses of an index."""

from __future__ import annotations

import atexit
import json
import os
import pwd
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fastrec.answers import index as module
from fastrec.answers.index import Index, open_index
from fastrec.answers.table import SORTS, Query
from fastrec.errors import CorpusError, FastrecError, UsageError
from fastrec.limits import Limits, use_limits
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from fastrec.progress import Progress
from tests.running import run_command
from tests.samples import sample_of

MODELS = ("org/a", "org/b", "org/c")
QUERY = Query(evaluation_name="arithmetic")
DAY = 24 * 60 * 60


def publish(folder: Path, found: list[dict[str, Any]], **options: Any) -> Path:
    """Normalize some records."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "in.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in found))
    run([str(folder / "in.jsonl")], folder / "corpus", Options(**options))
    return folder / "corpus"


def answer(question: int, model: str, **changes: Any) -> dict[str, Any]:
    """An answer of a model; model a is always right, b never, c sometimes."""
    is_right = {"org/a": True, "org/b": False, "org/c": question % 2 == 0}[model]
    record = sample_of("0.2.0", model_id=model, sample_id=question, error=None)
    record["input"]["raw"] = f"question {question}"
    record["evaluation"] = {"score": float(is_right), "is_correct": is_right}
    return {**record, **changes}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 30 questions in several parts."""
    found = [answer(question, model) for question in range(30) for model in MODELS]
    return publish(tmp_path_factory.mktemp("cached"), found, part_size=8 << 10)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The indexes that are built."""
    found: list[str] = []
    real = module.build_index

    def build(path: str, *arguments: Any, **options: Any) -> None:
        found.append(path)
        real(path, *arguments, **options)

    monkeypatch.setattr(module, "build_index", build)
    return found


def total(corpus: Path, cache: Path) -> int:
    with open_index(corpus, cache=cache) as index:
        return index.page(QUERY).total


def test_an_index_is_built_once(corpus: Path, tmp_path: Path, builds: list[str]) -> None:
    """Later calls use it, also for a copy of the corpus; nothing else stays in the directory."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in corpus.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert [total(corpus, tmp_path / "cache"), total(corpus, tmp_path / "cache"), total(copy, tmp_path / "cache")] == [
        30,
        30,
        30,
    ]
    assert len(builds) == 1
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_another_corpus_has_another_index(corpus: Path, tmp_path: Path, builds: list[str]) -> None:
    other = publish(tmp_path / "other", [answer(1, "org/a")])
    assert [total(corpus, tmp_path / "cache"), total(other, tmp_path / "cache")] == [30, 1]
    assert len(builds) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"x" * len(data),
        lambda data: data[:100] + bytes(4000) + data[4100:],
        lambda data: data + bytes(4096),
    ],
)
def test_a_damaged_index_is_built_again(damage: Any, corpus: Path, tmp_path: Path, builds: list[str]) -> None:
    assert total(corpus, tmp_path) == 30
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert total(corpus, tmp_path) == 30
    assert len(builds) == 2


def test_damage_that_a_query_finds_is_reported(corpus: Path, tmp_path: Path) -> None:
    """The file is removed, so that the next command builds it again."""
    assert total(corpus, tmp_path) == 30
    (path,) = tmp_path.iterdir()
    with closing(sqlite3.connect(path)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'question'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(data)
    try:
        assert total(corpus, tmp_path) == 30  # the damage was found at once
    except FastrecError as exc:
        assert "index" in str(exc)  # noqa: PT017
    assert total(corpus, tmp_path) == 30


def test_a_failed_build_leaves_nothing(corpus: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in corpus.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    part = next(iter(sorted(copy.glob("part-*.jsonl*"))))
    part.write_bytes(part.read_bytes()[:-5])
    with pytest.raises(FastrecError, match="part-00000"):
        open_index(copy, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("most", [1, 5_000, 20_000])
def test_a_full_disk_is_reported_with_the_file(most: int, corpus: Path, tmp_path: Path) -> None:
    """Whether SQLite or a task notices it; nothing stays."""
    script = (
        "import resource, signal, sys; from fastrec.answers.index import open_index\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))\n"
        "try: open_index(sys.argv[1], cache=sys.argv[2])\n"
        "except OSError as exc: print(exc.filename)"
    )
    done = subprocess.run([sys.executable, "-c", script, corpus, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
    assert not any(tmp_path.iterdir())


def test_a_killed_build_leaves_nothing_that_counts(corpus: Path, tmp_path: Path) -> None:
    script = (
        "import os, sys; from fastrec.answers import index\n"
        "index.merge = lambda *_, **__: os._exit(9)\n"
        "index.open_index(sys.argv[1], cache=sys.argv[2])"
    )
    done = subprocess.run([sys.executable, "-c", script, str(corpus), str(tmp_path)], check=False)
    assert done.returncode == 9
    assert {path.suffix for path in tmp_path.iterdir()} == {".building"}
    assert total(corpus, tmp_path) == 30


def test_unused_indexes_are_removed_when_one_is_built(corpus: Path, tmp_path: Path) -> None:
    ages = {"old.index": 31, "used.index": 29, "left.building": 2, "busy.building": 0, "other.txt": 99}
    for name, days in ages.items():
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (time.time() - days * DAY,) * 2)
    total(corpus, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names & ages.keys() == {"used.index", "busy.building", "other.txt"}
    (built,) = names - ages.keys()
    os.utime(tmp_path / built, (time.time() - 40 * DAY,) * 2)
    total(corpus, tmp_path)
    assert time.time() - (tmp_path / built).stat().st_mtime < DAY


def test_without_a_cache_directory_a_temporary_file_is_used(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with open_index(corpus, cache=tmp_path / "file" / "cache") as index:
        assert index.page(QUERY).total == 30
        assert len(index.answers(index.page(QUERY).rows[0])) == 3


def test_the_cache_directory_follows_from_the_environment(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for names in ({"FASTREC_CACHE": "a"}, {"XDG_CACHE_HOME": "b"}, {"HOME": "c"}):
        for name in ("FASTREC_CACHE", "XDG_CACHE_HOME", "HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in names.items():
            monkeypatch.setenv(name, str(tmp_path / value))
        open_index(corpus).close()
    found = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("*.index")}
    assert found == {"a", "b/fastrec", "c/.cache/fastrec"}


def leave_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this user have neither a HOME nor an entry in the list of users, as in many containers."""
    for name in ("HOME", "FASTREC_CACHE", "FASTREC_STATE", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(RuntimeError):
        Path("~").expanduser()


def test_without_a_home_there_is_no_cache(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands work without a list of published corpora and without a cache; they leave no temporary file."""
    leave_home(monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    made = tmp_path / "corpus"
    for _ in range(2):  # as every night
        done = run_command("normalize", corpus.parent / "in.jsonl", "-o", made, "--overwrite")
        assert done.returncode == 0, done.stderr
    done = run_command("normalize", made, "-o", tmp_path / "again")
    assert (done.returncode, b"judged again" in done.stderr) == (0, True)
    for arguments in (["questions", made], ["show", made, "0"], ["clean", "--cache"]):
        done = run_command(*arguments)
        assert done.returncode == 0, done.stderr
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("has_home", [True, False])
def test_tables_without_a_cache_directory_are_temporary(
    corpus: Path, has_home: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    if has_home:
        monkeypatch.setenv("FASTREC_CACHE", str(tmp_path / "file" / "cache"))
        (tmp_path / "file").write_text("")
    else:
        leave_home(monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    at_exit: list[Any] = []
    monkeypatch.setattr(atexit, "register", lambda *call, **named: at_exit.append(partial(*call, **named)))
    done = run_command("sql", corpus, "select count(*) from answers", "--format", "csv")
    assert (done.returncode, done.stdout.split()[-1]) == (0, b"90"), done.stderr
    assert len(list(tmp_path.glob("fastrec-*"))) == 1
    for call in at_exit:
        call()
    assert list(tmp_path.glob("fastrec-*")) == []


def test_threads_share_an_index(corpus: Path) -> None:
    """Each gets the right answer to its own query."""
    queries = [
        Query(evaluation_name="arithmetic", models=models, sort=sort)
        for models in ((), *((model,) for model in MODELS), MODELS[:2], MODELS[1:], MODELS[::2])
        for sort in SORTS
    ]
    with open_index(corpus) as alone:
        expected = [alone.page(query).rows for query in queries]
    barrier = threading.Barrier(8)
    with open_index(corpus) as index, ThreadPoolExecutor(8) as threads:

        def ask(number: int) -> bool:
            if number < 8:
                barrier.wait()
            at = number % len(queries)
            rows = index.page(queries[at]).rows
            return rows == expected[at] and len(index.answers(rows[number % len(rows)])) == 3

        assert all(threads.map(ask, range(4 * len(queries))))


def test_several_processes_build_the_same_index(corpus: Path, tmp_path: Path) -> None:
    """Byte for byte, whatever their number."""
    for jobs in (1, 2):
        use_limits(Limits(small_input=0))(open_index)(corpus, cache=tmp_path / str(jobs), jobs=jobs).close()
    one, two = (next((tmp_path / str(jobs)).iterdir()) for jobs in (1, 2))
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()


def test_two_builds_at_once_are_harmless(corpus: Path, tmp_path: Path, builds: list[str]) -> None:
    barrier = threading.Barrier(2)

    def build() -> int:
        barrier.wait()
        return total(corpus, tmp_path)

    with ThreadPoolExecutor(2) as threads:
        assert [future.result() for future in [threads.submit(build) for _ in range(2)]] == [30, 30]
    assert 1 <= len(builds) <= 2
    assert len(list(tmp_path.iterdir())) == 1


def test_progress_is_reported(corpus: Path, tmp_path: Path) -> None:
    calls: list[Any] = []

    class Watched(Progress):
        def start(self, stage: str, total_bytes: int) -> None:
            calls.append((stage, total_bytes > 0))

        def advance(self, size: int, records: int, rejects: int) -> None:  # noqa: ARG002
            calls.append(records)

        def finish(self) -> None:
            calls.append("finished")

    open_index(corpus, cache=tmp_path, progress=Watched(), jobs=2).close()
    assert calls[0] == ("index", True)
    assert sum(calls[1:-1]) == 90
    open_index(corpus, cache=tmp_path, progress=Watched()).close()
    assert calls[-1] == "finished"
    assert calls.count("finished") == 1


def test_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a corpus"):
        open_index(tmp_path)
    with pytest.raises(UsageError, match="at least one job"):
        open_index(tmp_path, jobs=0)


def test_a_part_that_changed_is_reported(corpus: Path, tmp_path: Path) -> None:
    """The index is found by the manifest alone, so a part may be another one."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in corpus.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    parts = sorted(copy.glob("part-*.jsonl*"))
    with open_index(copy, cache=tmp_path / "cache") as index:
        row = index.page(QUERY).rows[0]
        parts[0].write_bytes(parts[1].read_bytes())
        with pytest.raises(CorpusError, match="part-00000"):
            index.answers(row)
        parts[0].unlink()
        with pytest.raises(FastrecError, match="part-00000"):
            index.answers(row)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with hashes that begin alike, huge numbers, and several ids of a question."""
    huge = 10**5000
    found = [
        answer(1, "org/a", sample_hash="ab", sample_id=5, evaluation={"score": 10**400, "is_correct": True}),
        answer(1, "org/b", sample_hash="ab", sample_id="five", evaluation={"score": -(10**400), "is_correct": False}),
        answer(2, "org/a", sample_hash="abc", sample_id="5", evaluation={"score": True, "is_correct": True}),
        answer(2, "org/a", sample_hash="abc", sample_id="5", error="again"),
        answer(3, "org/a", sample_hash="b\U0010ffff1", sample_id=10**30, error="broken"),
        answer(4, "org/a", sample_hash="b", sample_id=0),
        answer(6, "org/a", sample_hash="five5", sample_id="x"),
    ]
    folder = tmp_path_factory.mktemp("odd")
    lines = [json.dumps(record) for record in found]
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    lines.append(json.dumps(answer(5, "org/b", sample_hash="c", sample_id=huge)))
    sys.set_int_max_str_digits(limit)
    (folder / "in.jsonl").write_text("\n".join(lines))
    run([str(folder / "in.jsonl")], folder / "corpus", Options(schema="0.2.0", sample_hash="fill"))
    return folder / "corpus"


@pytest.mark.parametrize(
    ("text", "hashes"),
    [
        ("ab", ["ab"]),
        ("a", ["ab", "abc"]),
        ("abc", ["abc"]),
        ("abcd", []),
        ("5", ["ab", "abc"]),
        ("five", ["ab"]),
        (str(10**30), ["b\U0010ffff1"]),
        ("b\U0010ffff", ["b\U0010ffff1"]),
        ("0", ["b"]),
        ("00", []),
        ("5,", []),
        ('5,"five"', []),
        ("", []),
        ("\ud800", []),
        ("1" + "0" * 5000, ["c"]),
    ],
)
def test_questions_are_found_by_hash_or_else_by_id(text: str, hashes: list[str], odd: Path) -> None:
    with open_index(odd) as index:
        assert [row.sample_hash for row in index.find(text)] == hashes


@pytest.mark.parametrize(
    ("sample_hash", "shortest", "prefix"),
    [
        ("ab", 1, "ab"),
        ("abc", 1, "abc"),
        ("b\U0010ffff1", 1, "b\U0010ffff"),
        ("b\U0010ffff1", 9, "b\U0010ffff1"),
        ("five5", 1, "f"),
        ("five5", 4, "five5"),  # another question has the sample_id `five`
    ],
)
def test_a_prefix_finds_one_question(sample_hash: str, shortest: int, prefix: str, odd: Path) -> None:
    with open_index(odd) as index:
        assert index.prefixes_of([sample_hash], shortest) == {sample_hash: prefix}
        assert [row.sample_hash for row in index.find(prefix)] == [sample_hash]


def test_numbers_of_any_size(odd: Path) -> None:
    """Scores beyond the range of doubles count as the largest; ids are exact."""
    with open_index(odd) as index:
        query = Query(evaluation_name="arithmetic")
        rows = {row.sample_hash: row for row in index.page(query).rows}
        assert index.scopes[0].graded
        assert rows["b\U0010ffff1"].sample_id == 10**30
        assert rows["b\U0010ffff1"].mean_score is None
        assert rows["b\U0010ffff1"].errors == 1
        assert str(rows["c"].sample_id) == "1" + "0" * 5000
        assert rows["ab"].mean_score == 0.0
        assert rows["ab"].disagreement == 1.0
        assert rows["abc"].mean_score == 1.0
        assert rows["abc"].errors == 0
        assert index.page(Query(evaluation_name="arithmetic", right=("org/a",), which="errors")).total == 1
        assert [str(answer.sample_id) for answer in index.answers(rows["c"])] == ["1" + "0" * 5000]
        assert [answer.score for answer in index.answers(rows["ab"])] == [10**400, -(10**400)]
        assert index.page(Query(evaluation_name="arithmetic", sample_ids=("1000*",))).total == 2


def test_an_unknown_scope_has_no_questions(corpus: Path) -> None:
    with open_index(corpus) as index:
        unknown = Query(evaluation_name="arithmetic", metric="f1")
        assert index.page(unknown).total == 0
        assert index.row(unknown, "00") is None
        assert index.neighbours(unknown, "00") == (None, None)
        assert index.next_disagreement(unknown, "00") is None
        assert index.outcomes(unknown, "00") == index.values(unknown, MODELS) == {}


def test_an_empty_corpus_has_no_scopes(tmp_path: Path) -> None:
    with open_index(publish(tmp_path, [], allow_empty=True)) as index:
        assert (index.scopes, index.models, index.find("a")) == ([], [], [])


def test_a_corpus_in_a_store(corpus: Path, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    for path in corpus.iterdir():
        files.pipe(f"/answers/{path.name}", path.read_bytes())
    try:
        with open_index("memory://answers", cache=tmp_path) as there, open_index(corpus, cache=tmp_path) as here:
            rows = there.page(QUERY).rows
            assert rows == here.page(QUERY).rows
            assert [one.line for one in there.answers(rows[7])] == [one.line for one in here.answers(rows[7])]
    finally:
        files.rm("/answers", recursive=True)


def test_closing_twice_is_harmless(corpus: Path) -> None:
    index: Index = open_index(corpus)
    index.close()
    index.close()


def test_nobody_else_can_read_the_cache_directory(corpus: Path, tmp_path: Path) -> None:
    """A new directory, and one that an earlier version made, have mode 0700; one with other files stays as it is."""
    for name, file in (("new", ""), ("ours", "a.index"), ("shared", "notes.txt")):
        directory = tmp_path / name
        if file:
            directory.mkdir(mode=0o755)
            (directory / file).touch()
        open_index(corpus, cache=directory).close()
        assert directory.stat().st_mode & 0o777 == (0o755 if name == "shared" else 0o700)
