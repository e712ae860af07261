"""Exact numbers: doubles that stand for fractions, and means that are rounded once."""

import math
import sys
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

# What a model made of a question: a share of right answers, or a score; a fraction if it is
# exact.
Value = float | Fraction | None
_MOST_PARTS = (
    1 << 26
)  # of a mean: between two neighbours of all doubles, there is one such fraction at most


_LEAST_EXPONENT = -1_073  # of a double, as `frexp` returns it
_MANTISSA_BITS = 53
_HALF_BITS = 27
_PIECE_BITS = 22  # of integers whose sums are exact in doubles
_Numbers = np.ndarray[Any, Any]


def sums_of_integers(groups: _Numbers, numbers: _Numbers, count: int) -> list[int]:
    """The exact sums of the 64-bit integers of each group."""
    sums = [0] * count
    for shift in range(0, 64, _PIECE_BITS):
        pieces = numbers >> shift
        if shift + _PIECE_BITS < 64:
            pieces &= (1 << _PIECE_BITS) - 1
        of_pieces = np.bincount(groups, pieces, count).tolist()
        sums = [total + (int(more) << shift) for total, more in zip(sums, of_pieces, strict=True)]
    return sums


def sums_of_doubles(groups: _Numbers, values: _Numbers, count: int) -> tuple[list[int], list[int]]:
    """The exact sums of the finite doubles of each group, in units of 2**-1074, and of squares.

    Those with the same exponent are added up as integers: their mantissas.
    """
    mantissas, exponents = np.frexp(values)
    integers = np.ldexp(mantissas, _MANTISSA_BITS).astype(np.int64)
    high = np.abs(integers) >> _HALF_BITS
    low = np.abs(integers) & ((1 << _HALF_BITS) - 1)
    lowest = int(exponents.min(initial=0))
    span = int(exponents.max(initial=0)) - lowest + 1
    cells = groups * span + (exponents - lowest)
    used = np.flatnonzero(np.bincount(cells))
    places = np.zeros(count * span, dtype=np.int64)
    places[used] = np.arange(len(used))
    totals, highest, middle, least = (
        sums_of_integers(places[cells], numbers, len(used))
        for numbers in (integers, high * high, high * low, low * low)
    )
    sums = [0] * count
    squares = [0] * count
    for at, cell in enumerate(used.tolist()):
        group, exponent = divmod(cell, span)
        shift = exponent + lowest - _LEAST_EXPONENT
        square = (highest[at] << 2 * _HALF_BITS) + (middle[at] << _HALF_BITS + 1) + least[at]
        sums[group] += totals[at] << shift
        squares[group] += square << 2 * shift
    # The least double has 53 bits here, of which only the first may be set.
    excess = _MANTISSA_BITS - 1
    return [total >> excess for total in sums], [total >> 2 * excess for total in squares]


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
    error = Fraction(math.sqrt(variance / unit**2)) * unit
    return number, to_double(total / number), to_double(error)
