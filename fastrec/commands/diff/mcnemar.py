"""The exact McNemar test, in integers: are flips one way more than chance would give?

Of n samples that flipped, each was as likely to flip one way as the other if nothing really changed. So the number of
flips one way is binomial with one half, and the p-value is twice the tail up to the smaller of both counts, at most 1:

    p = 2 · (C(n, 0) + C(n, 1) + … + C(n, min)) / 2ⁿ
"""

from __future__ import annotations

from math import prod
from typing import Final

__all__ = ["mcnemar"]

_BITS: Final = 512  # of a number that are kept, where a double shows 53
_NEGLIGIBLE: Final = 80  # bits below the sum at which terms stop to matter
_AT_ONCE: Final = 64  # factors; about as many bits as are kept


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
    # From the largest term down. Each is at most the one before, so what is left is at most `rank` times the last.
    for rank in range(fewer, 0, -1):
        term = term * rank // (flips - rank + 1)
        tail += term
        if term * rank < tail >> _NEGLIGIBLE:
            break
    return min(1.0, 2 * tail / (1 << flips - dropped))  # integers divide exactly and round once


def _binomial(number: int, rank: int) -> tuple[int, int]:
    """Return the first bits of C(number, rank), and how many follow: all of them would take seconds for a million."""
    above, dropped = _product(range(number - rank + 1, number + 1))
    below, dropped_below = _product(range(1, rank + 1))
    return (above << _BITS) // below, dropped - dropped_below - _BITS


def _product(factors: range) -> tuple[int, int]:
    """Return the first bits of a product, and how many follow."""
    product, dropped = 1, 0
    for start in range(0, len(factors), _AT_ONCE):
        product *= prod(factors[start : start + _AT_ONCE])
        surplus = max(product.bit_length() - _BITS, 0)
        product >>= surplus
        dropped += surplus
    return product, dropped
