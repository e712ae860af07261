"""Choose scopes, questions and models of an index by the filters of a command."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from fastrec.answers.index import Index
from fastrec.answers.table import OUTCOME_FILTERS, Query, Scope
from fastrec.errors import NoMatchError, UsageError, listed
from fastrec.filters import Filters, matches_any
from fastrec.summary.choosing import check_patterns, matching_scopes

__all__ = ["check_questions", "choose_model", "choose_scopes"]

_EXAMPLES: Final = 5
_LONGEST: Final = 80  # characters of an id in a message


def choose_scopes(scopes: Sequence[Scope], filters: Filters) -> list[tuple[Scope, Query]]:
    """Return the scopes that match some filters, each with a query for the questions and models that do.

    An outcome (`right`, `wrong`, `errors`) chooses questions that have such a record of a chosen model.

    Raises:
        UsageError: A pattern matches nothing, or nothing is left. The message lists what there is.
    """
    found = matching_scopes(scopes, filters, lambda scope: scope.models)
    return [(scope, _query(scope, models, filters)) for scope, models in found]


def check_questions(index: Index, queries: Iterable[Query], filters: Filters) -> None:
    """Check that some question has a chosen `sample_id` and `sample_hash`, whatever its answers.

    Raises:
        NoMatchError: None has. The message names some that there are.
    """
    if not filters.chooses_questions:
        return
    examples: dict[str, str] = {}
    for query in queries:
        if index.page(msgspec.structs.replace(query, outcomes=()), limit=1).total:
            return
        first = msgspec.structs.replace(query, outcomes=(), sample_ids=(), hashes=())
        examples |= {str(row.sample_id)[:_LONGEST]: row.sample_hash for row in index.page(first, limit=_EXAMPLES).rows}
    asked = Filters(sample_id=filters.sample_id, hash=filters.hash)
    there_are = f"sample_ids: {', '.join(list(examples)[:_EXAMPLES])}, …" if filters.sample_id else ""
    if not there_are:
        there_are = f"hashes: {', '.join(list(examples.values())[:2])}, …; give 'abcd*' for the beginning of a hash"
    raise NoMatchError(f"no question matches {asked}; {there_are}")


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


def _query(scope: Scope, models: Collection[str], filters: Filters) -> Query:
    return Query(
        evaluation_name=scope.evaluation_name,
        metric=scope.metric,
        models=() if len(models) == len(scope.models) else tuple(filter(models.__contains__, scope.models)),
        sample_ids=filters.sample_id,
        hashes=filters.hash,
        outcomes=tuple(outcome for name, outcome in OUTCOME_FILTERS.items() if getattr(filters, name)),
    )
