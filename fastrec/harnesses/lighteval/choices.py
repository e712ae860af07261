"""Multiple choice: which choice a metric picks, by the log-likelihoods of all choices.

normalization    a choice's value
none             its log-likelihood
characters       divided by the number of its characters
no_space         the same, without a first space
tokens           divided by the number of its tokens
pmi              minus its log-likelihood without the question
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from fastrec.harnesses.choices import contradicts, index_of_greatest

__all__ = ["Choices", "Normalization", "normalization_of", "pick"]

Normalization = Literal["none", "characters", "no_space", "tokens", "pmi"]

_BY_NAME: Final[tuple[tuple[str, tuple[Normalization, ...]], ...]] = (
    ("norm_token", ("tokens",)),
    ("norm_pmi", ("pmi",)),
    ("norm", ("characters", "no_space")),
)
"""Metrics with such names, like `acc_norm`, normalize this way; the second way is that of some tasks only."""


class Choices(msgspec.Struct, gc=False):
    """The choices of a question, and how likely the model finds each."""

    texts: Sequence[str]
    likelihoods: Sequence[float]
    correct: Sequence[int] = ()
    unconditional: Sequence[float] = ()
    """Log-likelihoods without the question; mostly none."""
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


def pick(choices: Choices, metric: str, rule: Normalization | None, score: float | None) -> int | None:
    """Return the index of the choice that a metric picks; None if that cannot be known.

    `rule` is what the log says about the metric. If it says nothing, the metric's name does; of two ways to normalize
    that have the same name, it is the one that the score agrees with. If the score of an accuracy contradicts all of
    them, the metric has a rule that the log does not tell.
    """
    rules: tuple[Normalization, ...] = ("none",) if rule is None else (rule,)
    if rule is None:
        rules = next((rules for end, rules in _BY_NAME if metric.endswith(end)), rules)
    is_accuracy = metric.startswith("acc")
    for one in rules:
        best = _best(choices, one)
        if best is not None and not (is_accuracy and contradicts(score, best, choices.correct)):
            return best
    return None


def _best(choices: Choices, rule: Normalization) -> int | None:
    """Return the index of the choice with the greatest value; None if the log lacks what the rule needs."""
    likelihoods = choices.likelihoods
    count = len(likelihoods)
    if not count or count != len(choices.texts):
        return None
    if rule == "none":
        values = list(likelihoods)
    elif rule == "pmi":
        if len(choices.unconditional) != count:
            return None
        values = [value - base for value, base in zip(likelihoods, choices.unconditional, strict=True)]
    else:
        sizes = choices.tokens if rule == "tokens" else [_size(text, rule) for text in choices.texts]
        if len(sizes) != count or not all(sizes):
            return None
        values = [value / size for value, size in zip(likelihoods, sizes, strict=True)]
    return index_of_greatest(values)


def _size(text: str, rule: Normalization) -> int:
    return len(text) - (rule == "no_space" and text.startswith(" "))
