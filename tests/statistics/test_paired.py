"""Two series of values: exact sums and means, the power of the tests by simulation, and numbers
beyond doubles.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from math import ldexp, sqrt
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrec.statistics.exact import exact_mean, mean_of
from fastrec.statistics.paired import Differences, Paired, Test, compare_series, p_values_of, power
from tests.commands.comparing import p_value
from tests.lazily import Library
from tests.sizes import examples

scipy_stats: Any = Library("scipy.stats")


def compare_pairs(pairs: Sequence[tuple[Any, Any]], *, graded: bool) -> Paired:
    (found,) = compare_series([pairs], graded=graded)
    return found


def differences(
    questions: int, total: Fraction | int, squares: Fraction | int, test: Test
) -> Differences:
    """Differences with these sums: of size 1, or of several sizes."""
    largest = Fraction(1) if test == "mcnemar" else Fraction(2)
    return Differences(questions, 0, 0, Fraction(total), Fraction(squares), Fraction(1), largest)


def differences_of(values: Sequence[Fraction]) -> Differences:
    sizes = sorted(abs(value) for value in values if value) or [Fraction()]
    return Differences(
        len(values),
        sum(value > 0 for value in values),
        sum(value < 0 for value in values),
        sum(values, Fraction()),
        sum((value**2 for value in values), Fraction()),
        sizes[0],
        sizes[-1],
    )


@pytest.mark.parametrize(
    ("questions", "discordance"), [(60, 0.3), (150, 0.02), (400, 0.2), (20, 0.2)]
)
def test_the_smallest_difference_is_found_in_four_of_five_simulations(
    questions: int, discordance: float
) -> None:
    """McNemar's test, with a discordance that is large enough for the difference or is not."""
    flips = Fraction(round(questions * discordance))
    difference, _, *_ = power(differences(questions, 0, flips, "mcnemar"), graded=False)
    assert difference is not None
    spread = max(float(flips / questions), difference)
    draw_from = random.Random(3)

    def is_found() -> bool:
        draws = [draw_from.random() for _ in range(questions)]
        rose = sum(draw < (spread + difference) / 2 for draw in draws)
        return p_value(sum(draw < spread for draw in draws) - rose, rose) < 0.05

    found = sum(is_found() for _ in range(600)) / 600
    assert 0.75 < found < 0.9  # few questions have few p-values


@pytest.mark.parametrize("questions", [40, 120])
def test_the_smallest_difference_of_scores_is_found_in_four_of_five_simulations(
    questions: int,
) -> None:
    """With the number of questions that it needs, the same power results."""
    draw_from = random.Random(4)
    squares = Fraction(questions) * Fraction("0.09")
    difference, _, *_ = power(differences(questions, 0, squares, "t"), graded=True)
    assert difference is not None
    _, needed, *_ = power(
        differences(questions, Fraction(difference) * questions, squares, "t"), graded=True
    )
    assert needed is not None
    assert abs(needed - questions) <= 1
    deviation = sqrt(0.09 - difference**2)

    values = [
        [draw_from.gauss(difference, deviation) for _ in range(questions)] for _ in range(400)
    ]
    found = scipy_stats.ttest_1samp(values, 0, axis=1).pvalue < 0.05
    assert 0.75 < found.mean() < 0.86


@pytest.mark.parametrize(
    ("questions", "rose", "fell", "needed"),
    [
        # By hand: discordance 0.3, d = 0.1, √n = (s + √(s² + 0.2)) / 0.2 with s = 1.96 √0.3 +
        # 0.8416 √0.29 = 1.5267
        (100, 20, 10, 243),
        (5, 5, 0, 6),
        (100, 10, 10, None),
    ],
)
def test_how_many_questions_a_difference_needs(
    questions: int, rose: int, fell: int, needed: int | None
) -> None:
    """Five questions detect nothing: five flips of one sign have p = 0.0625."""
    smallest, found, *_ = power(
        differences(questions, rose - fell, rose + fell, "mcnemar"), graded=False
    )
    assert found == needed
    assert (smallest is None) is (questions == 5)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=60))
def test_means_of_shares_are_exact_and_rounded_once(right: list[tuple[int, int]]) -> None:
    """Of five answers and of three, as fractions and as doubles."""
    shares = [(Fraction(first, 5), Fraction(second, 3)) for first, second in right]
    means = [sum((pair[side] for pair in shares), Fraction()) / len(shares) for side in (0, 1)]
    expected = [float(mean) for mean in means]
    for pairs in (shares, [(float(first), float(second)) for first, second in shares]):
        found = compare_pairs(pairs, graded=False)
        assert [found.first, found.second] == expected
    assert [exact_mean(mean) for mean in expected] == means


@pytest.mark.parametrize("mean", [1e300, -2.5, 0.1 + 2**-50, 5e-324, 0.0])
def test_other_means_are_as_they_are_rounded(mean: float) -> None:
    assert float(exact_mean(mean)) == mean


@pytest.mark.parametrize("exponent", [-1_000, -540, 516, 1_000])
def test_what_is_detected_does_not_depend_on_the_unit_of_scores(exponent: int) -> None:
    """Nor do standard errors, where squares are beyond the range of doubles."""
    detectable, needed, *_ = power(differences(100, 10, 30, "t"), graded=True)
    assert detectable is not None
    unit = Fraction(2) ** exponent
    scaled_up = differences(100, 10 * unit, 30 * unit**2, "t")
    assert power(scaled_up, graded=True)[:2] == (ldexp(detectable, exponent), needed)
    values = [0.25, 0.5, 1.0]
    _, mean, error = mean_of(values)
    assert mean is not None
    assert error is not None
    scaled = [ldexp(value, exponent) for value in values]
    assert mean_of(scaled) == (3, ldexp(mean, exponent), ldexp(error, exponent))


def test_the_power_of_huge_scores_and_of_no_difference() -> None:
    assert power(differences(9, Fraction(10) ** 309, Fraction(10) ** 640, "t"), graded=True)[1] in (
        None,
        6,
    )
    assert power(Differences(9), graded=True)[:2] == (
        None,
        None,
    )  # nobody knows the size of these scores
    assert power(Differences(100), graded=False)[0] == pytest.approx(0.0875, abs=0.005)


def test_the_power_of_differences_of_one_size_does_not_depend_on_it() -> None:
    shares = [Fraction(1)] * 20 + [Fraction(-1)] * 10 + [Fraction()] * 70
    detectable, needed, *_ = power(differences_of(shares), graded=False)
    assert detectable is not None
    assert power(differences_of([share / 4 for share in shares]), graded=False)[:2] == (
        detectable / 4,
        needed,
    )
    assert needed == 243  # as by hand above


@settings(max_examples=examples(11, 200))
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, None]), st.sampled_from([0.0, 1.0, None])), max_size=40
    )
)
def test_pairs_are_those_of_scipy(pairs: list[tuple[float | None, float | None]]) -> None:
    """The p-value is that of the binomial test; the counts are those of a slow count."""
    found = compare_pairs(pairs, graded=False)
    both = [(old, new) for old, new in pairs if old is not None and new is not None]
    rose = sum(new > old for old, new in both)
    fell = sum(new < old for old, new in both)
    assert (found.questions, found.rose, found.fell) == (len(both), rose, fell)
    assert found.only_first == sum(old is not None and new is None for old, new in pairs)
    assert found.only_second == sum(old is None and new is not None for old, new in pairs)
    if both:
        assert found.test == "mcnemar"
        assert found.first == pytest.approx(fmean(old for old, _ in both))
        assert found.second == pytest.approx(fmean(new for _, new in both))
        assert found.p == pytest.approx(
            scipy_stats.binomtest(rose, rose + fell).pvalue if rose + fell else 1.0
        )
    else:
        assert (found.first, found.test, found.p) == (None, None, None)


def test_graded_pairs_are_those_of_scipy() -> None:
    """Scores with many different values are compared by the paired t-test."""
    pairs = [(number * 37 % 101 / 101, number * 53 % 103 / 103) for number in range(60)]
    found = compare_pairs(pairs, graded=True)
    assert found.test == "t"
    assert found.p == pytest.approx(scipy_stats.ttest_rel(*zip(*pairs, strict=True)).pvalue)


def test_huge_scores() -> None:
    """Sums beyond the range of doubles have means within it."""
    found = compare_pairs([(1.5e308, 1e308), (1.5e308, 1e308), (-1.5e308, 1e308)], graded=True)
    assert (found.rose, found.fell) == (1, 2)
    assert (found.first, found.second, found.difference) == pytest.approx((0.5e308, 1e308, 0.5e308))
    same = compare_pairs([(1.5, 1.0), (1.5, 1.0), (-1.5, 1.0)], graded=True)
    assert (found.test, found.p) == (same.test, same.p)


@given(
    st.lists(st.fractions(-2, 2, max_denominator=6), min_size=1, max_size=40),
    st.integers(-1_000, 1_000),
)
def test_p_values_do_not_depend_on_the_unit_of_scores(
    values: list[Fraction], exponent: int
) -> None:
    """Nor if their squares are beyond the range of doubles."""
    unit = Fraction(2) ** exponent
    one = differences_of(values)
    other = differences_of([value * unit for value in values])
    assert p_values_of([one, other, one]) == [p_values_of([one])[0]] * 3


def test_no_series() -> None:
    assert compare_series([], graded=True) == []
    assert p_values_of([Differences()]) == [1.0]


@pytest.mark.parametrize(
    ("questions", "discordance", "points"), [(400, 0.2, 0.06), (100, 0.3, 0.1), (1000, 0.1, 0.02)]
)
def test_the_chance_to_detect_is_that_of_a_simulation(
    questions: int, discordance: float, points: float
) -> None:
    """Exact McNemar tests of drawn questions find a difference so often, up to three points."""
    half = round(questions * discordance / 2)
    pairs = [(0.0, 1.0)] * half + [(1.0, 0.0)] * half + [(1.0, 1.0)] * (questions - 2 * half)
    (found,) = compare_series([pairs], graded=False, detect=points)
    rng = np.random.default_rng(2)
    chances = [(discordance + points) / 2, (discordance - points) / 2, 1 - discordance]
    drawn = rng.multinomial(questions, chances, size=4_000)[:, :2]
    # The p-values of `binomtest`, for all draws at once: both tails are the same at one half.
    p_values = 2 * scipy_stats.binom.cdf(drawn.min(axis=1), drawn.sum(axis=1), 0.5)
    rejected = np.count_nonzero(p_values < 0.05)
    assert found.chance == pytest.approx(rejected / 4_000, abs=0.03)
    assert found.detect_needed is not None
    again = [pair for pair in pairs for _ in range(3)]
    (more,) = compare_series([again], graded=False, detect=points)
    assert more.detect_needed == found.detect_needed  # it depends on the share that differs
    assert more.chance is not None
    assert (more.chance >= 0.8) == (3 * questions >= found.detect_needed)


@pytest.mark.parametrize(("questions", "up", "points"), [(20, 4, 0.2), (50, 2, 0.05)])
def test_no_difference_is_found_without_six_questions_that_differ(
    questions: int, up: int, points: float
) -> None:
    """Five differences of one sign give p = 0.0625."""
    pairs = [(0.0, 1.0)] * up + [(1.0, 1.0)] * (questions - up)
    (found,) = compare_series([pairs], graded=False, detect=points)
    assert found.chance == pytest.approx(scipy_stats.binom.sf(5, questions, points))
