"""Calibration: whether a stated confidence says how often answers are right.

Answers are put into ten bins of equal width by their confidence. A model is calibrated if in each
bin the share of right answers is the mean confidence. Each answer counts once.
"""

from collections.abc import Sequence
from math import fsum

from msgspec import Struct

from fastrec.statistics.intervals import OptionalNumber

_BINS = 10


class Bin(Struct):
    """Answers of similar confidence."""

    #: At least 1.
    answers: int
    #: Mean confidence.
    confidence: float
    #: The share of right answers.
    accuracy: float


class Calibration(Struct):
    """How well a model knows which of its answers are right, on one evaluation and metric."""

    #: The evaluation.
    evaluation_name: str
    #: The metric that says what is right.
    metric: str | None
    #: The model.
    model_id: str
    #: Answers with a confidence from 0 to 1.
    answers: int
    #: Other answers.
    left_out: int
    #: Mean confidence.
    confidence: OptionalNumber
    #: The share of right answers.
    accuracy: OptionalNumber
    #: The calibration error: the mean distance of both in a bin, weighted by its answers.
    ece: OptionalNumber
    #: The Brier score: the mean squared distance of the confidence from 1 for a right answer, else
    #: from 0.
    brier: OptionalNumber
    #: Answers of similar confidence: bins that have any.
    bins: list[Bin]


def calibrate(
    name: tuple[str, str | None, str], answers: Sequence[tuple[OptionalNumber, bool]]
) -> Calibration:
    """Compute the calibration of a model (evaluation, metric, model) from confidences and verdicts.

    >>> calibrate(("e", None, "m"), [(0.9, True), (0.9, True), (0.8, False), (None, True)]).ece
    0.3333333333333333
    """
    known = [(value, right) for value, right in answers if value is not None and 0 <= value <= 1]
    number = len(known)
    left_out = len(answers) - number
    if not known:
        return Calibration(*name, 0, left_out, None, None, None, None, bins=[])
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(_BINS)]
    for value, right in known:
        groups[min(int(value * _BINS), _BINS - 1)].append((value, right))
    bins = [Bin(len(group), *_means(group)) for group in groups if group]
    confidence, accuracy = _means(known)
    distances = [bin_.answers * abs(bin_.confidence - bin_.accuracy) for bin_ in bins]
    errors = [(value - right) ** 2 for value, right in known]
    return Calibration(
        *name,
        answers=number,
        left_out=left_out,
        confidence=confidence,
        accuracy=accuracy,
        ece=fsum(distances) / number,
        brier=fsum(errors) / number,
        bins=bins,
    )


def _means(answers: Sequence[tuple[float, bool]]) -> tuple[float, float]:
    confidence = fsum(value for value, _ in answers) / len(answers)
    accuracy = sum(right for _, right in answers) / len(answers)
    return confidence, accuracy
