"""Scores of a sample: one for each scorer, or one for each key if a scorer gives several values.

    value                                          score
    a number, true or false                        itself, 1 or 0
    C, P, I, N                                     1, 0.5, 0, 0
    yes, true, no, false in any case               1, 1, 0, 0
    text that spells a finite number               the number
    a dict                                         one score for each key, `scorer:key`
    NaN, anything else                             none: the record's error says why

These are the rules of Inspect's own `value_to_float`, but Inspect counts what is no number as 0. The `value` of an
edited score is that of its last edit.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from fastrec.harnesses.inspect.sample_structs import LoggedSample, SampleScore
from fastrec.harnesses.log import Score, extracted
from fastrec.harnesses.values import spell
from fastrec.schemas.newest import AnswerAttribution

__all__ = ["OLD_SCORE", "Answers", "Scorer", "Scoring", "number_or_problem", "scores_in", "scores_of"]

OLD_SCORE: Final = "score"
"""The name of the scorer of a log with `score` instead of `scores`, unless the results name it."""

_LETTERS: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_SHOWN: Final = 80


class Scorer(msgspec.Struct, frozen=True):
    """A scorer whose scores the log should have for every sample."""

    name: str
    keys: tuple[str, ...] = ()
    """The keys of its scores, if they are dicts."""
    is_complete: bool = False
    """Whether every score has all these keys."""


class Scoring(msgspec.Struct, frozen=True):
    """How the samples of a log are scored."""

    scorers: dict[str, Scorer] = {}
    """By name."""
    old_name: str = OLD_SCORE
    """The scorer of samples with `score` instead of `scores`."""
    counts_failed: bool = False
    """Whether the aggregates include scores of samples that failed: they do since 2026."""


class Answers(msgspec.Struct, frozen=True):
    """What scores need to know about the sample: what the model said, and where."""

    texts: tuple[str, ...]
    """What the model said: an explanation that repeats it is left out."""
    turn: int
    """The message with the answer."""
    source: str
    """The field of the record that has it."""
    choices: int
    """The number of choices."""


def number_or_problem(value: Any) -> tuple[float | None, str]:
    """Return a value as a finite number, or the reason why it is none.

    >>> number_or_problem("P"), number_or_problem(True), number_or_problem("No"), number_or_problem("0.25")
    ((0.5, ''), (1.0, ''), (0.0, ''), (0.25, ''))
    >>> number_or_problem(float("nan")), number_or_problem([1, 0])
    ((None, 'not scored: the score is NaN'), (None, 'the score is a list, which is not a number'))
    """
    if isinstance(value, str):
        number = _LETTERS.get(value)
        if number is None:
            number = _WORDS.get(value.lower())
        if number is None:
            try:
                number = float(value)
            except ValueError:
                return None, f"the score {value[:_SHOWN]!r} is not a number"
    elif isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    elif value is None:
        return None, "the score has no value"
    else:
        return None, f"the score is a {type(value).__name__}, which is not a number"
    if math.isnan(number):
        return None, "not scored: the score is NaN"
    return (number, "") if math.isfinite(number) else (None, "the score is not finite")


def scores_in(sample: LoggedSample, old_name: str) -> dict[str, SampleScore]:
    """Return the scores that a sample has, by scorer."""
    if sample.score is not None:
        return {old_name: sample.score} | (sample.scores or {})
    return sample.scores or {}


def scores_of(sample: LoggedSample, scoring: Scoring, answers: Answers) -> list[Score]:
    """Return all scores of a sample, and one without a number for each that the log should have."""
    given = scores_in(sample, scoring.old_name)
    scores: list[Score] = []
    for name, one in given.items():
        scores += _scores_by(scoring.scorers.get(name) or Scorer(name), one, answers)
    for name, scorer in scoring.scorers.items():
        if name not in given:
            missing = "not scored: the log has no score of this scorer for this sample"
            scores += [_score(metric, None, missing) for metric in _metrics(scorer)]
    if sample.invalidation is not None or (sample.error is not None and not scoring.counts_failed):
        for score in scores:  # Inspect itself does not count them
            if score.value is not None:
                score.value, score.problem = None, f"its score of {score.value:g} does not count"
    return scores


def _scores_by(scorer: Scorer, given: SampleScore, answers: Answers) -> list[Score]:
    """Return the scores of one scorer."""
    value = given.value
    if isinstance(value, dict) and value:
        scores = [_score(f"{scorer.name}:{key}", *number_or_problem(part)) for key, part in value.items()]
        if scorer.is_complete:
            absent = [key for key in scorer.keys if key not in value]
            scores += [_score(f"{scorer.name}:{key}", None, "the score has no such key") for key in absent]
    elif isinstance(value, dict):
        scores = [_score(metric, None, "the score is an empty dict") for metric in _metrics(scorer)]
    else:
        number, problem = number_or_problem(value)
        metrics = _metrics(scorer) if number is None else [scorer.name]
        scores = [_score(metric, number, problem) for metric in metrics]
    found = _attributions(scorer.name, given.answer, answers)
    metadata = _score_metadata(given, answers)
    for score in scores:
        score.answers, score.metadata = found, metadata
    return scores


def _metrics(scorer: Scorer) -> list[str]:
    return [f"{scorer.name}:{key}" for key in scorer.keys] or [scorer.name]


def _score(metric: str, value: float | None, problem: str) -> Score:
    return Score(metric=metric, value=value, problem=problem)


def _attributions(scorer: str, answer: Any, answers: Answers) -> list[AnswerAttribution]:
    return [] if answer is None else [extracted(spell(answer), scorer, answers.turn, answers.source)]


def _score_metadata(given: SampleScore, answers: Answers) -> dict[str, str]:
    metadata = {}
    if given.explanation is not None and (text := spell(given.explanation)) and text not in answers.texts:
        metadata["explanation"] = text
    if given.reason is not None:
        metadata["score_reason"] = spell(given.reason)
    if any(edit.provenance is not None for edit in given.history or ()):
        metadata["score_edited"] = "true"
    answer = given.answer
    if answers.choices and isinstance(answer, str):
        letters = [letter for letter in answer.replace(",", " ").split() if letter]
        indices = [ord(letter) - ord("A") for letter in letters if len(letter) == 1]
        if indices and len(indices) == len(letters) and all(0 <= index < answers.choices for index in indices):
            metadata["choice_index"] = ",".join(map(str, indices))
    return metadata
