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
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from fastrec.answers.index import Index
from fastrec.answers.marks import VALUES_BY_FLAGS
from fastrec.answers.table import Query
from fastrec.summary.present_ranking import EvaluationStats
from fastrec.summary.significance import mcnemar, t_test

ALPHA: Final = 0.05
MOST_MODELS: Final = 2_000  # to test all pairs of: five matrices of 32 MB
_SURELY_NOT: Final = 1.9  # of a z value: an exact test and a t-test have p > 0.05 below 1.96
_VALUES: Final = np.array([np.nan if value is None else value for value in VALUES_BY_FLAGS])
Array = np.ndarray[Any, np.dtype[np.float64]]


class PairSums(NamedTuple):
    """Sums over the questions that both models of a pair have answered; rows minus columns."""

    questions: Array
    total: Array
    squares: Array
    is_binary: bool
    """Whether all values are 0 or 1."""


def pair_sums(blocks: Iterator[Array], models: int) -> PairSums:
    questions, firsts, squared, products = (np.zeros((models, models)) for _ in range(4))
    is_binary, shift = True, None
    for block in blocks:
        answered = ~np.isnan(block)
        known = block[answered]
        is_binary = is_binary and bool(((known == 0) | (known == 1)).all())
        if shift is None:  # differences are the same, and lose fewer digits
            shift = 0.0 if is_binary or not known.size else float(known.mean())
        there = answered.astype(np.float64)
        with np.errstate(all="ignore"):  # of scores near the largest double, nothing is known
            values = np.where(answered, block - shift, 0.0)
            questions += there.T @ there
            firsts += values.T @ there
            squared += (values**2).T @ there
            products += values.T @ values
    with np.errstate(all="ignore"):
        return PairSums(questions, firsts - firsts.T, np.maximum(squared + squared.T - 2 * products, 0.0), is_binary)


def significant(sums: PairSums, *, lower: bool) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether the model of each row is better than that of each column, adjusted for all pairs."""
    models = len(sums.questions)
    rows, columns = np.triu_indices(models, 1)
    n, total, squares = (matrix[rows, columns] for matrix in sums[:3])
    better = np.zeros((models, models), dtype=np.bool_)
    if not len(rows):
        return better
    with np.errstate(all="ignore"):
        statistic = _statistic(n, total, squares, is_binary=sums.is_binary)
    p_values: list[tuple[float, int]] = []
    level = ALPHA / len(rows)
    for pair in np.flatnonzero((statistic >= _SURELY_NOT**2) & (n > 1)):
        numbers = int(n[pair]), float(total[pair]), float(squares[pair])
        p_values.append((_p_value(*numbers, float(statistic[pair]), level, is_binary=sums.is_binary), int(pair)))
    for place, (p, at) in enumerate(sorted(p_values)):
        if p > ALPHA / (len(rows) - place):
            break
        first, second = int(rows[at]), int(columns[at])
        better[(first, second) if bool(total[at] > 0) is not lower else (second, first)] = True
    return better


def _statistic(n: Array, total: Array, squares: Array, *, is_binary: bool) -> Array:
    """The square of z, or of t; infinite if all differences are the same."""
    if is_binary:  # of n10 + n01 questions that differ, n10 - n01 is the sum
        return np.where(squares > 0, total**2 / np.maximum(squares, 1), 0.0)
    spread = squares - total**2 / np.maximum(n, 1)
    rounding = 1e-12 * squares
    t = total**2 * (n - 1) / (np.maximum(n, 1) * np.where(spread > rounding, spread, 1.0))
    return np.where(total == 0, 0.0, np.where(spread > rounding, t, np.where(squares > 0, np.inf, 0.0)))


def _p_value(n: int, total: float, squares: float, statistic: float, level: float, *, is_binary: bool) -> float:
    """The p-value of a pair; or an upper bound of it that is below `level`, and decides as well."""
    if is_binary:
        if (bound := 2 * math.exp(-statistic / 2)) <= level:  # Hoeffding's inequality
            return bound
        return _mcnemar(round((squares - abs(total)) / 2), round((squares + abs(total)) / 2))
    least = 2.0 ** (1 - n)  # no test of n signs can tell more
    if math.isinf(statistic):
        return least
    if least <= level and statistic >= _critical(1 << (n - 1).bit_length() - 1, level):
        return level
    return max(least, _t_p_value(statistic, n))


_mcnemar = lru_cache(maxsize=1 << 16)(mcnemar)


def _t_p_value(t_squared: float, n: int) -> float:
    """The p-value of t² with n - 1 degrees of freedom: that of n differences with the mean 1 and this t²."""
    spread = Fraction(n) * (n - 1) / Fraction(t_squared)
    return t_test(Fraction(n), spread + n, n)


@lru_cache(maxsize=1 << 8)
def _critical(degrees: int, level: float) -> float:
    """The least t² whose p-value is at most `level`, rounded up; more degrees of freedom need less."""
    low, high = 1.0, 2.0
    while _t_p_value(high, degrees + 1) > level and high < 1e12:
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if _t_p_value(middle, degrees + 1) <= level else (middle, high)
    return high if _t_p_value(high, degrees + 1) <= level else math.inf


def rank_ranges(better: np.ndarray[Any, np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    best = 1 + better.sum(axis=0)
    worst = len(better) - better.sum(axis=1)
    return [(int(low), int(high)) for low, high in zip(best, worst, strict=True)]


def blocks_of(
    index: Index, query: Query, models: Sequence[str], *, graded: bool, common: bool = False
) -> Iterator[Array]:
    """Yield the values of some models, many questions at a time: questions × models, NaN without an answer.

    With `common`, only questions that all of them have answered.
    """
    places, batches = index.packed(query, models)
    for flags, shares, scores in batches:
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
    for one in evaluations:
        ranked = [model for model in one.by_model if not model.unranked]
        for model in ranked[MOST_MODELS:]:
            model.unranked = f"only the first {MOST_MODELS:,} models are tested"
        names = [model.model_id for model in ranked[:MOST_MODELS]]
        query = Query(evaluation_name=one.evaluation_name, metric=one.metric)
        graded = one.by == "score"
        sums = pair_sums(blocks_of(index, query, names, graded=graded, common=common), len(names))
        ranges = rank_ranges(significant(sums, lower=graded and one.lower_is_better))
        for model, (best, worst) in zip(ranked, ranges, strict=False):
            model.rank_best, model.rank_worst = best, worst
