"""A question is a `sample_hash`; if one run of a model has it under several sample_ids, each of
these is a question.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.answers.choosing import open_index
from fastrec.errors import UsageError
from tests.answers.small import Record, answer, make_corpus
from tests.commands.viewing import Client, serving
from tests.running import run_here
from tests.sizes import examples
from tests.summary.naive import naive_models, question_of, split_hashes

LOG_ACCURACY = 0.6
VERDICTS = {"create": 1, "rename": 1, "move": 1, "delete": 0, "other": 0}


def log() -> dict[str, Any]:
    """An Inspect log of five samples.

    Four share prompt and target: their tasks are in their metadata.
    """
    samples = [
        {
            "id": name,
            "epoch": 1,
            "input": "Another task." if name == "other" else "Do the task in the sandbox.",
            "target": "done",
            "messages": [],
            "output": {
                "model": "org/m",
                "choices": [{"message": {"role": "assistant", "content": f"{name}: tried"}}],
            },
            "scores": {"check": {"value": "C" if right else "I", "answer": "tried"}},
            "metadata": {"task": name},
        }
        for name, right in VERDICTS.items()
    ]
    metric = {"accuracy": {"name": "accuracy", "value": LOG_ACCURACY, "options": {}}}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "task": "sandbox",
            "task_id": "t",
            "run_id": "r",
            "eval_id": "e",
            "created": "2026-01-01T00:00:00+00:00",
            "model": "org/m",
            "dataset": {"name": "tasks", "samples": 5},
            "config": {},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": 5,
            "completed_samples": 5,
            "scores": [{"name": "check", "scorer": "check", "params": {}, "metrics": metric}],
        },
        "stats": {"started_at": "", "completed_at": "", "model_usage": {}},
        "samples": samples,
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus of such a log; read-only."""
    folder = tmp_path_factory.mktemp("split")
    (folder / "logs").mkdir()
    (folder / "logs" / "log.json").write_text(json.dumps(log()))
    assert run_here("import", folder / "logs", "-o", folder / "records").returncode == 0
    fastrec.normalize(folder / "records", folder / "corpus")
    return folder / "corpus"


def test_an_imported_log_keeps_its_accuracy(corpus: Path) -> None:
    """`stats` has the questions and the accuracy that the log states, and says how many hashes are
    split.
    """
    found = fastrec.stats(corpus)
    (evaluation,) = found.evaluations
    assert (evaluation.questions, evaluation.by_model[0].questions) == (5, 5)
    assert evaluation.by_model[0].accuracy == LOG_ACCURACY
    assert found.corpus.split_hashes == 1
    said = run_here("stats", corpus).stdout.decode()
    assert "1 hash has several sample_ids in one run: each sample_id is a question" in said
    assert fastrec.verify(corpus).problems == []


def test_questions_lists_each_sample(corpus: Path) -> None:
    (table,) = fastrec.questions(corpus).evaluations
    assert table.total == 5
    assert {row.sample_id: row.right for row in table.questions} == VERDICTS


def test_show_separates_samples(corpus: Path) -> None:
    """A sample_id shows one question, a hash all of its samples, and `--sample-id` chooses."""
    (one,) = fastrec.show(corpus, "move").questions
    assert [answer.sample_id for answer in one.answers] == ["move"]
    every = fastrec.show(corpus, one.sample_hash).questions
    assert sorted(str(each.sample_id) for each in every) == ["create", "delete", "move", "rename"]
    (chosen,) = fastrec.show(corpus, one.sample_hash, sample_id="delete").questions
    assert (chosen.sample_id, chosen.tallies[0].right) == ("delete", 0)


def test_show_lists_many_samples_of_a_hash(tmp_path: Path) -> None:
    made = make_corpus(
        tmp_path, [answer("e", "same", "m", 1, sample_id=f"s{number}") for number in range(6)]
    )
    (row, *_) = fastrec.questions(made).evaluations[0].questions
    with pytest.raises(UsageError, match=r"several samples have the hash .*; choose a --sample-id"):
        fastrec.show(made, row.sample_hash)


def test_show_separates_samples_once(tmp_path: Path) -> None:
    """A hash that only one of two metrics splits is no further question."""
    records = [
        answer("e", "same", "m", 1, sample_id=sample_id, evaluation_result_id=metric)
        for sample_id, metric in (("s1", "acc"), ("s2", "acc"), ("s1", "f1"))
    ]
    made = make_corpus(tmp_path, records)
    (row, *_) = fastrec.questions(made).evaluations[0].questions
    for asked, samples in ((row.sample_hash, ["s1", "s2"]), ("s1", ["s1"])):
        shown = fastrec.show(made, asked).questions
        assert [question.sample_id for question in shown] == samples
        assert [tally.metric for tally in shown[0].tallies] == ["acc", "f1"]
    (shown_alone,) = fastrec.show(made, row.sample_hash, metric="f1").questions
    assert [tally.metric for tally in shown_alone.tallies] == ["f1"]


def test_the_matrix_has_a_column_for_each_sample(corpus: Path, tmp_path: Path) -> None:
    fastrec.export(corpus, tmp_path / "matrix", format="matrix")
    heads, values = csv.reader(
        (tmp_path / "matrix" / "correct.csv").read_text(encoding="utf-8").splitlines()
    )
    assert len(heads) == 6
    assert sum(map(int, values[1:])) == 3
    assert sum(head.endswith('/"move"') for head in heads) == 1


def test_view_has_a_page_for_each_sample(corpus: Path) -> None:
    """The address of a question names its sample."""
    with serving(corpus) as opened:
        client = Client(opened.address)
        table = client.page("/questions?evaluation=sandbox&metric=check")
        links = {unescape(link) for link in re.findall('href="([^"]*/question/[^"]*)"', table)}
        pages = {client.page(link) for link in links}
        assert len(links) == len(pages) == 5
        assert all(sum(f"{name}: tried" in page for name in VERDICTS) == 1 for page in pages)


def test_every_metric_of_a_split_hash_can_be_opened(tmp_path: Path) -> None:
    """A hash that is split in one metric only has the page of the hash, or of its first sample, in
    the other.
    """
    records = [
        answer("exam", "task", "m", 1.0, sample_id=name, evaluation_result_id="f1")
        for name in ("x", "y/z")
    ]
    one = answer("exam", "task", "m", 0.0, sample_id="x", evaluation_result_id="other")
    with serving(make_corpus(tmp_path, [*records, one])) as view:
        client = Client(view.address)
        pages = [
            client.page(f"/questions?evaluation=exam&metric={metric}") for metric in ("f1", "other")
        ]
        found = [
            unescape(link)
            for page in pages
            for link in re.findall(r'href="([^"]*/question/[^"]*)"', page)
        ]
        assert len(found) == 3
        for address in found:
            others = re.findall(
                r'href="([^"]*/question/[^"]*)"', client.page(address).split('class="tabs"')[1]
            )
            assert [client.send(unescape(other))[0] for other in others[:1]] == [200]


def test_sql_has_a_question_for_each_sample(corpus: Path) -> None:
    connection = fastrec.connect(corpus)
    shown = {table.evaluation_name: table.total for table in fastrec.questions(corpus).evaluations}
    counts = connection.sql(
        "select evaluation, count(distinct question) from answers group by 1"
    ).fetchall()
    assert dict(counts) == shown == {"sandbox": 5}
    assert connection.sql(
        "select max(trial), count(distinct question) from answers"
    ).fetchall() == [(1, 5)]
    assert connection.sql("select accuracy from models").fetchall() == [(LOG_ACCURACY,)]
    ids = connection.sql(
        "select question, sample_id from answers where question like '%/%'"
    ).fetchall()
    assert [question.partition("/")[2] for question, _ in ids] == [
        json.dumps(one) for _, one in ids
    ]


def test_a_corpus_without_split_hashes_keeps_its_summary(tmp_path: Path) -> None:
    """Runs with ids of their own are repeats, as ever, and the summary does not mention split
    hashes.
    """
    records = [
        answer("e", "same", "m", 1, sample_id=f"s{run}", evaluation_id=f"run {run}")
        for run in range(2)
    ]
    made = make_corpus(tmp_path, records)
    (evaluation,) = json.loads((made / "summary.json").read_bytes())["evaluations"]
    assert (evaluation["questions"], evaluation["hashes_with_many_ids"]) == (1, 1)
    assert "split_hashes" not in evaluation
    assert "split_hashes" not in json.dumps(json.loads((made / "manifest.json").read_bytes()))


def changes_of(old: Path, new: Path) -> list[tuple[int, int, int]]:
    (evaluation,) = fastrec.trend([old, new]).evaluations
    return [
        (one.questions, one.better, one.worse)
        for model in evaluation.models
        for one in model.changes
    ]


@pytest.mark.parametrize("runs", [["s0"], ["s0", "s2"]])
def test_trend_splits_what_either_corpus_splits(tmp_path: Path, runs: list[str]) -> None:
    """A hash that one run of one corpus has under several sample_ids is that many questions in the
    other one, too.
    """
    old = [
        answer("e", "same", "m", 1, sample_id=name, evaluation_id=f"run {name}") for name in runs
    ]
    new = [answer("e", "same", "m", 0, sample_id=f"s{number}") for number in range(3)]
    for name, some in (("old", old), ("new", new)):
        (tmp_path / name).mkdir()
        make_corpus(tmp_path / name, some)
    corpora = [next((tmp_path / name).glob("**/manifest.json")).parent for name in ("old", "new")]
    count = len(runs)
    assert changes_of(*corpora) == [(count, 0, count)]
    assert changes_of(*reversed(corpora)) == [(count, count, 0)]


few = st.integers(0, 1)
records = st.lists(
    st.builds(
        lambda asked, model, run, sample, score, metric, trial: answer(
            "e",
            f"question {asked}",
            f"m{model}",
            score,
            evaluation_id=f"run {run}",
            sample_id=f"sample {sample}",
            evaluation_result_id=f"metric {metric}",
            metadata={"trial": str(trial)},
        ),
        few, few, few, few, few, few, few,
    ),
    min_size=1,
    max_size=14,
)  # fmt: skip
Values = dict[tuple[Any, ...], dict[str, float]]


def naive_values(some: Iterable[Record], split: set[Any]) -> Values:
    """By question, the share of right answers of each model."""
    answers: dict[tuple[Any, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for one in some:
        answers[question_of(one, split)][one["model_id"]].append(one["evaluation"]["score"])
    return {
        question: {model: sum(scores) / len(scores) for model, scores in models.items()}
        for question, models in answers.items()
    }


@given(
    some=records,
    others=records,
    order=st.sampled_from([(), ("model_id",), ("sample_id",), ("sample_hash",)]),
)
@settings(max_examples=examples(5, 200))
def test_commands_agree_with_a_naive_count(some, others, order, tmp_path_factory) -> None:
    """The summary, the index, `--common`, `--joins`, `compare`, the matrix and `trend`, in any sort
    order.
    """
    folder = tmp_path_factory.mktemp("any")
    corpora = []
    for name, lines in (("old", others), ("new", some)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        fastrec.normalize(folder / f"{name}.jsonl", folder / name, schema="0.3.0", sort_by=order)
        corpora.append(folder / name)
    old, new = ([json.loads(line) for line in fastrec.cat(corpus)] for corpus in corpora)
    expected = naive_values(new, split_hashes(new))
    questions = defaultdict(list)
    for question, values in expected.items():
        questions[question[1]].append(values)
    summary = json.loads((corpora[1] / "summary.json").read_bytes())
    tables = {table.metric: table for table in fastrec.questions(corpora[1], limit=100).evaluations}
    common = {one.metric: one for one in fastrec.stats(corpora[1], common=True).evaluations}
    for one in summary["evaluations"]:
        asked = questions[one["metric"]]
        everyone = {model for values in asked for model in values}
        assert one["questions"] == tables[one["metric"]].total == len(asked)
        assert one.get("split_hashes", 0) == sum(
            found[1] == one["metric"] for found in split_hashes(new)
        )
        shared = sum(values.keys() == everyone for values in asked)
        assert one["questions_all_models"] == common[one["metric"]].common_questions == shared
        own = naive_models(
            record for record in new if record["evaluation_result_id"] == one["metric"]
        )
        for model in one["by_model"]:
            naive = own["e", model["model_id"]]
            assert (model["questions"], model["accuracy"]) == (
                naive.questions,
                pytest.approx(naive.accuracy),
            )
        rows = tables[one["metric"]].questions
        assert sorted(row.right for row in rows) == pytest.approx(
            sorted(sum(values.values()) for values in asked)
        )
        for row in rows:
            shown = fastrec.show(corpora[1], row.sample_hash, metric=one["metric"]).questions
            assert sum(tally.models for each in shown for tally in each.tallies) == sum(
                len(values)
                for question, values in expected.items()
                if question[1:3] == (one["metric"], row.sample_hash)
            )
        check_trend(corpora, [old, new], one["metric"])
    fastrec.export(corpora[1], folder / "matrix", format="matrix")
    heads, *_ = csv.reader(
        (folder / "matrix" / "scores.csv").read_text(encoding="utf-8").splitlines()
    )
    assert len(heads) - 1 == len(set(heads)) - 1 == len(expected)
    check_compare(corpora[1], questions)


def check_compare(corpus: Path, questions: dict[str, list[dict[str, float]]]) -> None:
    index = open_index(corpus)
    if len(index.models) < 2:
        return
    for one in fastrec.compare(corpus, "m0", "m1").evaluations:
        both = [values for values in questions[one.metric] if values.keys() == {"m0", "m1"}]
        wins, losses = (
            sum(sign * (each["m0"] - each["m1"]) > 0 for each in both) for sign in (1, -1)
        )
        assert (one.questions, one.wins, one.losses) == (len(both), wins, losses)


def check_trend(corpora: list[Path], records: list[list[Record]], metric: str) -> None:
    """`trend` splits what either of the corpora splits, as `diff` does."""
    split = split_hashes(records[0]) | split_hashes(records[1])
    before, after = (naive_values(some, split) for some in records)
    for one in fastrec.trend(corpora, metric=metric).evaluations:
        for model in one.models:
            for change in model.changes:
                name = model.model_id
                both = [
                    key
                    for key in before.keys() & after.keys()
                    if name in before[key] and name in after[key]
                ]
                pairs = [(before[key][name], after[key][name]) for key in both if key[1] == metric]
                rose, fell = (sum(sign * (new - old) > 0 for old, new in pairs) for sign in (1, -1))
                assert (change.questions, change.better, change.worse) == (len(pairs), rose, fell)
