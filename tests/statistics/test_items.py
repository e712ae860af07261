"""Item analysis, subsets and corrected means, compared with scipy and with simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastrec.statistics.corrected import correct_mean
from fastrec.statistics.items import (
    discriminations,
    f_quantile,
    permutation_p_values,
    reliability,
    rest_means,
    wrong_key_p_values,
)
from fastrec.statistics.p_values import Array
from fastrec.statistics.subset import choose_subset, judge_subsets, rank_correlation

SCORES = arrays(
    np.float64,
    st.tuples(st.integers(3, 12), st.integers(2, 9)),
    elements=st.sampled_from([0.0, 0.5, 1.0, np.nan]),
)


@pytest.fixture(scope="module")
def scipy_stats() -> Any:
    """Imported for the tests that use it: it takes a second."""
    return pytest.importorskip("scipy.stats", reason="scipy is not installed")


def simulate(models: int, questions: int, wrong_keys: int, seed: int) -> Array:
    """Answers of models of different skill to questions of different difficulty, some with a wrong
    key.
    """
    random = np.random.default_rng(seed)
    skill = np.linspace(-2, 2, models)[:, None]
    difficulty = random.normal(0, 1, questions)
    slope = random.uniform(0.8, 2.0, questions)
    chance = 1 / (1 + np.exp(-slope * (skill - difficulty)))
    right = (random.random((models, questions)) < chance).astype(np.float64)
    # Half of the models that do not know the answer give the one that the key has by mistake.
    lucky = random.random((models, wrong_keys)) < 0.5
    right[:, :wrong_keys] = (1 - right[:, :wrong_keys]) * lucky
    return right


@given(scores=SCORES)
def test_discrimination_is_the_correlation_with_the_other_questions(
    scipy_stats: Any, scores: Array
) -> None:
    found = discriminations(scores)
    for question in range(scores.shape[1]):
        others = np.delete(scores, question, axis=1)
        answered = ~np.isnan(scores[:, question]) & ~np.isnan(others).all(axis=1)
        own = scores[answered, question]
        rest = np.array([np.nanmean(row) for row in others[answered]])
        if len(set(own.tolist())) < 2 or np.ptp(rest) < 1e-9:
            assert np.isnan(found[question]) or np.ptp(rest) < 1e-9
        else:
            assert found[question] == pytest.approx(scipy_stats.pearsonr(own, rest)[0], abs=1e-9)


def test_the_rest_of_a_single_question_is_nothing() -> None:
    assert np.isnan(rest_means(np.array([[1.0], [0.0]]))).all()


@pytest.mark.parametrize("share", [0.025, 0.5, 0.975])
@pytest.mark.parametrize("degrees", [(1, 1), (7, 63), (99, 9_801)])
def test_quantiles_of_f(share: float, degrees: tuple[int, int], scipy_stats: Any) -> None:
    assert f_quantile(share, *degrees) == pytest.approx(scipy_stats.f.ppf(share, *degrees))


def test_reliability_is_the_textbook_formula() -> None:
    scores = simulate(20, 40, 0, seed=1)
    found = reliability(scores)
    assert found is not None
    totals = scores.sum(axis=1)
    p = scores.mean(axis=0)
    kr20 = 40 / 39 * (1 - (p * (1 - p)).sum() / totals.var())
    assert found.reliability == pytest.approx(kr20)
    assert found.reliability_low < found.reliability < found.reliability_high
    assert found.standard_error == pytest.approx(totals.std(ddof=1) / 40 * (1 - kr20) ** 0.5)
    assert found.questions_needed is not None
    ratio = found.questions_needed / 40
    assert ratio * kr20 / (1 + (ratio - 1) * kr20) >= 0.9


def test_reliability_needs_complete_answers_that_differ() -> None:
    assert reliability(np.array([[1.0, np.nan], [np.nan, 1.0]])) is None
    assert reliability(np.ones((3, 3))) is None


def test_the_interval_of_reliability_covers_it() -> None:
    """The alpha of many models is in 95 % of the intervals of 12 models, give or take."""
    whole = reliability(simulate(3_000, 30, 0, seed=2))
    assert whole is not None
    random = np.random.default_rng(3)
    everyone = simulate(3_000, 30, 0, seed=2)
    inside = 0
    for _ in range(300):
        some = reliability(everyone[random.choice(3_000, 12, replace=False)])
        assert some is not None
        inside += some.reliability_low <= whole.reliability <= some.reliability_high
    assert 0.92 <= inside / 300 <= 0.995


def test_p_values_of_permutations_agree_with_scipy(scipy_stats: Any) -> None:
    scores = simulate(10, 30, 6, seed=4)
    found = permutation_p_values(scores, discriminations(scores))
    rest = rest_means(scores)
    for question in np.flatnonzero(found < 0.1).tolist():
        own = scores[:, question]
        exact = scipy_stats.permutation_test(
            (own,),
            lambda x, others=rest[:, question]: float(x @ others),
            permutation_type="pairings",
            alternative="less",
            n_resamples=20_000,
            rng=np.random.default_rng(5),
        )
        assert found[question] == pytest.approx(exact.pvalue, abs=0.01)


@pytest.mark.parametrize(("models", "share"), [(10, 0), (30, 0.3), (100, 0.7)])
def test_wrong_keys_are_found_and_good_ones_are_not_suspected(models: int, share: float) -> None:
    """The more models, the more of the planted keys are found, and hardly any other question."""
    planted = 10
    suspected = _suspected(simulate(models, 200, planted, seed=6))
    assert len([question for question in suspected if question < planted]) >= planted * share
    assert len([question for question in suspected if question >= planted]) <= 1


@pytest.mark.parametrize("models", [10, 30, 100])
def test_good_questions_are_rarely_suspected(models: int) -> None:
    """Of all questions with a right key, one of a thousand at most is suspected."""
    alarms = sum(len(_suspected(simulate(models, 200, 0, seed))) for seed in range(10))
    assert alarms <= 2


def test_there_are_few_false_alarms_without_wrong_keys() -> None:
    """Of questions that tell nothing at all, hardly one in a hundred is suspected."""
    random = np.random.default_rng(7)
    noise = [(random.random((20, 30)) < 0.5).astype(np.float64) for _ in range(20)]
    assert sum(len(_suspected(scores)) for scores in noise) <= 0.01 * 20 * 30


def _suspected(scores: Array) -> list[int]:
    return [int(place) for place in np.flatnonzero(wrong_key_p_values(scores) < 0.05)]


def test_a_subset_is_reproducible_and_stands_for_all_questions() -> None:
    scores = simulate(40, 300, 0, seed=8)
    chosen = choose_subset(scores, 30, seed=1)
    assert chosen.tolist() == choose_subset(scores, 30, seed=1).tolist()
    assert len(set(chosen.tolist())) == 30
    error = np.sqrt(((scores[:, chosen].mean(axis=1) - scores.mean(axis=1)) ** 2).mean())
    assert error < 0.03  # on the models that chose it
    by_choice, by_chance = judge_subsets(scores, 30, seed=1)
    assert by_choice.rank_correlation > 0.9
    assert by_choice.error < by_chance.error * 1.1


@given(pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=20))
def test_rank_correlation_is_that_of_scipy(scipy_stats: Any, pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array(series, dtype=np.float64) for series in zip(*pairs, strict=True))
    if np.ptp(first) and np.ptp(second):
        expected = scipy_stats.spearmanr(first, second).statistic
        assert rank_correlation(first, second) == pytest.approx(expected)
    else:
        assert rank_correlation(first, second) == 0


def test_a_corrected_mean_is_grader_plus_correction() -> None:
    graded = np.array([1.0, 1, 0, 1, 0, 1])
    found = correct_mean(graded, np.array([0.0, -1, 0]), graded)
    assert found.corrected == pytest.approx(4 / 6 - 1 / 3)
    assert correct_mean(graded, np.array([0.0]), graded) == (None, None, None, None)


def test_the_interval_of_a_corrected_mean_covers_the_truth() -> None:
    """A grader that is too kind: its own interval misses the truth, the corrected one covers it."""
    random = np.random.default_rng(9)
    covered = 0
    for _ in range(400):
        truth = (random.random(2_000) < 0.6).astype(np.float64)
        kind = np.maximum(truth, random.random(2_000) < 0.2).astype(np.float64)
        sample = random.choice(2_000, 100, replace=False)
        found = correct_mean(kind, truth[sample] - kind[sample], kind)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.6 <= found.high
        assert found.to_halve is None or found.to_halve > 100
    assert 0.92 <= covered / 400 <= 0.98
