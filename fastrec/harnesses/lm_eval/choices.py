"""Multiple choice: the choices of a sample, the correct ones, and the one that a metric picks.

The model says nothing: it gives each choice a log-likelihood, and each metric picks by a rule of its own.

    metric            picks the choice with the highest
    acc_norm          log-likelihood divided by the length of the choice in characters
    acc_bytes         log-likelihood divided by its length in bytes
    acc_mutual_info   log-likelihood minus that without the context
    acc, all others   log-likelihood

As numpy's argmax does, the first one wins if several are equal. If the score contradicts the pick, the task has a rule
that the log does not tell: then the pick is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

__all__ = ["Choices", "choices_of", "correct_choices", "likelihoods_in"]

MUTUAL_INFO: Final = "acc_mutual_info"
_PICKING: Final = frozenset({"acc", "acc_norm", "acc_bytes", MUTUAL_INFO})
"""Metrics that are 1 if the pick is correct, and else 0."""

_decode_list: Final = msgspec.json.Decoder(list[int]).decode


class Choices(msgspec.Struct, gc=False):
    """The choices of a sample, and how likely the model finds each."""

    texts: list[str]
    likelihoods: list[float]
    continuations: list[str]
    """As sent, without the delimiter: some metrics divide by their length."""
    unconditional: list[float]
    """Log-likelihoods without the context; mostly none."""

    def pick(self, metric: str) -> int:
        """Return the index of the choice that a metric picks."""
        values = self.likelihoods
        if metric == "acc_norm":
            values = _divide(values, [len(text) for text in self.continuations])
        elif metric == "acc_bytes":
            values = _divide(values, [len(text.encode()) for text in self.continuations])
        elif metric == MUTUAL_INFO and self.unconditional:
            values = [value - other for value, other in zip(values, self.unconditional, strict=True)]
        return _largest(values)

    def checked_pick(self, metric: str, value: float | None, correct: Sequence[int]) -> int | None:
        """Return the pick of a metric; None if its score says that it picked another one."""
        index = self.pick(metric)
        if metric in _PICKING and correct and (value in (0, 1)) and (index in correct) != (value == 1):
            return None
        return index


def _divide(values: Sequence[float], lengths: Sequence[int]) -> list[float]:
    return [value / length if length else float("-inf") for value, length in zip(values, lengths, strict=True)]


def _largest(values: Sequence[float]) -> int:
    largest = max(values)
    for index, value in enumerate(values):
        if value == largest or value != value:  # noqa: PLR0124 - NaN, which counts as the largest for numpy
            return index
    return 0


def likelihoods_in(filtered: Any, responses: Any, count: int) -> list[float] | None:
    """Return the log-likelihood of each request; None if these are no answers to such requests.

    Each answer is a log-likelihood and whether the model would have said just that, both mostly as text.
    """
    try:
        if len(filtered) == count:
            return [float(one[0]) for one in filtered if one[1] is not None]
    except (TypeError, ValueError, LookupError):
        pass
    try:
        return [float(one[0][0]) for one in responses if one[0][1] is not None] if len(responses) == count else None
    except (TypeError, ValueError, LookupError):
        return None


def choices_of(
    contexts: Sequence[str], continuations: Sequence[str], likelihoods: Sequence[float], delimiter: str
) -> tuple[str, Choices]:
    """Return the prompt and the choices, from the requests of a sample.

    Mostly all contexts are the same, and the continuations are the choices; `contexts` has only one then. Otherwise the
    choices are what follows the words that all contexts begin with.
    """
    if len(contexts) == 1:
        size = len(delimiter)
        texts = [text.strip() for text in continuations]
        own = [text[size:] if text.startswith(delimiter) else text for text in continuations]
        return contexts[0], Choices(texts, list(likelihoods), own, [])
    same = _common_words(contexts)
    size = len(same)
    both = zip(contexts, continuations, strict=True)
    texts = [f"{context[size:]}{continuation}".strip() for context, continuation in both]
    return same, Choices(texts, list(likelihoods), list(contexts), [])


def _common_words(texts: Sequence[str]) -> str:
    """Return the longest beginning that all texts share and that ends with whitespace."""
    first, last = min(texts), max(texts)
    low, high = 0, min(len(first), len(last))
    while low < high:  # comparing slices is faster than comparing characters
        middle = (low + high + 1) // 2
        if first[low:middle] == last[low:middle]:
            low = middle
        else:
            high = middle - 1
    while low and not first[low - 1].isspace():
        low -= 1
    return first[:low]


def correct_choices(target: Any, choices: Choices, *, is_text: bool) -> list[int]:
    """Return the indices of the correct choices; none if the target does not tell them.

    The target is mostly an index, or a list of indices, as text. `is_text` says that digits are the text of a choice.
    """
    count, texts = len(choices.texts), choices.texts
    if isinstance(target, str):
        text = target.strip()
        if text.isdecimal() and not is_text:
            return [index] if (index := int(text)) < count else []
        if text in texts:
            return [texts.index(text)]
        if text in ("True", "False"):
            return [int(text == "True")] if count > 1 else []
        if not text.startswith("["):
            return []
        try:
            target = _decode_list(text)
        except msgspec.MsgspecError:
            return []
    if isinstance(target, int):
        return [int(target)] if 0 <= target < count else []
    if isinstance(target, list) and all(isinstance(one, int) and 0 <= one < count for one in target):
        return list(map(int, target))
    return []
