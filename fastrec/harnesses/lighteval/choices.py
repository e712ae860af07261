"""Multiple choice: which choice a metric picks, by the log-probabilities of all choices.

normalization    a choice's value
none             its log-probability
characters       divided by the number of its characters
no_space         the same, without a first space
tokens           divided by the number of its tokens
pmi              minus its log-probability without the question
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

__all__ = ["Normalization", "Options", "normalization_of", "pick"]

Normalization = Literal["none", "characters", "no_space", "tokens", "pmi"]

_BY_NAME: Final[tuple[tuple[str, tuple[Normalization, ...]], ...]] = (
    ("norm_token", ("tokens",)),
    ("norm_pmi", ("pmi",)),
    ("norm", ("characters", "no_space")),
)
"""Metrics with such names, like `acc_norm`, normalize this way; the second way is that of some tasks only."""


class Options(msgspec.Struct, gc=False):
    """The choices of a question, and what the model makes of them."""

    texts: Sequence[str]
    logprobs: Sequence[float]
    correct: Sequence[int] = ()
    unconditioned: Sequence[float] = ()
    tokens: Sequence[int] = ()
    """The number of tokens of each choice."""


def normalization_of(function: str) -> Normalization | None:
    """Return how a metric normalizes, by the description of its function; None if that does not say it.

    >>> normalization_of("LoglikelihoodAcc(logprob_normalization=None)")
    'none'
    >>> normalization_of("LoglikelihoodAcc(logprob_normalization=LogProbCharNorm(ignore_first_space=True))")
    'no_space'
    """
    if "CharNorm" in function:
        return "no_space" if "ignore_first_space=True" in function else "characters"
    if "TokenNorm" in function:
        return "tokens"
    if "PMINorm" in function:
        return "pmi"
    return "none" if "normalization=None" in function else None


def pick(options: Options, metric: str, rule: Normalization | None, score: float | None) -> int | None:
    """Return the index of the choice that a metric picks; None if that cannot be known.

    `rule` is what the log says about the metric. If it says nothing, the metric's name does; of two ways to normalize
    that have the same name, it is the one that the score agrees with. An accuracy is 1 if the pick is correct and else
    0: if that contradicts the score, the metric has a rule that the log does not tell.
    """
    rules: tuple[Normalization, ...] = ("none",) if rule is None else (rule,)
    if rule is None:
        rules = next((rules for end, rules in _BY_NAME if metric.endswith(end)), rules)
    is_told = metric.startswith("acc") and score in (0, 1) and bool(options.correct)
    for one in rules:
        best = _best(options, one)
        if best is not None and (not is_told or (best in options.correct) == (score == 1)):
            return best
    return None


def _best(options: Options, rule: Normalization) -> int | None:
    """Return the index of the first choice with the greatest value; a value that is no number wins, as in numpy."""
    logprobs = options.logprobs
    count = len(logprobs)
    if not count or count != len(options.texts):
        return None
    if rule == "none":
        values = list(logprobs)
    elif rule == "pmi":
        if len(options.unconditioned) != count:
            return None
        values = [value - base for value, base in zip(logprobs, options.unconditioned, strict=True)]
    else:
        sizes = options.tokens if rule == "tokens" else [_size(text, rule) for text in options.texts]
        if len(sizes) != count or not all(sizes):
            return None
        values = [value / size for value, size in zip(logprobs, sizes, strict=True)]
    for index, value in enumerate(values):
        if math.isnan(value):
            return index
    return values.index(max(values))


def _size(text: str, rule: Normalization) -> int:
    return len(text) - (rule == "no_space" and text.startswith(" "))
