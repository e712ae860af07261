"""The report as a file: its content, its escaping, and errors."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from functools import partial
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from click.testing import CliRunner, Result

import fastrec
from fastrec.answers import pictures
from fastrec.cli import cli
from fastrec.commands.report import report
from fastrec.corpus.manifest import read_manifest, read_summary
from fastrec.errors import CorpusError, FastrecError, ShardError, UsageError
from fastrec.judge.findings import CODES
from fastrec.limits import Limits
from fastrec.pages.svg import Spot, scatter
from tests.answers.small import answer, make_corpus
from tests.running import make_page, run_command
from tests.samples import sample, sample_of
from tests.sizes import examples

ROOT = Path(__file__).parents[2]
MARKUP = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
QUOTES = '" onclick="window.hacked = 1" x=\''
STEERING = "\u202e\x1b[31m\u2028\0"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo corpus of the project; read-only."""
    output = tmp_path_factory.mktemp("made") / "demo"
    fastrec.normalize(ROOT / "corpora" / "demo", output)
    return output


@pytest.fixture(scope="module")
def demo_page(demo: Path) -> bytes:
    """The page about it."""
    return make_page(demo)


@pytest.fixture
def copy(demo: Path, tmp_path: Path) -> Path:
    """A copy of the corpus, to be damaged."""
    return Path(shutil.copytree(demo, tmp_path / "copy"))


def hostile_corpus(folder: Path) -> Path:
    """Make a corpus in which every text on the page tries to be markup."""
    records = [
        sample(
            model_id=name,
            evaluation_name=name,
            evaluation_id=name,
            sample_id=name,
            sample_hash=name,
            error=None,
            input={"raw": name, "reference": name},
            output={"raw": name},
        )
        for name in (MARKUP, QUOTES, STEERING, "m" * 3_000)
    ]
    records += [
        {**record, "evaluation": {"score": 0.5, "is_correct": False}} for record in records
    ]  # conflicts
    lines = [json.dumps(record) for record in records]
    lines += [MARKUP, json.dumps(sample(interaction_type=MARKUP)), "{" + QUOTES]
    (folder / "<b>a&amp;.jsonl").write_text("\n".join(lines))
    fastrec.normalize(folder, folder.parent / "<i>hostile")
    return folder.parent / "<i>hostile"


class Page(HTMLParser):
    """A parsed page."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


run = partial(run_command, "report")


def invoke(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)])


# Content


def test_page_content(demo: Path, demo_page: bytes) -> None:
    """Line counts, codes with their meaning, examples, conflicts, hashes, inputs."""
    page = Page(demo_page)
    summary = json.loads((demo / "summary.json").read_bytes())
    assert (
        f"{summary['line_counts']['lines']}kept{summary['line_counts']['kept']}"
        in page.text.replace("lines", "")
    )
    for code, count in summary["rejected_by_code"].items():
        assert f"{code}{CODES[code]}{count}" in page.text
        assert f"{code}: examples" in page.text
    for example in summary["repeats"]["examples"]:
        assert example["sample_hashes"][0] in page.text
    for example in summary["sample_hash"]["examples"]:
        assert example["given"] in page.text
    for evaluation in summary["evaluations"]:
        assert f"{evaluation['evaluation_name']}: {evaluation['records']} record" in page.text
        for model in evaluation["by_model"]:
            result = (
                f"{model['mean_score']:.3f}" if evaluation["graded"] else f"{model['accuracy']:.1%}"
            )
            assert re.search(rf"{model['model_id']}(\d+–\d+)?{re.escape(result)}", page.text)
    assert {evaluation["graded"] for evaluation in summary["evaluations"]} == {False, True}
    assert "shard-00002.jsonl.gz" in page.text


def test_errors_and_repeats(tmp_path: Path) -> None:
    """Errors are in the tables.

    A model without answers has no accuracy, unless errors count.
    """
    records = [
        sample(model_id=model, evaluation_id=f"run-{trial}", error=error)
        for model, error in (("good", None), ("failed", "timeout"))
        for trial in range(3)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    text = Page(make_page(tmp_path / "corpus")).text
    assert (
        "6 records, 3 errors, 2 models, 1 question, 1 answered by the one model with answers"
        in text
    )
    assert "not judgedarithmetic: 1 model, failedAll their records have an error" in text
    assert "modelrankaccuracy95% low95% higherrorsquestionsanswerscoverage" in text
    assert "good1100.0%20.7%100.0%13100.0%" in text
    assert "failed300.0%15" in text  # errors, questions, coverage; tokens
    assert "They do not count for accuracy and score" in text
    text = Page(make_page(tmp_path / "corpus", errors_as_wrong=True)).text
    assert "failed0.0%10.0%79.3%313100.0%" in text
    assert "not judged" not in text
    assert "They count as wrong" in text
    done = invoke(tmp_path / "corpus", "-o", "-", "--errors-as-wrong")
    assert done.stdout_bytes == make_page(tmp_path / "corpus", errors_as_wrong=True)


def test_metrics_and_graded_scores(tmp_path: Path) -> None:
    """Each metric has a column and a table.

    Graded ones show the score; the tokens of an answer count once.
    """
    scores = {"exact": (0, 1), "f1": (0.25, 0.75), MARKUP: (20, 60)}
    records = [
        sample_of(
            "0.3.0",
            evaluation_result_id=metric,
            sample_id=str(question),
            sample_hash="0" * 64,
            input={"raw": str(question), "reference": ["x"]},
            evaluation={"score": score, "is_correct": True},
            error=None,
        )
        for metric, both in scores.items()
        for question, score in enumerate(both)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", schema="0.3.0")
    markup = make_page(tmp_path / "corpus", metrics="all")
    assert MARKUP.encode() not in markup
    text = Page(markup).text
    assert "6 records of 1 model on 1 evaluation with 3 metrics" in text
    assert (
        "arithmetic · exact: 2 records, 1 model, 2 questions, 2 answered by all models"
        "modelrankaccuracy" in text
    )
    assert (
        "arithmetic · f1: 2 records, 1 model, 2 questions, 2 answered by all models"
        "modelrankscore95% low95% high" in text
    )
    assert "org/model10.50.0100.9902100.0%" in text
    assert "Wrong hashes: the first 6 of 6" in text
    with_accuracy = make_page(tmp_path / "corpus", accuracy=True, metrics="all")
    assert Page(with_accuracy).text.count("modelrankaccuracy") == 3
    assert (
        invoke(tmp_path / "corpus", "-o", "-", "--accuracy", "--metrics", "all").stdout_bytes
        == with_accuracy
    )


def test_dot_plots(demo: Path, demo_page: bytes) -> None:
    """One for each evaluation, with the best models first.

    Of hundreds of models, the first ones are drawn.
    """
    markup = demo_page.decode()
    caption = r"<figcaption>[\w ]+ of models, with 95% intervals</figcaption>"
    plots = re.findall(rf"<figure>{caption}.*?</figure>", markup)
    summary = json.loads((demo / "summary.json").read_bytes())
    evaluations = summary["evaluations"]
    largest = max(evaluations, key=lambda evaluation: evaluation["records"])
    evaluations.sort(key=lambda evaluation: evaluation is not largest)
    for plot, evaluation in zip(plots, evaluations, strict=True):
        measure, unit = ("mean_score", 1) if evaluation["graded"] else ("accuracy", 100)
        values = sorted(
            (model[measure] for model in evaluation["by_model"] if model["answers"]), reverse=True
        )
        shown = [float(value.rstrip("%")) for value in re.findall(r"<b>(.*?)</b>", plot)]
        shown.sort(reverse=True)  # models that are not ranked come last
        assert shown == pytest.approx([unit * value for value in values], abs=0.06)
        spots = re.search(r'class="spot" d="(.*?)"', plot)
        assert spots
        places = sorted(map(int, re.findall(r"M(\d+) \d+h0", spots[1])), reverse=True)
        assert places == [round(1000 * value) for value in values]
    many = {f"m{number}": pictures.Result(0.5, 0.4, 0.6, ".1f") for number in range(60)}
    drawn = pictures.dots_picture("results", many, shares=True)
    assert "The first 25 of 60; the table below has all." in drawn
    assert len(re.findall(r"M\d+ \d+h0", drawn)) == 25


def marked(models: dict[str, str], **changes: Any) -> list[dict[str, Any]]:
    """Records of models that have questions right, wrong, or an error; answers say which."""
    return [
        sample(
            model_id=model,
            sample_id=number,
            input={"raw": f"Question {number}?\nThink.", "reference": f"reference-{number}"},
            output={"raw": f"{model} says {mark}{number}"},
            answer_attribution=[],
            evaluation={"score": float(mark == "+"), "is_correct": mark == "+"},
            error="timeout" if mark == "!" else None,
            **changes,
        )
        for model, marks in models.items()
        for number, mark in enumerate(marks)
    ]


def corpus_of(folder: Path, name: str, records: list[dict[str, Any]]) -> Path:
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    fastrec.normalize(folder / f"{name}.jsonl", folder / name)
    return folder / name


def test_questions(tmp_path: Path) -> None:
    """The hardest and the most disputed questions, with the answers of models that are right and
    wrong.
    """
    models = {"a": "+-+-!", "b": "+-+-!", "c": "+--+!", "d": "+--+!", "e": "+--+!"}
    corpus = corpus_of(tmp_path, "corpus", marked(models))
    text = Page(make_page(corpus)).text
    hardest = text.split("Hardest questions")[1]
    order = [int(number) for number in re.findall(r"Question (\d)\?\n", hardest)]
    # 0 %, 40 %, 60 % right; all have the first one right, and nobody answered the last
    assert order == [1, 2, 3]
    asked = "sample 1Question 1?\nThink.Referencereference-1"
    assert f"0 of 5 models right (0%); disagreement 0.00; {asked}" in hardest
    shown = [model for model in "abcde" if f"{model} says -1" in hardest]
    assert shown == ["a", "b", "d", "e"]
    assert [model for model in "abcde" if f"{model} says +2" in hardest] == ["a", "b"]
    assert [model for model in "abcde" if f"{model} says -2" in hardest] == ["d", "e"]
    assert "All answers, in full: fastrec show corpus " in hardest
    one = Page(make_page(corpus, examples=1)).text
    assert "Question 1?" in one
    assert "Question 2?" not in one
    assert "Most disputed questions" not in one
    two = Page(make_page(corpus, examples=2)).text.split("Most disputed questions")
    assert "Question 1?" in two[0]
    assert "2 of 5 models right (40%)" in two[1] or "3 of 5 models right (60%)" in two[1]
    none = Page(make_page(corpus, examples=0)).text
    assert "Hardest questions" not in none
    with pytest.raises(UsageError, match="examples must be at least 0, not -1"):
        make_page(corpus, examples=-1)
    assert invoke(corpus, "-o", "-", "--examples", "1").stdout_bytes == make_page(
        corpus, examples=1
    )


def test_each_evaluation_has_a_question_before_any_has_two(tmp_path: Path) -> None:
    """A hard evaluation does not take all the places."""
    records = marked({"a": "----", "b": "----"}, evaluation_name="hard")
    records += marked({"a": "++-+", "b": "++++"}, evaluation_name="easy")
    text = Page(make_page(corpus_of(tmp_path, "corpus", records), examples=4)).text
    asked = re.findall(
        r"(hard|easy) Question \d\? Think. \d of 2 models right \((\d+)%\)",
        text.split("Hardest questions")[1],
    )
    assert asked == [("easy", "50"), ("hard", "0")]


def test_long_answers_are_cut(tmp_path: Path) -> None:
    """With a note that names the command that shows all; a megabyte stays out of the page."""
    records = marked({"a": "-", "b": "+"})
    for record in records:
        record["output"] = {"raw": "x" * 1_000_000}
        record["input"] = {"raw": "q" * 1_000_000, "reference": "r" * 1_000_000}
    corpus = corpus_of(tmp_path, "my corpus", records)
    page = make_page(corpus)
    assert len(page) < 100_000
    text = Page(page).text
    sample_hash = json.loads((corpus / "manifest.json").read_bytes())["parts"][0]["first"][
        "sample_hash"
    ]
    assert f"All answers, in full: fastrec show 'my corpus' {sample_hash[:16]}" in text
    assert "q" * 1_000 + " … 999,000 more characters" in text


def test_graded_questions_and_conversations(tmp_path: Path) -> None:
    """Graded answers are shown with their score, conversations with all turns."""
    records = []
    for model, score in (("a", 0.25), ("b", 0.75)):
        record = sample("multi_turn", model_id=model, error=None, answer_attribution=[])
        record["evaluation"] = {
            "score": score,
            "is_correct": False,
            "num_turns": 2,
            "tool_calls_count": 0,
        }
        records.append(record)
    text = Page(make_page(corpus_of(tmp_path, "corpus", records))).text
    assert "mean score 0.5 of 2 models; disagreement 1.00" in text
    assert "✗ wrong 0.25  a " in text
    assert "✗ wrong 0.75  b " in text
    assert text.count("world") == 2


def test_trend(tmp_path: Path) -> None:
    """Lines over corpora, with rings at changes, a table of changes, and line counts."""
    for night, marks in {"n1": "+" * 12, "n2": "+" * 12, "n3": "-" * 12}.items():
        corpus_of(tmp_path, night, marked({f"falls{MARKUP}": marks, "steady": "+-" * 6}))
    markup = make_page(tmp_path / "n3", trend=[tmp_path / "n1", tmp_path / "n2", tmp_path / "n3"])
    text = Page(markup).text
    assert "3 corpora, from n1 to n3." in text
    assert "p < 0.05, adjusted for 4 comparisons." in text
    assert f"arithmeticfalls{MARKUP}n2n3100.0%0.0%120120.002" in text
    assert markup.count(b'class="ring') == 1
    assert b'd="M0 8L500 8L1000 152"' in markup  # 100 %, 100 %, 0 %
    assert b'd="M0 80L500 80L1000 80"' in markup
    done = invoke(
        tmp_path / "n3", "-o", "-", "--trend", tmp_path / "n1", "--trend", tmp_path / "n2"
    )
    assert done.stdout_bytes == make_page(tmp_path / "n3", trend=[tmp_path / "n1", tmp_path / "n2"])
    assert "No change is more than chance." in Page(done.stdout_bytes).text
    with pytest.raises(UsageError, match="missing is not a corpus"):
        make_page(tmp_path / "n3", trend=tmp_path / "missing")


def test_filters_hold_for_questions_and_trend(tmp_path: Path) -> None:
    """Only matching records count, and nothing is said about the lines of others."""
    for night in ("n1", "n2"):
        corpus_of(tmp_path, night, marked({"good": "+++", "bad": "-+-"}))
    text = Page(make_page(tmp_path / "n2", exclude_model="good", trend=tmp_path / "n1")).text
    assert "0 of 1 model right (0%)" in text
    assert "good says" not in text
    assert "1 corpus, n1. Lines:" in text
    assert text.count("good") == 1  # the banner names the filter


def test_lines_that_repairs_would_keep(tmp_path: Path) -> None:
    """The section about rejected lines says how many there are, and which repairs they need."""
    wrong = {"score": "1.0", "is_correct": True}
    lines = [
        json.dumps(sample_of("0.3.0", sample_id=str(number), evaluation=wrong))
        for number in range(3)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "{"]))
    fastrec.normalize(
        tmp_path / "a.jsonl", tmp_path / "corpus", schema="0.3.0", max_rejects=4, allow_empty=True
    )
    text = Page(make_page(tmp_path / "corpus")).text
    assert "With --repair all, normalize would keep 3 of 4 rejected lines." in text
    repair = f"repair.number_from_text{CODES['repair.number_from_text']}3"
    assert repair in text
    fastrec.normalize(
        tmp_path / "a.jsonl", tmp_path / "repaired", schema="0.3.0", repair="all", max_rejects=4
    )
    repaired = Page(make_page(tmp_path / "repaired")).text
    assert f"Repaired linesrepaired lines3Repairs by codecodemeaninglines{repair}" in repaired
    assert "repair.number_from_textarithmeticorg/model0" in repaired
    assert "Repaired lines" not in text


def test_records_of_another_run(tmp_path: Path) -> None:
    """The page says which runs the records came from that `--same-run ignore` dropped."""
    records = [
        sample(evaluation_id=run, sample_id=number, error=None)
        for run in ("one", "two")
        for number in range(2)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", same_run="ignore")
    text = Page(make_page(tmp_path / "corpus")).text
    assert (
        text.count("2 duplicates from runs that are equal but for evaluation_id and schema_version")
        == 1
    )
    assert "arithmeticorg/modelonetwo2" in text


def test_ids_and_hashes_that_do_not_match(tmp_path: Path) -> None:
    """The page counts ids with several hashes and hashes with several ids."""
    other = sample(input={"raw": "another", "reference": "question"})
    (tmp_path / "a.jsonl").write_text(
        "\n".join(map(json.dumps, [sample(), other, sample(sample_id="q-2")]))
    )
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    # Three questions, one id, one hash, and this hash in one run.
    assert "arithmetic3111" in Page(make_page(tmp_path / "corpus")).text


def test_page_depends_on_the_corpus_alone(demo: Path, demo_page: bytes, tmp_path: Path) -> None:
    """The bytes are the same every time, in a file and on standard output."""
    report(demo, tmp_path / "a.html")
    assert (tmp_path / "a.html").read_bytes() == demo_page == run(demo, "-o", "-").stdout


def test_empty_corpus(tmp_path: Path) -> None:
    """The page has line counts of zero and no empty tables."""
    (tmp_path / "a.jsonl").write_text("")
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus", allow_empty=True)
    page = Page(make_page(tmp_path / "corpus"))
    assert "No line was rejected." in page.text
    assert "Evaluations" not in page.text


def test_huge_numbers(tmp_path: Path) -> None:
    """Tokens, latencies and scores may have any size."""
    huge = 10**400
    usage = {"input_tokens": huge, "output_tokens": 0, "total_tokens": huge}
    records = [
        sample(
            token_usage=usage,
            performance={"latency_ms": latency},
            evaluation={"score": score, "is_correct": True},
        )
        | {"model_id": str(score)}
        for latency, score in ((0, 1e308), (1e308, -1e308), (5e-324, huge))
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    fastrec.normalize(tmp_path / "a.jsonl", tmp_path / "corpus")
    text = Page(make_page(tmp_path / "corpus")).text
    assert "1e+308" in text


def test_large_tables_are_cut(demo: Path) -> None:
    """The page says how many models and evaluations it leaves out."""
    few = Limits(report_columns=6, report_rows=3, report_scopes=2)
    text = Page(make_page(demo, few)).text
    assert "Shown: the best 10 of 14 models; `fastrec stats` lists all." in text
    assert "Shown: 2 of 8 evaluations; `fastrec stats` lists all." in text


def without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make reports of documents alone: without ranks and leaderboard, for which columns are read."""

    def opened(path: Path, *_: Any, **__: Any) -> Any:
        manifest = read_manifest(path)
        summary = read_summary(str(path), manifest)
        return MagicMock(
            manifest=manifest, evaluations=summary.evaluations, selection=MagicMock(summary=summary)
        )

    monkeypatch.setattr("fastrec.commands.report.open_index", opened)
    monkeypatch.setattr("fastrec.answers.pictures._pictures", MagicMock(return_value=""))
    monkeypatch.setattr("fastrec.answers.pictures.mean_lengths_of", MagicMock(return_value={}))
    for name in ("add_ranks", "make_leaderboard"):
        monkeypatch.setattr(
            f"fastrec.commands.report.{name}", MagicMock(return_value=MagicMock(models=[]))
        )


def wide_corpus(folder: Path, *, models: int, evaluations: int) -> Path:
    """Make the documents of a corpus with many models and evaluations; its parts do not matter."""
    lines = [
        json.dumps(sample(model_id=f"org-{model % 9}/a-model-{model}-instruct", sample_id=question))
        for model in range(models)
        for question in range(2)
    ]
    (folder / "in.jsonl").write_text("\n".join(lines))
    fastrec.normalize(folder / "in.jsonl", folder / "wide")
    summary = json.loads((folder / "wide" / "summary.json").read_bytes())
    one = summary["evaluations"][0]
    for number, model in enumerate(one["by_model"]):
        latency = 100 + 17.3 * number
        share = number / models
        model |= {
            "answers": 2,
            "errors": 0,
            "questions_answered": 2,
            "accuracy": share,
            "mean_score": share,
        }
        model |= {"accuracy_standard_error": 0.01234, "score_standard_error": 0.01234}
        model["latency_ms"] = {"records": 2, "p50": latency, "p90": 2 * latency, "p99": 3 * latency}
    summary["evaluations"] = [
        one | {"evaluation_name": f"collection/task_{n:02}"} for n in range(evaluations)
    ]
    document = json.dumps(summary).encode()
    (folder / "wide" / "summary.json").write_bytes(document)
    manifest = json.loads((folder / "wide" / "manifest.json").read_bytes())
    manifest["summary_sha256"] = sha256(document).hexdigest()
    (folder / "wide" / "manifest.json").write_text(json.dumps(manifest))
    return folder / "wide"


def test_size_of_a_large_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """240 models × 60 evaluations take less than 5 MB, and all of them are there without a script.

    `make test` tries a quarter of the models.
    """
    without_index(monkeypatch)
    page = make_page(wide_corpus(tmp_path, models=examples(60, 240), evaluations=60), examples=0)
    assert len(page) < examples(1_200_000, 4_000_000)
    assert page.count(b"a-model-7-instruct</span>") == 60  # a table for each evaluation


def test_many_evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 evaluations take less than 2 MB: the largest have tables.

    `make test` tries a quarter.
    """
    without_index(monkeypatch)
    evaluations = examples(5_000, 20_000)
    page = make_page(wide_corpus(tmp_path, models=1, evaluations=evaluations), examples=0)
    assert len(page) < examples(1_300_000, 1_500_000)
    assert f"Shown: 200 of {evaluations:,} evaluations" in page.decode()


# Escaping


def test_record_text_is_escaped(demo_page: bytes, tmp_path: Path) -> None:
    """Hostile names, ids, hashes, lines and paths add no element and no attribute."""
    (tmp_path / "in").mkdir()
    hostile, plain = Page(make_page(hostile_corpus(tmp_path / "in"))), Page(demo_page)
    assert set(hostile.tags) <= set(plain.tags)
    assert {name for name, _ in hostile.attributes} <= {name for name, _ in plain.attributes}
    assert hostile.tags.count("script") == 1
    assert hostile.text.count(MARKUP) >= 6
    assert not set("\u202e\x1b\u2028\0") & set(hostile.text)


def test_page_uses_no_network(demo: Path, demo_page: bytes) -> None:
    """It contains no address, and its policy forbids requests."""
    page = make_page(demo, examples=0)
    assert b"http:" not in page
    assert b"https:" not in page
    assert b"default-src 'none'" in page
    assert b"https:" in demo_page  # in the text of a question
    assert not [value for _, value in Page(demo_page).attributes if value and "//" in value]
    assert b"default-src 'none'" in demo_page


# Writing


def test_existing_file_needs_overwrite(demo: Path, demo_page: bytes, tmp_path: Path) -> None:
    """Exit 2 names --overwrite, which then works; a symbolic link stays a link."""
    target = tmp_path / "real.html"
    target.write_text("mine")
    link = tmp_path / "link.html"
    link.symlink_to(target)
    done = run(demo, "-o", link)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"link.html exists; choose another file, or add --overwrite to replace it" in done.stderr
    assert target.read_text() == "mine"
    result = invoke(demo, "-o", link, "--overwrite")
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"{link}: " in result.stderr
    assert link.is_symlink()
    assert target.read_bytes() == demo_page


def test_file_mode_follows_the_umask(demo: Path, tmp_path: Path) -> None:
    """Although it begins as a private temporary file."""
    (tmp_path / "other").touch()
    report(demo, tmp_path / "a.html", examples=0)  # needs no index
    assert (tmp_path / "a.html").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("missing", "a.html"), 2, "missing is not a corpus: there is no such directory"),
        (("empty", "a.html"), 2, "empty is not a corpus: it holds no manifest.json"),
        (("demo", "empty"), 2, "empty is not a file; choose a file, or - for standard output"),
        (("demo", "/dev/null"), 2, "/dev/null is not a file"),
        (("demo", "demo/a.html"), 2, "demo/a.html is inside the corpus"),
        (
            ("demo", "missing/a.html"),
            3,
            "missing/a.html cannot be written: No such file or directory",
        ),
        (("demo", "file/a.html"), 3, "file/a.html cannot be written: Not a directory"),
    ],
)
def test_errors_and_exit_codes(
    demo: Path, tmp_path: Path, arguments: tuple[str, str], code: int, said: str
) -> None:
    """2: the command line is wrong; 3: failed. Nothing is written."""
    (tmp_path / "demo").symlink_to(demo)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    corpus, output = arguments
    done = run(corpus, "-o", output, "--overwrite", "--examples", "0", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, b"")
    assert said in done.stderr.decode()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("arguments", [[], ["-o"], ["-o", "a.html", "--nonsense"]])
def test_wrong_options(demo: Path, arguments: list[str]) -> None:
    """Exit 2."""
    assert run(demo, *arguments).returncode == 2


def test_full_disk(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves no partial file, and an existing file unchanged."""
    target = tmp_path / "a.html"
    # Else this may leave the first bytes of compiled modules.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run_on_full_disk(*options: str) -> subprocess.CompletedProcess[bytes]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, before[1]))
        try:
            return run(demo, "-o", target, "--examples", "0", *options)  # needs no index
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    done = run_on_full_disk()
    assert done.returncode == 3
    assert b"a.html cannot be written: File too large" in done.stderr
    assert not list(tmp_path.iterdir())
    target.write_text("mine")
    assert run_on_full_disk("--overwrite").returncode == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
    assert target.read_text() == "mine"


def test_damaged_corpus(copy: Path, tmp_path: Path) -> None:
    """A damaged rejects file, summary or manifest is an error, and nothing is written."""
    rejects, summary, manifest = (
        copy / name for name in ("rejects.jsonl.zst", "summary.json", "manifest.json")
    )
    rejects.write_bytes(rejects.read_bytes()[:-3])
    with pytest.raises(ShardError, match=r"rejects.jsonl.zst: ends inside"):
        report(copy, tmp_path / "a.html")
    rejects.unlink()
    with pytest.raises(ShardError, match=r"rejects.jsonl.zst: cannot be found"):
        report(copy, tmp_path / "a.html")
    summary.write_bytes(b"{}")
    with pytest.raises(CorpusError, match=r"summary.json: is not a summary"):
        report(copy, tmp_path / "a.html")
    manifest.write_bytes(b"[]")
    with pytest.raises(CorpusError, match=r"manifest.json: is not a manifest"):
        report(copy, tmp_path / "a.html")
    manifest.unlink()
    with pytest.raises(UsageError, match="is not a corpus"):
        report(copy, tmp_path / "a.html")
    assert not (tmp_path / "a.html").exists()


def test_unwritable_directory(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the reason of the system and the given path."""

    def refuse(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(FastrecError, match=r"a.html cannot be written: Permission denied"):
        report(demo, tmp_path / "a.html", examples=0)  # needs no index
    assert not list(tmp_path.iterdir())


def test_closed_pipe(demo: Path) -> None:
    """A closed pipe prints no error."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(demo, "-o", "-", "--examples", "0", stdout=writer)  # needs no index
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_fits_100_columns() -> None:
    """Help has examples and fits into 100 columns."""
    text = invoke("--help").stdout
    assert "Examples:" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("lower", [False, True])
def test_scatter_plots_mark_the_models_that_no_other_beats(lower: bool) -> None:
    """Checked with all pairs; names that are drawn do not cover each other or a circle."""
    rng = random.Random(5)
    points = [
        (f"org-{number}/model", float(rng.randint(1, 30)), rng.randint(0, 20) / 20)
        for number in range(40)
    ]
    spots = [*(Spot(*point) for point in points), Spot("free", 0.0, 0.5)]
    page = scatter("cost", spots, str, str, lower=lower)
    circles = re.findall('<circle cx="(.*?)" cy="(.*?)" r="5"(.*?)><title>(.*?):', page)
    unbeaten = {name for _, _, class_, name in circles if not class_}
    sign = -1 if lower else 1
    assert len(circles) == len(points)
    assert unbeaten == {
        name
        for name, x, y in points
        if not any(a <= x and sign * b >= sign * y and (a, b) != (x, y) for _, a, b in points)
    }
    texts = [
        tuple(map(float, one))
        for one in re.findall('<text x="([^"]*)" y="([^"]*)" textLength="(.*?)"', page)
    ]
    assert len(texts) > 5
    boxes = [(x, x + size, y - 4) for x, y, size in texts] + [
        (float(x), float(x), float(y)) for x, y, _, _ in circles
    ]
    for at, (left, right, middle) in enumerate(boxes[: len(texts)]):
        others = boxes[:at] + boxes[at + 1 :]
        assert all(abs(middle - y) > 11 or right < a or b < left for a, b, y in others)


def test_each_answer_has_its_own_id(tmp_path: Path) -> None:
    """Also those of one question by two metrics: marks lead to the answers beside them."""
    records = [
        answer("e", f"q{number}", model, number % 2, evaluation_result_id=metric)
        for number in range(3)
        for model in ("org/a", "org/b")
        for metric in ("strict", "flexible")
    ]
    page = make_page(make_corpus(tmp_path, records)).decode()
    ids = re.findall(r' id="([^"]+)"', page)
    assert sorted(set(ids)) == sorted(ids)
    assert len([name for name in ids if re.fullmatch(r"\w+-\d+", name)]) >= 8
    assert set(re.findall(r'href="#(\w+-\d+)"', page)) <= set(ids)
