"""All commands show the same mean of the same answers: it is exact, and rounded once."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

import fastrec
from fastrec.statistics.bootstrap import DRAWS
from tests.answers.small import Record, answer, make_corpus
from tests.running import run_here

MODELS = [f"org/{name}" for name in "abcdef"]
QUESTIONS = 80
TRIALS = 5
RIGHT = {
    "e": 165,
    "f": 227,
}  # of 400 answers: 41.25 % and 56.75 %, which sums of shares such as 0.2 may miss


def answers_of(evaluation: str, model: str, right: int, *, seed: str) -> list[Record]:
    """So many right answers, dealt to questions and trials."""
    numbers = range(QUESTIONS * TRIALS)
    chosen = set(random.Random(seed).sample(numbers, right))
    return [
        answer(
            evaluation,
            f"{evaluation} {number // TRIALS}",
            model,
            int(number in chosen),
            metadata={"epoch": str(number % TRIALS)},
            text=f"{number in chosen} {number}",
        )
        for number in numbers
    ]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two nights: in the second, the last model gives other answers, of which as many are right."""
    found = []
    for night in ("1", "2"):
        seeds = {model: night if model == MODELS[-1] else "1" for model in MODELS}
        records = [
            record
            for evaluation, right in RIGHT.items()
            for model in MODELS
            for record in answers_of(
                evaluation, model, right, seed=f"{evaluation} {model} {seeds[model]}"
            )
        ]
        found.append(make_corpus(tmp_path_factory.mktemp(f"night-{night}"), records))
    return found


def test_models_with_as_many_right_answers_share_their_rank(corpora: list[Path]) -> None:
    board = fastrec.leaderboard(corpora[0])
    for model in board.models:
        assert [cell.value for cell in model.cells if cell] == [165 / 400, 227 / 400]
        assert model.mean is not None
        assert model.mean.value == (165 + 227) / 800
        assert model.mean_rank is not None
        assert model.mean_rank.value == (1 + len(MODELS)) / 2
    weighted = fastrec.leaderboard(corpora[0], weights={"e": 0.1, "f": 0.3})
    assert {model.mean.value for model in weighted.models if model.mean} == {(165 + 3 * 227) / 1600}


def test_draws_with_equal_means_are_ties(tmp_path: Path) -> None:
    """Shares such as 0.2 add up to different doubles in another order.

    The expected ranks are of whole numbers.
    """
    questions = 5
    models = ["m0", "m1", "m2"]
    right = np.random.default_rng(5).integers(0, TRIALS + 1, (questions, len(models)))
    records = [
        answer(
            "e",
            f"q{question}",
            model,
            int(trial < right[question, at]),
            text=f"{trial}",
            metadata={"epoch": f"{trial}"},
        )
        for question in range(questions)
        for at, model in enumerate(models)
        for trial in range(TRIALS)
    ]
    corpus = make_corpus(tmp_path, records)
    order = [int(record["input"]["raw"][1:]) for record in map(json.loads, fastrec.cat(corpus))]
    sums = right[list(dict.fromkeys(order))]
    drawn = np.random.default_rng([0, crc32(b"e\0")]).integers(0, questions, (DRAWS, questions))
    totals = sums[drawn].sum(axis=1)
    ahead = (totals[:, :, None] > totals[:, None, :]).sum(axis=2) + (
        totals[:, :, None] == totals[:, None, :]
    ).sum(axis=2) / 2
    expected = np.percentile(len(models) + 0.5 - ahead, [2.5, 97.5], axis=0).T.tolist()
    board = fastrec.leaderboard(corpus)
    found = {
        model.model_id: [model.mean_rank.low, model.mean_rank.high]
        for model in board.models
        if model.mean_rank
    }
    assert [found[model] for model in models] == expected


def test_all_commands_show_the_same_mean(corpora: list[Path], tmp_path: Path) -> None:
    shares = [RIGHT[name] / 400 for name in RIGHT]
    for corpus in corpora:
        stats = fastrec.stats(corpus)
        assert [[model.accuracy for model in one.by_model] for one in stats.evaluations] == [
            [share] * len(MODELS) for share in shares
        ]
        compared = fastrec.compare(corpus, MODELS[0], MODELS[-1], examples=0).evaluations
        assert [(one.a, one.b) for one in compared] == [(share, share) for share in shares]
    difference = fastrec.diff(*corpora)
    assert {(one.old_accuracy, one.new_accuracy) for one in difference.models} == {
        (one, one) for one in shares
    }
    trend = fastrec.trend(corpora)
    changes = [
        change for one in trend.evaluations for model in one.models for change in model.changes
    ]
    assert {(change.old, change.new) for change in changes} == {(one, one) for one in shares}
    fastrec.report(corpora[0], tmp_path / "report.html", examples=0)
    shown = [
        run_here("stats", corpora[0]).stdout.decode(),
        run_here("leaderboard", corpora[0]).stdout.decode(),
        run_here("compare", corpora[0], MODELS[0], MODELS[1]).stdout.decode(),
        run_here("diff", *corpora).stdout.decode(),
        (tmp_path / "report.html").read_text(),
    ]
    for text in shown:
        assert {"56.8%", "41.2%"} <= set(re.findall(r"[0-9.]+%", text))
        assert not {"56.7%", "41.3%"} & set(re.findall(r"[0-9.]+%(?! \[|\])", text))


def test_the_means_of_diff_are_those_of_stats(tmp_path: Path) -> None:
    """Also where most questions are not read, because they are the same: their sum follows from a
    rounded mean.
    """
    random_numbers = random.Random(1)
    nights: list[list[Record]] = [[], []]
    for model in range(40):
        for question in range(7):
            for trial in range(3):
                right = random_numbers.randint(0, 1)
                for night, records in enumerate(nights):
                    given = 1 - right if night and question == 3 else right
                    text = f"{trial} {given}"
                    metadata = {"epoch": str(trial)}
                    records.append(
                        answer(
                            "e", f"q{question}", f"m{model}", given, text=text, metadata=metadata
                        )
                    )
    corpora = [tmp_path / "old", tmp_path / "new"]
    for path, records in zip(corpora, nights, strict=True):
        path.mkdir()
        make_corpus(path, records)
    old, new = (
        {
            model.model_id: model.accuracy
            for model in fastrec.stats(path / "corpus").evaluations[0].by_model
        }
        for path in corpora
    )
    found = fastrec.diff(*(path / "corpus" for path in corpora)).models
    assert {one.model_id: (one.old_accuracy, one.new_accuracy) for one in found} == {
        name: (old[name], new[name]) for name in old
    }
