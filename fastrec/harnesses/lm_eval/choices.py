"""Multiple choice: the choices of a sample, the correct ones, and the one that a metric picks.

The model says nothing: it gives each choice a log-likelihood, and each metric picks by a rule of its own.

    metric            picks the choice with the highest
    acc_norm          log-likelihood divided by the length of the choice in characters
    acc_bytes         log-likelihood divided by its length in bytes
    acc_mutual_info   log-likelihood minus that without the context
    acc, all others   log-likelihood

If the score contradicts the pick, the task has a rule that the log does not tell: then the pick is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fastrec.harnesses.choices import contradicts, index_of_greatest
from fastrec.harnesses.log import Score

__all__ = ["MUTUAL_INFO", "Choices", "choices_after", "correct_choices", "likelihoods_in"]
__all__ += ["with_and_without_context"]

MUTUAL_INFO: Final = "acc_mutual_info"
_OWN_RULE: Final = frozenset({"acc_norm", "acc_bytes", MUTUAL_INFO})
_PICKING: Final = _OWN_RULE | {"acc"}
"""Metrics that are 1 if the pick is correct, and else 0."""

_NO_CONTEXT: Final = msgspec.Raw(b'""')

_decode_indices: Final = msgspec.json.Decoder(list[int]).decode
# Log-likelihood, and whether the model would have said just that: numbers, or since May 2024 texts of them.
_decode_filtered: Final = msgspec.json.Decoder(list[tuple[float, bool]], strict=False).decode
_decode_responses: Final = msgspec.json.Decoder(list[list[tuple[float, bool]]], strict=False).decode


class Choices(msgspec.Struct, gc=False):
    """The choices of a sample, and how likely the model finds each."""

    texts: list[str]
    likelihoods: list[float]
    sent: Sequence[str]
    """What has their texts, after a delimiter: some metrics divide by their length."""
    delimiter: str = ""
    unconditional: Sequence[float] = ()
    """Log-likelihoods without the context; mostly none."""

    def pick(self, metric: str) -> int:
        """Return the index of the choice that a metric picks."""
        values = self.likelihoods
        if metric == "acc_norm":
            values = self._per_character()
        elif metric == "acc_bytes":
            values = _divide(values, [len(text.removeprefix(self.delimiter).encode()) for text in self.sent])
        elif metric == MUTUAL_INFO and self.unconditional:
            values = [value - other for value, other in zip(values, self.unconditional, strict=True)]
        return index_of_greatest(values)

    def _per_character(self) -> list[float]:
        values, before = self.likelihoods, self.delimiter
        size = len(before)
        try:
            return [
                value / (len(text) - size if text.startswith(before) else len(text))
                for value, text in zip(values, self.sent, strict=False)
            ]
        except ZeroDivisionError:
            return _divide(values, [len(text.removeprefix(before)) for text in self.sent])

    def picks(self, metrics: Sequence[str], scores: Sequence[Score], correct: Sequence[int]) -> list[int | None]:
        """Return the pick of each metric; None if its score says that it picked another one."""
        best = self.pick("acc")
        found: list[int | None] = []
        for metric, score in zip(metrics, scores, strict=True):
            index = self.pick(metric) if metric in _OWN_RULE else best
            is_unknown = metric in _PICKING and contradicts(score.value, index, correct)
            found.append(None if is_unknown else index)
        return found


def _divide(values: Sequence[float], lengths: Sequence[int]) -> list[float]:
    return [value / length if length else float("-inf") for value, length in zip(values, lengths, strict=True)]


def likelihoods_in(filtered: msgspec.Raw, responses: msgspec.Raw, count: int) -> list[tuple[float, bool]] | None:
    """Return the log-likelihood of each request, and whether the model would have said just that.

    None if these are no answers to requests of this kind.
    """
    try:
        found = _decode_filtered(filtered)
        if len(found) == count:
            return found
    except msgspec.MsgspecError:
        pass
    try:
        found = [one[0] for one in _decode_responses(responses)]
    except (msgspec.MsgspecError, IndexError):
        return None
    return found if len(found) == count else None


def with_and_without_context(contexts: Sequence[msgspec.Raw]) -> tuple[list[int], list[int]]:
    """Return where the requests with a context are, and where the same choices without it.

    Those without follow all others; until version 0.4.5, each followed its own.
    """
    numbers = range(len(contexts))
    bare = [number for number in numbers if contexts[number] == _NO_CONTEXT]
    if 2 * len(bare) != len(contexts):  # no request has a context
        bare = list(numbers[len(contexts) // 2 :])
    return [number for number in numbers if number not in bare], bare


def choices_after(
    contexts: Sequence[str], continuations: Sequence[str], likelihoods: list[float]
) -> tuple[str, Choices]:
    """Return the prompt and the choices if the contexts differ, as in winogrande.

    The prompt is the words that all of them begin with. A choice is what follows, with the continuation.
    """
    same = _common_words(contexts)
    both = zip(contexts, continuations, strict=True)
    texts = [f"{context[len(same) :]}{continuation}".strip() for context, continuation in both]
    return same, Choices(texts, likelihoods, contexts)


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


def correct_choices(target: Any, texts: Sequence[str], *, is_text: bool) -> list[int]:
    """Return the indices of the correct choices; none if the target does not tell them.

    The target is mostly an index, or a list of indices, as text. `is_text` says that digits are the text of a choice.
    """
    count = len(texts)
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
            target = _decode_indices(text)
        except msgspec.MsgspecError:
            return []
    if isinstance(target, int):
        return [int(target)] if 0 <= target < count else []
    if isinstance(target, list) and all(isinstance(one, int) and 0 <= one < count for one in target):
        return list(map(int, target))
    return []
