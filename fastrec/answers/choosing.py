"""Choose scopes and models of an index by the filters of a command."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from fastrec.answers.table import OUTCOME_FILTERS, Query, Scope
from fastrec.errors import UsageError
from fastrec.filters import Filters, matches_any

__all__ = ["choose_model", "choose_scopes", "matching_models", "some_names"]

_MOST_NAMES: Final = 10  # listed in a message


def choose_scopes(scopes: Sequence[Scope], filters: Filters) -> list[tuple[Scope, Query]]:
    """Return the scopes that match some filters, each with a query for the questions and models that do.

    An outcome (`right`, `wrong`, `errors`) chooses questions that have such a record of a chosen model.

    Raises:
        UsageError: A pattern matches nothing. The message lists what there is.
    """
    _check("evaluation", filters.evaluation, {one.evaluation_name for one in scopes})
    found = [one for one in scopes if filters.accepts_evaluation(one.evaluation_name)]
    _check("metric", filters.metric, {one.metric or "" for one in found})
    found = [one for one in found if filters.accepts_metric(one.metric)]
    _check("model", filters.model, {model for one in found for model in one.models})
    chosen = [
        (one, _query(one, models, filters))
        for one in found
        if (models := tuple(filter(filters.accepts_model, one.models)))
    ]
    if scopes and not chosen:
        names = some_names({one.evaluation_name for one in scopes})
        others = some_names({model for one in scopes for model in one.models})
        raise UsageError(f"no record matches all filters; evaluations in this corpus: {names}; models: {others}")
    return chosen


def choose_model(pattern: str, models: Collection[str]) -> str:
    """Return the one model that a pattern matches.

    Raises:
        UsageError: It matches none, or several. The message lists them.
    """
    if pattern in models:
        return pattern
    found = [model for model in models if matches_any(model, [pattern])]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{pattern!r} matches {len(found):,} models: {some_names(found)}. Name one of them")
    raise UsageError(f"no model matches {pattern!r}; {_available('model', models)}")


def matching_models(patterns: Sequence[str], models: Collection[str]) -> set[str]:
    """Return the models that match any of some patterns; UsageError if one of these matches none."""
    _check("model", patterns, models)
    return {model for model in models if patterns and matches_any(model, patterns)}


def some_names(names: Collection[str]) -> str:
    """List the first names in order, and count the others."""
    first = sorted(names)[:_MOST_NAMES]
    return ", ".join(first) + (f" and {len(names) - len(first):,} more" if len(names) > len(first) else "")


def _query(scope: Scope, models: tuple[str, ...], filters: Filters) -> Query:
    return Query(
        evaluation_name=scope.evaluation_name,
        metric=scope.metric,
        models=() if models == scope.models else models,
        sample_ids=filters.sample_id,
        hashes=filters.hash,
        outcomes=tuple(outcome for name, outcome in OUTCOME_FILTERS.items() if getattr(filters, name)),
    )


def _check(kind: str, patterns: Sequence[str], names: Collection[str]) -> None:
    for pattern in patterns:
        if not any(matches_any(name, [pattern]) for name in names):
            raise UsageError(f"no {kind} matches {pattern!r}; {_available(kind, names)}")


def _available(kind: str, names: Collection[str]) -> str:
    named = [name for name in names if name]
    if not named and kind == "metric":
        return "the records name no metric (evaluation_result_id)"
    return f"available: {some_names(named)}" if named else f"there are no {kind}s"
