"""Scores of a grader, corrected by a few labels of people (prediction-powered inference).

The grader judges all answers, people a random sample of them. The estimate is the mean of the
grader over all answers, plus the mean difference between people and grader on the labelled ones. It
is unbiased whatever the grader does, and its interval is narrow if the grader is good.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from fastrec.statistics.intervals import Z
from fastrec.statistics.p_values import Array

FEWEST_LABELS: Final = 2  # of which a spread can be computed


class Corrected(NamedTuple):
    """A mean score by people, estimated from all graded answers and some labels."""

    raw: float  # the mean of the grader
    mean: float
    low: float  # of the 95 % interval
    high: float
    labels: int
    to_halve: int | None  # labels for an interval of half the width; None if no number is enough


def correct_mean(graded: Array, labelled: Array, labels: Array) -> Corrected | None:
    """Correct the mean of a grader over all answers.

    Args:
        graded: The grader's scores of all answers.
        labelled: Those of the labelled answers.
        labels: What people gave these answers.

    Returns:
        None with fewer than two labels.
    """
    if len(labels) < FEWEST_LABELS:
        return None
    differences = labels - labelled
    raw = float(graded.mean())
    mean = raw + float(differences.mean())
    of_grader = float(graded.var(ddof=1)) / len(graded) if len(graded) > 1 else 0.0
    spread = float(differences.var(ddof=1))
    half = Z * math.sqrt(of_grader + spread / len(labels))
    # Half of the width is a quarter of the variance, of which that of the grader stays.
    wanted = (half / Z) ** 2 / 4 - of_grader
    to_halve = math.ceil(spread / wanted) if wanted > 0 and spread > 0 else None
    return Corrected(raw, mean, mean - half, mean + half, len(labels), to_halve)
