"""Ranks of models, from paired tests of all pairs over the questions that both have answered.

    blocks of values, questions × models ──▶ sums over pairs of models ──▶ tests (`p_values`) ──▶
    Holm ──▶ rank ranges

The sums of differences and of their squares follow from four products of matrices, block by block,
so memory is bounded by models × models. If all values are 0 or 1, they say everything. Otherwise
the tests need to know how many values differ, and whether all by the same size. Both are found by
comparing values, but only as long as it matters: until a pair has many differences of several
sizes.

If questions come in clusters, the sum of the values of a cluster stands for one value. A cluster of
which a model lacks some questions has a difference of its own for each pair: over what both have.

A model's rank is at best 1 + the number of models that are significantly better, and at worst the
number of models minus the number of those that are significantly worse.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from math import frexp, ldexp
from typing import Any, NamedTuple

import numpy as np

from fastrec.statistics.adjust import holm
from fastrec.statistics.p_values import Array, Bools, paired_p_values, t_p_values

ALPHA = 0.05
_LEAST_CHANGED = 6  # of a pair with p < 0.05: 2^(1-5) is above
_LEAST_EVIDENCE = 3.4  # of such a pair, with so many changes
_LEAST_T_SQUARED = 1.9**2  # the same for means: p > 0.05 if |t| < 1.96
# Changes of a pair: with more, 2^(1-k) is below any p-value that decides about ranks. That of two
# million pairs is 2^-25.
_MANY = 32
_AT_FIRST = 64  # questions of the first stretch
_BITS = 45  # of values that are compared: means of the same scores may differ in the last bits
_SAME_SIZE = 1e-9
_ROUNDING = 1e-12


class PairSums(NamedTuple):
    """Sums over the questions that both models of a pair have answered; rows minus columns.

    The difference of a cluster is the sum of those of its questions.
    """

    clusters: Array  # of questions; a question may be one of its own
    # clusters whose differences are not 0; if they are not uniform, perhaps only the first `_MANY`
    changed: Array
    total: Array  # of differences, in units of 2**exponent
    squares: Array  # of the differences of clusters, in units of the square of this
    uniform: Bools  # whether all of these have the same size
    # such that scores are less than 1 in these units, so that their squares can be added up; 0 if
    # binary
    exponent: int
    size: float  # of a cluster, in the mean of all: questions

    def at(self, places: Any) -> PairSums:
        """The sums of some of the pairs."""
        names = ("clusters", "changed", "total", "squares", "uniform")
        return self._replace(**{name: getattr(self, name)[places] for name in names})

    def chosen(self, models: Sequence[int]) -> PairSums:
        """The sums of all pairs of some of the models."""
        return self.at(np.ix_(models, models))

    def evidence(self) -> Array:
        """The square of z of each pair (`p_values`)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.squares > 0, self.total**2 / self.squares, 0.0)

    def p_values(self, enough: float = 0.0) -> Array:
        """The p-value of each pair of a list of pairs; up to `enough`, it may be an upper bound."""
        return paired_p_values(self.clusters, self.changed, self.evidence(), self.uniform, enough)


class _Sizes:
    """How many values of a pair differ, and the smallest and largest of these differences."""

    def __init__(self, changed: Array) -> None:
        """Begin after values of 0 and 1."""
        self._changed = np.triu(changed)
        differs = self._changed > 0
        # Half of each, which never overflows.
        self._smallest = np.where(differs, 0.5, np.inf)
        self._largest = np.where(differs, 0.5, 0.0)

    def add(self, block: Array) -> None:
        """Compare values in stretches, each as long as all before: most pairs are closed soon.

        Models with the same values have no differences, so they are not compared.
        """
        numbers = defaultdict[bytes, int](count().__next__)
        content = np.array([numbers[column.tobytes()] for column in block.T])
        differs = content != content[:, None]
        start, end = 0, _AT_FIRST
        while start < len(block):
            values = block[start:end]
            has_answers = np.asarray(~np.isnan(values).all(axis=0))
            is_open = differs & (self._is_uniform() | (self._changed < _MANY))
            open_pairs = np.triu(is_open & has_answers & has_answers[:, None], 1)
            if open_pairs.any():
                self._compare(_halves(values.T), open_pairs)
            start, end = end, 2 * end

    def _compare(self, rows: Array, open_pairs: Bools) -> None:
        """Compare the values of models, some questions of each."""
        for first in np.flatnonzero(open_pairs.any(axis=1)):
            others = np.flatnonzero(open_pairs[first])
            sizes = rows[others]
            sizes -= rows[first]  # NaN if one of both has no answer
            np.abs(sizes, out=sizes)
            largest = np.fmax.reduce(sizes, axis=1, initial=0.0)
            differs = sizes > 0
            np.copyto(sizes, np.inf, where=~differs)
            at = first, others
            self._changed[at] += np.count_nonzero(differs, axis=1)
            self._largest[at] = np.maximum(self._largest[at], largest)
            self._smallest[at] = np.minimum(self._smallest[at], sizes.min(axis=1))

    def add_pairs(self, values: Array) -> None:
        """Add one difference of each pair, given the value of each row against each column."""
        sizes = np.abs(np.triu(values - values.T)) / 2
        differs = sizes > _SAME_SIZE * np.abs(values)
        self._changed += differs
        self._largest = np.maximum(self._largest, np.where(differs, sizes, 0.0))
        self._smallest = np.minimum(self._smallest, np.where(differs, sizes, np.inf))

    def _is_uniform(self) -> Bools:
        """Whether all differences have the same size.

        Also if there are none: then the smallest one is infinite.
        """
        return self._largest - self._smallest <= _SAME_SIZE * self._largest

    def changes(self) -> tuple[Array, Bools]:
        """The number of differences, and whether they are uniform."""
        uniform = np.triu(self._is_uniform())
        return self._changed + self._changed.T, uniform | uniform.T


def _halves(values: Array) -> Array:
    """Half of each value, without its last bits."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, _BITS)), exponent - _BITS - 1))


def _by_cluster(values: Array, clusters: Array) -> tuple[Array, list[Array]]:
    """Add up the values of each cluster, given those of questions × models.

    Return the sums, and the values of clusters of which a model lacks some: those have no sums.
    """
    starts = np.flatnonzero(np.diff(clusters, prepend=-1))
    if len(starts) == len(values):
        return values, []
    sums = np.add.reduceat(values, starts)
    is_whole = ~np.isnan(sums).any(axis=1) | (np.diff(starts, append=len(values)) == 1)
    by_cluster = np.split(values, starts[1:])
    return sums[is_whole], [by_cluster[at] for at in np.flatnonzero(~is_whole)]


def pair_sums(blocks: Iterable[tuple[Array, Array]], models: int) -> PairSums:
    """Add up the differences of all pairs, from blocks of questions × models and their clusters.

    NaN is a question without an answer. All questions of a cluster are in one block, in a row.
    """
    # One long loop, because all sums have one scale, which grows with the scores of the blocks.
    clusters, firsts, squared, products = (np.zeros((models, models)) for _ in range(4))
    sizes = None  # once there are values other than 0 and 1, or clusters
    shift = None
    exponent = 0
    largest = 0.0
    questions = 0
    units = 0  # clusters of these
    for of_questions, numbers in blocks:
        block, partial = _by_cluster(of_questions, numbers)
        questions += len(of_questions)
        units += len(block) + len(partial)
        known = of_questions[~np.isnan(of_questions)]
        is_binary = len(block) == len(numbers) and ((known == 0) | (known == 1)).all()
        if sizes is None and not is_binary:
            sizes = _Sizes(squared + squared.T - 2 * products)
        if sizes is not None:
            sizes.add(block)
        largest = max(largest, float(np.abs(known).max(initial=0.0)))
        needed = frexp(largest)[1] if sizes else 0
        if needed != exponent:
            firsts = np.ldexp(firsts, exponent - needed)
            squared, products = (
                np.ldexp(sums, 2 * (exponent - needed)) for sums in (squared, products)
            )
            shift = None if shift is None else ldexp(shift, exponent - needed)
            exponent = needed
        answered = ~np.isnan(block)
        scaled = np.ldexp(block, -exponent)
        if shift is None:  # differences are the same, and lose fewer digits
            shift = float(scaled[answered].mean()) if sizes and answered.any() else 0.0
        values = np.where(answered, scaled - shift, 0.0)
        products += values.T @ values
        if answered.all():  # the sums over common questions are those over all
            clusters += len(block)
            firsts += values.sum(axis=0)[:, None]
            squared += (values**2).sum(axis=0)[:, None]
        else:
            there = answered.astype(np.float64)
            clusters += there.T @ there
            firsts += values.T @ there
            squared += (values**2).T @ there
        for of_cluster in partial:
            assert sizes
            there = (~np.isnan(of_cluster)).astype(np.float64)
            plain = np.nan_to_num(of_cluster)
            sizes.add_pairs(plain.T @ there)
            sums = np.ldexp(plain, -exponent).T @ there  # over what a pair has in common
            clusters += there.T @ there > 0
            firsts += sums
            squared += (sums - sums.T) ** 2 / 2
    squares = np.maximum(squared + squared.T - 2 * products, 0.0)
    changed, uniform = (
        sizes.changes() if sizes else (squares, np.ones_like(squares, dtype=np.bool_))
    )
    total = firsts - firsts.T
    size = questions / max(units, 1)
    return PairSums(clusters, changed, total, squares, uniform, exponent, size)


def significant(sums: PairSums, *, lower: bool) -> Bools:
    """Whether the model of each row is better than that of each column, adjusted for all pairs."""
    pairs = np.triu_indices(len(sums.clusters), 1)
    listed = sums.at(pairs)
    is_likely = (listed.evidence() >= _LEAST_EVIDENCE) & (listed.changed >= _LEAST_CHANGED)
    likely = np.flatnonzero(is_likely)  # of the others, p > 0.05
    gains = -listed.total if lower else listed.total
    enough = ALPHA / max(len(gains), 1)  # for Holm's method, whatever the other p-values are
    return _better(pairs, likely, listed.at(likely).p_values(enough), gains, len(sums.clusters))


class MeanTest:
    """The same for a weighted mean over evaluations: a t-test of independent parts (Welch).

    Evaluations are added one by one, so that the sums of only one of them are in memory. As in
    `p_values`, p is at least 2^(1-k), where k questions of all evaluations have different values.
    """

    def __init__(self, models: int) -> None:
        self._models = models
        self._pairs = np.triu_indices(models, 1)
        self._mean, self._variance, self._squared, self._changed = np.zeros(
            (4, len(self._pairs[0]))
        )

    def add(self, sums: PairSums, weight: float) -> None:
        """Add an evaluation with its share in the mean; its values are from 0 to 1."""
        weight *= 2.0**sums.exponent / sums.size  # a mean over questions, not over clusters
        pairs = sums.at(self._pairs)
        n = pairs.clusters
        with np.errstate(all="ignore"):
            spread = np.maximum(pairs.squares - pairs.total**2 / n, 0.0)
            is_real = spread > _ROUNDING * pairs.squares
            part = weight**2 * np.where(is_real, spread, 0.0) / (n * (n - 1))
            self._mean += weight * pairs.total / n
            self._variance += part
            self._squared += part**2 / (n - 1)
            self._changed += pairs.changed

    def significant(self) -> Bools:
        mean = self._mean
        variance = self._variance
        with np.errstate(all="ignore"):
            t_squared = np.nan_to_num(mean**2 / variance, posinf=np.inf)
            degrees = np.where(variance > 0, variance**2 / self._squared, 1.0)
        # Without two common questions, the variance is NaN, so t is 0, and nothing is significant.
        likely = np.flatnonzero(t_squared >= _LEAST_T_SQUARED)
        p_values = np.maximum(
            t_p_values(t_squared[likely], degrees[likely], ALPHA / max(len(mean), 1)),
            2.0 ** (1 - self._changed[likely]),
        )
        return _better(self._pairs, likely, p_values, mean, self._models)


def _better(
    pairs: tuple[Any, Any], likely: Any, p_values: Array, gains: Array, models: int
) -> Bools:
    """Whether a model is better than another, given the p-values that are not above 5 %."""
    places = likely[holm(p_values, tests=len(pairs[0]), alpha=ALPHA)]
    first = pairs[0][places]
    second = pairs[1][places]
    is_gain = gains[places] > 0
    better = np.zeros((models, models), dtype=np.bool_)
    better[np.where(is_gain, first, second), np.where(is_gain, second, first)] = True
    return better


def rank_ranges(better: Bools) -> list[tuple[int, int]]:
    """The best and the worst rank of each model."""
    best = 1 + better.sum(axis=0)
    worst = len(better) - better.sum(axis=1)
    return list(zip(best.tolist(), worst.tolist(), strict=True))


def count_wins(values: Array) -> Array:
    """How many other models each one is ahead of, in each row; a tie counts as half.

    A model without a value counts as a tie for the others; its own number is NaN.
    """
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    last = values.shape[1] - 1 - _first_equal(ordered[:, ::-1])[:, ::-1]
    wins = np.empty_like(values)
    np.put_along_axis(wins, order, (_first_equal(ordered) + last) / 2, axis=1)
    is_absent = np.isnan(values)
    wins += is_absent.sum(axis=1, keepdims=True) / 2
    wins[is_absent] = np.nan
    return wins


def _first_equal(ordered: Array) -> Any:
    """The place of the first value of a row that equals the one at each place."""
    places = np.broadcast_to(np.arange(ordered.shape[1]), ordered.shape).copy()
    places[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0
    return np.maximum.accumulate(places, axis=1)
