"""The tests of significance: values by hand, by independent formulas, and by scipy where it is installed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from math import erfc, ldexp, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrec.answers.marks import mean_of
from fastrec.summary.significance import (
    adjust,
    compare_pairs,
    exact_mean,
    mcnemar,
    paired_test,
    power,
    sign_flip,
    t_test,
)
from tests.commands.comparing import adjusted, flipped, p_value
from tests.sizes import examples


@pytest.mark.parametrize(
    ("one", "other", "p"),
    [(0, 0, 1), (1, 0, 1), (3, 3, 1), (0, 5, 2 / 32), (1, 6, 2 * 8 / 128), (10, 2, 2 * (1 + 12 + 66) / 4096)],
)
def test_the_p_value_of_a_few_flips(one: int, other: int, p: float) -> None:
    """Twice the tail of the binomial distribution, computed by hand; the order of the counts does not matter."""
    assert mcnemar(one, other) == mcnemar(other, one) == p


@given(st.integers(0, 700), st.integers(0, 700))
def test_the_p_value_is_the_exact_sum_rounded_once(one: int, other: int) -> None:
    """Ignoring small terms does not change the result."""
    assert mcnemar(one, other) == p_value(one, other)


@pytest.mark.parametrize(
    ("one", "other"), [(3, 9), (40, 61), (500, 400), (5_000, 5_200), (30_000, 29_000), (20_000, 10)]
)
def test_the_p_value_is_that_of_scipy(one: int, other: int) -> None:
    """The binomial test of scipy agrees, also for many flips."""
    stats = pytest.importorskip("scipy.stats")
    assert mcnemar(one, other) == pytest.approx(stats.binomtest(one, one + other).pvalue, rel=1e-9)


def test_the_p_value_of_millions_of_flips_is_fast() -> None:
    """It is that of the exact sum, close to the normal distribution, or 0 if too small for a double."""
    assert mcnemar(499_000, 501_000) == 0.04560829986538208  # computed with all bits, which takes ten seconds
    one = examples(1_000_000, 2_000_000)
    other = one + one // 500
    assert mcnemar(one, other) == pytest.approx(erfc((other - one - 1) / sqrt(2 * (one + other))), rel=1e-5)
    assert mcnemar(one, 2 * other) == 0.0


differences = st.fractions(-1, 1, max_denominator=4)


@given(st.lists(differences, max_size=9))
def test_the_sign_flip_test_counts_all_choices_of_signs(values: list[Fraction]) -> None:
    """The result is that of trying them one by one."""
    assert sign_flip(Counter(filter(None, values))) == flipped(values)


@pytest.mark.parametrize(
    ("values", "p"),
    [
        ({}, 1),
        ({Fraction(-1): 3}, 2 / 8),
        ({Fraction(-1, 2): 2, Fraction(-1): 1}, 2 / 8),  # only all minus or all plus
        ({Fraction(-1): 1, Fraction(1, 2): 1}, 1),  # any sum is at least 1/2 from 0
        ({Fraction(-1): 1, Fraction(-1, 2): 1, Fraction(1, 4): 1}, 4 / 8),
    ],
)
def test_the_sign_flip_test_by_hand(values: dict[Fraction, int], p: float) -> None:
    """Few enough differences to count on paper."""
    assert sign_flip(values) == p


@given(st.integers(0, 60), st.integers(0, 60))
def test_differences_of_one_size_give_the_p_value_of_mcnemar(one: int, other: int) -> None:
    """Whatever the size."""
    assert sign_flip({Fraction(-1, 3): one, Fraction(1, 3): other}) == mcnemar(one, other)


def sums(values: Iterable[Fraction]) -> tuple[Fraction, Fraction]:
    """The sum of all differences, and that of their squares."""
    values = list(values)
    return sum(values, Fraction()), sum((value**2 for value in values), Fraction())


def paired(counts: Counter[Fraction], questions: int) -> tuple[str, float]:
    """The test of differences that are not all -1 or 1."""
    total, squares = sums(counts.elements())
    return paired_test(counts, questions, changed=counts.total(), total=total, squares=squares, binary=False)


def drawn(questions: int, trials: int, seed: int = 1) -> list[Fraction]:
    dice = random.Random(seed)
    return [Fraction(dice.randint(-trials, trials + 1), trials) for _ in range(questions)]


@pytest.mark.parametrize(("questions", "trials"), [(3, 2), (40, 4), (900, 5), (20_000, 3)])
def test_the_t_test_is_that_of_scipy(questions: int, trials: int) -> None:
    """Also for many questions, whose p-values are tiny."""
    stats = pytest.importorskip("scipy.stats")
    values = drawn(questions, trials)
    expected = stats.ttest_1samp([float(value) for value in values], 0).pvalue
    assert t_test(*sums(values), questions) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("t", "degrees", "p"), [(1, 1, 0.5), (sqrt(2), 2, 1 - sqrt(1 / 2)), (2, 2, 1 - 2 / sqrt(6))])
def test_the_t_test_of_few_degrees_of_freedom(t: float, degrees: int, p: float) -> None:
    """With 1 degree of freedom p = 1 - 2·atan(t)/π, with 2 degrees p = 1 - t/√(2 + t²)."""
    questions = degrees + 1
    # 1 + x and 1 - x, and 1 in between, have mean 1 and variance 2x²/degrees.
    x = Fraction(sqrt(questions * degrees / 2) / t)
    assert t_test(*sums([1 + x, 1 - x] + [Fraction(1)] * (questions - 2)), questions) == pytest.approx(p)


def test_many_questions_get_a_t_test_close_to_the_normal_distribution() -> None:
    """It is fast, and named."""
    values = drawn(20_000, 40, seed=6)
    counts = Counter(filter(None, values))
    name, p = paired(counts, len(values))
    mean = sum(values) / len(values)
    deviation = sqrt(sum((float(value) - float(mean)) ** 2 for value in values) / len(values))
    assert name == "t"
    assert p == pytest.approx(erfc(abs(mean) / deviation * sqrt(len(values) / 2)), rel=0.02)


def test_the_approximation_begins_where_it_is_good() -> None:
    """The last exact p-values and the first of the t-test are close to each other."""
    values = drawn(200, 4, seed=2) + [Fraction(-1, 4)] * 30
    counts = Counter(filter(None, values))
    exact = sign_flip(counts)
    assert exact is not None
    assert 0.01 < exact < 0.5
    assert t_test(*sums(values), len(values)) == pytest.approx(exact, rel=0.05)
    assert sign_flip(Counter(filter(None, drawn(400, 4)))) is None


def test_a_t_test_claims_no_more_than_a_sign_flip_test_could() -> None:
    """With n differences of one sign, n - 1 further coins would have to agree with the first."""
    values = [Fraction(1) + Fraction(number, 10**9) for number in range(60)]
    total, squares = sums(values)
    assert t_test(total, squares, 60) < 1e-300
    for questions, p in ((60, 2.0**-59), (2_000, t_test(total, squares, 2_000))):
        found = paired_test(None, questions, changed=60, total=total, squares=squares, binary=False)
        assert found == ("t", p)


@pytest.mark.parametrize(("questions", "discordance"), [(60, 0.3), (150, 0.02), (400, 0.2), (20, 0.2)])
def test_the_smallest_difference_is_found_in_four_of_five_simulations(questions: int, discordance: float) -> None:
    """McNemar's test, with a discordance that is large enough for the difference or is not."""
    flips = Fraction(round(questions * discordance))
    difference, _ = power(questions, Fraction(), flips, "mcnemar")
    assert difference is not None
    spread = max(float(flips / questions), difference)
    draw_from = random.Random(3)

    def is_found() -> bool:
        draws = [draw_from.random() for _ in range(questions)]
        rose = sum(draw < (spread + difference) / 2 for draw in draws)
        return mcnemar(sum(draw < spread for draw in draws) - rose, rose) < 0.05

    found = sum(is_found() for _ in range(600)) / 600
    assert 0.75 < found < 0.9  # few questions have few p-values


@pytest.mark.parametrize("questions", [40, 120])
def test_the_smallest_difference_of_scores_is_found_in_four_of_five_simulations(questions: int) -> None:
    """With the number of questions that it needs, the same power results."""
    draw_from = random.Random(4)
    squares = Fraction(questions) * Fraction("0.09")
    difference, _ = power(questions, Fraction(), squares, "t")
    assert difference is not None
    _, needed = power(questions, Fraction(difference) * questions, squares, "t")
    assert needed is not None
    assert abs(needed - questions) <= 1
    deviation = sqrt(0.09 - difference**2)

    def is_found() -> bool:
        values = [Fraction(round(draw_from.gauss(difference, deviation) * 1e6)) for _ in range(questions)]
        return t_test(*sums(values), questions) < 0.05

    assert 0.75 < sum(is_found() for _ in range(400)) / 400 < 0.86


@pytest.mark.parametrize(
    ("questions", "rose", "fell", "needed"),
    [
        # By hand: discordance 0.3, d = 0.1, √n = (s + √(s² + 0.2)) / 0.2 with s = 1.96 √0.3 + 0.8416 √0.29 = 1.5267
        (100, 20, 10, 243),
        (5, 5, 0, 6),
        (100, 10, 10, None),
    ],
)
def test_how_many_questions_a_difference_needs(questions: int, rose: int, fell: int, needed: int | None) -> None:
    """Five questions detect nothing: five flips of one sign have p = 0.0625."""
    smallest, found = power(questions, Fraction(rose - fell), Fraction(rose + fell), "mcnemar")
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
    detectable, needed = power(100, Fraction(10), Fraction(30), "t")
    assert detectable is not None
    unit = Fraction(2) ** exponent
    assert power(100, 10 * unit, 30 * unit**2, "t") == (ldexp(detectable, exponent), needed)
    values = [0.25, 0.5, 1.0]
    _, mean, error = mean_of(values)
    assert mean is not None
    assert error is not None
    scaled = [ldexp(value, exponent) for value in values]
    assert mean_of(scaled) == (3, ldexp(mean, exponent), ldexp(error, exponent))


def test_the_power_of_huge_scores_and_of_no_difference() -> None:
    assert power(9, Fraction(10) ** 309, Fraction(10) ** 640, "t")[1] in (None, 6)
    assert power(9, Fraction(), Fraction(), "sign-flip") == (None, None)
    assert power(100, Fraction(), Fraction(), "mcnemar")[0] == pytest.approx(0.0875, abs=0.005)


def test_few_questions_are_tested_exactly_whatever_their_numbers_of_repeats() -> None:
    """The smallest common denominator of 1/11, 1/13, … is large; the number of choices of signs is small."""
    values = [Fraction(-1, trials) for trials in (11, 13, 17, 19, 23, 29)]
    assert paired(Counter(values), 20) == ("sign-flip", 2 / 2**6)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_adjusted_p_values_follow_their_definition(values: list[float]) -> None:
    """The adjusted p is the least of p · n / rank over all p-values that are not smaller."""
    expected = adjusted(dict(enumerate(values)))
    assert adjust(values) == pytest.approx([expected[index] for index in range(len(values))])


def test_adjusted_p_values_are_those_of_scipy() -> None:
    """For a list with ties."""
    stats = pytest.importorskip("scipy.stats")
    values = [0.001, 0.04, 0.04, 0.3, 1.0, 1.0, 0.012]
    assert adjust(values) == pytest.approx(list(stats.false_discovery_control(values)))
