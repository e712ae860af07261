"""Item analysis: which questions of an evaluation tell models apart, and how well all of them do.

Scores are an array of models × questions; NaN where a model has no answer. A question is an item of
a test, and a model is a person who takes it.

A key is suspected to be wrong if strong models fail where weak ones succeed: the scores of the
question correlate negatively with those of all other questions. Two tests have to agree:

1. Chance. The p-value is the share of random assignments of its scores to the models that correlate
   as negatively. Where the t-test of a correlation finds nothing, and beyond what 20,000
   permutations can tell, the p-value of the t-test stands for it.
2. The other questions. Most questions are good, and correlate alike. The median and the quartiles
   of all correlations (after Fisher's transformation) tell how much they vary, at least as much as
   chance alone would make them; the p-value of an outlier is that of a normal distribution. It is
   adjusted for the number of questions by the method of Benjamini and Hochberg. Fewer than 30
   questions cannot tell what is usual: then the p-values of the first test are adjusted instead.

The second test finds many more wrong keys than the first would, adjusted for all questions; the
first keeps questions that merely tell little from being suspected.
"""

from functools import lru_cache
from math import ceil, erfc, inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from fastrec.statistics.adjust import benjamini_hochberg
from fastrec.statistics.p_values import Array, incomplete_beta, t_p_values

FEWEST_MODELS = 8  # that item analysis needs
FEWEST_QUESTIONS = 30  # that tell which correlations are usual
_DRAWS = 20_000  # permutations
_SUSPECT = 0.1  # permutations decide about p-values below this
_CELLS = 4_000_000  # of an array of permutations
_LARGEST = 0.999  # correlation that is transformed
_QUARTILES = 1.3489795003921634  # the distance of the quartiles of a normal distribution
_TARGET = 0.9  # the reliability that `needed` questions have
_TAIL = 0.025
_STEPS = 60  # of a bisection, which reaches the precision of doubles

Indices = np.ndarray[Any, np.dtype[np.int64]]


class Reliability(NamedTuple):
    """How well the questions of an evaluation tell its models apart, over complete answers."""

    reliability: float  # Cronbach's alpha; KR-20 if scores are 0 and 1
    reliability_low: float  # of the 95 % interval
    reliability_high: float
    standard_error: float  # of measurement: of the mean score of a model
    questions_needed: int | None  # for a reliability of 0.9; None if no number is enough


def rest_means(scores: Array) -> Array:
    """For each model and question, the mean of the other questions; NaN without any."""
    known = ~np.isnan(scores)
    values = np.where(known, scores, 0.0)
    counts = known.sum(axis=1, keepdims=True) - known
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((values.sum(axis=1, keepdims=True) - values) / counts)


def discriminations(scores: Array) -> Array:
    """The correlation of each question with the mean of the other questions, over models.

    NaN if all scores of the question, or all means, are the same.
    """
    rest = rest_means(scores)
    known = ~np.isnan(scores) & ~np.isnan(rest)
    counts = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = (
            np.where(known, values - np.where(known, values, 0.0).sum(axis=0) / counts, 0.0)
            for values in (scores - np.fmax.reduce(scores), rest)  # equal scores become 0
        )
        spread = np.sqrt((x**2).sum(axis=0) * (y**2).sum(axis=0))
        correlations = np.where(spread > 0, (x * y).sum(axis=0) / spread, np.nan)
    return np.clip(correlations, -1.0, 1.0)


def wrong_key_p_values(scores: Array, seed: int = 0) -> Array:
    """For each question, the larger p-value of both tests; the key is suspected if it is small.

    NaN if all scores are the same, or too few models answered.
    """
    correlations = discriminations(scores)
    by_chance = permutation_p_values(scores, correlations, seed)
    known = ~np.isnan(by_chance)
    p_values = by_chance.copy()
    others = by_chance[known]
    if len(others) >= FEWEST_QUESTIONS:
        others = _outlier_p_values(correlations[known], (~np.isnan(scores)).sum(axis=0)[known])
    p_values[known] = np.maximum(by_chance[known], benjamini_hochberg(others.tolist()))
    return p_values


def _outlier_p_values(correlations: Array, counts: Indices) -> Array:
    """How probable correlations as low as these are among correlations like all of these."""
    transformed = np.arctanh(np.clip(correlations, -_LARGEST, _LARGEST))
    low, middle, high = np.quantile(transformed, (0.25, 0.5, 0.75))
    by_chance = 1 / np.sqrt(np.maximum(counts - 3, 1))
    spread = np.maximum((high - low) / _QUARTILES, by_chance)
    deviations = (transformed - middle) / spread
    return np.array([erfc(-value / sqrt(2)) / 2 for value in deviations.tolist()])


def permutation_p_values(scores: Array, correlations: Array, seed: int = 0) -> Array:
    """For each question, how probable so negative a correlation is if its scores tell nothing."""
    rest = rest_means(scores)
    known = ~np.isnan(scores) & ~np.isnan(rest)
    counts = known.sum(axis=0)
    p_values = np.full(scores.shape[1], np.nan)
    judged = ~np.isnan(correlations) & (counts >= FEWEST_MODELS)
    p_values[judged] = _correlation_p_values(correlations[judged], counts[judged])
    for question in np.flatnonzero(judged & (p_values < _SUSPECT)).tolist():
        random = np.random.default_rng([1, seed, question])
        own = scores[known[:, question], question]
        others = rest[known[:, question], question]
        hits = _count_as_low(own - own.mean(), others - others.mean(), random)
        share = (hits + 1) / (_DRAWS + 1)
        p_values[question] = share if hits else min(p_values[question], share)
    return p_values


def _correlation_p_values(correlations: Array, counts: Indices) -> Array:
    """The p-values of correlations below 0, by Student's t."""
    degrees = (counts - 2).astype(np.float64)
    with np.errstate(divide="ignore"):
        t_squared = correlations**2 * degrees / (1 - correlations**2)
    tail = t_p_values(t_squared, degrees) / 2
    return np.where(correlations < 0, tail, 1 - tail)


def _count_as_low(own: Array, others: Array, random: "np.random.Generator") -> int:
    """Of random permutations, count those whose product is at most the observed one."""
    rounding = 1e-12 * float(np.abs(own) @ np.abs(others))
    limit = float(own @ others) + rounding
    hits = 0
    step = max(_CELLS // len(own), 1)
    for start in range(0, _DRAWS, step):
        size = min(step, _DRAWS - start)
        shuffled = random.permuted(np.tile(own, (size, 1)), axis=1)
        hits += int((shuffled @ others <= limit).sum())
    return hits


def reliability(scores: Array) -> Reliability | None:
    """Cronbach's alpha of questions that all models answered; None if it is undefined.

    The interval is Feldt's: (1 - α) / (1 - alpha) has the F distribution.
    """
    complete = scores[:, ~np.isnan(scores).any(axis=0)]
    models, questions = complete.shape
    if models < 2 or questions < 2:
        return None
    totals = complete.sum(axis=1)
    variance = float(totals.var(ddof=1))
    if variance <= 0:
        return None
    own = float(complete.var(axis=0, ddof=1).sum())
    alpha = questions / (questions - 1) * (1 - own / variance)
    degrees = (models - 1, (models - 1) * (questions - 1))
    low = 1 - (1 - alpha) * f_quantile(1 - _TAIL, *degrees)
    high = 1 - (1 - alpha) * f_quantile(_TAIL, *degrees)
    error = sqrt(variance * max(1 - alpha, 0.0)) / questions
    needed = None
    if alpha > 0:
        factor = _TARGET * (1 - alpha) / (alpha * (1 - _TARGET))
        needed = max(ceil(factor * questions - 1e-9), 1)
    return Reliability(alpha, low, high, error, needed)


@lru_cache(maxsize=64)
def f_quantile(share: float, first: int, second: int) -> float:
    """The value below which this share of the F distribution lies."""
    low = 0.0
    high = 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        (below,) = incomplete_beta(*np.array([[middle], [first / 2], [second / 2]]))
        low, high = (middle, high) if below < share else (low, middle)
    return second * low / (first * (1 - low)) if low < 1 else inf
