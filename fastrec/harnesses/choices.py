"""Multiple choice by log-likelihood: the rules that all harnesses share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import isnan

__all__ = ["contradicts", "index_of_greatest"]


def index_of_greatest(values: Sequence[float]) -> int:
    """Return the index of the greatest value, as numpy's argmax does: NaN is the greatest, and the first one wins.

    >>> index_of_greatest([-2.0, -1.0, -1.0]), index_of_greatest([-1.0, float("nan")])
    (1, 1)
    """
    if any(map(isnan, values)):
        return next(index for index, value in enumerate(values) if isnan(value))
    return values.index(max(values))


def contradicts(score: float | None, pick: int, correct: Collection[int]) -> bool:
    """Return whether an accuracy says that another choice was picked: it is 1 if the pick is correct, and else 0."""
    return bool(correct) and score in (0, 1) and (score == 1) != (pick in correct)
