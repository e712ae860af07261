"""Ranks of models within an evaluation and metric, from paired tests over the questions that two models answered.

    marks of the index ──▶ blocks of values, questions × models ──▶ sums over pairs of models ──▶ tests ──▶ rank ranges

For each pair of models, `PairSums` has the number of common questions, and the sum of the differences and of their
squares. They follow from four products of matrices, block by block, so memory is bounded by models × models. Values of
0 and 1 are compared by the exact McNemar test, all others by the paired t-test. All pairs of an evaluation and metric
are adjusted together (Holm), so that the chance of any wrong difference is at most 5 %.

A model's rank is at best 1 + the number of models that are significantly better, and at worst the number of models
minus the number of those that are significantly worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fastrec.answers.index import Index, cut_of
from fastrec.answers.marks import VALUES_BY_FLAGS
from fastrec.answers.table import Query
from fastrec.limits import current_limits
from fastrec.summary.present_ranking import EvaluationStats

ALPHA: Final = 0.05
_SURELY_NOT: Final = 1.9  # of a z value: an exact test and a t-test have p > 0.05 below 1.96
_ENOUGH: Final = 1e-14
_LARGE: Final = 1e200
_ROUNDING: Final = 1e-12
_VALUES: Final = np.array([np.nan if value is None else value for value in VALUES_BY_FLAGS])
Array = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


class PairSums(NamedTuple):
    """Sums over the questions that both models of a pair have answered; rows minus columns."""

    questions: Array
    total: Array  # in units of 2**exponent
    squares: Array  # in units of the square of this
    is_binary: bool  # whether all values are 0 or 1
    exponent: int  # such that scores are less than 1 in these units, so that their squares can be added up; 0 if binary


def pair_sums(blocks: Iterator[Array], models: int) -> PairSums:
    questions, firsts, squared, products = (np.zeros((models, models)) for _ in range(4))
    is_binary, shift, exponent, largest = True, None, 0, 0.0
    for block in blocks:
        answered = ~np.isnan(block)
        known = block[answered]
        is_binary = is_binary and bool(((known == 0) | (known == 1)).all())
        largest = max(largest, float(np.abs(known).max(initial=0.0)))
        needed = 0 if is_binary else math.frexp(largest)[1]
        if needed != exponent:
            firsts = np.ldexp(firsts, exponent - needed)
            squared, products = (np.ldexp(sums, 2 * (exponent - needed)) for sums in (squared, products))
            shift = None if shift is None else math.ldexp(shift, exponent - needed)
            exponent = needed
        scaled = np.ldexp(block, -exponent)
        if shift is None:  # differences are the same, and lose fewer digits
            shift = 0.0 if is_binary or not known.size else float(scaled[answered].mean())
        values = np.where(answered, scaled - shift, 0.0)
        products += values.T @ values
        if answered.all():  # the sums over common questions are those over all
            questions += len(block)
            firsts += values.sum(axis=0)[:, None]
            squared += (values**2).sum(axis=0)[:, None]
        else:
            there = answered.astype(np.float64)
            questions += there.T @ there
            firsts += values.T @ there
            squared += (values**2).T @ there
    squares = np.maximum(squared + squared.T - 2 * products, 0.0)
    return PairSums(questions, firsts - firsts.T, squares, is_binary, exponent)


def significant(sums: PairSums, *, lower: bool) -> Bools:
    """Whether the model of each row is better than that of each column, adjusted for all pairs."""
    pairs = np.triu_indices(len(sums.questions), 1)
    n, total, squares = (matrix[pairs] for matrix in sums[:3])
    with np.errstate(all="ignore"):
        statistic = _statistic(n, total, squares, is_binary=sums.is_binary)
    likely = np.flatnonzero((statistic >= _SURELY_NOT**2) & (n > 1))  # of the others, p > 0.05
    if not likely.size:
        return np.zeros_like(sums.questions, dtype=np.bool_)
    if sums.is_binary:
        p_values = mcnemar_p_values(squares[likely], np.abs(total[likely]))
    else:
        p_values = np.maximum(t_p_values(statistic[likely], n[likely] - 1), 2.0 ** (1 - n[likely]))
    return _holm(pairs, likely, p_values, -total if lower else total, len(sums.questions))


class MeanTest:
    """The same for a weighted mean over evaluations: a t-test of independent parts (Welch and Satterthwaite).

    Evaluations are added one by one, so that the sums of only one of them are in memory.
    """

    def __init__(self, models: int) -> None:
        self._models = models
        self._pairs = np.triu_indices(models, 1)
        self._mean, self._variance, self._squared, self._questions = (np.zeros(len(self._pairs[0])) for _ in range(4))
        self._exponent = -math.inf  # the sums are in units of this power of two

    def _scale(self, exponent: float) -> None:
        """Change the unit of the sums."""
        if self._exponent > -math.inf:
            change = int(self._exponent - exponent)
            self._mean = np.ldexp(self._mean, change)
            self._variance = np.ldexp(self._variance, 2 * change)
            self._squared = np.ldexp(self._squared, 4 * change)
        self._exponent = exponent

    def add(self, sums: PairSums, weight: float) -> None:
        """Add an evaluation with its share in the mean."""
        if sums.exponent > self._exponent:
            self._scale(sums.exponent)
        change = sums.exponent - int(self._exponent)
        with np.errstate(all="ignore"):
            n, total, squares = (matrix[self._pairs] for matrix in sums[:3])
            total = np.ldexp(total, change)
            squares = np.ldexp(squares, 2 * change)
            spread = np.maximum(squares - total**2 / n, 0.0)
            part = weight**2 * np.where(spread > _ROUNDING * squares, spread, 0.0) / (n * (n - 1))
            self._mean += weight * total / n
            self._variance += part
            self._squared += part**2 / (n - 1)
            self._questions += n

    def significant(self) -> Bools:
        mean, variance = self._mean, self._variance
        with np.errstate(all="ignore"):
            is_constant = (variance == 0) & (mean != 0)
            statistic = np.where(variance > 0, mean**2 / variance, np.where(is_constant, np.inf, 0.0))
            degrees = np.where(variance > 0, variance**2 / self._squared, 1.0)
        # Without two common questions, the variance is NaN, and nothing is significant.
        likely = np.flatnonzero(statistic >= _SURELY_NOT**2)
        p_values = np.maximum(t_p_values(statistic[likely], degrees[likely]), 2.0 ** (1 - self._questions[likely]))
        return _holm(self._pairs, likely, p_values, mean, self._models)


def _holm(pairs: tuple[Any, Any], likely: Any, p_values: Array, gains: Array, models: int) -> Bools:
    """Reject by Holm's method, given the p-values of some of all pairs; those of the others are above 5 %."""
    better = np.zeros((models, models), dtype=np.bool_)
    tests = len(pairs[0])
    for place, (p, at) in enumerate(sorted(zip(p_values.tolist(), likely.tolist(), strict=True))):
        if p > ALPHA / (tests - place):
            break
        first, second = int(pairs[0][at]), int(pairs[1][at])
        better[(first, second) if gains[at] > 0 else (second, first)] = True
    return better


def _statistic(n: Array, total: Array, squares: Array, *, is_binary: bool) -> Array:
    """The square of z, or of t; infinite if all differences are the same."""
    if is_binary:  # of n10 + n01 questions that differ, n10 - n01 is the sum
        return np.where(squares > 0, total**2 / np.maximum(squares, 1), 0.0)
    spread = squares - total**2 / np.maximum(n, 1)
    rounding = _ROUNDING * squares
    t = total**2 * (n - 1) / (np.maximum(n, 1) * np.where(spread > rounding, spread, 1.0))
    return np.where(total == 0, 0.0, np.where(spread > rounding, t, np.where(squares > 0, np.inf, 0.0)))


def mcnemar_p_values(differing: Array, excess: Array) -> Array:
    """The p-values of exact McNemar tests, with 10 digits: of n = n10 + n01 questions, and |n10 - n01|.

    p = 2 · (C(n, k) + … + C(n, 0)) / 2ⁿ, where k is the smaller count.
    """
    n = np.rint(differing)
    k = np.rint((differing - excess) / 2)
    logarithm = _lgamma(n + 1) - _lgamma(k + 1) - _lgamma(n - k + 1) - n * math.log(2)
    total, term = np.ones_like(n), np.ones_like(n)
    for step in range(int(k.max(initial=0))):
        term = term * np.maximum(k - step, 0) / (n - k + step + 1)
        total += term
        if not (term > _ENOUGH * total).any():
            break
    return np.asarray(np.minimum(2 * np.exp(logarithm) * total, 1.0))


def t_p_values(t_squared: Array, degrees: Array) -> Array:
    """The two-sided p-values of t², at least 3: the incomplete beta function I(x; df/2, 1/2), by Lentz's method."""
    a, b = degrees / 2, 0.5
    x = np.where(np.isinf(t_squared), 0.0, degrees / (degrees + np.minimum(t_squared, _LARGE)))
    with np.errstate(divide="ignore"):
        front = np.exp(_lgamma(a + b) - _lgamma(a) - math.lgamma(b) + a * np.log(x) + b * np.log1p(-x))
    c, d = np.ones_like(x), 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d)
            c = 1 + term / c
            fraction = fraction * c * d
        if not (np.abs(c * d - 1) > _ENOUGH).any():
            break
    return np.asarray(front * fraction / a)


def _lgamma(values: Array) -> Array:
    return np.array([math.lgamma(value) for value in values.tolist()])


def rank_ranges(better: Bools) -> list[tuple[int, int]]:
    best = 1 + better.sum(axis=0)
    worst = len(better) - better.sum(axis=1)
    return [(int(low), int(high)) for low, high in zip(best, worst, strict=True)]


def blocks_of(
    index: Index, query: Query, models: Sequence[str], *, graded: bool, common: bool = False
) -> Iterator[Array]:
    """Yield the values of some models, many questions at a time: questions × models, NaN without an answer.

    With `common`, only questions that all of them have answered.
    """
    scope = index.scope(query)
    assert scope is not None
    cut, positions = cut_of(scope, models)
    places = [positions[model][1] for model in models]
    for _, flags, shares, scores in index.marks(query, index.ids(query), cut, "flags", "shares", "scores"):
        values = _VALUES[_matrix(flags, np.uint8)[:, places]]
        packed = [score or share for score, share in zip(scores, shares, strict=True)] if graded else shares
        rows = [row for row, one in enumerate(packed) if one]
        if rows:
            exact = _matrix([packed[row] for row in rows], np.float64)[:, places]
            values[rows] = np.where(np.isnan(values[rows]), np.nan, exact)
        yield values[~np.isnan(values).any(axis=1)] if common else values


def _matrix(rows: Sequence[bytes], kind: Any) -> np.ndarray[Any, Any]:
    return np.frombuffer(b"".join(rows), dtype=kind).reshape(len(rows), -1)


def add_ranks(evaluations: Sequence[EvaluationStats], index: Index, *, common: bool = False) -> None:
    """Add rank ranges to the models that are not `unranked`."""
    most = current_limits().compared_models
    for one in evaluations:
        ranked = [model for model in one.by_model if not model.unranked]
        for model in ranked[most:]:
            model.unranked = f"only the first {most:,} models are tested"
        names = [model.model_id for model in ranked[:most]]
        query = Query(evaluation_name=one.evaluation_name, metric=one.metric)
        graded = one.by == "score"
        sums = pair_sums(blocks_of(index, query, names, graded=graded, common=common), len(names))
        ranges = rank_ranges(significant(sums, lower=graded and one.lower_is_better))
        for model, (best, worst) in zip(ranked, ranges, strict=False):
            model.rank_best, model.rank_worst = best, worst
