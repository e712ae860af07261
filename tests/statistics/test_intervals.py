"""Intervals of accuracies and mean scores, by published examples and by bounds."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from fastrec.statistics.intervals import score_interval, wilson_interval


@pytest.mark.parametrize(
    ("correct", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_of_single_answers_is_that_of_wilson(
    correct: int, n: int, low: float, high: float
) -> None:
    """Compared with the examples of Newcombe (1998)."""
    p = correct / n
    error = (p * (1 - p) / (n - 1)) ** 0.5
    assert wilson_interval(p, error, questions=n, answers=n) == pytest.approx((low, high), abs=5e-5)
    found = wilson_interval(1 - p, error, questions=n, answers=n)
    assert found == pytest.approx((1 - high, 1 - low), abs=5e-5)


def clustered(shares: list[Fraction]) -> tuple[float, float]:
    """The mean of some questions and its standard error."""
    n = len(shares)
    mean = sum(shares) / n
    return float(mean), float(sum((share - mean) ** 2 for share in shares) / (n - 1) / n) ** 0.5


def test_the_interval_of_repeats_is_between_two_bounds() -> None:
    """Equal answers tell as much as one per question.

    Independent ones as much as so many questions, never more.
    """
    one = wilson_interval(0.5, None, 50, 50)
    four = wilson_interval(0.5, None, 200, 200)
    always_equal = clustered([Fraction(number % 2) for number in range(50)])
    assert wilson_interval(*always_equal, 50, 200) == pytest.approx(one)
    half = clustered([Fraction(1, 2)] * 50)
    assert wilson_interval(*half, 50, 200) == pytest.approx(four)
    binomial = Counter({0: 3, 1: 12, 2: 20, 3: 12, 4: 3})  # as four independent answers would be
    low, high = wilson_interval(
        *clustered([Fraction(right, 4) for right in binomial.elements()]), 50, 200
    )
    assert one[0] < low <= four[0] + 0.002
    assert four[1] - 0.002 <= high < one[1]
    assert wilson_interval(1.0, 0.0, 50, 200) == wilson_interval(1.0, 0.0, 50, 50)
    assert wilson_interval(0.5, None, 1, 4) == wilson_interval(0.5, None, 1, 1)
    assert wilson_interval(None, None, 0, 0) == (None, None)


def test_the_interval_of_a_mean_score() -> None:
    """1.96 standard errors to both sides; none where it is beyond the range of doubles."""
    assert score_interval(2.0, 0.5) == pytest.approx((2 - 0.98, 2 + 0.98), abs=1e-4)
    assert score_interval(None, None) == (None, None)
    low, high = score_interval(1.7e308, 0.5e308)
    assert low is not None
    assert high is None
