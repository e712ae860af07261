"""Open the questions of a corpus, and choose scopes and models by filters."""

from collections.abc import Collection, Sequence
from typing import Unpack

from msgspec.structs import replace

from fastrec.answers.codes import by_key
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.selection import Groups, How, select
from fastrec.answers.table import OUTCOME_FILTERS, Query, Scope
from fastrec.engine import check_jobs
from fastrec.errors import NoMatchError, UsageError, listed
from fastrec.filters import Filters, Strings, as_tuple, matches_any
from fastrec.parameters import AnyPath
from fastrec.summary.present_choice import check_patterns, matching_scopes

# Scopes, each with a query for the questions and models that match.
Chosen = Sequence[tuple[Scope, Query]]


def open_index(
    corpus: AnyPath,
    filters: Filters = Filters(),  # noqa: B008 - frozen
    groups: Groups = (),
    *,
    lower_is_better: Strings = (),
    **how: Unpack[How],
) -> QuestionTable:
    """Open the questions of a corpus: of all records, or of those that match.

    With groups, each is an evaluation. Scores of metrics that `lower_is_better` names are better
    the lower they are.
    """
    check_jobs(how.get("jobs", 1))
    index = QuestionTable(select(corpus, filters, groups, **how))
    index.direct(as_tuple("lower_is_better", lower_is_better))
    return index


def open_scopes(
    corpus: AnyPath,
    filters: Filters,
    groups: Groups = (),
    *,
    metrics: str = "judgements",
    lower_is_better: Strings = (),
    **how: Unpack[How],
) -> tuple[QuestionTable, Chosen]:
    """Open the questions of a corpus, and choose its scopes: how commands about questions begin."""
    by_record = Filters(where=filters.where)
    if groups or by_record:
        by_record = by_record.within(filters)
    if groups:
        filters = filters.within(Filters())
    index = open_index(corpus, by_record, groups, lower_is_better=lower_is_better, **how)
    return index, choose_scopes(index.scopes, filters, "all" if groups else metrics)


def choose_scopes(
    scopes: Sequence[Scope], filters: Filters, metrics: str = "judgements"
) -> list[tuple[Scope, Query]]:
    """Choose the scopes that match some filters, each with a query.

    An outcome (`right`, `wrong`, `errors`) chooses questions that have such a record of a chosen
    model.
    """
    outcomes = tuple(outcome for name, outcome in OUTCOME_FILTERS.items() if getattr(filters, name))
    chosen = []
    for scope, names in matching_scopes(scopes, filters, lambda scope: scope.models, metrics):
        models = tuple(model for model in scope.models if model in names)
        query = Query(
            evaluation_name=scope.evaluation_name,
            metric=scope.metric,
            models=() if models == scope.models else models,
            sample_ids=filters.sample_id,
            hashes=filters.hash,
            outcomes=outcomes,
        )
        chosen.append((scope, query))
    return chosen


def other_metrics(index: QuestionTable, chosen: Chosen, filters: Filters) -> int:
    """How many metrics are not chosen because they judge no answer: costs and bookkeeping."""
    return len(choose_scopes(index.scopes, filters, "all")) - len(chosen)


def choose_primary(scopes: Chosen, primary: Sequence[str] = ()) -> Chosen:
    """Choose a metric of each evaluation.

    It is the one that EVALUATION=METRIC says, or that records say, or the first by name.
    """
    by_name = by_key((pair[0].evaluation_name, pair) for pair in scopes)
    chosen = {
        name: min(pairs, key=lambda pair: not pair[0].primary) for name, pairs in by_name.items()
    }
    for choice in primary:
        evaluation, _, metric = choice.rpartition("=")
        matching = {
            scope.evaluation_name: (scope, query)
            for scope, query in reversed(scopes)  # the first metric by name is set last
            if evaluation
            and matches_any(scope.evaluation_name, [evaluation])
            and matches_any(scope.metric or "", [metric])
        }
        if not matching:
            known = [f"{scope.evaluation_name}={scope.metric or ''}" for scope, _ in scopes]
            raise UsageError(
                f"--primary {choice!r} is no EVALUATION=METRIC of this corpus, which has "
                f"{listed(known)}"
            )
        chosen |= matching
    return list(chosen.values())


def primary_queries(
    index: QuestionTable, filters: Filters, metrics: str, primary: Sequence[str] = ()
) -> list[Query]:
    """The queries for the primary metrics of the chosen evaluations."""
    chosen = choose_primary(choose_scopes(index.scopes, filters, metrics), primary)
    return [query for _, query in chosen]


def check_questions(index: QuestionTable, scopes: Chosen, filters: Filters) -> None:
    """Check that some question has a chosen `sample_id` and `sample_hash`, whatever its answers."""
    if not (filters.sample_id or filters.hash):
        return
    for _, query in scopes:
        if len(index.ids(replace(query, outcomes=()))):
            return
    asked = Filters(sample_id=filters.sample_id, hash=filters.hash)
    raise NoMatchError(
        f"no question matches {asked}; `fastrec questions` lists them, and 'abcd*' stands for "
        "those whose name begins with abcd"
    )


def choose_model(pattern: str, models: Collection[str]) -> str:
    """The only model that a pattern matches."""
    if pattern in models:
        return pattern
    check_patterns("model", [pattern], models)
    matching = [model for model in models if matches_any(model, [pattern])]
    if len(matching) > 1:
        raise UsageError(
            f"{pattern!r} matches {len(matching):,} models: {listed(sorted(matching))}. Name one "
            "of them"
        )
    return matching[0]
