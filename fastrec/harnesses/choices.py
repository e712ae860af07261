"""Multiple choice by log-likelihood: which choice a metric picks.

The model says nothing: it gives each choice a log-likelihood, and each metric picks by a rule of
its own.

    rule         picks the choice with the greatest
    none         log-likelihood
    characters   log-likelihood divided by the number of its characters
    no_space     the same, without a first space
    delimited    the same, without the delimiter of the task
    bytes        the same in bytes of UTF-8, without the delimiter
    tokens       log-likelihood divided by the number of its tokens
    pmi          log-likelihood minus that without the question

If the score contradicts the pick, the task has a rule that the log does not tell: then the pick is
unknown.
"""

from collections.abc import Sequence
from math import inf, isnan
from typing import Literal

from msgspec import Struct

from fastrec.harnesses.values import OptionalInt, OptionalNumber

Rule = Literal["none", "characters", "no_space", "delimited", "bytes", "tokens", "pmi"]


class Choices(Struct, gc=False):
    """The choices of a question, and how likely the model finds each."""

    texts: list[str]
    likelihoods: Sequence[float]
    correct: Sequence[int] = ()
    unconditional: Sequence[float] = ()  # log-likelihoods without the question; mostly none
    tokens: Sequence[int] = ()
    # The texts as sent to the model, after the delimiter: `delimited` and `bytes` divide by their
    # length.
    sent: Sequence[str] = ()
    delimiter: str = ""

    def pick(
        self, rules: Sequence[Rule], score: OptionalNumber, *, is_accuracy: bool
    ) -> OptionalInt:
        """Pick by the first of these rules that the score does not contradict.

        None if there is none.

        An accuracy is 1 if the pick is correct, and else 0. Any other score contradicts nothing.
        """
        is_verdict = is_accuracy and self.correct and score in (0, 1)
        for rule in rules:
            best = self.best(rule)
            if best is not None and not (is_verdict and (score == 1) != (best in self.correct)):
                return best
        return None

    def best(self, rule: Rule) -> OptionalInt:
        """The index of the choice with the greatest value.

        None if the log lacks what the rule needs.
        """
        values = self.likelihoods
        if not values or len(values) != len(self.texts):
            return None
        if rule == "none":
            return index_of_greatest(values)
        sizes = self._sizes(rule)
        if len(sizes) != len(values):
            return None
        pairs = zip(values, sizes, strict=True)
        if rule == "pmi":
            return index_of_greatest([value - size for value, size in pairs])
        # lm-eval divides with numpy, also by zero
        if rule not in ("delimited", "bytes") and not all(sizes):
            return None
        return index_of_greatest([value / size if size else -inf for value, size in pairs])

    def _sizes(self, rule: Rule) -> Sequence[float]:
        """What the log-likelihoods are divided by, or reduced by (`pmi`)."""
        match rule:
            case "pmi":
                return self.unconditional
            case "tokens":
                return self.tokens
            case "delimited":
                return [len(text.removeprefix(self.delimiter)) for text in self.sent]
            case "bytes":
                return [len(text.removeprefix(self.delimiter).encode()) for text in self.sent]
        return [len(text.removeprefix(" ") if rule == "no_space" else text) for text in self.texts]


def index_of_greatest(values: Sequence[float]) -> int:
    """The index of the first greatest value, as numpy's argmax finds it: NaN is the greatest.

    >>> index_of_greatest([-2.0, -1.0, -1.0]), index_of_greatest([-1.0, float("nan")])
    (1, 1)
    """
    if any(map(isnan, values)):  # a key for `max` would take twice as long
        return next(index for index, value in enumerate(values) if isnan(value))
    return values.index(max(values))
