"""Choosing evaluations and models by patterns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Final

from fastrec.errors import UsageError
from fastrec.summary.document import Summary
from fastrec.summary.ranking import Chosen

__all__ = ["choose"]

_MOST_NAMES: Final = 10  # listed in a message


def choose(summary: Summary, evaluations: Sequence[str], models: Sequence[str]) -> list[Chosen]:
    """Choose the evaluations and models that match any pattern of their kind; no patterns choose all.

    Raises:
        UsageError: A pattern matches nothing.
    """
    _check("evaluation", evaluations, {one.evaluation_name for one in summary.evaluations})
    found = [one for one in summary.evaluations if _matches(one.evaluation_name, evaluations)]
    _check("model", models, {model.model_id for one in found for model in one.by_model})
    chosen = []
    for one in found:
        some = [model for model in one.by_model if _matches(model.model_id, models)]
        if some:
            common = one.questions_all_models if len(some) == one.models else None
            chosen.append(Chosen(one, len(some), some, common))
    return chosen


def _matches(name: str, patterns: Sequence[str]) -> bool:
    # A name that contains brackets still matches itself.
    return not patterns or any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _check(kind: str, patterns: Sequence[str], names: Collection[str]) -> None:
    for pattern in patterns:
        if not any(_matches(name, [pattern]) for name in names):
            first = sorted(names)[:_MOST_NAMES]
            more = f" and {len(names) - len(first):,} more" if len(names) > len(first) else ""
            available = f"available: {', '.join(first)}{more}" if names else f"there are no {kind}s"
            raise UsageError(f"no {kind} matches {pattern!r}; {available}")
