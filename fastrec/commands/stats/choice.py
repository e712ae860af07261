"""Choosing evaluations and models by patterns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from fastrec.errors import UsageError
from fastrec.summary.document import EvaluationSummary, ModelSummary, Summary

__all__ = ["Choice", "Chosen", "choose"]

_MOST_NAMES: Final = 10  # that a message lists


class Chosen(msgspec.Struct):
    """An evaluation, and the models of it that were chosen."""

    evaluation: EvaluationSummary
    count: int
    models: list[ModelSummary]
    """Their numbers; none of them if they have no common samples and only those count."""
    common_questions: int | None
    """Samples that all of those answered, as far as is known."""


class Choice(msgspec.Struct):
    """What was chosen of a corpus."""

    evaluations: list[Chosen]
    common: bool = False
    """Whether the models were counted on common samples alone."""


def choose(summary: Summary, evaluations: Sequence[str], models: Sequence[str]) -> Choice:
    """Choose what matches any of the patterns of a kind; a pattern that matches nothing is a mistake."""
    _check("evaluation", evaluations, {one.evaluation_name for one in summary.evaluations})
    found = [one for one in summary.evaluations if _matches(one.evaluation_name, evaluations)]
    _check("model", models, {model.model_id for one in found for model in one.by_model})
    chosen = []
    for one in found:
        some = [model for model in one.by_model if _matches(model.model_id, models)]
        if some:
            common = one.questions_all_models if len(some) == one.models else None
            chosen.append(Chosen(one, len(some), some, common))
    return Choice(chosen)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    # A name may hold brackets: it matches itself, whatever it means as a pattern.
    return not patterns or any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _check(kind: str, patterns: Sequence[str], names: Collection[str]) -> None:
    for pattern in patterns:
        if not any(_matches(name, [pattern]) for name in names):
            first = sorted(names)[:_MOST_NAMES]
            more = f" and {len(names) - len(first):,} more" if len(names) > len(first) else ""
            there = f"there are {', '.join(first)}{more}" if names else "there are none at all"
            raise UsageError(f"no {kind} matches {pattern!r}; {there}")
