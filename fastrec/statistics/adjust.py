"""Many tests at once: which of their p-values are more than chance.

There is one method per purpose, because a wrong finding costs something different:

- A list of findings (`compare`, `diff`, `trend`): readers look at each row. The method of Benjamini
  and Hochberg bounds the expected share of chance among the rows that are marked. If nothing
  differs at all, the chance of marking any row is at most 5 %, too; so a gate that fails at the
  first marked row fails by chance that rarely.
- Ranks (`stats`, `leaderboard`, `report`, `view`): a rank range is one statement made of all pairs,
  and one wrong pair makes it wrong. Holm's method bounds the chance of any wrong pair, whatever the
  pairs have to do with each other.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from fastrec.statistics.p_values import Array


def benjamini_hochberg(values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number; the order stays.

    Of those whose adjusted p is below 0.05, at most 5 % are expected to be chance.

    >>> benjamini_hochberg([0.01, 0.5, 0.03, 0.02])
    [0.04, 0.5, 0.04, 0.04]
    """
    number = len(values)
    adjusted = [1.0] * number
    ascending = sorted(range(number), key=values.__getitem__)
    least = 1.0
    for rank in range(number, 0, -1):
        at = ascending[rank - 1]
        least = min(least, values[at] * number / rank)
        adjusted[at] = least
    return adjusted


class Tested(Protocol):
    """A result with a p-value; None if nothing was tested."""

    p: float | None
    p_adjusted: float | None


_Tested = TypeVar("_Tested", bound=Tested)


def adjust_p_values(results: Iterable[_Tested]) -> list[_Tested]:
    """Set the adjusted p-values of all results that have a p-value, and return these."""
    tested = [result for result in results if result.p is not None]
    p_values = benjamini_hochberg([result.p or 0.0 for result in tested])
    for result, adjusted in zip(tested, p_values, strict=True):
        result.p_adjusted = adjusted
    return tested


def holm(values: Array, *, tests: int, alpha: float) -> np.ndarray[Any, Any]:
    """The places of the p-values that are significant by Holm's method, the smallest first.

    `values` may lack those of some of the `tests`, if these are above alpha.

    >>> holm(np.array([0.04, 0.001, 0.02]), tests=3, alpha=0.05).tolist()
    [1, 2, 0]
    >>> holm(np.array([0.04, 0.001, 0.03]), tests=3, alpha=0.05).tolist()
    [1]
    """
    ascending = np.argsort(values)
    is_above = values[ascending] > alpha / (tests - np.arange(len(values)))
    return ascending[~np.logical_or.accumulate(is_above)]
