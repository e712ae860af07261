"""Uses of an index: by several threads, of odd corpora, of damaged ones, of one in a store."""

from __future__ import annotations

import json
import pwd
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.answers.finding import shortest_prefixes
from fastrec.answers.question_table import query_of
from fastrec.answers.selection import parse_groups
from fastrec.answers.table import SORTS, Query
from fastrec.answers.values import value_rows
from fastrec.errors import CorpusError, FastrecError, UsageError
from fastrec.normalize.options import Options
from fastrec.normalize.run import run
from tests.running import run_command
from tests.samples import sample_of
from tests.sizes import examples

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


def leave_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this user have neither a HOME nor an entry in the list of users, as in many containers."""
    for name in ("HOME", "FASTREC_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(RuntimeError):
        Path("~").expanduser()


def test_commands_work_without_a_home(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands work without a list of published corpora; they leave no temporary file."""
    leave_home(monkeypatch)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    made = tmp_path / "corpus"
    for _ in range(2):  # as every night
        done = run_command("normalize", corpus.parent / "in.jsonl", "-o", made, "--overwrite")
        assert done.returncode == 0, done.stderr
    done = run_command("normalize", made, "-o", tmp_path / "again")
    assert (done.returncode, b"judged again" in done.stderr) == (0, True)
    for arguments in (["questions", made], ["show", made, "0"]):
        done = run_command(*arguments)
        assert done.returncode == 0, done.stderr
    assert list((tmp_path / "temporary").iterdir()) == []


def test_threads_share_an_index(corpus: Path) -> None:
    """Each gets the right answer to its own query."""
    queries = [
        Query(evaluation_name="arithmetic", models=models, sort=sort)
        for models in ((), *((model,) for model in MODELS), MODELS[:2], MODELS[1:], MODELS[::2])
        for sort in SORTS
    ]
    alone = open_index(corpus)
    expected = [alone.page(query).rows for query in queries]
    barrier = threading.Barrier(8)
    index = open_index(corpus)
    with ThreadPoolExecutor(8) as threads:

        def ask(number: int) -> bool:
            if number < 8:
                barrier.wait()
            at = number % len(queries)
            rows = index.page(queries[at]).rows
            return rows == expected[at] and len(index.answers(rows[number % len(rows)])) == 3

        assert all(threads.map(ask, range(examples(2, 4) * len(queries))))


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
    index = open_index(copy)
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
        answer(
            1,
            "org/a",
            sample_hash="ab",
            sample_id=5,
            evaluation={"score": 10**400, "is_correct": True},
        ),
        answer(
            1,
            "org/b",
            sample_hash="ab",
            sample_id="five",
            evaluation={"score": -(10**400), "is_correct": False},
        ),
        answer(
            2,
            "org/a",
            sample_hash="abc",
            sample_id="5",
            evaluation={"score": True, "is_correct": True},
        ),
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
    index = open_index(odd)
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
def test_a_prefix_finds_one_question(
    sample_hash: str, shortest: int, prefix: str, odd: Path
) -> None:
    index = open_index(odd)
    assert shortest_prefixes(index.selection, [sample_hash], shortest) == {sample_hash: prefix}
    assert [row.sample_hash for row in index.find(prefix)] == [sample_hash]


@given(
    st.lists(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, unique=True), min_size=1),
    st.integers(1, 3),
    st.data(),
)
def test_a_prefix_is_as_short_as_it_can_be(
    parts: list[list[str]], shortest: int, data: st.DataObject
) -> None:
    hashes = {each for part in parts for each in part}
    asked = data.draw(st.sets(st.sampled_from(sorted(hashes))))
    selection: Any = SimpleNamespace(
        parts=parts,
        columns=lambda part: SimpleNamespace(
            values=lambda name: parts[part] if name == "hash" else []
        ),
    )
    expected = {
        sample_hash: next(
            (
                sample_hash[:length]
                for length in range(shortest, len(sample_hash))
                if not any(
                    other.startswith(sample_hash[:length]) for other in hashes - {sample_hash}
                )
            ),
            sample_hash,
        )
        for sample_hash in asked
    }
    assert shortest_prefixes(selection, asked, shortest) == expected


def test_numbers_of_any_size(odd: Path) -> None:
    """Scores beyond the range of doubles count as the largest; ids are exact."""
    index = open_index(odd)
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
    assert (
        index.page(Query(evaluation_name="arithmetic", right=("org/a",), which="errors")).total == 1
    )
    assert [str(answer.sample_id) for answer in index.answers(rows["c"])] == ["1" + "0" * 5000]
    assert [answer.score for answer in index.answers(rows["ab"])] == [10**400, -(10**400)]
    assert index.page(Query(evaluation_name="arithmetic", sample_ids=("1000*",))).total == 2


def test_an_unknown_scope_has_no_questions(corpus: Path) -> None:
    index = open_index(corpus)
    unknown = Query(evaluation_name="arithmetic", metric="f1")
    assert index.page(unknown).total == 0
    assert index.row(unknown, "00") is None
    assert index.neighbours(unknown, "00") == (None, None)
    assert index.next_disagreement(unknown, "00") is None
    assert index.outcomes(unknown, "00") == value_rows(index, unknown, MODELS) == {}


def test_an_empty_corpus_has_no_scopes(tmp_path: Path) -> None:
    index = open_index(publish(tmp_path, [], allow_empty=True))
    assert (index.scopes, index.models, index.find("a")) == ([], [], [])


def test_a_corpus_in_a_store(corpus: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    for path in corpus.iterdir():
        files.pipe(f"/answers/{path.name}", path.read_bytes())
    try:
        here = open_index(corpus)
        there = open_index("memory://answers")
        rows = there.page(QUERY).rows
        assert rows == here.page(QUERY).rows
        assert [one.line for one in there.answers(rows[7])] == [
            one.line for one in here.answers(rows[7])
        ]
    finally:
        files.rm("/answers", recursive=True)


def test_parts_without_the_field_are_a_group(tmp_path: Path) -> None:
    """Where no record of a part has a field, its columns say so without an array."""
    found = [
        answer(number, "org/c", evaluation_name=name, metadata=metadata)
        for name, metadata in (("a", {"level": "1"}), ("b", {"other": "2"}))
        for number in range(40)
    ]
    made = publish(tmp_path, found, part_size=4 << 10)
    groups = open_index(made, groups=parse_groups("metadata.level"))
    assert [one.records for one in groups.evaluations] == [40, 40]
    counts = fastrec.stats(made, group_by="metadata.level").evaluations
    assert {(one.evaluation_name, one.records) for one in counts if one.group} == {
        ("a", 40),
        ("b", 40),
    }


def test_groups_are_found_whatever_the_order_of_their_names(tmp_path: Path) -> None:
    """The mark of a group sorts after some characters of names."""
    names = ["a", "a\x01", "a b"]
    found = [
        answer(number, model, evaluation_name=name, metadata={"level": str(number % 2)})
        for name in names
        for number in range(20)
        for model in MODELS
    ]
    made = publish(tmp_path, found, part_size=4 << 10)
    groups = open_index(made, groups=parse_groups("metadata.level"))
    assert sum(one.records for one in groups.evaluations) == len(found)
    assert all(
        len(groups.table(query_of(scope)).number) == 10 * len(MODELS) for scope in groups.scopes
    )
