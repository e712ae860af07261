"""Comparing question by question: the share of right answers to each question in OLD and in NEW.

A question may have several records of a model, its *repeats*. Their mean counts, so every question has the same weight.
A record with an error is no answer, unless errors count as wrong.

    merge       reads the questions that differ ──▶ how many questions have which answers (`Outcome`)
    summaries   all questions of a model (`Totals`)
    all - read  the questions that were not read: they are the same in both corpora, and both must give the same numbers
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

import msgspec

from fastrec.commands.diff.fields import Verdict
from fastrec.summary.document import ModelSummary

__all__ = [
    "NO_ANSWERS",
    "Answers",
    "Compared",
    "MismatchError",
    "Outcome",
    "Totals",
    "compare_questions",
    "count_answers",
]

_ROUNDING = Fraction(1, 10**12)  # of an accuracy


class MismatchError(Exception):
    """The records that were read and the summaries of the two corpora do not add up."""


class Answers(NamedTuple):
    """The records of one model for one question in one corpus."""

    records: int
    answers: int
    correct: int

    def mean(self) -> Fraction:
        """Return the share of right answers."""
        return Fraction(self.correct, self.answers)


NO_ANSWERS = Answers(0, 0, 0)


class Outcome(NamedTuple):
    """The answers of one model to one question."""

    old: Answers
    new: Answers
    old_compared: Answers
    """Without records that have no counterpart in NEW."""
    new_compared: Answers
    """Without records that have no counterpart in OLD."""

    def difference(self) -> Fraction | None:
        """Return how much the share of right answers grew; None if the question cannot be compared."""
        if not (self.old_compared.answers and self.new_compared.answers):
            return None
        return self.new_compared.mean() - self.old_compared.mean()


def count_answers(verdicts: Iterable[Verdict], *, errors_as_wrong: bool) -> Answers:
    """Count records, answers and right answers."""
    counts = Counter(verdicts)
    records = counts.total()
    return Answers(records, records if errors_as_wrong else records - counts[None], counts[True])


class Totals(msgspec.Struct, frozen=True):
    """All records of a model on an evaluation in one corpus."""

    records: int = 0
    answers: int = 0
    correct: int = 0
    questions: int = 0
    answered: int = 0
    """Questions with at least one answer."""
    means: Fraction = Fraction()
    """Sum over these questions of the share of right answers."""

    @classmethod
    def of_summary(cls, model: ModelSummary | None, *, errors_as_wrong: bool) -> Totals:
        """Take the numbers from a summary; None is a model without records."""
        if model is None:
            return cls()
        answers, answered, accuracy = model.answers, model.questions_answered, model.accuracy
        if errors_as_wrong:
            answers, answered, accuracy = model.records, model.questions, model.errors_as_wrong.accuracy
        # An accuracy is rounded. Without repeats, the number of right answers is exact.
        means = Fraction(accuracy or 0) * answered if answers > answered else Fraction(model.correct)
        return cls(model.records, answers, model.correct, model.questions, answered, means)

    @classmethod
    def of_answers(cls, counts: Iterable[tuple[Answers, int]]) -> Totals:
        """Add up the answers to some questions; each comes with a number of questions."""
        records = answers = correct = questions = answered = 0
        means = Fraction()
        for each, number in counts:
            records += number * each.records
            answers += number * each.answers
            correct += number * each.correct
            questions += number * bool(each.records)
            if each.answers:
                answered += number
                means += number * each.mean()
        return cls(records, answers, correct, questions, answered, means)

    def __sub__(self, other: Totals) -> Totals:
        names = self.__struct_fields__
        return Totals(**{name: getattr(self, name) - getattr(other, name) for name in names})


class Compared(msgspec.Struct, frozen=True):
    """The questions of a model on an evaluation that could be compared."""

    questions: int
    old_questions: int
    """All of OLD, compared or not."""
    new_questions: int
    old_answered: int
    """Questions of OLD with an answer, compared or not."""
    old_means: Fraction
    """Sum over the compared questions of the share of right answers in OLD."""
    new_means: Fraction
    differences: Mapping[Fraction, int]
    """Number of compared questions by difference, without those that did not change."""
    repeats: bool
    """Whether a compared question has several answers in a corpus."""


def compare_questions(totals: tuple[Totals, ...], outcomes: Mapping[Outcome, int], *, all_read: bool) -> Compared:
    """Combine the questions that were read with those that are the same in both corpora.

    `totals` are those of OLD and NEW. With `all_read`, every question was read, and the summaries only say how many
    records there must be.
    """
    old, new = totals
    old_read, new_read = (
        Totals.of_answers((outcome[side], number) for outcome, number in outcomes.items()) for side in (0, 1)
    )
    if all_read:
        if (old_read.records, new_read.records) != (old.records, new.records):
            raise MismatchError
        same = Totals()
        old, new = old_read, new_read
    else:
        same, other = old - old_read, new - new_read
        counts = [msgspec.structs.astuple(side)[:-1] for side in (same, other)]
        if (
            counts[0] != counts[1]
            or min(counts[0]) < 0
            or abs(same.means - other.means) > _ROUNDING * (1 + old.answered)
        ):
            raise MismatchError
        if same.answers == same.answered:  # no repeats are left, so the sum is exact
            same = msgspec.structs.replace(same, means=Fraction(same.correct))
    differences: Counter[Fraction] = Counter()
    compared = []
    for outcome, number in outcomes.items():
        difference = outcome.difference()
        if difference is not None:
            compared.append((outcome, number))
            differences[difference] += number
    questions = differences.total() + same.answered
    del differences[Fraction()]
    sums = [Totals.of_answers((outcome[side], number) for outcome, number in compared) for side in (2, 3)]
    return Compared(
        questions=questions,
        old_questions=old.questions,
        new_questions=new.questions,
        old_answered=old.answered,
        old_means=same.means + sums[0].means,
        new_means=same.means + sums[1].means,
        differences=differences,
        repeats=any(total.answers > total.answered for total in (same, *sums)),
    )
