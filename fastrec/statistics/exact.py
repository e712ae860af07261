"""Exact numbers: doubles that stand for fractions, and means that are rounded once."""

import sys
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from math import sqrt

# What a model made of a question: a share of right answers, or a score; a fraction if it is
# exact.
Value = float | Fraction | None
_MOST_PARTS = (
    1 << 26
)  # of a mean: between two neighbours of all doubles, there is one such fraction at most


def to_double(value: float | Fraction) -> float:
    """Round to a double.

    Beyond its range, return the largest one: a loss of any size must be seen.
    """
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def scale_of(square: Fraction) -> int:
    """The exponent of a power of two near the root of a number, of any size."""
    return (square.numerator.bit_length() - square.denominator.bit_length()) // 2


def exact_mean(mean: float) -> Fraction:
    """The mean that was rounded to a double, if its denominator is small enough to tell."""
    simple = Fraction(mean).limit_denominator(_MOST_PARTS)
    return simple if float(simple) == mean else Fraction(mean)


def mean_score(scores: Iterable[float]) -> Fraction:
    """The exact mean of scores as they are written: 0.1 is a tenth, not the double next to it.

    >>> mean_score([0.1, 0.2]) == mean_score([0.0, 0.3])
    True
    """
    decimals = [Fraction(repr(score)) for score in scores]
    return sum(decimals, Fraction()) / len(decimals)


def mean_of(values: Iterable[Value]) -> tuple[int, float | None, float | None]:
    """The number of values, their mean, and its standard error; None for what is undefined."""
    counts = Counter(value for value in values if value is not None)
    number = counts.total()
    total = sum((Fraction(value) * times for value, times in counts.items()), Fraction())
    if number < 2:
        return number, to_double(total) if number else None, None
    squares = sum((Fraction(value) ** 2 * times for value, times in counts.items()), Fraction())
    variance = (squares - total**2 / number) / (number * (number - 1))
    unit = Fraction(2) ** scale_of(variance)
    error = Fraction(sqrt(variance / unit**2)) * unit
    return number, to_double(total / number), to_double(error)
