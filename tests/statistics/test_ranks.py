"""Rank ranges against an independent computation: scipy's tests for each pair, and Holm's method by
hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.statistics import ranks
from fastrec.statistics.adjust import holm
from fastrec.statistics.paired import compare_series
from fastrec.statistics.ranks import (
    ALPHA,
    MeanTest,
    count_wins,
    pair_sums,
    rank_ranges,
    significant,
)
from tests.lazily import Library
from tests.sizes import examples

scipy_stats: Any = Library("scipy.stats")


def alone(blocks: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Blocks of questions, each of which is a cluster of its own."""
    starts = np.cumsum([0, *map(len, blocks)])
    return [
        (block, start + np.arange(len(block))) for start, block in zip(starts, blocks, strict=False)
    ]


def naive_ranges(values: Any, *, lower: bool) -> list[tuple[int, int]]:
    models = values.shape[1]
    tests = []
    for first in range(models):
        for second in range(first + 1, models):
            both = ~np.isnan(values[:, first]) & ~np.isnan(values[:, second])
            differences = values[both, first] - values[both, second]
            tests.append((naive_p(differences), first, second, differences.sum()))
    better = np.zeros((models, models), dtype=bool)
    for done, (p, first, second, total) in enumerate(sorted(tests)):
        if p > ALPHA / (len(tests) - done):
            break
        winner, loser = (first, second) if (total > 0) != lower else (second, first)
        better[winner, loser] = True
    return [(1 + better[:, model].sum(), models - better[model].sum()) for model in range(models)]


def naive_p(differences: Any) -> float:
    """McNemar's test if all differences have one size, else the t-test with its floor."""
    changed = differences[np.abs(differences) > 1e-9]
    if len(changed) < 2:
        return 1.0
    if np.ptp(np.abs(changed)) < 1e-9:
        return float(scipy_stats.binomtest(int((changed > 0).sum()), len(changed), 0.5).pvalue)
    return max(float(scipy_stats.ttest_1samp(differences, 0).pvalue), 2.0 ** (1 - len(changed)))


@settings(max_examples=examples(18, 400))
@given(
    st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 120), st.tuples(*[st.booleans()] * 3)
)
def test_ranges_are_those_of_scipy_and_holm(seed, models, questions, kinds):
    binary, lower, sparse = kinds
    random = np.random.default_rng(seed)
    skill = random.uniform(0, 1, models)
    values = random.uniform(0, 1, (questions, models)) < skill
    values = (
        values.astype(float)
        if binary
        else np.round(values + random.normal(0, 0.5, values.shape), 3)
    )
    if sparse:
        values[random.uniform(0, 1, values.shape) < 0.3] = np.nan
    cuts = sorted(random.integers(0, questions + 1, 2))
    blocks = np.split(values, cuts)
    found = rank_ranges(significant(pair_sums(alone(blocks), models), lower=lower))
    assert found == naive_ranges(values, lower=lower)
    assert all(1 <= best <= worst <= models for best, worst in found)


@pytest.mark.parametrize("exponent", [-1_000, -540, 516, 1_020])
@pytest.mark.parametrize("beginning", ["scores", "zeros", "small"])
@pytest.mark.parametrize("sparse", [False, True])
def test_ranks_do_not_depend_on_the_unit_of_scores(
    exponent: int, beginning: str, sparse: bool
) -> None:
    """Nor if their squares are beyond the range of doubles, and the largest scores come late."""
    random = np.random.default_rng(1)
    values = np.round(random.normal(0, 1, (300, 4)) + np.linspace(0, 1, 4), 3)
    values[:100] *= {"scores": 1.0, "zeros": 0.0, "small": 2.0**-20}[beginning]
    if sparse:
        values[random.uniform(0, 1, values.shape) < 0.3] = np.nan
    expected = naive_ranges(values, lower=False)
    assert len(set(expected)) > 1
    scaled = np.split(np.ldexp(values, exponent), [100, 200])
    assert rank_ranges(significant(pair_sums(alone(scaled), 4), lower=False)) == expected


def matrix(random: Any, kind: str, questions: int, models: int) -> list[list[Fraction | None]]:
    """Values of models: right or wrong, shares of several answers, scores, or scores of which many
    are the same.
    """
    trials = {"binary": 1, "halves": 2, "thirds": 3, "scores": 1_000}
    some = trials.get(kind, 1)
    values = [
        [Fraction(int(random.integers(0, some + 1)), some) for _ in range(models)]
        for _ in range(questions)
    ]
    if kind == "rare":  # a single model has several answers to a single question
        values[0][0] = Fraction(1, 2)
    if kind == "ties":
        values = [[row[0] if random.random() < 0.9 else value for value in row] for row in values]
        values[-1][-1] = Fraction(1, 3)
    return [[None if random.random() < 0.1 else value for value in row] for row in values]


def doubles(rows: Sequence[Sequence[Fraction | None]]) -> Any:
    return np.array([[np.nan if value is None else float(value) for value in row] for row in rows])


@settings(max_examples=examples(30, 400))
@given(
    st.integers(0, 2**32),
    st.integers(2, 6),
    st.integers(1, 150),
    st.sampled_from(["binary", "halves", "thirds", "scores", "rare", "ties"]),
    st.sampled_from([1, 2, 5, 1_000]),
)
def test_all_pairs_have_the_p_values_of_pairs_alone(
    seed: int, models: int, questions: int, kind: str, size: int
) -> None:
    """The test and the p-value are those that `compare` computes of exact fractions; so are the
    numbers of changes.

    Also if questions come in clusters, of which models have answered different questions or the same.
    """
    random = np.random.default_rng(seed)
    rows = matrix(random, kind, questions, models)
    clusters = np.sort(random.integers(0, questions, questions)) // size
    if size == 1:
        clusters = np.arange(questions)
    for cluster in np.unique(clusters)[:: random.integers(1, 4)]:  # all models, or none
        for row in np.flatnonzero(clusters == cluster):
            rows[row] = [Fraction(int(random.integers(0, 2))) for _ in range(models)]
    starts = np.flatnonzero(np.diff(clusters, prepend=-1))
    cuts = sorted(random.choice(starts, 2))
    blocks = zip(np.split(doubles(rows), cuts), np.split(clusters, cuts), strict=True)
    sums = pair_sums(blocks, models)
    pairs = np.triu_indices(models, 1)
    found = sums.at(pairs)
    separate = compare_series(
        [[(row[b], row[a]) for row in rows] for a, b in zip(*pairs, strict=True)],
        graded=False,
        clusters=clusters.tolist(),
    )
    assert found.p_values().tolist() == pytest.approx(
        [1.0 if one.p is None else one.p for one in separate], rel=1e-9
    )
    assert found.uniform.tolist() == [one.test != "t" for one in separate]
    assert found.clusters.tolist() == [one.clusters for one in separate]
    if size > 1:
        return
    counted = np.array([one.rose + one.fell for one in separate])
    exact = found.uniform | (counted < ranks._MANY)
    assert (found.changed[exact] == counted[exact]).all()
    assert (found.changed[~exact] >= ranks._MANY).all()
    assert (sums.changed == sums.changed.T).all()
    assert (sums.uniform == sums.uniform.T).all()


@pytest.mark.parametrize("kind", ["binary", "scores"])
def test_many_models_are_ranked_by_exact_p_values(kind: str) -> None:
    """Although only those that may decide are exact."""
    random = np.random.default_rng(3)
    values = (random.random((200, 150)) < np.linspace(0.1, 0.9, 150)).astype(float)
    if kind == "scores":
        values = np.round(values + random.normal(0, 0.3, values.shape), 3)
    sums = pair_sums(alone([values]), 150)
    pairs = np.triu_indices(150, 1)
    p_values = sums.at(pairs).p_values()
    expected = np.zeros((150, 150), dtype=bool)
    for place in holm(p_values, tests=len(p_values), alpha=ALPHA):
        first, second = pairs[0][place], pairs[1][place]
        winner = sums.total[first, second] > 0
        expected[(first, second) if winner else (second, first)] = True
    assert (significant(sums, lower=False) == expected).all()
    assert (p_values[expected[pairs] | expected.T[pairs]] > ALPHA / len(p_values)).any()
    assert 0 < expected.sum() < len(p_values)


@pytest.mark.parametrize("models", [0, 1])
def test_few_models_have_no_pairs(models: int) -> None:
    sums = pair_sums(alone([np.ones((3, models))]), models)
    assert not significant(sums, lower=False).any()
    test = MeanTest(models)
    test.add(sums, 1.0)
    assert not test.significant().any()


@pytest.mark.parametrize("sparse", [False, True])
def test_models_with_the_same_answers(sparse: bool) -> None:
    """Their differences are 0, and those to others are the same."""
    random = np.random.default_rng(5)
    values = random.normal(size=(300, 4))
    if sparse:
        values[random.random(values.shape) < 0.2] = np.nan
    copied = [0, 1, 2, 3, 1, 0]
    sums = pair_sums(alone([values[:200, copied], values[200:, copied]]), 6)
    once = pair_sums(alone([values[:200], values[200:]]), 4)
    for name in ("changed", "uniform", "clusters"):
        expected = getattr(once, name)[np.ix_(copied, copied)]
        assert (getattr(sums, name) == expected).all(), name
    assert sums.changed[0, 5] == sums.changed[1, 4] == 0


def test_few_changed_scores_do_not_rank() -> None:
    """4 of 100 scores that rise by nearly the same have p = 0.125, not that of the t-test."""
    values = np.zeros((100, 2))
    values[:4, 1] = [0.5, 0.5, 0.5, 0.51]
    assert rank_ranges(significant(pair_sums(alone([values]), 2), lower=False)) == [(1, 2), (1, 2)]
    values[4:8, 1] = 0.5
    assert rank_ranges(significant(pair_sums(alone([values]), 2), lower=False)) == [(2, 2), (1, 1)]


def test_means_of_the_same_scores_are_no_difference() -> None:
    """Rounded means of several scores may differ in their last bits."""
    values = np.tile([0.3, 0.1 + 0.2], (50, 1))
    assert values[0, 0] != values[0, 1]
    sums = pair_sums(alone([values]), 2)
    assert sums.changed.tolist() == [[0, 0], [0, 0]]
    assert significant(sums, lower=False).tolist() == [[False, False], [False, False]]


def test_wins_of_many_models() -> None:
    """Sorting gives the same wins as comparing all pairs, also with ties, and without answers."""
    random = np.random.default_rng(0)
    values = random.integers(0, 20, (50, 30)).astype(float)
    values[random.random(values.shape) < 0.1] = np.nan
    for at, wins in enumerate(count_wins(values).T):
        own = values[:, at, None]
        ties = (own == values) | np.isnan(values)
        expected = (own > values).sum(axis=1) + (ties.sum(axis=1) - 1) / 2
        expected[np.isnan(own[:, 0])] = np.nan
        assert wins.tolist() == pytest.approx(expected.tolist(), nan_ok=True)
    found = count_wins(np.array([[3.0, 1.0, 3.0, np.nan]])).tolist()
    assert found == [pytest.approx([2.0, 0.5, 2.0, np.nan], nan_ok=True)]
