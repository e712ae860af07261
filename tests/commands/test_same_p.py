"""Two models on the same questions have the same test and the same p-value in all commands.

The answers of two models are compared in one corpus (`compare`, `stats`, `leaderboard`), and as
those of one model in two corpora (`diff`, `trend`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import fastrec
from fastrec.statistics import ranks
from tests.answers.small import Record, answer, make_corpus

A = "org/a"
B = "org/b"
ONE = "org/one"
Scores = Callable[[Random, bool], list[float]]


def few(dice: Random, better: bool) -> list[float]:
    """Scores that hardly ever differ, by nearly the same."""
    gain = round(dice.uniform(0.5, 0.6), 3) if better and dice.random() < 0.15 else 0.0
    return [0.25 + gain]


CASES: dict[str, tuple[Scores, str]] = {
    "one answer": (lambda dice, better: [float(dice.random() < 0.4 + 0.3 * better)], "mcnemar"),
    "three answers": (
        lambda dice, better: [float(dice.random() < 0.4 + 0.2 * better) for _ in range(3)],
        "t",
    ),
    "scores": (lambda dice, better: [round(dice.random() + 0.2 * better, 3)], "t"),
    "scores of three answers": (
        lambda dice, better: [round(dice.random() + 0.1 * better, 1) for _ in range(3)],
        "t",
    ),
    "scores of one size": (
        lambda dice, better: [0.25 + 0.5 * (dice.random() < 0.4 + 0.3 * better)],
        "mcnemar",
    ),
    "few changes": (few, "t"),
    "huge scores": (lambda dice, better: [round(dice.random() + 0.2 * better, 3) * 1e200], "t"),
    "no difference": (lambda _dice, _better: [1.0], "mcnemar"),
}


def records(model: str, scores: list[list[float]]) -> list[Record]:
    return [
        answer("e", f"q{question}", model, score, metadata={"trial": str(trial)})
        for question, each in enumerate(scores)
        for trial, score in enumerate(each)
    ]


@pytest.mark.each_value
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_all_commands_have_the_same_p_value(
    case: str, seed: int, tmp_path: Path, monkeypatch: Any
) -> None:
    draw, test = CASES[case]
    dice = Random(seed)
    of_a, of_b = ([draw(dice, better) for _ in range(40)] for better in (True, False))
    folders = [tmp_path / name for name in ("both", "before", "after")]
    for folder in folders:
        folder.mkdir()
    both = make_corpus(folders[0], records(A, of_a) + records(B, of_b))
    nights = [
        make_corpus(folders[1], records(ONE, of_b)),
        make_corpus(folders[2], records(ONE, of_a)),
    ]

    (compared,) = fastrec.compare(both, A, B).evaluations
    (differing,) = fastrec.diff(*nights).models
    ((model,),) = [one.models for one in fastrec.trend(nights).evaluations]
    (change,) = model.changes
    assert compared.test == differing.test == change.test == test
    assert compared.p == differing.p == change.p
    assert compared.difference == change.difference
    assert (compared.detectable is None) == (differing.detectable is None)
    assert compared.questions_needed == differing.questions_needed

    tested: list[float] = []
    real = ranks.paired_p_values

    def recorded(*numbers: Any) -> Any:
        *sums, enough = numbers
        tested.extend(real(*sums).tolist())
        assert enough == ranks.ALPHA  # the only pair may have an upper bound
        return real(*numbers)

    monkeypatch.setattr(ranks, "paired_p_values", recorded)
    (evaluation,) = fastrec.stats(both).evaluations
    board = fastrec.leaderboard(both)
    assert compared.p is not None
    is_better = compared.p <= 0.05
    if is_better:
        assert tested
    assert tested == [pytest.approx(compared.p, rel=1e-9)] * len(tested)
    expected = {A: "1", B: "2"} if is_better else {A: "1–2", B: "1–2"}
    assert {one.model_id: one.rank for one in evaluation.by_model} == expected
    cells = {
        one.model_id: (one.cells[0].rank_best, one.cells[0].rank_worst)
        for one in board.models
        if one.cells[0]
    }
    assert cells == ({A: (1, 1), B: (2, 2)} if is_better else {A: (1, 2), B: (1, 2)})
