"""Rank ranges against an independent computation: scipy's tests for each pair, and Holm's method by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrec
from fastrec.answers.ranks import ALPHA, pair_sums, rank_ranges, significant
from fastrec.cli import cli
from tests.lazily import Library
from tests.samples import sample_of
from tests.sizes import examples

scipy_stats: Any = Library("scipy.stats")


def naive_ranges(values: Any, *, lower: bool) -> list[tuple[int, int]]:
    models = values.shape[1]
    binary = np.isin(values[~np.isnan(values)], [0, 1]).all()
    tests = []
    for first in range(models):
        for second in range(first + 1, models):
            both = ~np.isnan(values[:, first]) & ~np.isnan(values[:, second])
            differences = values[both, first] - values[both, second]
            tests.append((naive_p(differences, binary=binary), first, second, differences.sum()))
    better = np.zeros((models, models), dtype=bool)
    for done, (p, first, second, total) in enumerate(sorted(tests)):
        if p > ALPHA / (len(tests) - done):
            break
        winner, loser = (first, second) if (total > 0) != lower else (second, first)
        better[winner, loser] = True
    return [(1 + better[:, model].sum(), models - better[model].sum()) for model in range(models)]


def naive_p(differences: Any, *, binary: bool) -> float:
    changed = differences[differences != 0]
    if len(changed) == 0 or len(differences) < 2:
        return 1.0
    if binary:
        return float(scipy_stats.binomtest(int((changed > 0).sum()), len(changed), 0.5).pvalue)
    least = 2.0 ** (1 - len(differences))
    if np.ptp(differences) < 1e-9:
        return least
    return max(float(scipy_stats.ttest_1samp(differences, 0).pvalue), least)


@settings(max_examples=examples(18, 400))
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 120), st.tuples(*[st.booleans()] * 3))
def test_ranges_are_those_of_scipy_and_holm(seed, models, questions, kinds):
    binary, lower, sparse = kinds
    random = np.random.default_rng(seed)
    skill = random.uniform(0, 1, models)
    values = random.uniform(0, 1, (questions, models)) < skill
    values = values.astype(float) if binary else np.round(values + random.normal(0, 0.5, values.shape), 3)
    if sparse:
        values[random.uniform(0, 1, values.shape) < 0.3] = np.nan
    cuts = sorted(random.integers(0, questions + 1, 2))
    blocks = iter(np.split(values, cuts))
    found = rank_ranges(significant(pair_sums(blocks, models), lower=lower))
    assert found == naive_ranges(values, lower=lower)
    assert all(1 <= best <= worst <= models for best, worst in found)


@pytest.mark.parametrize("exponent", [-1_000, -540, 516, 1_020])
@pytest.mark.parametrize("beginning", ["scores", "zeros", "small"])
@pytest.mark.parametrize("sparse", [False, True])
def test_ranks_do_not_depend_on_the_unit_of_scores(exponent: int, beginning: str, sparse: bool) -> None:
    """Nor if their squares are beyond the range of doubles, and the largest scores come late."""
    random = np.random.default_rng(1)
    values = np.round(random.normal(0, 1, (300, 4)) + np.linspace(0, 1, 4), 3)
    values[:100] *= {"scores": 1.0, "zeros": 0.0, "small": 2.0**-20}[beginning]
    if sparse:
        values[random.uniform(0, 1, values.shape) < 0.3] = np.nan
    expected = naive_ranges(values, lower=False)
    assert len(set(expected)) > 1
    scaled = np.split(np.ldexp(values, exponent), [100, 200])
    assert rank_ranges(significant(pair_sums(iter(scaled), 4), lower=False)) == expected


@pytest.mark.parametrize("unit", [1e-170, 1e200, 1e307])
def test_the_leaderboard_has_the_ranks_of_large_and_small_scores(unit: float, tmp_path: Path) -> None:
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
    assert {(model.model_id, cell.rank_best) for model in board.models for cell in model.cells if cell} == {
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
    return {key: value for key, value in (made | {"error": None} | changes).items() if value is not None}


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
    document = json.loads(CliRunner().invoke(cli, ["stats", str(corpus), "--format", "json"]).stdout)
    assert [one["rank_worst"] for one in document["evaluations"][0]["by_model"]] == [2, 2, 3, None]


def test_min_coverage_and_no_ranks(corpus):
    everyone = fastrec.stats(corpus, min_coverage=0).evaluations[0].by_model
    assert (everyone[0].model_id, everyone[0].rank) == ("lucky", "1–4")
    assert not any(one.rank for one in fastrec.stats(corpus, no_ranks=True).evaluations[0].by_model)
    assert [one.rank for one in fastrec.stats(corpus, common=True).evaluations[0].by_model] == ["1–4"] * 4
    with pytest.raises(fastrec.UsageError, match="min_coverage must be between 0 and 100, not 101"):
        fastrec.stats(corpus, min_coverage=101)


def test_groups_have_ranks_of_their_own(corpus):
    found = fastrec.stats(corpus, group_by="model_id", model="good").evaluations
    assert len(found) == 2
    assert found[1].by_model[0].rank_best is None  # a group of one model
