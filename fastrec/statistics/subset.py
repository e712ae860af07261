"""A few questions that stand for all of them: chosen on some models, judged on others.

Questions are sorted by their mean score and cut into as many ranges as questions are wanted. One
question of each range is chosen: the one with which the means of all models stay closest to those
over all questions. Whether this works is judged on models that the choice has not seen.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from fastrec.statistics.items import Indices
from fastrec.statistics.p_values import Array
from fastrec.statistics.ranks import count_wins

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
    splits = [np.split(random.permutation(models), [models // 2]) for _ in range(SPLITS)]
    by_choice = [
        choose_subset(scores[half], size, seed + number) for number, (half, _) in enumerate(splits)
    ]
    by_chance = [random.permutation(questions)[:size] for _ in splits]
    left_out = [scores[half] for _, half in splits]
    return _fidelity(left_out, by_choice), _fidelity(left_out, by_chance)


def _fidelity(left_out: Sequence[Array], subsets: Sequence[Indices]) -> SubsetFidelity:
    """Compare subsets with all questions, each on scores of models × questions."""
    correlations = []
    errors = []
    for scores, subset in zip(left_out, subsets, strict=True):
        whole = scores.mean(axis=1)
        means = scores[:, subset].mean(axis=1)
        errors.append(np.sqrt(((means - whole) ** 2).mean()))
        correlations.append(rank_correlation(means, whole))
    return SubsetFidelity(
        rank_correlation=float(np.mean(correlations)),
        rank_correlation_spread=float(np.std(correlations, ddof=1)),
        error=float(np.mean(errors)),
        error_spread=float(np.std(errors, ddof=1)),
    )


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman's rank correlation; 0 if all values of one series are equal."""
    ranks = count_wins(np.array([first, second]))
    x, y = ranks - ranks.mean(axis=1, keepdims=True)
    spread = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / spread if spread else 0.0
