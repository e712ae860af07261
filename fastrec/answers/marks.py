"""Marks: what each model of a scope made of a question, packed; and the facts that follow for any choice of models.

    flags     one byte per model: 1 if it has a right answer, 2 if it has a wrong one, 4 if it has an error, or a sum
    shares    the share of right answers of each model; empty if it follows from the flags: no model is right and wrong
    scores    the mean score of each model; empty if it is the share
    lengths   the mean length of the outputs of each model

Shares, scores and lengths are doubles, NaN for a model without an answer. Models are in order of their ids.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

from fastrec.answers.table import Outcome

__all__ = ["ERROR", "NO_FACTS", "RIGHT", "WRONG", "Facts", "Marks", "RecordMark", "as_double", "facts_of", "mark"]
__all__ += ["outcome_of", "values_of"]

RIGHT: Final = 1
WRONG: Final = 2
ERROR: Final = 4
_OUTCOMES: Final[tuple[Outcome, ...]] = ("none", "right", "wrong", "mixed", "error", "right", "wrong", "mixed")
"""By the flags of a model."""
_SHARES: Final = (math.nan, 1.0, 0.0, math.nan, math.nan, 1.0, 0.0, math.nan)
"""By the flags of a model, where they say it all."""
_LARGEST: Final = sys.float_info.max

RecordMark = tuple[int, int, float, int]
"""Of a record: the position of its model in the scope, its flag, its score, and the length of its output."""


class Marks(NamedTuple):
    """What each model of a scope made of a question."""

    flags: bytes
    shares: bytes
    scores: bytes
    lengths: bytes


class Facts(NamedTuple):
    """What follows from the marks of some models; the columns of a table of questions."""

    kinds: int
    """All flags of these models together."""
    models: int
    """Models with an answer."""
    right: float
    score: float | None
    spread: float | None
    """Twice the standard deviation of the values of these models."""
    errors: int
    output_chars: float | None


NO_FACTS: Final = Facts(0, 0, 0.0, None, None, 0, None)


def as_double(score: float) -> float:
    """Return a score as a double; one beyond the range of doubles becomes the largest."""
    try:
        return float(score)
    except OverflowError:
        return _LARGEST if score > 0 else -_LARGEST


def outcome_of(flags: int) -> Outcome:
    """Return the outcome of a model."""
    return _OUTCOMES[flags]


def mark(records: Sequence[RecordMark], models: int) -> Marks:
    """Pack the records of a question, given the number of models of its scope."""
    flags = bytearray(models)
    answers: dict[int, list[RecordMark]] = {}
    for record in records:
        flags[record[0]] |= record[1]
        if record[1] != ERROR:
            answers.setdefault(record[0], []).append(record)
    shares = array("d", [math.nan]) * models
    scores, lengths = shares[:], shares[:]
    is_mixed = is_scored = False
    for model, found in answers.items():
        if len(found) == 1:
            _, flag, score, length = found[0]
            share, mean_length = float(flag == RIGHT), float(length)
        else:
            count = len(found)
            share = sum([flag == RIGHT for _, flag, _, _ in found]) / count
            score = mean_of([score for _, _, score, _ in found])
            mean_length = sum([length for _, _, _, length in found]) / count
            is_mixed |= 0.0 < share < 1.0
        shares[model], scores[model], lengths[model] = share, score, mean_length
        is_scored |= score != share
    return Marks(
        bytes(flags),
        shares.tobytes() if is_mixed else b"",
        scores.tobytes() if is_scored else b"",
        lengths.tobytes() if answers else b"",
    )


def values_of(marks: Marks, models: Sequence[int], *, graded: bool) -> list[float]:
    """Return the values of some models: the share of right answers, or the score if the metric is graded."""
    packed = marks.scores or marks.shares if graded else marks.shares
    column = array("d", packed) if packed else [_SHARES[flags] for flags in marks.flags]
    return [column[model] for model in models]


def facts_of(marks: Marks, models: Sequence[int], *, graded: bool) -> Facts:
    """Return the facts about some models."""
    flags = [marks.flags[model] for model in models]
    kinds = 0
    for kind in set(flags):
        kinds |= kind
    answering = [model for model, kind in zip(models, flags, strict=True) if kind & (RIGHT | WRONG)]
    errors = flags.count(ERROR)
    if not answering:
        return Facts(kinds, 0, 0.0, None, None, errors, None)
    shares = values_of(marks, answering, graded=False)
    scores = values_of(marks, answering, graded=True)
    lengths = array("d", marks.lengths)
    return Facts(
        kinds,
        len(answering),
        math.fsum(shares),
        mean_of(scores),
        _spread(scores if graded else shares),
        errors,
        math.fsum([lengths[model] for model in answering]) / len(answering),
    )


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of doubles, which does not depend on their order."""
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum([value / len(values) for value in values])


def _spread(values: Sequence[float]) -> float:
    """Return twice the standard deviation."""
    low, high = min(values), max(values)
    if low == high:
        return 0.0
    unit = max(abs(low), abs(high))  # of very large scores, squares would overflow
    scaled = [value / unit for value in values]
    mean = math.fsum(scaled) / len(scaled)
    root = math.sqrt(math.fsum([(value - mean) ** 2 for value in scaled]) / len(scaled))
    return min(2 * root * unit, _LARGEST)
