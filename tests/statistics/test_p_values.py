"""The tests of paired values: by hand, by exact sums, by trying all choices of signs, and by scipy."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from math import erfc, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.statistics.p_values import (
    mcnemar_p_values,
    paired_p_values,
    paired_t_p_values,
    t_p_values,
)
from tests.commands.comparing import flipped, p_value
from tests.lazily import Library
from tests.sizes import LONG, examples

scipy_stats: Any = Library("scipy.stats")


def mcnemar(one: int, other: int) -> float:
    (found,) = mcnemar_p_values(
        np.array([one + other], dtype=float), np.array([abs(one - other)], dtype=float)
    )
    return float(found)


def paired_p(differences: Sequence[float | Fraction]) -> float:
    """The p-value of some differences, from sums of doubles."""
    sizes = {abs(Fraction(one).limit_denominator(10**6)) for one in differences if one}
    values = np.array(differences, dtype=float)
    evidence = values.sum() ** 2 / (values**2).sum() if sizes else 0.0
    numbers = [[len(values)], [np.count_nonzero(values)], [evidence]]
    (found,) = paired_p_values(*np.array(numbers, dtype=float), np.array([len(sizes) <= 1]))
    return float(found)


def t_test(differences: Sequence[float]) -> float:
    values = np.array(differences, dtype=float)
    evidence = values.sum() ** 2 / (values**2).sum()
    (found,) = paired_t_p_values(np.array([len(values)], dtype=float), np.array([evidence]))
    return float(found)


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [
        (0, 0, 1),
        (1, 0, 1),
        (3, 3, 1),
        (0, 5, 2 / 32),
        (1, 6, 2 * 8 / 128),
        (10, 2, 2 * (1 + 12 + 66) / 4096),
    ],
)
def test_the_p_value_of_a_few_flips(one: int, other: int, p: float) -> None:
    """Twice the tail of the binomial distribution, computed by hand.

    The order of the counts does not matter.
    """
    assert mcnemar(one, other) == mcnemar(other, one) == p


@given(st.integers(0, 700), st.integers(0, 700))
def test_the_p_value_is_that_of_the_exact_sum(one: int, other: int) -> None:
    assert mcnemar(one, other) == pytest.approx(p_value(one, other), rel=1e-10, abs=0)


@given(st.integers(0, 36), st.data())
def test_the_p_value_of_up_to_36_flips_is_rounded_once(flips: int, data: st.DataObject) -> None:
    one = data.draw(st.integers(0, flips))
    assert mcnemar(one, flips - one) == p_value(one, flips - one)


@pytest.mark.parametrize(
    ("one", "other"), [(3, 9), (40, 61), (500, 400), (5_000, 5_200), (30_000, 29_000), (20_000, 10)]
)
def test_the_p_value_is_that_of_scipy(one: int, other: int) -> None:
    """The binomial test of scipy agrees, also for many flips."""
    assert mcnemar(one, other) == pytest.approx(
        scipy_stats.binomtest(one, one + other).pvalue, rel=1e-9
    )


def test_the_p_value_of_millions_of_flips_is_fast() -> None:
    """It is that of the exact sum, close to the normal distribution, or 0 if too small for a
    double.
    """
    expected = 0.04560829986538208  # computed with all bits, which takes ten seconds
    assert mcnemar(499_000, 501_000) == pytest.approx(expected, rel=1e-8)
    one = examples(1_000_000, 2_000_000)
    other = one + one // 500
    assert mcnemar(one, other) == pytest.approx(
        erfc((other - one - 1) / sqrt(2 * (one + other))), rel=1e-5
    )
    assert mcnemar(one, 2 * other) == 0.0


@settings(max_examples=examples(40, 400))
@given(
    st.lists(
        # Of a smaller t, the share of the degrees of freedom is rounded to 1.
        st.tuples(st.just(0.0) | st.floats(1e-4, 400), st.integers(1, 3_000) | st.floats(1, 50)),
        min_size=1,
        max_size=20,
    )
)
def test_t_p_values_are_those_of_scipy(cases: list[tuple[float, float]]) -> None:
    """Of any t, many at once."""
    t, degrees = np.array(cases, dtype=float).T
    assert t_p_values(t**2, degrees) == pytest.approx(
        2 * scipy_stats.t.sf(t, degrees), rel=1e-8, abs=1e-300
    )


@pytest.mark.parametrize(
    ("t", "degrees", "p"), [(1, 1, 0.5), (sqrt(2), 2, 1 - sqrt(1 / 2)), (2, 2, 1 - 2 / sqrt(6))]
)
def test_t_of_few_degrees_of_freedom(t: float, degrees: int, p: float) -> None:
    """With 1 degree of freedom p = 1 - 2·atan(t)/π, with 2 degrees p = 1 - t/√(2 + t²)."""
    assert t_p_values(np.array([t**2]), np.array([float(degrees)])) == pytest.approx(p)


@pytest.mark.parametrize(("questions", "trials"), [(3, 2), (40, 4), (900, 5), (20_000, 3)])
def test_the_paired_t_test_is_that_of_scipy(questions: int, trials: int) -> None:
    """Also for many questions, whose p-values are tiny."""
    dice = random.Random(1)
    values = [dice.randint(-trials, trials + 1) / trials for _ in range(questions)]
    assert t_test(values) == pytest.approx(scipy_stats.ttest_1samp(values, 0).pvalue, rel=1e-9)


@given(
    st.integers(0, 7),
    st.integers(0, 7),
    st.integers(0, 30),
    st.sampled_from([1, Fraction(1, 3), 40]),
)
def test_differences_of_one_size_have_the_p_value_of_all_choices_of_signs(
    one: int, other: int, same: int, size: Fraction
) -> None:
    """Whatever the size, and however many questions have no difference."""
    values = [-size] * one + [size] * other + [Fraction()] * same
    assert paired_p(values) == flipped(values) == p_value(one, other)


@given(st.lists(st.sampled_from([0, 1, 2, 3]).map(Fraction), max_size=8), st.integers(0, 60))
def test_a_p_value_is_never_below_the_least_of_all_choices_of_signs(
    values: list[Fraction], same: int
) -> None:
    """If all differences have one sign, this is the p-value of the sign-flip test."""
    assert paired_p(values + [Fraction()] * same) >= flipped(values)


def test_few_changes_are_no_evidence() -> None:
    """A t-test alone would have p < 0.05 if 4 of 100 scores rise by nearly the same."""
    values = [0.5, 0.5, 0.5, 0.51] + [0.0] * 96
    assert t_test(values) < 0.05
    assert paired_p(values) == 2 / 2**4


@pytest.mark.parametrize(
    ("questions", "changed", "most"),
    [(7, 7, 0.07), (100, 7, 0.055), (60, 60, 0.055), (60, 30, 0.055), (300, 25, 0.055)],
)
def test_chance_is_rarely_significant(questions: int, changed: int, most: float) -> None:
    """Of differences with random signs, p < 0.05 about as often as it says.

    Most often if all of seven differ.
    """
    draws = np.random.default_rng(5).choice(
        [-0.75, -0.5, -0.25, 0.25, 0.5, 0.75], (20_000, changed)
    )
    evidence = draws.sum(axis=1) ** 2 / (draws**2).sum(axis=1)
    numbers = [np.full(len(draws), float(number)) for number in (questions, changed)]
    found = paired_p_values(*numbers, evidence, np.zeros(len(draws), dtype=bool))
    assert 0.04 < (found < 0.05).mean() < most
    assert (found < 0.01).mean() < 0.013


@pytest.mark.parametrize("seed", range(5) if LONG else [0, 2])
def test_the_t_test_is_close_to_all_choices_of_signs(seed: int) -> None:
    """For some hundred questions of four trials."""
    random = np.random.default_rng(seed)
    values = random.integers(-4, 5, 300) / 4 + (seed < 2) * random.integers(0, 2, 300) / 4
    signs = random.choice([-1.0, 1.0], (20_000, 300))
    as_far = np.abs(signs @ values) >= abs(values.sum()) - 1e-9
    assert paired_p(values.tolist()) == pytest.approx(as_far.mean(), abs=0.02)


@given(
    st.lists(st.tuples(st.integers(2, 40), st.floats(0, 1), st.booleans()), min_size=1, max_size=12)
)
def test_many_pairs_have_the_p_values_of_single_ones(pairs: list[tuple[int, float, bool]]) -> None:
    """Bit for bit: which other pairs are tested does not matter."""
    questions = np.array([number for number, _, _ in pairs], dtype=float)
    evidence = questions * np.array([share for _, share, _ in pairs])
    uniform = np.array([one for _, _, one in pairs])
    together = paired_p_values(questions, questions, evidence, uniform)
    for at in range(len(pairs)):
        some = slice(at, at + 1)
        alone = paired_p_values(questions[some], questions[some], evidence[some], uniform[some])
        assert alone[0] == together[at]


@settings(max_examples=examples(40, 400))
@given(
    st.lists(
        st.tuples(st.integers(1, 2_000), st.floats(0, 1), st.booleans(), st.integers(0, 9)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([1e-300, 1e-9, 1e-4, 0.01, 1.0]),
)
def test_p_values_that_are_small_enough_may_be_upper_bounds(
    pairs: list[tuple[int, float, bool, int]], enough: float
) -> None:
    """All others are exact, and no bound is above `enough`."""
    columns = [np.array(column, dtype=float) for column in zip(*pairs, strict=True)]
    changed, share, uniform, unchanged = columns
    excess = np.rint(changed * share)
    excess -= (changed - excess) % 2
    evidence = np.where(uniform, np.abs(excess) ** 2 / changed, changed * share)
    case = changed + unchanged + 1, changed, evidence, uniform.astype(bool)
    exact = paired_p_values(*case)
    found = paired_p_values(*case, enough)
    is_bound = found != exact
    assert (exact[is_bound] < found[is_bound]).all()
    assert (found[is_bound] <= enough).all()


@pytest.mark.parametrize("uniform", [False, True])
def test_small_p_values_are_bounded_without_a_series(uniform: bool) -> None:
    changed, evidence = np.full(1, 400.0), np.full(1, 225.0)
    case = changed, changed, evidence, np.array([uniform])
    [exact], [found] = paired_p_values(*case), paired_p_values(*case, 1e-9)
    assert 0 < exact < found < 1e-9


def test_no_pairs() -> None:
    none = np.zeros(0)
    assert paired_p_values(none, none, none, none.astype(bool)).tolist() == []
