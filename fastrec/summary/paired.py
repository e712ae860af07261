"""Compare two series of values of the same questions, and test whether they differ by more than chance."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from fastrec.summary.significance import Test, paired_test, to_double

__all__ = ["Paired", "compare_pairs"]

_MOST_SIZES: Final = 1_000  # of differences; the exact sign-flip test gives up far below
_MOST_ANSWERS: Final = 1_000_000  # of a model to a question


class Paired(NamedTuple):
    """Two series of values of the same questions. Means are over questions that have a value in both."""

    questions: int
    """Questions that have a value in both."""
    only_first: int
    only_second: int
    rose: int
    """Questions whose second value is higher."""
    fell: int
    first: float | None
    """The mean of the first values; None without questions."""
    second: float | None
    difference: float | None
    """The mean of the second values minus that of the first, rounded once."""
    test: Test | None
    p: float | None


def compare_pairs(pairs: Iterable[tuple[float | None, float | None]], *, graded: bool) -> Paired:
    """Compare two values of each question: shares of right answers, or scores if `graded`; None without an answer."""
    counts = Counter(pairs)
    both = {(old, new): number for (old, new), number in counts.items() if old is not None and new is not None}
    only_first, only_second = (
        sum(number for pair, number in counts.items() if pair[side] is not None and pair[1 - side] is None)
        for side in (0, 1)
    )
    questions = sum(both.values())
    if not questions:
        return Paired(0, only_first, only_second, 0, 0, None, None, None, None, None)
    differences: Counter[Fraction] = Counter()
    for (old, new), number in both.items():
        if old != new:
            differences[_exact(new, graded=graded) - _exact(old, graded=graded)] += number
    gain = sum((number * size for size, number in differences.items()), Fraction())
    squares = sum((number * size**2 for size, number in differences.items()), Fraction())
    test, p = paired_test(
        differences if len(differences) <= _MOST_SIZES else None,
        questions,
        total=gain,
        squares=squares,
        binary=not graded and all(value in (0, 1) for pair in both for value in pair),
    )
    first, second = (_mean(both, side, questions) for side in (0, 1))
    return Paired(
        questions,
        only_first,
        only_second,
        sum(number for size, number in differences.items() if size > 0),
        sum(number for size, number in differences.items() if size < 0),
        first,
        second,
        to_double(gain / questions),
        test,
        p,
    )


def _mean(pairs: Mapping[tuple[float, float], int], side: int, questions: int) -> float:
    """Return the mean of the first or of the second values."""
    values = [(pair[side], number) for pair, number in pairs.items()]
    try:
        total = math.fsum(value * number for value, number in values)
    except OverflowError:
        total = math.inf
    if math.isfinite(total):
        return total / questions
    return to_double(sum((Fraction(value) * number for value, number in values), Fraction()) / questions)


def _exact(value: float, *, graded: bool) -> Fraction:
    """Return the number that a double stands for: a decimal score, or a share of some answers."""
    return Fraction(repr(value)) if graded else Fraction(value).limit_denominator(_MOST_ANSWERS)
