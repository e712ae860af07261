"""A few questions that stand for all of them: chosen on some models, judged on others.

Questions are sorted by their mean score and cut into as many ranges as questions are wanted. One
question of each range is chosen: the one with which the means of all models stay closest to those
over all questions. Whether this works is judged on models that the choice has not seen.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from fastrec.statistics.items import Indices
from fastrec.statistics.p_values import Array

SPLITS = 20  # of models into those that choose and those that judge


class SubsetFidelity(Struct):
    """How well a subset stands for all questions, on models that did not choose it, over splits."""

    #: Spearman's, of the models by subset and by all questions: the mean.
    rank_correlation: float
    #: Standard deviation.
    rank_correlation_spread: float
    #: The root mean square of differences of means over the subset and over all questions: the
    #: mean.
    error: float
    #: Standard deviation.
    error_spread: float


def choose_subset(scores: Array, size: int, seed: int) -> Indices:
    """Choose questions by the scores of models × questions, without gaps; the same for a seed."""
    random = np.random.default_rng([2, seed])
    questions = scores.shape[1]
    # Questions of equal difficulty come in random order: the order of the file means nothing.
    order = np.lexsort((random.permutation(questions), scores.mean(axis=0)))
    ranges = np.array_split(order, size)
    deviation = np.zeros(
        len(scores)
    )  # of each model: chosen scores minus the means of their ranges
    chosen = []
    for number in random.permutation(size).tolist():
        candidates = scores[:, ranges[number]]
        deviations = candidates - candidates.mean(axis=1, keepdims=True) + deviation[:, None]
        best = int((deviations**2).sum(axis=0).argmin())
        deviation = deviations[:, best]
        chosen.append(ranges[number][best])
    return np.sort(np.array(chosen, dtype=np.int64))


def judge_subsets(scores: Array, size: int, seed: int) -> tuple[SubsetFidelity, SubsetFidelity]:
    """Judge chosen subsets of this size, and random ones beside them, on models left out."""
    random = np.random.default_rng([3, seed])
    models, questions = scores.shape
    splits = [random.permutation(models) for _ in range(SPLITS)]

    def by_choice(split: int, half: Indices) -> Indices:
        return choose_subset(scores[half], size, seed + split)

    def by_chance(_split: int, _half: Indices) -> Indices:
        return random.permutation(questions)[:size]

    return _fidelity(scores, splits, by_choice), _fidelity(scores, splits, by_chance)


def _fidelity(
    scores: Array, splits: list[Indices], choose: Callable[[int, Indices], Indices]
) -> SubsetFidelity:
    correlations = []
    errors = []
    for number, split in enumerate(splits):
        half = len(split) // 2
        subset = choose(number, split[:half])
        left_out = scores[split[half:]]
        whole = left_out.mean(axis=1)
        means = left_out[:, subset].mean(axis=1)
        errors.append(float(np.sqrt(((means - whole) ** 2).mean())))
        correlations.append(rank_correlation(means, whole))
    spreads = [(np.mean(series), np.std(series, ddof=1)) for series in (correlations, errors)]
    return SubsetFidelity(*map(float, (*spreads[0], *spreads[1])))


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman's rank correlation; 0 if all values of one series are equal."""
    ranks = [_ranks(values) for values in (first, second)]
    x, y = (values - values.mean() for values in ranks)
    spread = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / spread if spread else 0.0


def _ranks(values: Array) -> Array:
    """Ranks from 1 on; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[places]
