"""Means over questions: a question counts once, however many answers a model gave to it.

A mean is taken over the answers to each question, then over questions, and so is its standard error. The tally adds up
records as if each was the only one of its question. `Repeats` has what is missing: sums over the questions with several
records. With k records of a question, c of them correct, its mean is c/k. So sums are kept apart for each k, and all of
them are integers: they add up exactly, however the records are grouped and ordered.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from fastrec.summary.rows import from_portable
from fastrec.summary.sums import Sums

__all__ = [
    "NO_OUTCOME",
    "UNIT_BITS",
    "Means",
    "Outcome",
    "RepeatSums",
    "Repeats",
    "RepeatsByModel",
    "Totals",
    "add_repeats",
    "exact",
    "exact_square",
    "means_of",
]

UNIT_BITS: Final = 1_074
"""Scores are added up in units of 2**-1074, the smallest step between doubles."""

_ROOT_BITS: Final = 128  # extra bits of precision for a square root

Outcome = Sequence[Any]
"""Of a record: whether it is correct, its score, and whether it has an error."""

NO_OUTCOME: Final[Outcome] = (False, 0, False)


class RepeatSums(Sums):
    """Sums over the questions that a model has k records of. Scores are in units of 2**-1074."""

    questions: int = 0
    correct: int = 0
    correct_squared: int = 0  # sum of the squared numbers of correct records per question
    score: int = 0
    score_squared: int = 0  # sum of the squared sums of scores per question
    squares: int = 0  # sum of the squared scores of all records

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Add the records of one question."""
        correct = sum([right and not error for right, _, error in outcomes])
        score = sum([exact(score) for _, score, _ in outcomes])
        self.questions += 1
        self.correct += correct
        self.correct_squared += correct * correct
        self.score += score
        self.score_squared += score * score
        self.squares += sum([exact_square(score) for _, score, _ in outcomes])


class Repeats(Sums):
    """A model's questions with several records, by the number of records or answers."""

    without_errors: dict[int, RepeatSums] = msgspec.field(default_factory=lambda: defaultdict(RepeatSums))
    """Questions whose records are all answers."""
    answers: dict[int, RepeatSums] = msgspec.field(default_factory=lambda: defaultdict(RepeatSums))
    """The answers to the other questions."""
    records: dict[int, RepeatSums] = msgspec.field(default_factory=lambda: defaultdict(RepeatSums))
    """All records of these, with errors as wrong."""


RepeatsByModel = dict[bytes, Repeats]


class Totals(NamedTuple):
    """Sums over records, whatever their questions."""

    records: int
    correct: int
    score: int  # in units of 2**-1074
    score_squared: int  # in units of 2**-2148


class Means(NamedTuple):
    """Means over questions, with their standard errors; None for what is undefined or overflows a double."""

    questions: int
    accuracy: float | None
    accuracy_standard_error: float | None
    mean_score: float | None
    score_standard_error: float | None


def add_repeats(repeats: RepeatsByModel, records: Iterable[tuple[bytes, Outcome]]) -> dict[bytes, int]:
    """Add the repeats among all records of one question, given as model and outcome.

    Returns the number of answers of each model.
    """
    by_model: dict[bytes, list[Outcome]] = {}
    for model, outcome in records:
        by_model.setdefault(model, []).append(outcome)
    answers_of = {}
    for model, outcomes in by_model.items():
        answers = [outcome for outcome in outcomes if not outcome[2]]
        answers_of[model] = len(answers)
        if len(outcomes) == 1:
            continue
        found = repeats[model]
        if len(answers) == len(outcomes):
            found.without_errors[len(answers)].add(answers)
        else:
            found.records[len(outcomes)].add(outcomes)
            if len(answers) > 1:
                found.answers[len(answers)].add(answers)
    return answers_of


@lru_cache(maxsize=1 << 10)  # most scores are 0 or 1
def exact(score: float | str) -> int:
    """Return a score in units of 2**-1074, the smallest step between doubles."""
    if isinstance(score, float):
        numerator, denominator = score.as_integer_ratio()
        return numerator << (UNIT_BITS + 1 - denominator.bit_length())
    return from_portable(score) << UNIT_BITS


@lru_cache(maxsize=1 << 10)
def exact_square(score: float | str) -> int:
    """Return the square of a score in units of 2**-2148."""
    return exact(score) ** 2


def means_of(totals: Totals, *repeats: Mapping[int, RepeatSums]) -> Means:
    """Return the means of a model, given the sums over all of its records and those of questions with several."""
    several = [item for by_count in repeats for item in by_count.items()]
    questions = totals.records - sum((count - 1) * sums.questions for count, sums in several)
    if not questions:
        return Means(0, None, None, None, None)
    # All sums of means are integers in units of 1 / common, and so are those of squared means in units of its square.
    common = math.lcm(*(count for count, _ in several))
    correct = common * totals.correct
    correct_squared = common**2 * totals.correct
    score = common * totals.score
    score_squared = common**2 * totals.score_squared
    for count, sums in several:
        share = common // count
        correct += (share - common) * sums.correct
        correct_squared += share**2 * sums.correct_squared - common**2 * sums.correct
        score += (share - common) * sums.score
        score_squared += share**2 * sums.score_squared - common**2 * sums.squares
    return Means(
        questions,
        *_mean_and_error(correct, correct_squared, questions, common, 0),
        *_mean_and_error(score, score_squared, questions, common, UNIT_BITS),
    )


def _mean_and_error(total: int, squared: int, n: int, common: int, bits: int) -> tuple[float | None, float | None]:
    """Return the mean of n values and its standard error, given their sum in units of 2**-bits / common."""
    mean = _quotient(total, n * common << bits)
    if n < 2:
        return mean, None
    # n times the sum of squared deviations. It is exact, so it is never negative. The root is an integer too, because
    # the variance of scores such as 1e-200 or 1e200 does not fit a double.
    spread = squared * n - total**2
    root = math.isqrt((spread << 2 * _ROOT_BITS) // (common**2 * n**2 * (n - 1)))
    return mean, _quotient(root, 1 << bits + _ROOT_BITS)


def _quotient(numerator: int, denominator: int) -> float | None:
    """Return a quotient; None if it overflows a double. Python rounds it correctly, however long the integers are."""
    try:
        return numerator / denominator
    except OverflowError:
        return None
