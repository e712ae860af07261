"""Is a difference between two corpora more than chance? Tests of paired answers, and the adjustment for many models.

Each question that both corpora answered gives one difference: its share of right answers, or its mean score, in NEW
minus that in OLD. If nothing really changed, each difference is as likely to have one sign as the other.

    one answer per question and corpus   exact McNemar test: differences are -1, 0 or 1
    several answers, or scores           exact sign-flip test: counts all ways to choose the signs
    … and too many different sums        t-test over questions

All of them are two-sided, and use no random numbers. The first two are computed with integers and rounded once.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, Literal

__all__ = ["Test", "adjust", "mcnemar", "paired_test", "sign_flip", "t_test", "to_double"]

Test = Literal["mcnemar", "sign-flip", "t"]

_BITS: Final = 128  # precision of the McNemar test; a double has 53 bits
_MOST_STEPS: Final = 1 << 17  # of the exact sign-flip test: some hundredths of a second
_TINY: Final = 1e-300


def paired_test(
    differences: Mapping[Fraction, int] | None, questions: int, *, total: Fraction, squares: Fraction, binary: bool
) -> tuple[Test, float]:
    """Choose a test and return its name and p-value.

    Args:
        differences: The number of questions by difference, without those that did not change; None if there are too
            many different ones for an exact test.
        questions: The number of all compared questions.
        total: Sum of all differences.
        squares: Sum of their squares.
        binary: Whether every question has one answer in each corpus, which is right or wrong.
    """
    if binary and differences is not None:
        return "mcnemar", mcnemar(differences.get(Fraction(-1), 0), differences.get(Fraction(1), 0))
    exact = None if differences is None else sign_flip(differences)
    return ("t", t_test(total, squares, questions)) if exact is None else ("sign-flip", exact)


def mcnemar(one_way: int, other_way: int) -> float:
    """Return the p-value of the two-sided exact McNemar test: are the flips more one-sided than chance explains?

    If nothing really changed, each of n flipped answers is as likely to flip one way as the other. So the number of
    flips one way is binomial with probability one half, and the p-value is twice the tail up to the smaller count, at
    most 1:

        p = 2 · (C(n, 0) + C(n, 1) + … + C(n, min)) / 2ⁿ

    >>> mcnemar(0, 0), mcnemar(5, 5), mcnemar(0, 5), mcnemar(10, 2)
    (1.0, 1.0, 0.0625, 0.03857421875)
    """
    flips = one_way + other_way
    term = tail = 1
    dropped = 0  # low bits of both: keeping all bits would take seconds for a million flips
    for rank in range(min(one_way, other_way)):
        term = term * (flips - rank) // (rank + 1)
        tail += term
        if tail >> 2 * _BITS:
            term >>= _BITS
            tail >>= _BITS
            dropped += _BITS
    return min(1.0, 2 * tail / (1 << flips - dropped))  # Python divides integers exactly and rounds once


def sign_flip(differences: Mapping[Fraction, int]) -> float | None:
    """Return the p-value of the exact sign-flip test; None if it would take too long.

    It is the share of all choices of signs for which the sum is at least as far from 0 as the observed sum. If all
    differences have the same size, this is the McNemar test.

    >>> sign_flip({Fraction(-1, 2): 2, Fraction(-1): 1}), sign_flip({Fraction(-1, 4): 6, Fraction(1, 4): 1})
    (0.25, 0.125)
    """
    sizes: Counter[Fraction] = Counter()
    for difference, count in differences.items():
        sizes[abs(difference)] += count
    if len(sizes) <= 1:
        return mcnemar(*(sum(n for d, n in differences.items() if (d > 0) is up) for up in (False, True)))
    unit = math.lcm(*(size.denominator for size in sizes))
    number, farthest = sizes.total(), int(sum(size * unit * count for size, count in sizes.items()))
    if number * min(farthest, 1 << min(number, 64)) > _MOST_STEPS:
        return None
    ways: Counter[int] = Counter({0: 1})  # by sum, the number of choices of signs that lead to it
    for step in [int(size * unit) for size in sizes.elements()]:
        longer: Counter[int] = Counter()
        for total, count in ways.items():
            longer[total + step] += count
            longer[total - step] += count
        ways = longer
    observed = abs(sum((difference * count for difference, count in differences.items()), Fraction())) * unit
    return sum(count for total, count in ways.items() if abs(total) >= observed) / (1 << number)


def t_test(total: Fraction, squares: Fraction, questions: int) -> float:
    """Return the p-value of the paired t-test: is the mean difference over all compared questions 0?

    `total` is the sum of all differences, and `squares` that of their squares.
    """
    spread = squares - total**2 / questions
    degrees = questions - 1
    if not total or not spread:
        return float(not total)
    # The square of the t statistic is exact up to here: t² = mean² / (variance / n).
    t_squared = to_double(total**2 * degrees / (questions * spread))
    return _beta(degrees / (degrees + t_squared), degrees / 2, 0.5)


def to_double(value: Fraction) -> float:
    """Round to a double. Beyond its range, return the largest one: a loss of any size must be seen."""
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def _beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I(x; a, b), by its continued fraction (Lentz's method)."""
    mirrored = x > (a + 1) / (
        a + b + 2
    )  # the fraction converges fast on one side of this: I(x; a, b) = 1 - I(1-x; b, a)
    if mirrored:
        x, a, b = 1 - x, b, a
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(max(x, _TINY)) + b * math.log1p(-x)
    )
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 100_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return 1 - front * fraction / a if mirrored else front * fraction / a


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def adjust(values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number by the method of Benjamini and Hochberg, in the same order.

    Of the models whose adjusted p is below 0.05, at most 5 % are expected to differ by chance only.

    >>> adjust([0.01, 0.5, 0.03, 0.02])
    [0.04, 0.5, 0.04, 0.04]
    """
    adjusted = [1.0] * len(values)
    least = 1.0
    for rank, index in sorted(enumerate(sorted(range(len(values)), key=values.__getitem__), 1), reverse=True):
        least = min(least, values[index] * len(values) / rank)
        adjusted[index] = least
    return adjusted
