"""Scores of a grader, corrected by a few labels of people (prediction-powered inference).

The grader judges all answers, people a random sample of them. The estimate is the mean of the
grader over all answers, plus the mean difference between people and grader on the labelled ones. It
is unbiased whatever the grader does, and its interval is narrow if the grader is good.
"""

from math import ceil, sqrt
from typing import NamedTuple

import numpy as np

from fastrec.statistics.intervals import OptionalNumber, Z
from fastrec.statistics.p_values import Array

FEWEST_LABELS = 2  # of which a spread can be computed


class Corrected(NamedTuple):
    """A mean score by people, estimated from all graded answers and some labels.

    None with too few labels.
    """

    corrected: OptionalNumber = None
    low: OptionalNumber = None  # of the 95 % interval
    high: OptionalNumber = None
    to_halve: int | None = None  # labels for half the width; None also if no number is enough


def correct_mean(graded: Array, differences: Array, known: Array) -> Corrected:
    """Correct the mean of a grader over all answers.

    The interval assumes one disagreement more than the labels show. Without it, a few labels that
    all agree with the grader would prove that it is always right.

    Args:
        graded: The grader's scores of all answers.
        differences: What people gave the labelled answers, minus what the grader gave them.
        known: Scores of all models by the grader, and by people, which tell the range.
    """
    labels = len(differences)
    if labels < FEWEST_LABELS:
        return Corrected()
    correction = float(differences.mean())
    mean = float(graded.mean()) + correction
    of_grader = float(graded.var(ddof=1)) / len(graded) if len(graded) > 1 else 0.0
    # A disagreement has at most the size of the range of scores, which is from 0 to 1 for most.
    size = float(known.max(initial=1.0) - known.min(initial=0.0))
    spread = (float(((differences - correction) ** 2).sum()) + size**2) / labels
    half = Z * sqrt(of_grader + spread / labels)
    # Half of the width is a quarter of the variance, of which that of the grader stays.
    wanted = (half / Z) ** 2 / 4 - of_grader
    to_halve = ceil(spread / wanted) if wanted > 0 else None
    bounds = (0.0, 1.0) if size == 1 else (None, None)
    corrected, low, high = np.clip([mean, mean - half, mean + half], *bounds).tolist()
    return Corrected(corrected, low, high, to_halve)
