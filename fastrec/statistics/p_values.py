"""P-values of two series of values of the same questions, for many pairs of series at once.

A pair is an array of one.

If nothing really differs, each difference of a question is as likely to have one sign as the other.
So much is sure, and a sign-flip test (count all choices of signs) would use only this. It takes the
differences themselves, and far too long for all pairs of some hundred models. These tests take four
numbers per pair:

    questions   n, that both have a value for
    changed     k, whose values differ
    evidence    m = (sum of differences)² / sum of squared differences, from 0 to k; the square of z
    uniform     whether all differences have the same size, as those of verdicts have

1. Uniform differences: the exact McNemar test (also called sign test). It is the sign-flip test.
2. Others: the paired t-test over all n questions, but p is at least 2^(1-k), the least of any
   sign-flip test of k differences. The t-test assumes that differences are normal, which few
   changed questions cannot show: if 4 of 100 scores rise by nearly the same, it has p = 0.05, and
   the floor 0.125.

Both tests are two-sided, and do not depend on the unit of the values. Neither uses random numbers.
"""

from math import lgamma, log, pi
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

_CONVERGED = 1e-14
_MOST_TERMS = 100_000
_AT_ONCE = 10_000  # pairs
_FEW = 100  # values, whose logarithms take less time than sorting them
_ROUNDING = 1e-12
_LARGE = 1e200
_WHOLE = 1e10  # smaller binomial coefficients are exact


def paired_p_values(
    questions: Array, changed: Array, evidence: Array, uniform: Bools, enough: float = 0.0
) -> Array:
    """The p-values of pairs: exact McNemar test if differences are uniform, else t-test.

    A p-value that is surely at most `enough` may be replaced by an upper bound, which takes a
    hundredth of the time.
    """
    p_values = np.ones_like(evidence)
    excess = np.rint(np.sqrt(evidence[uniform] * changed[uniform]))
    p_values[uniform] = mcnemar_p_values(changed[uniform], excess, enough)
    other = ~uniform
    least = 2.0 ** (1 - changed[other])
    p_values[other] = np.maximum(
        paired_t_p_values(questions[other], evidence[other], enough), least
    )
    return p_values


def mcnemar_p_values(changed: Array, excess: Array, enough: float = 0.0) -> Array:
    """The p-values of the exact McNemar test: of n changed questions, |better - worse| in excess.

    If nothing really differs, the number of questions that changed one way is binomial with
    probability one half. With the smaller count k, p = 2 · (C(n, k) + … + C(n, 0)) / 2ⁿ, at most 1.
    With few questions p is exact; else it has 9 digits. The bound of a p-value that is at most
    `enough` is Hoeffding's.

    >>> mcnemar_p_values(np.array([0.0, 5.0, 12.0]), np.array([0.0, 5.0, 8.0])).tolist()
    [1.0, 0.0625, 0.03857421875]
    """
    with np.errstate(invalid="ignore"):
        p_values = 2 * np.exp(-(excess**2) / (2 * changed))
    exact = ~(p_values <= enough)
    changed = changed[exact]
    smaller = np.rint((changed - excess[exact]) / 2)
    larger = changed - smaller
    logarithm = _lgamma(changed + 1) - _lgamma(smaller + 1) - _lgamma(larger + 1)
    is_whole = logarithm < log(_WHOLE)
    term = np.where(is_whole, np.rint(np.exp(np.where(is_whole, logarithm, 0.0))), 1.0)
    unit = np.where(is_whole, 2.0 ** (1 - changed), 2 * np.exp(logarithm - changed * log(2)))
    total = term.copy()
    for step in range(int(smaller.max(initial=0))):
        term = term * np.maximum(smaller - step, 0) / (larger + step + 1)
        term = np.where(
            term > _CONVERGED * total, term, 0.0
        )  # so that p does not depend on other pairs
        if not term.any():
            break
        total += term
    p_values[exact] = np.minimum(unit * total, 1.0)
    return p_values


def paired_t_p_values(questions: Array, evidence: Array, enough: float = 0.0) -> Array:
    """The p-values of the paired t-test of n questions: t² = m (n - 1) / (n - m)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = questions - evidence
        t_squared = np.where(
            rest > _ROUNDING * questions, evidence * (questions - 1) / rest, np.inf
        )
    return t_p_values(t_squared, np.maximum(questions - 1, 1), enough)


def t_p_values(t_squared: Array, degrees: Array, enough: float = 0.0) -> Array:
    """The two-sided p-values of squares of Student's t.

    The bound of a p-value that is at most `enough` is that of I(x; a, 1/2) = ∫ u^(a-1) (1-u)^(-1/2)
    du / B(a, 1/2) from 0 to x, with 1-u replaced by 1-x, and a B(a, 1/2) by √(πa), which are
    smaller.
    """
    share = np.where(np.isinf(t_squared), 0.0, degrees / (degrees + np.minimum(t_squared, _LARGE)))
    half = degrees / 2
    with np.errstate(divide="ignore"):
        p_values = share**half / np.sqrt((1 - share) * pi * half)
    exact = p_values > enough
    p_values[exact] = incomplete_beta(share[exact], half[exact], np.full_like(half[exact], 0.5))
    return p_values


def incomplete_beta(x: Array, a: Array, b: Array) -> Array:
    """The regularized incomplete beta function I(x; a, b), by Lentz's continued fraction.

    It takes so many values at a time that they stay in the cache of the processor.
    """
    if len(x) > _AT_ONCE:
        pieces = [slice(start, start + _AT_ONCE) for start in range(0, len(x), _AT_ONCE)]
        return np.concatenate([incomplete_beta(x[at], a[at], b[at]) for at in pieces])
    mirrored = x > (a + 1) / (
        a + b + 2
    )  # the fraction converges fast on one side: I(x; a, b) = 1 - I(1-x; b, a)
    x = np.where(mirrored, 1 - x, x)
    a, b = np.where(mirrored, b, a), np.where(mirrored, a, b)
    with np.errstate(divide="ignore"):
        powers = a * np.log(x) + b * np.log1p(-x)
    front = np.exp(_lgamma(a + b) - _lgamma(a) - _lgamma(b) + powers)
    c = np.ones_like(x)
    d = 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        has_converged = np.ones_like(mirrored)
        for term in (even, odd):
            d = 1 / (1 + term * d)
            c = 1 + term / c
            is_small = np.abs(c * d - 1) <= _CONVERGED
            fraction = np.where(is_small, fraction, fraction * c * d)
            has_converged &= is_small
        if has_converged.all():
            break
    integral = front * fraction / a
    return np.where(mirrored, 1 - integral, integral)


def _lgamma(values: Array) -> Array:
    places = np.arange(len(values))
    if len(values) > _FEW:  # most numbers of questions repeat
        values, places = np.unique(values, return_inverse=True)
    return np.array(list(map(lgamma, values.tolist())))[places]
