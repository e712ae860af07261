"""The exact McNemar test in integer arithmetic: are the flips more one-sided than chance explains?

If nothing really changed, each of n flipped answers is as likely to flip one way as the other. So the number of flips
one way is binomial with probability one half, and the p-value is twice the tail up to the smaller count, at most 1:

    p = 2 · (C(n, 0) + C(n, 1) + … + C(n, min)) / 2ⁿ
"""

from __future__ import annotations

from math import prod
from typing import Final

__all__ = ["mcnemar"]

_BITS: Final = 512  # precision of intermediate numbers; a double has 53
_NEGLIGIBLE: Final = 80  # terms this many bits below the sum are ignored
_AT_ONCE: Final = 64  # factors to multiply before rounding


def mcnemar(one_way: int, other_way: int) -> float:
    """Return the two-sided exact p-value.

    >>> mcnemar(0, 0), mcnemar(5, 5), mcnemar(0, 5), mcnemar(10, 2)
    (1.0, 1.0, 0.0625, 0.03857421875)
    """
    if one_way == other_way:
        return 1.0
    flips, fewer = one_way + other_way, min(one_way, other_way)
    term, dropped = _binomial(flips, fewer)
    tail = term
    # Terms shrink from the first to the last, so the remaining ones sum up to at most `rank` times the current one.
    for rank in range(fewer, 0, -1):
        term = term * rank // (flips - rank + 1)
        tail += term
        if term * rank < tail >> _NEGLIGIBLE:
            break
    return min(1.0, 2 * tail / (1 << flips - dropped))  # Python divides integers exactly and rounds once


def _binomial(number: int, rank: int) -> tuple[int, int]:
    """Return the leading bits of C(number, rank), and how many follow: all bits would take seconds for a million."""
    above, dropped = _product(range(number - rank + 1, number + 1))
    below, dropped_below = _product(range(1, rank + 1))
    return (above << _BITS) // below, dropped - dropped_below - _BITS


def _product(factors: range) -> tuple[int, int]:
    """Return the leading bits of a product, and how many follow."""
    product, dropped = 1, 0
    for start in range(0, len(factors), _AT_ONCE):
        product *= prod(factors[start : start + _AT_ONCE])
        surplus = max(product.bit_length() - _BITS, 0)
        product >>= surplus
        dropped += surplus
    return product, dropped
