"""Two series of values of the same questions: counts, means, test, and its power.

The series are two models, or one model in two corpora. Each question that has a value in both gives
one difference: its share of right answers, or its mean score, in the second series minus that in
the first. If questions come in clusters, tests take the sum of the differences of each cluster for
one difference. Sums are exact. `p_values` has the tests, and says why these.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, comb, sqrt
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from fastrec.statistics.exact import Value, scale_of, to_double
from fastrec.statistics.intervals import OptionalInt, OptionalNumber, Z
from fastrec.statistics.p_values import paired_p_values

Test = Literal["mcnemar", "t"]
_Pair = tuple[Value, Value]

_MOST_ANSWERS = 1_000_000  # of a model to a question
_Z_POWER = 0.8416212335729143  # 80 % of a normal distribution lie below
_FEWEST = 6  # differences of one sign that give p < 0.05
_MOST_ROOT = 1e9  # of a number of questions


class Differences(NamedTuple):
    """The differences of questions that have a value in both series, or of clusters of these."""

    questions: int = 0  # or clusters
    rose: int = 0  # those whose second value is higher
    fell: int = 0
    total: Fraction = Fraction()
    squares: Fraction = Fraction()  # the sum of their squares
    smallest: Fraction = Fraction()  # the least size of those that are not 0; 0 if all are
    largest: Fraction = Fraction()

    @property
    def test(self) -> Test:
        """The name of the test: McNemar's if all sizes are the same."""
        return "mcnemar" if self.smallest == self.largest else "t"


def p_values_of(pairs: Sequence[Differences]) -> list[float]:
    """The p-values of pairs of series; that of no questions is 1."""
    evidence = [to_double(pair.total**2 / pair.squares) if pair.squares else 0.0 for pair in pairs]
    numbers = [(pair.questions, pair.rose + pair.fell, pair.test == "mcnemar") for pair in pairs]
    questions, changed, uniform = np.array(numbers, dtype=np.float64).reshape(-1, 3).T
    p_values = paired_p_values(questions, changed, np.array(evidence), uniform > 0)
    return list(p_values.tolist())


class Paired(NamedTuple):
    """Two series of values of the same questions.

    Means are over questions that have a value in both.
    """

    questions: int
    only_first: int
    only_second: int
    rose: int  # questions whose second value is higher
    fell: int
    first: OptionalNumber  # the mean of the first values; None without questions
    second: OptionalNumber
    difference: OptionalNumber  # the second mean minus the first, rounded once
    test: Test | None
    p: OptionalNumber
    detectable: OptionalNumber
    needed: OptionalInt
    chance: OptionalNumber = None  # to find the difference of `detect`
    detect_needed: OptionalInt = None
    clusters: int = 0  # that these questions are in; each may be one of its own


def compare_series(
    series: Iterable[Iterable[_Pair]],
    *,
    graded: bool,
    clusters: Sequence[int] | None = None,
    detect: OptionalNumber = None,
) -> list[Paired]:
    """Compare two values of each question: shares of right answers, or scores if `graded`.

    None without an answer.

    Each of `series` has the pairs of values of one comparison. A fraction is exact, a double stands
    for a decimal score or for a share. `clusters` has the cluster of each question. `detect` is a
    difference whose detection is wanted.
    """
    listed = list(map(list, series))
    counts = list(map(Counter, listed))
    differences = [_pair_differences(pairs, graded=graded) for pairs in counts]
    tested = differences
    if clusters is not None:
        tested = [_cluster_differences(pairs, clusters, graded=graded) for pairs in listed]
    numbers = zip(counts, differences, tested, p_values_of(tested), strict=True)
    return [_paired(*of_series, detect, graded=graded) for of_series in numbers]


def _pair_differences(pairs: Mapping[_Pair, int], *, graded: bool) -> Differences:
    """Add up the differences of pairs of values, each with how often it occurs."""
    sizes = Counter[Fraction]()
    for (old, new), number in pairs.items():
        if old is not None and new is not None:
            sizes[_exact(new, graded=graded) - _exact(old, graded=graded)] += number
    return differences_of(sizes, sizes.total())


def _cluster_differences(
    pairs: Iterable[_Pair], clusters: Iterable[int], *, graded: bool
) -> Differences:
    """The same for the sums of the differences of each cluster."""
    sums = defaultdict[int, Fraction](Fraction)
    for (old, new), cluster in zip(pairs, clusters, strict=True):
        if old is not None and new is not None:
            sums[cluster] += _exact(new, graded=graded) - _exact(old, graded=graded)
    return differences_of(Counter(sums.values()), len(sums))


def differences_of(sizes: Counter[Fraction], questions: int) -> Differences:
    """Sum up the differences of questions, given how many have each; those of 0 may be left out."""
    del sizes[Fraction()]
    return Differences(
        questions,
        sum(number for size, number in sizes.items() if size > 0),
        sum(number for size, number in sizes.items() if size < 0),
        sum((number * size for size, number in sizes.items()), Fraction()),
        sum((number * size**2 for size, number in sizes.items()), Fraction()),
        min(map(abs, sizes), default=Fraction()),
        max(map(abs, sizes), default=Fraction()),
    )


def _paired(
    pairs: Counter[_Pair],
    differences: Differences,
    tested: Differences,
    p: float,
    detect: OptionalNumber,
    *,
    graded: bool,
) -> Paired:
    only_first, only_second = (
        sum(number for pair, number in pairs.items() if pair[side] is not None)
        - differences.questions
        for side in (0, 1)
    )
    if not differences.questions:
        return Paired(0, only_first, only_second, 0, 0, None, None, None, None, None, None, None)
    firsts, seconds = (
        [(pair[side], number) for pair, number in pairs.items() if None not in pair]
        for side in (0, 1)
    )
    return Paired(
        differences.questions,
        only_first,
        only_second,
        differences.rose,
        differences.fell,
        _mean(firsts, differences.questions, graded=graded),
        _mean(seconds, differences.questions, graded=graded),
        to_double(differences.total / differences.questions),
        tested.test,
        p,
        *power(tested, graded=graded, all_questions=differences.questions, detect=detect),
        tested.questions,
    )


def _mean(values: Iterable[tuple[Any, int]], questions: int, *, graded: bool) -> float:
    """The exact mean of values, each with its number of questions, rounded once.

    A score is the double that it is, as in a summary, so that the mean is the same.
    """
    total = sum(
        (Fraction(value) if graded else _exact(value, graded=False)) * number
        for value, number in values
    )
    return to_double(Fraction(total) / questions)


@lru_cache(maxsize=1 << 14, typed=True)
def _exact(value: float | Fraction, *, graded: bool) -> Fraction:
    """The number that a double stands for: a decimal score, or a share of some answers."""
    if isinstance(value, Fraction):
        return value
    return Fraction(repr(value)) if graded else Fraction(value).limit_denominator(_MOST_ANSWERS)


class Power(NamedTuple):
    """What a test detects: finds with p < 0.05 in 80 % of all cases."""

    detectable: OptionalNumber = None  # the smallest difference; None if it finds none
    needed: OptionalInt = None  # questions for the observed difference; None if there is none
    chance: OptionalNumber = None  # to find the difference of `detect`
    detect_needed: OptionalInt = None  # questions that detect it


def _enough_differ(questions: int, share: float) -> float:
    """The chance that enough of the questions differ for any result of a McNemar test."""
    too_few = sum(
        comb(questions, number) * share**number * (1 - share) ** (questions - number)
        for number in range(_FEWEST)
    )
    return max(1 - too_few, 0.0)


def power(
    differences: Differences,
    *,
    graded: bool,
    all_questions: OptionalInt = None,
    detect: OptionalNumber = None,
) -> Power:
    """What a test of these questions detects, and the chance to find a difference of `detect`.

    `differences` are those of questions, or of clusters of `all_questions`.

    The mean of the squares of differences is the discordance: of single answers, the share of
    questions on which only one of both is right. It stays as observed, or is as large as a
    difference needs. With z = 1.96 for p and 0.84 for the power, n questions find a mean difference
    d if

        n d ≥ z_p √(n discordance) + z_power √(n (discordance - d²))

    Uniform differences have the unit of their size, and the exact McNemar test of them needs half a
    question more. Without any difference, the size is 1, but unknown if scores are `graded`.
    """
    # Long because all that follows is about the same few numbers of these differences.
    questions = differences.questions
    per_cluster = Fraction(all_questions or questions, questions or 1)
    if differences.test == "mcnemar":
        step = 0.5
        unit = differences.largest or Fraction(not graded)
    else:
        step = 0.0
        unit = Fraction(2) ** scale_of(differences.squares)
    if not unit:
        return Power()
    discordance = to_double(differences.squares / unit**2 / questions)

    def terms(difference: float, number: int) -> tuple[float, float]:
        """The two terms of the sum above for some questions, the second one without z."""
        square = difference * difference  # with ** it may overflow
        spread = max(discordance, difference if step else square)
        return Z * sqrt(number * spread), sqrt(max(number * (spread - square), 0.0))

    def finds(difference: float) -> bool:
        for_p, deviation = terms(difference, questions)
        least = for_p + _Z_POWER * deviation
        return questions >= _FEWEST and questions * difference >= least + step

    def chance(difference: float) -> float:
        for_p, deviation = terms(difference, questions)
        if questions < _FEWEST or not deviation:
            return float(finds(difference))
        normal = NormalDist().cdf((questions * difference - step - for_p) / deviation)
        return (
            min(normal, _enough_differ(questions, max(discordance, difference))) if step else normal
        )

    def needed(difference: float) -> OptionalInt:
        for_p, deviation = terms(difference, 1)
        linear = for_p + _Z_POWER * deviation
        root = (linear + sqrt(linear * linear + 4 * difference * step)) / (2 * difference)
        if root >= _MOST_ROOT:
            return None
        return ceil(max(ceil(root**2), _FEWEST) * per_cluster)

    low = 0.0
    high = 1.0 if step else (Z + _Z_POWER) * sqrt(discordance / questions)
    detectable = None
    if finds(high):
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if finds(middle) else (middle, high)
        detectable = to_double(Fraction(high) * unit / per_cluster)
    observed = abs(to_double(differences.total / unit / questions))
    of_observed = needed(observed) if observed else None
    if detect is None:
        return Power(detectable, of_observed)
    size = to_double(Fraction(detect) * per_cluster / unit)
    return Power(detectable, of_observed, chance(size), needed(size))
