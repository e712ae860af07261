"""Kinds and directions of metrics: what import writes, and what commands make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import fastrec
from fastrec.cli import cli
from fastrec.harnesses.metadata import notes_on
from fastrec.harnesses.registry import HARNESSES
from tests.answers.test_ranks import make_corpus, record

DOCS = Path(__file__).parents[2] / "docs"


def scored(model: str, question: int, metric: str, score: float, **metadata: str) -> dict[str, Any]:
    made = record(model, question, score, evaluation_result_id=metric, metadata=metadata)
    made["evaluation"] = {"score": score, "is_correct": False}
    return made


LOWER = {"metric_kind": "judgement", "lower_is_better": "true"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of ten questions, A has a word error rate of 0.2 and B of 0.7.

    Records say it for `wer`, and not for `cer`.
    """
    records = []
    for question in range(10):
        for model, rate in (("A", 0.2), ("B", 0.7)):
            records.append(scored(model, question, "wer", rate + question / 100, **LOWER))
            records.append(scored(model, question, "cer", rate + question / 100))
            records.append(
                scored(model, question, "runtime", 1.5, metric_kind="cost", lower_is_better="true")
            )
            records.append(scored(model, question, "batch_size", 8.0))
    return make_corpus(tmp_path_factory.mktemp("kinds"), records)


def test_the_summary_has_kinds_and_directions(corpus):
    found = {
        one.metric: (one.kind, one.lower_is_better, one.graded)
        for one in fastrec.open(corpus).summary.evaluations
    }
    assert found == {
        "batch_size": ("bookkeeping", False, True),  # not in [0, 1], and never correct
        "cer": ("judgement", False, True),
        "runtime": ("cost", True, True),
        "wer": ("judgement", True, True),
    }


def test_a_summary_says_nothing_about_usual_metrics(corpus):
    document = json.loads((corpus / "summary.json").read_bytes())
    (cer,) = [one for one in document["evaluations"] if one["metric"] == "cer"]
    assert not {"kind", "lower_is_better", "primary"} & cer.keys()


def test_judgements_are_shown_and_others_counted(corpus):
    shown = CliRunner().invoke(cli, ["stats", str(corpus)]).stdout
    assert "batch_size" not in shown
    assert "2 other metrics judge no answer; --metrics all shows them." in shown
    everything = CliRunner().invoke(cli, ["stats", str(corpus), "--metrics", "all"]).stdout
    assert "E · batch_size" in everything
    assert "other metric" not in everything
    assert [one.metric for one in fastrec.stats(corpus, metric="batch*").evaluations] == [
        "batch_size"
    ]
    assert fastrec.questions(corpus).others == fastrec.compare(corpus, "A", "B").others == 2
    assert fastrec.trend(corpus).others == 2
    with pytest.raises(
        fastrec.UsageError, match="metrics must be one of judgements, all, not 'some'"
    ):
        fastrec.stats(corpus, metrics="some")


def test_an_evaluation_without_judgements_shows_all(tmp_path):
    records = [scored("A", question, "rating", 7.0 + question) for question in range(3)]
    found = fastrec.stats(make_corpus(tmp_path, records))
    assert [(one.metric, found.others) for one in found.evaluations] == [("rating", 0)]


def test_the_lower_rate_is_better_in_all_commands(corpus):
    wer, cer = (fastrec.stats(corpus, metric=metric).evaluations[0] for metric in ("wer", "cer"))
    assert [(one.model_id, one.rank) for one in wer.by_model] == [("A", "1"), ("B", "2")]
    assert [one.model_id for one in cer.by_model] == ["B", "A"]
    compared = {
        one.metric: (one.wins, one.losses) for one in fastrec.compare(corpus, "A", "B").evaluations
    }
    assert compared == {"wer": (10, 0), "cer": (0, 10)}
    hardest = {
        one.metric: one.questions[0].sample_id for one in fastrec.questions(corpus).evaluations
    }
    assert hardest == {"wer": "q-9", "cer": "q-0"}


def test_an_option_says_it_for_records_that_do_not(corpus):
    for pattern in ("cer", "E/c*"):
        (found,) = fastrec.stats(corpus, metric="cer", lower_is_better=pattern).evaluations
        assert (found.by_model[0].model_id, found.title) == ("A", "E · cer ↓")
    assert (
        fastrec.compare(corpus, "A", "B", metric="cer", lower_is_better="cer").evaluations[0].wins
        == 10
    )
    (table,) = fastrec.questions(corpus, metric="cer", lower_is_better="cer").evaluations
    assert table.questions[0].sample_id == "q-9"
    with pytest.raises(
        fastrec.UsageError, match="--lower-is-better 'bleu' matches no metric and no evaluation"
    ):
        fastrec.stats(corpus, lower_is_better="bleu")


def test_trend_and_diff_follow_the_direction(corpus, tmp_path):
    records = [
        scored("A", question, "wer", 0.1 + question / 100, **LOWER) for question in range(10)
    ]
    better = make_corpus(tmp_path, records)
    (change,) = (
        fastrec.trend([corpus, better], metric="wer", model="A").evaluations[0].models[0].changes
    )
    assert (change.better, change.worse) == (10, 0)
    (model,) = [
        one
        for one in fastrec.diff(corpus, better).models
        if (one.metric, one.model_id) == ("wer", "A")
    ]
    assert (model.better, model.worse, model.lower_is_better) == (10, 0, True)


def test_the_first_judgement_of_a_log_is_primary():
    metrics = ["num_prompt_tokens:test", "wer_score:test", "exact_match:test", "max_prob"]
    assert notes_on("helm", metrics, ()) == {
        "num_prompt_tokens:test": {"metric_kind": "cost", "lower_is_better": "true"},
        "wer_score:test": {
            "metric_kind": "judgement",
            "lower_is_better": "true",
            "primary_metric": "true",
        },
        "exact_match:test": {"metric_kind": "judgement"},
        "max_prob": {"metric_kind": "bookkeeping"},
    }
    assert notes_on("lm-eval", ["ppl", "bypass"], {"ppl"})["ppl"]["lower_is_better"] == "true"


def test_the_docs_list_the_metrics():
    text = (DOCS / "leaderboard.md").read_text(encoding="utf-8")
    for name, harness in HARNESSES.items():
        for row in harness.metrics:
            names = ", ".join(f"`{pattern}`" for pattern in row.patterns.split())
            better = "lower" if row.lower else "higher"
            assert f"- {name} {row.kind}, better if {better}: {names}\n" in text, row
