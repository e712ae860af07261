"""Choose scopes and models of an index by the filters of a command."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fastrec.answers.table import OUTCOME_FILTERS, Query, Scope
from fastrec.errors import UsageError, listed
from fastrec.filters import Filters, matches_any
from fastrec.summary.choosing import check_patterns, matching_scopes

__all__ = ["choose_model", "choose_scopes", "matching_models"]


def choose_scopes(scopes: Sequence[Scope], filters: Filters) -> list[tuple[Scope, Query]]:
    """Return the scopes that match some filters, each with a query for the questions and models that do.

    An outcome (`right`, `wrong`, `errors`) chooses questions that have such a record of a chosen model.

    Raises:
        UsageError: A pattern matches nothing, or nothing is left. The message lists what there is.
    """
    found = matching_scopes(scopes, filters, lambda scope: scope.models)
    return [(scope, _query(scope, models, filters)) for scope, models in found]


def choose_model(pattern: str, models: Collection[str]) -> str:
    """Return the one model that a pattern matches.

    Raises:
        UsageError: It matches none, or several. The message lists them.
    """
    if pattern in models:
        return pattern
    found = [model for model in models if matches_any(model, [pattern])]
    check_patterns("model", [pattern], models)
    if len(found) > 1:
        raise UsageError(f"{pattern!r} matches {len(found):,} models: {listed(sorted(found))}. Name one of them")
    return found[0]


def matching_models(patterns: Sequence[str], models: Collection[str]) -> set[str]:
    """Return the models that match any of some patterns; UsageError if one of these matches none."""
    check_patterns("model", patterns, models)
    return {model for model in models if patterns and matches_any(model, patterns)}


def _query(scope: Scope, models: Collection[str], filters: Filters) -> Query:
    return Query(
        evaluation_name=scope.evaluation_name,
        metric=scope.metric,
        models=() if len(models) == len(scope.models) else tuple(filter(models.__contains__, scope.models)),
        sample_ids=filters.sample_id,
        hashes=filters.hash,
        outcomes=tuple(outcome for name, outcome in OUTCOME_FILTERS.items() if getattr(filters, name)),
    )
