"""Rank ranges of corpora: large and small scores, lucky models, formats, and options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import fastrec
from fastrec.cli import cli
from tests.samples import sample_of


@pytest.mark.parametrize("unit", [1e-170, 1e200, 1e307])
def test_the_leaderboard_has_the_ranks_of_large_and_small_scores(
    unit: float, tmp_path: Path
) -> None:
    scores = [0.0, 0.25, 0.5]  # of each model, and its noise: each is better than the one before
    records = [
        record(f"org/{model}", question, unit * (score + (question * (model + 3)) % 7 / 100))
        for question in range(30)
        for model, score in enumerate(scores)
    ]
    corpus = make_corpus(tmp_path, records)
    (evaluation,) = fastrec.stats(corpus).evaluations
    assert [(model.model_id, model.rank) for model in evaluation.by_model] == [
        ("org/2", "1"),
        ("org/1", "2"),
        ("org/0", "3"),
    ]
    board = fastrec.leaderboard(corpus)
    assert {
        (model.model_id, cell.rank_best) for model in board.models for cell in model.cells if cell
    } == {
        ("org/0", 3),
        ("org/1", 2),
        ("org/2", 1),
    }
    assert [model.mean_rank.value for model in board.models if model.mean_rank] == [1, 2, 3]


def make_corpus(directory: Path, records: list[dict[str, Any]]) -> Path:
    shard = directory / "all.jsonl"
    shard.write_bytes("\n".join(map(json.dumps, records)).encode())
    fastrec.normalize(shard, directory / "corpus")
    return directory / "corpus"


def record(model: str, question: int, score: float, **changes: Any) -> dict[str, Any]:
    made = sample_of(
        "0.3.0",
        evaluation_name="E",
        model_id=model,
        sample_id=f"q-{question}",
        input={"raw": str(question), "reference": ["x"]},
        evaluation={"score": score, "is_correct": score == 1},
        sample_hash=None,
    )
    return {
        key: value for key, value in (made | {"error": None} | changes).items() if value is not None
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """good and same are alike, bad is worse, and lucky has answered one question only, rightly."""
    records = [record("good", number, float(number % 10 != 0)) for number in range(40)]
    records += [record("same", number, float(number % 10 != 1)) for number in range(40)]
    records += [record("bad", number, float(number % 10 == 2)) for number in range(40)]
    records += [record("lucky", 5, 1.0)]
    return make_corpus(tmp_path_factory.mktemp("ranks"), records)


def test_a_lucky_answer_is_not_ranked_above_all_others(corpus):
    (found,) = fastrec.stats(corpus).evaluations
    assert [(one.model_id, one.rank, one.unranked) for one in found.by_model] == [
        ("good", "1–2", ""),
        ("same", "1–2", ""),
        ("bad", "3", ""),
        ("lucky", "", "2.5% of the questions"),
    ]


def test_all_formats_have_the_same_ranks(corpus):
    table = CliRunner().invoke(cli, ["stats", str(corpus)]).stdout
    assert "\n  1–2   good " in table
    assert "not ranked: lucky (2.5% of the questions)" in table
    rows = CliRunner().invoke(cli, ["stats", str(corpus), "--format", "csv"]).stdout.splitlines()
    assert [row.rsplit(",", 3)[1:] for row in rows] == [
        ["rank_best", "rank_worst", "unranked"],
        ["1", "2", ""],
        ["1", "2", ""],
        ["3", "3", ""],
        ["", "", "2.5% of the questions"],
    ]
    document = json.loads(
        CliRunner().invoke(cli, ["stats", str(corpus), "--format", "json"]).stdout
    )
    assert [one["rank_worst"] for one in document["evaluations"][0]["by_model"]] == [2, 2, 3, None]


def test_min_coverage_and_no_ranks(corpus):
    everyone = fastrec.stats(corpus, min_coverage=0).evaluations[0].by_model
    assert (everyone[0].model_id, everyone[0].rank) == ("lucky", "1–4")
    assert not any(one.rank for one in fastrec.stats(corpus, no_ranks=True).evaluations[0].by_model)
    assert [one.rank for one in fastrec.stats(corpus, common=True).evaluations[0].by_model] == [
        "1–4"
    ] * 4
    with pytest.raises(fastrec.UsageError, match="min_coverage must be between 0 and 100, not 101"):
        fastrec.stats(corpus, min_coverage=101)


def test_groups_have_ranks_of_their_own(corpus):
    found = fastrec.stats(corpus, group_by="model_id", model="good").evaluations
    assert len(found) == 2
    assert found[1].by_model[0].rank_best is None  # a group of one model
