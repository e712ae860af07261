"""The gate: which models make the comparison fail, and why.

regressed    the accuracy or the mean score fell by more than the limit, and chance does not explain it
missing      OLD has records of the model on this evaluation and metric, NEW has none
incomplete   too few of the questions that it answered in OLD could be compared

A model without any answer in OLD has nothing to lose, so it is no failure; its status says that it was not compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from fastrec.commands.diff.changes import Scope
from fastrec.commands.diff.document import Failure, ModelDifference
from fastrec.errors import UsageError, counted

__all__ = ["Gate", "find_scopes"]


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `diff` that decide about failures."""

    fail_on: float | None
    p: float
    p_adjust: Literal["bh", "none"]
    min_compared: float
    allow_missing: tuple[str, ...]

    def check(self) -> None:
        """Raise UsageError if a value is out of range."""
        if not 0 <= self.p <= 1 or (self.fail_on is not None and not 0 <= self.fail_on < math.inf):
            raise UsageError("fail_on is a number of points, at least 0, and p a probability, from 0 to 1")
        if not 0 <= self.min_compared <= 100:
            raise UsageError(f"min_compared is a percentage, from 0 to 100, not {self.min_compared}")
        if self.p_adjust not in ("bh", "none"):
            raise UsageError(f"p_adjust must be 'bh' or 'none', not {self.p_adjust!r}")

    def mark_regressed(self, models: Sequence[ModelDifference]) -> None:
        """Set `regressed` of the models that lost more than `fail_on` points with a p-value below `p`."""
        if self.fail_on is None:
            return
        for model in models:
            p_value = model.p_adjusted if self.p_adjust == "bh" else model.p
            if p_value is not None and model.points is not None:
                model.regressed = p_value < self.p and -model.points > self.fail_on

    def failures(self, models: Sequence[ModelDifference]) -> Iterator[Failure]:
        """Yield why the exit code is 1, regressions first; nothing without `fail_on`."""
        if self.fail_on is None:
            return
        p_value = "adjusted p" if self.p_adjust == "bh" else "p"
        for model in models:
            if model.regressed:
                loss = f"lost more than {self.fail_on:g} points with {p_value} < {self.p:g}"
                yield _failure(model, "regressed", loss)
        for model in models:
            if model.status == "missing" and not self._allows(model):
                yield _failure(model, "missing", "is missing in NEW")
        for model in models:
            if model.status == "incomplete" and not self._allows(model):
                yield _failure(model, "incomplete", _shortfall(model))

    def _allows(self, model: ModelDifference) -> bool:
        """Return whether a model may be missing or incomplete."""
        return any(_matches(pattern, model) for pattern in self.allow_missing)

    def notices(self, models: Sequence[ModelDifference]) -> Iterator[str]:
        """Yield a notice for each pattern that matches no model of OLD: it may be misspelled."""
        for pattern in self.allow_missing:
            if not any(model.old_records and _matches(pattern, model) for model in models):
                yield f"--allow-missing {pattern!r} matches no model and no evaluation of OLD"


def find_scopes(patterns: Sequence[str], scored: Collection[Scope]) -> tuple[set[Scope], list[str]]:
    """Return what is compared by score and matches a pattern, and a notice for each pattern that matches nothing."""
    found: set[Scope] = set()
    notices = []
    for pattern in patterns:
        matching = {scope for scope in scored if any(fnmatchcase(name, pattern) for name in _names_of(*scope))}
        if not matching:
            notices.append(f"--lower-is-better {pattern!r} matches nothing that is compared by score")
        found |= matching
    return found, notices


def _names_of(evaluation: str, metric: str | None) -> list[str]:
    """Return what a pattern may match: the evaluation, and its metric alone or with the evaluation."""
    return [evaluation, *([] if metric is None else [metric, f"{evaluation}/{metric}"])]


def _matches(pattern: str, model: ModelDifference) -> bool:
    """Return whether a shell-style pattern matches the model, the evaluation, the metric, or them joined by `/`."""
    evaluation, *others = _names_of(model.evaluation_name, model.metric)
    # Not `metric/model`: it would look like `evaluation/model`.
    names = [model.model_id, evaluation, *others, *(f"{name}/{model.model_id}" for name in (evaluation, *others[1:]))]
    return any(fnmatchcase(name, pattern) for name in names)


def _shortfall(model: ModelDifference) -> str:
    """Return how much of an incomplete model was compared, and whether errors may be the reason."""
    text = f"was compared on {model.questions:,} of {counted(model.old_answered, 'question')} only"
    if model.old_errors or model.new_errors:
        text += f" ({counted(model.old_errors, 'error')} in OLD, {model.new_errors:,} in NEW)"
    return text


def _failure(model: ModelDifference, reason: Literal["regressed", "missing", "incomplete"], message: str) -> Failure:
    return Failure(
        evaluation_name=model.evaluation_name,
        metric=model.metric,
        model_id=model.model_id,
        reason=reason,
        message=message,
    )
