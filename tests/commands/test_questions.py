"""`fastrec questions`: the right questions in the right order, with numbers that a naive count
agrees with.
"""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastrec
from fastrec.commands.questions import Question, Questions
from fastrec.errors import UsageError
from tests.answers.small import Record, answer, disagreement, group, make_corpus, values
from tests.running import run_here

MODELS = [f"org/m{number}" for number in range(6)]
HOSTILE = "\x1b[2J\u202eevil\u2028日本語の質問\x00" + "x" * 500


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 questions, some with repeats, errors and gaps; a graded metric; read-only."""
    rng = random.Random(1)

    def records() -> Iterator[Record]:
        for number in range(40):
            for model in MODELS:
                for run in range(rng.choice([0, 1, 1, 1, 1, 2])):
                    error = {"error": "timeout"} if rng.random() < 0.1 else {}
                    more: dict[str, Any] = {"evaluation_id": f"run {run}", **error}
                    yield answer("exam", f"question {number}", model, rng.choice([0, 0, 1]), **more)
                    yield answer(
                        "exam",
                        f"question {number}",
                        model,
                        rng.random(),
                        **more,
                        evaluation_result_id="f1",
                    )
        for model in MODELS[:2]:
            yield answer("other", HOSTILE, model, 0.0, sample_id="\x1b]0;title\x07")

    return make_corpus(tmp_path_factory.mktemp("questions"), records())


def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    return run_here("questions", *arguments)


def listed(found: Questions) -> dict[tuple[str, str | None], list[Question]]:
    return {(table.evaluation_name, table.metric): table.questions for table in found.evaluations}


@pytest.mark.parametrize(
    ("models", "chosen"),
    [([], MODELS), (["org/m0"], MODELS[:1]), (["org/m[0-2]", "org/m5"], [*MODELS[:3], MODELS[5]])],
)
def test_the_numbers_are_those_of_a_naive_count(
    corpus: Path, models: list[str], chosen: list[str]
) -> None:
    """Every number of every question, for all models and for some."""
    found = listed(fastrec.questions(corpus, model=models, limit=1000))
    seen = 0
    for (name, metric, sample_hash), records in group(corpus).items():
        records = {model: some for model, some in records.items() if model in chosen}
        row = next(
            (one for one in found.get((name, metric), []) if one.sample_hash == sample_hash), None
        )
        if not records:
            assert row is None
            continue
        assert row
        seen += 1
        right = values(records, graded=False)
        scores = values(records, graded=True)
        assert row.models == len(right)
        assert row.right == pytest.approx(sum(right.values()))
        assert row.share == (pytest.approx(sum(right.values()) / len(right)) if right else None)
        assert row.mean_score == (
            pytest.approx(sum(scores.values()) / len(scores)) if scores else None
        )
        assert row.errors == len(records) - len(right)
        if metric is None:
            spread = disagreement(right.values())
            assert row.disagreement == (None if spread is None else pytest.approx(spread, abs=1e-9))
        asked = next(iter(records.values()))[0]["input"]["raw"]
        assert (row.input_chars, row.excerpt[:8]) == (len(asked), asked[:8]) or name == "other"
    assert seen == sum(map(len, found.values()))


@pytest.mark.parametrize(
    ("options", "test"),
    [
        ({"wrong_by": "all"}, lambda right: not any(right.values())),
        ({"right_by": "all"}, lambda right: all(share == 1 for share in right.values())),
        ({"wrong_by": "org/m0"}, lambda right: right.get("org/m0") == 0),
        (
            {"right_by": ["org/m0", "*m1"]},
            lambda right: right.get("org/m0") == right.get("org/m1") == 1,
        ),
        (
            {"split": ("org/m2", "*3")},
            lambda right: right.get("org/m2") == 1 and right.get("org/m3") == 0,
        ),
        (
            {"right_by": "org/m2", "wrong_by": "org/m3"},
            lambda r: r.get("org/m2") == 1 and r.get("org/m3") == 0,
        ),
    ],
)
def test_questions_are_chosen_by_who_gets_them_right(
    corpus: Path, options: dict[str, Any], test: Any
) -> None:
    found = listed(fastrec.questions(corpus, evaluation="exam", limit=1000, **options))
    expected = {
        (metric, sample_hash)
        for (name, metric, sample_hash), records in group(corpus).items()
        if name == "exam" and (right := values(records, graded=False)) and test(right)
    }
    assert {
        (metric, one.sample_hash) for (_, metric), some in found.items() for one in some
    } == expected
    assert expected


def test_a_pattern_of_models_stands_for_those_of_each_evaluation(tmp_path: Path) -> None:
    """A model that another evaluation lacks does not hide the questions of that one."""
    records = [
        answer(evaluation, asked, f"org/{model}", score)
        for evaluation, models in (("one", "ab"), ("two", "bc"))
        for asked, score in (("hard", 0.0), ("easy", 1.0))
        for model in models
    ]
    corpus = make_corpus(tmp_path, records)

    def chosen(**options: Any) -> dict[str, list[int | str]]:
        tables = fastrec.questions(corpus, **options).evaluations
        return {
            table.evaluation_name: [one.sample_id for one in table.questions] for table in tables
        }

    assert chosen(wrong_by="org/*") == {"one": ["id of hard"], "two": ["id of hard"]}
    assert chosen(right_by="org/*") == {"one": ["id of easy"], "two": ["id of easy"]}
    assert chosen(wrong_by="org/a") == {"one": ["id of hard"]}
    assert chosen(wrong_by=["org/a", "org/*"]) == {"one": ["id of hard"]}
    assert chosen(wrong_by=["org/a", "org/c"]) == {}


def test_outcomes_and_text_choose_questions(corpus: Path) -> None:
    """--errors chooses questions that have at least one record with an error, of the models that
    count.
    """
    found = listed(
        fastrec.questions(
            corpus, evaluation="exam", metric="", model="org/m1", errors=True, limit=99
        )
    )
    expected = {
        sample_hash
        for (name, metric, sample_hash), records in group(corpus).items()
        if (name, metric) == ("exam", None)
        and any(one.get("error") for one in records.get("org/m1", []))
    }
    assert {one.sample_hash for one in found["exam", None]} == expected
    assert {
        one.sample_id for one in listed(fastrec.questions(corpus, text="QUESTION 17"))["exam", None]
    } == {"id of question 17"}
    assert fastrec.questions(corpus, text="no such text").evaluations[0].total == 0


@pytest.mark.parametrize(
    ("sort", "key"),
    [
        ("hardest", lambda one: (one.share is None, one.share)),
        ("easiest", lambda one: (one.share is None, -(one.share or 0))),
        ("disagreement", lambda one: (one.disagreement is None, -(one.disagreement or 0))),
        ("longest-output", lambda one: -(one.output_chars or 0)),
        ("errors", lambda one: -one.errors),
        ("order", lambda one: one.sample_hash),
    ],
)
def test_the_order(corpus: Path, sort: Any, key: Any) -> None:
    rows = listed(fastrec.questions(corpus, sort=sort, evaluation="exam", limit=99))["exam", None]
    assert rows == sorted(rows, key=key)
    (first,) = listed(fastrec.questions(corpus, sort=sort, evaluation="exam", limit=1))[
        "exam", None
    ]
    assert first == rows[0]


def test_the_prefix_finds_the_question(corpus: Path) -> None:
    for rows in listed(fastrec.questions(corpus)).values():
        for row in rows:
            (shown,) = fastrec.show(corpus, row.prefix).questions
            assert shown.sample_hash == row.sample_hash


def test_names_with_brackets_are_names(tmp_path: Path) -> None:
    """Also if another name matches them as a pattern."""
    verdicts = {"org/[a]": 1.0, "org/a": 0.0, "org/b": 0.0}
    corpus = make_corpus(
        tmp_path, [answer("e", "q", model, score) for model, score in verdicts.items()]
    )
    for split, number in {("org/[a]", "org/a"): 1, ("org/a", "org/[a]"): 0}.items():
        [found] = fastrec.questions(corpus, split=split).evaluations
        assert len(found.questions) == number


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sort": "x"}, "sort must be one of order, hardest"),
        ({"split": "org/m0"}, "split must be two models"),
        ({"split": ("org/m0", "org/*")}, r"'org/\*' matches 6 models: org/m0, "),
        ({"wrong_by": "x"}, "no model matches 'x'; available: org/m0"),
        ({"wrong_by": "all", "right_by": "all"}, "no question is both right and wrong"),
        ({"model": "x"}, "no model matches 'x'"),
        ({"evaluation": "x"}, "no evaluation matches 'x'; available: exam, other"),
        (
            {"sample_id": "x", "wrong": True},
            "no question matches --sample-id x; `fastrec questions` lists them",
        ),
        ({"hash": "x"}, "no question matches --hash x; .*, and 'abcd"),
    ],
)
def test_what_is_wrong_is_said(corpus: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fastrec.questions(corpus, **options)


def test_the_table(tmp_path: Path) -> None:
    """The text of a small corpus, in full."""
    records = [
        answer("sums", "1 + 1?", "a", 1, sample_id="s1"),
        answer("sums", "1 + 1?", "b", 1, sample_id="s1"),
        answer("sums", "2 + 2?", "a", 1, sample_id="日本"),
        answer("sums", "2 + 2?", "b", 0, sample_id="日本"),
        answer("sums", "3 + 3?", "a", 0, sample_id="s3", text="12345678"),
        answer("sums", "3 + 3?", "b", 0, sample_id="s3", error="timeout"),
        answer("talk", "hi", "a", 0.25, evaluation_result_id="judge"),
    ]
    corpus = make_corpus(tmp_path, records)
    done = run(corpus, "--limit", "2")
    assert done.stdout.decode().splitlines() == [
        "sums: 3 questions, 2 models",
        "  question  sample   right  disagreement  errors  input  output  text",
        "  a903d6c3  s3      0 of 1          0.00       1      6       8  3 + 3?",
        "  3886ad4f  日本    1 of 2          1.00       0      6       8  2 + 2?",
        "  … and 1 more question; --limit 3 lists all",
        "",
        "talk, metric judge: 1 question, 1 model",
        "  question  sample    score  disagreement  errors  input  output  text",
        "  cef616e1  id of hi   0.25          0.00       0      2      11  hi",
    ]


def test_json_and_csv(corpus: Path) -> None:
    found = json.loads(run(corpus, "--format", "json", "--limit", "3").stdout)
    rows = list(
        csv.DictReader(io.StringIO(run(corpus, "--format", "csv", "--limit", "3").stdout.decode()))
    )
    tables = [(table, one) for table in found["evaluations"] for one in table["questions"]]
    assert [(one["sample_hash"], one["excerpt"]) for _, one in tables] == [
        (row["sample_hash"], row["excerpt"]) for row in rows
    ]
    for (table, one), row in zip(tables, rows, strict=True):
        assert (table["evaluation_name"], table["metric"] or "") == (
            row["evaluation_name"],
            row["metric"],
        )
        assert [str(one["right"]), str(one["models"])] == [row["right"], row["models"]]
        assert one["sample_hash"].startswith(one["prefix"])


def test_hostile_text_cannot_control_a_terminal(corpus: Path) -> None:
    for output_format in ("text", "json"):
        out = run(corpus, "--evaluation", "other", "--format", output_format).stdout.decode()
        assert not set(out) & set("\x1b\x07\x00\u202e\u2028\r")
        assert "日本語" in out
    text = run(corpus, "--evaluation", "other").stdout.decode()
    assert "\\x1b[2J" in text
    assert max(map(len, text.splitlines())) < 200


def test_nothing_found_is_no_error(corpus: Path) -> None:
    done = run(corpus, "--text", "no such text")
    assert (done.returncode, done.stdout.decode()) == (0, "no question matches\n")
    assert run(corpus, "--model", "nobody").returncode == 2


def test_the_text_says_where_a_phrase_was_found(tmp_path: Path) -> None:
    records = [
        answer("exam", "Sorry?", model, 1.0, text="I am SORRY" if model == "org/a" else "no")
        for model in ("org/a", "org/b")
    ]
    records.append(answer("exam", "other", "org/b", 1.0, text="sorry"))
    corpus = make_corpus(tmp_path, records)
    shown = run(corpus, "--text", "sorry", "--sort", "order").stdout.decode()
    assert "found in" in shown
    assert "  input, 1 answer  " in shown
    assert "  1 answer  " in shown
    only = (
        run(corpus, "--text", "sorry", "--in", "input", "--format", "csv")
        .stdout.decode()
        .splitlines()
    )
    assert [line.rsplit(",", 2)[1:] for line in only] == [["in_input", "in_answers"], ["true", "1"]]
    assert "found in" not in run(corpus).stdout.decode()


def test_the_share_of_answers_with_a_phrase_by_model(tmp_path: Path) -> None:
    """The largest share first, in the text only models that have the phrase, in JSON all."""
    texts = {"org/a": "fine", "org/b": "I am SORRY", "org/c": "Sorry", "org/d": "sorry"}
    records = [answer("exam", "Why?", model, 1.0, text=text) for model, text in texts.items()]
    records += [answer("exam", "How?", model, 0.0, text="no") for model in ("org/b", "org/d")]
    corpus = make_corpus(tmp_path, records)
    found = [(1, 1, 1.0), (1, 2, 0.5), (1, 2, 0.5), (0, 1, 0.0)]
    models = ("org/c", "org/b", "org/d", "org/a")
    result = fastrec.questions(corpus, text="sorry")
    assert [
        (one.model_id, one.found, one.answers, one.share)
        for one in result.evaluations[0].phrase_models
    ] == [(model, *counts) for model, counts in zip(models, found, strict=True)]
    shown = run(corpus, "--text", "sorry").stdout.decode().splitlines()
    assert [line.split() for line in shown[2:6]] == [
        ["org/c", "1", "1", "100.0%"],
        ["org/b", "1", "2", "50.0%"],
        ["org/d", "1", "2", "50.0%"],
        [],
    ]
    (only,) = fastrec.questions(corpus, text="sorry", model="org/b").evaluations
    assert [one.model_id for one in only.phrase_models] == ["org/b"]
    for options in ({}, {"text": "why", "in_": "input"}):
        assert fastrec.questions(corpus, **options).evaluations[0].phrase_models == []


def test_missing_samples(tmp_path: Path) -> None:
    """A sample is there by its `sample_id`, whatever its question, metric or outcome is."""
    records = [
        answer("e", f"q{number}", model, 1, sample_id=number, evaluation_result_id=metric)
        for number in range(30)
        for model in ("org/a", "org/b")
        for metric in ("exact", "judge")
        if model == "org/b" or number % 3
    ]
    records[0]["error"] = "timeout"
    records.append(answer("e", "other q", "org/a", 1, sample_id=3, evaluation_result_id="exact"))
    records.append(answer("f", "q", "org/b", 1, sample_id="x"))
    corpus = make_corpus(tmp_path, records)
    arguments = ("questions", corpus, "--evaluation", "e", "--missing", "org/a")
    expected = [str(number) for number in range(0, 30, 3)]
    assert sorted(run_here(*arguments).stdout.decode().split(), key=int) == expected
    exact = run_here(*arguments, "--metric", "exact").stdout.decode().split()
    assert sorted(exact, key=int) == [number for number in expected if number != "3"]
    assert run_here("questions", corpus, "--missing", "org/b").stdout == b""
    by_evaluation = {
        table.evaluation_name: table.total
        for table in fastrec.questions(corpus, missing="org/a").evaluations
    }
    assert by_evaluation["f"] == 1
    assert run_here("questions", corpus, "--missing", "org/x").returncode == 2
