"""Tests of paired answers, the adjustment of p-values for many models, 95 % intervals of single means, and calibration.

A test tells whether two corpora or models differ by more than chance. Each question that both answered gives one
difference: its share of right answers, or its mean score, in NEW minus that in OLD. If nothing really changed, each
difference is as likely to have one sign as the other.

    one answer per question and corpus   exact McNemar test: differences are -1, 0 or 1
    several answers, or scores           exact sign-flip test: counts all ways to choose the signs
    … and too many different sums        t-test over questions

All of them are two-sided, and use no random numbers. The first two are computed with integers and rounded once.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final, Literal, NamedTuple

import msgspec

Test = Literal["mcnemar", "sign-flip", "t"]

_BITS: Final = 128  # precision of the McNemar test; a double has 53 bits
_MOST_STEPS: Final = 1 << 17  # of the exact sign-flip test: some hundredths of a second
_TINY: Final = 1e-300


def paired_test(
    differences: Mapping[Fraction, int] | None,
    questions: int,
    *,
    changed: int,
    total: Fraction,
    squares: Fraction,
    binary: bool,
) -> tuple[Test, float]:
    """Choose a test and return its name and p-value.

    `differences` has the number of questions by difference, without those that did not change; None if there are too
    many different ones for an exact test. `changed` is the number of these questions. `binary`: every question has one
    answer in each corpus, right or wrong.
    """
    if binary and differences is not None:
        return "mcnemar", mcnemar(differences.get(Fraction(-1), 0), differences.get(Fraction(1), 0))
    exact = None if differences is None else sign_flip(differences)
    if exact is not None:
        return "sign-flip", exact
    # A t-test assumes that differences are normal. So it may claim no more than the same sign of all of them does.
    return "t", max(t_test(total, squares, questions), math.ldexp(1.0, 1 - changed))


def mcnemar(one_way: int, other_way: int) -> float:
    """The p-value of the two-sided exact McNemar test: are the flips more one-sided than chance explains?

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
    """The p-value of the exact sign-flip test; None if it would take too long.

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
    """The p-value of the paired t-test: is the mean difference 0? `squares` is the sum of squared differences."""
    spread = squares - total**2 / questions
    degrees = questions - 1
    if not total or not spread:
        return float(not total)
    # The square of the t statistic is exact up to here: t² = mean² / (variance / n).
    t_squared = to_double(total**2 * degrees / (questions * spread))
    return _beta(degrees / (degrees + t_squared), degrees / 2, 0.5)


def to_double(value: float | Fraction) -> float:
    """Round to a double. Beyond its range, return the largest one: a loss of any size must be seen."""
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def scale_of(square: Fraction) -> int:
    """The exponent of a power of two near the root of a number, which may be beyond the range of doubles."""
    return (square.numerator.bit_length() - square.denominator.bit_length()) // 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I(x; a, b), by its continued fraction (Lentz's method)."""
    # The fraction converges fast on one side of this: I(x; a, b) = 1 - I(1-x; b, a).
    mirrored = x > (a + 1) / (a + b + 2)
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
    """Adjust p-values for their number by the method of Benjamini and Hochberg; the order stays.

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


Value = float | Fraction | None
"""What a model made of a question: a share of right answers, or a score; a fraction if it is exact."""
_MOST_SIZES: Final = 1_000  # of differences; the exact sign-flip test gives up far below
_MOST_ANSWERS: Final = 1_000_000  # of a model to a question
_MOST_PARTS: Final = 1 << 26  # of a mean: between two neighbours of all doubles, there is one such fraction at most


class Paired(NamedTuple):
    """Two series of values of the same questions. Means are over questions that have a value in both."""

    questions: int
    only_first: int
    only_second: int
    rose: int  # questions whose second value is higher
    fell: int
    first: float | None  # the mean of the first values; None without questions
    second: float | None
    difference: float | None  # the mean of the second values minus that of the first, rounded once
    test: Test | None
    p: float | None
    detectable: float | None
    needed: int | None


def compare_pairs(pairs: Iterable[tuple[Value, Value]], *, graded: bool) -> Paired:
    """Compare two values of each question: shares of right answers, or scores if `graded`; None without an answer.

    A fraction is exact, a double stands for a decimal score or for a share.
    """
    counts = Counter(pairs)
    both = {(old, new): number for (old, new), number in counts.items() if old is not None and new is not None}
    only_first, only_second = (
        sum(number for pair, number in counts.items() if pair[side] is not None and pair[1 - side] is None)
        for side in (0, 1)
    )
    questions = sum(both.values())
    if not questions:
        return Paired(0, only_first, only_second, 0, 0, None, None, None, None, None, None, None)
    differences: Counter[Fraction] = Counter()
    for (old, new), number in both.items():
        if difference := _exact(new, graded=graded) - _exact(old, graded=graded):
            differences[difference] += number
    gain = sum((number * size for size, number in differences.items()), Fraction())
    squares = sum((number * size**2 for size, number in differences.items()), Fraction())
    test, p = paired_test(
        differences if len(differences) <= _MOST_SIZES else None,
        questions,
        changed=differences.total(),
        total=gain,
        squares=squares,
        binary=not graded and all(value in (0, 1) for pair in both for value in pair),
    )
    first, second = (_mean(((pair[side], number) for pair, number in both.items()), graded=graded) for side in (0, 1))
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
        *power(questions, gain, squares, test),
    )


def _mean(values: Iterable[tuple[float | Fraction, int]], *, graded: bool) -> float:
    """The exact mean of values, each with its number of questions, rounded once.

    A score is the double that it is, as in a summary, so that the mean is the same.
    """
    counts: Counter[float | Fraction] = Counter()
    for value, number in values:
        counts[value] += number
    exact = ((value if graded else _exact(value, graded=False), number) for value, number in counts.items())
    ratios = [(*value.as_integer_ratio(), number) for value, number in exact]
    common = math.lcm(*{denominator for _, denominator, _ in ratios})  # adding up fractions would take longer
    total = sum(numerator * (common // denominator) * number for numerator, denominator, number in ratios)
    return to_double(Fraction(total, common * counts.total()))


def _exact(value: float | Fraction, *, graded: bool) -> Fraction:
    """The number that a double stands for: a decimal score, or a share of some answers."""
    if isinstance(value, Fraction):
        return value
    return Fraction(repr(value)) if graded else Fraction(value).limit_denominator(_MOST_ANSWERS)


def exact_mean(mean: float) -> Fraction:
    """The mean that was rounded to a double, if its denominator is not too large to tell; else the double."""
    simple = Fraction(mean).limit_denominator(_MOST_PARTS)
    return simple if float(simple) == mean else Fraction(mean)


Table = tuple[int, int, int, int]
"""Answers that two graders judge: right by both, by the first only, by the second only, by none."""
_Z: Final = 1.959963984540054  # 97.5 % of a normal distribution lie below
_Z_POWER: Final = 0.8416212335729143  # 80 % lie below
_FEWEST: Final = 6  # differences of one sign that give p < 0.05


def power(questions: int, total: Fraction, squares: Fraction, test: Test) -> tuple[float | None, int | None]:
    """The smallest difference that a test of so many questions detects, and how many questions the observed one needs.

    To detect is to find it with p < 0.05 in 80 % of all cases. None if no difference is detected, or none was observed.

    `total` and `squares` are sums over the differences of questions. The mean of their squares is the discordance: of
    single answers, the share of questions on which only one of both is right. It stays as observed, or is as large as
    a difference needs. With z = 1.96 for p and 0.84 for the power, n questions find a mean difference d if

        n d ≥ z_p √(n discordance) + z_power √(n (discordance - d²))

    The exact McNemar test counts whole flips, and needs half a flip more.
    """
    step = 0.5 if test == "mcnemar" else 0.0
    exponent = 0 if step else scale_of(squares)
    unit = Fraction(2) ** exponent
    observed, discordance = abs(to_double(total / unit / questions)), to_double(squares / unit**2 / questions)

    def finds(difference: float) -> bool:
        square = difference * difference  # with ** it may overflow
        spread = max(discordance, difference if step else square)
        needed = _Z * math.sqrt(questions * spread) + _Z_POWER * math.sqrt(questions * (spread - square))
        return questions >= _FEWEST and questions * difference >= needed + step

    low, high = 0.0, 1.0 if step else (_Z + _Z_POWER) * math.sqrt(discordance / questions)
    detectable = high if high and finds(high) else None
    while detectable and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if finds(middle) else (middle, high)
        detectable = high
    detectable = None if detectable is None else to_double(Fraction(detectable) * unit)
    if not observed:
        return detectable, None
    one = _Z * math.sqrt(discordance) + _Z_POWER * math.sqrt(max(discordance - observed * observed, 0.0))
    root = (one + math.sqrt(one * one + 4 * observed * step)) / (2 * observed)
    return detectable, max(math.ceil(root**2), _FEWEST) if root < 1e9 else None


def wilson_interval(
    accuracy: float | None, standard_error: float | None, questions: int, answers: int
) -> tuple[float | None, float | None]:
    """The Wilson interval of an accuracy with a confidence of 95 %.

    With one answer per question, n is the number of questions. Several answers to a question tell more than one, but
    less than answers to as many questions. So n is then the number of questions with one answer each that would give
    the same variance over questions: at least `questions`, and at most `answers`.

    >>> wilson_interval(0.5, 0.05, questions=101, answers=101)
    (0.40429..., 0.59570...)
    """
    if accuracy is None:
        return None, None
    p, n = accuracy, float(questions)
    variance = p * (1 - p)
    if answers > questions and standard_error is not None and variance > 0:
        # A standard error is estimated with questions - 1 in the denominator, the variance of single answers without.
        own = standard_error**2 * (questions - 1)
        n = min(max(questions * variance / own, questions), answers) if own else answers
    z2 = _Z**2
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(variance / n + z2 / (4 * n * n))
    # Rounding must not move an end to the wrong side of 0, of 1 or of the accuracy itself.
    return max(min(middle - half, p), 0.0) if p else 0.0, min(max(middle + half, p), 1.0) if p < 1 else 1.0


def kappa_interval(tables: Mapping[Table, int]) -> tuple[float | None, float | None, float | None]:
    """Cohen's kappa of two graders, and its 95 % interval; None if it is undefined.

    Given are the tables of all questions, with the number of questions that have each. The standard error is that of a
    jackknife, which leaves out one question at a time: answers of several models to a question are not independent.

    >>> kappa_interval({(1, 0, 0, 0): 20, (0, 1, 0, 0): 5, (0, 0, 1, 0): 10, (0, 0, 0, 1): 15})
    (0.4, 0.14..., 0.65...)
    """
    whole = [sum(table[cell] * number for table, number in tables.items()) for cell in range(4)]
    kappa, questions = _kappa(whole), sum(tables.values())
    others = [
        (_kappa([total - cell for total, cell in zip(whole, table, strict=True)]), number)
        for table, number in tables.items()
    ]
    known = [(value, number) for value, number in others if value is not None]
    if kappa is None or questions < 2 or len(known) < len(others):
        return kappa, None, None
    mean = math.fsum(value * number for value, number in known) / questions
    error = math.sqrt(math.fsum((value - mean) ** 2 * number for value, number in known) * (1 - 1 / questions))
    return kappa, max(kappa - _Z * error, -1.0), min(kappa + _Z * error, 1.0)


def _kappa(table: Sequence[int]) -> float | None:
    """How much more two graders agree than by chance, given the shares of right answers that each has."""
    both, first, second, neither = table
    answers = sum(table)
    by_chance = (both + first) * (both + second) + (neither + first) * (neither + second)
    if not answers or by_chance == answers**2:
        return None
    return ((both + neither) * answers - by_chance) / (answers**2 - by_chance)


def score_interval(mean: float | None, standard_error: float | None) -> tuple[float | None, float | None]:
    """The interval of a mean score with a confidence of 95 %: the mean ± 1.96 standard errors over questions.

    A score has any scale, so nothing better is known about its distribution than that a mean of many is nearly normal.

    >>> score_interval(0.5, 0.1)
    (0.304..., 0.695...)
    """
    if mean is None or standard_error is None:
        return None, None
    low, high = mean - _Z * standard_error, mean + _Z * standard_error
    return low if math.isfinite(low) else None, high if math.isfinite(high) else None


# Calibration: whether a stated confidence says how often answers are right. Answers are put into ten bins of equal
# width by their confidence. A model is calibrated if in each bin the share of right answers is the mean confidence.
# Each answer counts once.

_BINS: Final = 10


class Bin(msgspec.Struct):
    """Answers of similar confidence."""

    answers: int
    """How many there are; at least 1."""
    confidence: float
    """Their mean confidence."""
    accuracy: float
    """The share that is right."""


class Calibration(msgspec.Struct, kw_only=True):
    """How well a model knows which of its answers are right, on one evaluation and metric."""

    evaluation_name: str
    """The evaluation."""
    metric: str | None
    """The `evaluation_result_id` that says what is right; null for records without one."""
    model_id: str
    """The model."""
    answers: int
    """Answers with a confidence from 0 to 1."""
    left_out: int
    """Other answers."""
    confidence: float | None
    """The mean confidence; null without such answers, and so are the next three."""
    accuracy: float | None
    """The share of right answers."""
    ece: float | None
    """The expected calibration error: the mean distance of both in a bin, weighted by the answers of the bin."""
    brier: float | None
    """The Brier score: the mean squared distance of the confidence from 1 if the answer is right, else from 0."""
    bins: list[Bin]
    """The bins that have answers, by confidence."""


def calibrate(name: tuple[str, str | None, str], found: Sequence[tuple[float | None, bool]]) -> Calibration:
    """Compute the calibration of a model (evaluation, metric, model) from confidences and verdicts.

    >>> calibrate(("e", None, "m"), [(0.9, True), (0.9, True), (0.8, False), (None, True)]).ece
    0.3333333333333333
    """
    known = [(value, right) for value, right in found if value is not None and 0 <= value <= 1]
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for value, right in known:
        groups[min(int(value * _BINS), _BINS - 1)].append((value, right))
    bins = [Bin(len(some), *_means(some)) for some in groups if some]
    number = len(known)
    confidence, accuracy = _means(known) if known else (None, None)
    distances = (one.answers * abs(one.confidence - one.accuracy) for one in bins)
    return Calibration(
        evaluation_name=name[0],
        metric=name[1],
        model_id=name[2],
        answers=number,
        left_out=len(found) - number,
        confidence=confidence,
        accuracy=accuracy,
        ece=math.fsum(distances) / number if known else None,
        brier=math.fsum((value - right) ** 2 for value, right in known) / number if known else None,
        bins=bins,
    )


def _means(some: Sequence[tuple[float, bool]]) -> tuple[float, float]:
    return math.fsum(value for value, _ in some) / len(some), sum(right for _, right in some) / len(some)
