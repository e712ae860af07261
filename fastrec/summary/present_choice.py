"""Present a summary: choose evaluations, metrics and models by name."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from fastrec.errors import NoMatchError, UsageError, check_choice, counted, did_you_mean, listed
from fastrec.filters import Filters, matches_any, nothing_matches
from fastrec.summary.document import EvaluationSummary, Kind, filled
from fastrec.where import without_group
from fastrec.wording import Scope, metrics_of


class Names(Struct):
    """Which names the records of a corpus have, each once, in the order of the summary."""

    evaluations: list[str]
    metrics: list[str | None]  # None stands for records without a metric
    models: list[str]


def names_of(evaluations: Sequence[EvaluationSummary]) -> Names:
    return Names(
        evaluations=list(dict.fromkeys(scope.evaluation_name for scope in evaluations)),
        metrics=list(dict.fromkeys(scope.metric for scope in evaluations)),
        models=list(
            dict.fromkeys(model.model_id for scope in evaluations for model in scope.by_model)
        ),
    )


def no_match(filters: Filters, evaluations: Sequence[EvaluationSummary]) -> NoMatchError:
    """The error if no record matches, with the nearest names, or else the first ones."""
    names = {
        kind: sorted(filter(None, known)) for kind, known in asdict(names_of(evaluations)).items()
    }
    return nothing_matches(filters, names)


METRICS = ("judgements", "all")  # which metrics to look at, unless they are chosen by name


class ScopeWithKind(Scope, Protocol):
    @property
    def kind(self) -> Kind: ...


_Scope = TypeVar("_Scope", bound=ScopeWithKind)


class Chosen(EvaluationSummary, kw_only=True):
    """An evaluation with one of its metrics, and the chosen models of it.

    `by_model` is empty if only common questions count and there are none.
    """

    metrics: int
    chosen: int
    answering: int
    common_questions: int | None  # questions that all of these have answered, if known


def choose(
    results: Sequence[EvaluationSummary],
    filters: Filters | None = None,
    *,
    errors_as_wrong: bool = False,
    metrics: str = "judgements",
) -> list[Chosen]:
    """Choose evaluations, models and metrics by name.

    What the filters say about samples and outcomes does not matter.

    With `errors_as_wrong`, records with an error are answers as well.
    """
    counts = metrics_of(results)
    chosen = []
    for scope, names in matching_scopes(
        results,
        filters or Filters(),
        lambda scope: [model.model_id for model in scope.by_model],
        metrics,
    ):
        models = [model for model in scope.by_model if model.model_id in names]
        answering = sum(errors_as_wrong or model.answers > 0 for model in models)
        common = scope.questions_all_models if errors_as_wrong else scope.questions_answered_by_all
        known = common if len(models) == scope.models else None
        chosen.append(
            filled(
                Chosen,
                scope,
                metrics=counts[scope.evaluation_name],
                chosen=len(models),
                answering=answering,
                common_questions=known,
                by_model=models,
            )
        )
    return chosen


def with_directions(
    scopes: Sequence[_Scope], lower_is_better: Sequence[str], known: Sequence[Scope]
) -> list[_Scope]:
    """Return scopes with the directions that `--lower-is-better` says; what records say stays.

    A pattern matches a metric, an evaluation, or both joined by `/`: one of those that are known,
    whether it was chosen or not.
    """
    for pattern in lower_is_better:
        if not any(_matches_scope(scope, [pattern]) for scope in known):
            names = [scope.metric or scope.evaluation_name for scope in known]
            raise UsageError(
                f"--lower-is-better {pattern!r} matches no metric and no evaluation"
                f"{did_you_mean(pattern, names)}"
            )
    return [
        replace(scope, lower_is_better=True, graded=True)  # type: ignore[type-var]
        if lower_is_better and _matches_scope(scope, lower_is_better)
        else scope
        for scope in scopes
    ]


def _matches_scope(scope: Scope, patterns: Sequence[str]) -> bool:
    names = names_of_scope(without_group(scope.evaluation_name), scope.metric)
    return any(matches_any(name, patterns) for name in names)


def names_of_scope(evaluation: str, metric: str | None) -> list[str]:
    """What a pattern may match: the evaluation, its metric, and both joined by `/`."""
    return [evaluation, *([metric, f"{evaluation}/{metric}"] if metric else [])]


def others_in_words(others: int) -> list[str]:
    """Say how many metrics are not shown because they judge nothing; nothing if there are none."""
    return (
        [f"{counted(others, 'other metric')} judge no answer; --metrics all shows them."]
        if others
        else []
    )


def matching_scopes(
    scopes: Sequence[_Scope],
    filters: Filters,
    models_of: Callable[[_Scope], Collection[str]],
    metrics: str,
) -> list[tuple[_Scope, set[str]]]:
    """Find evaluations and metrics whose names match the filters, with their matching models.

    Unless metrics are chosen by name or `metrics` is `all`, only those that judge answers are
    chosen. An evaluation that has none of them keeps all.
    """
    check_choice("metrics", metrics, METRICS)
    check_patterns("evaluation", filters.evaluation, {scope.evaluation_name for scope in scopes})
    matching = [scope for scope in scopes if filters.accepts_evaluation(scope.evaluation_name)]
    where = " of the chosen evaluations" if len(matching) < len(scopes) else ""
    check_patterns("metric", filters.metric, {scope.metric or "" for scope in matching}, where)
    matching = [scope for scope in matching if filters.accepts_metric(scope.metric)]
    if metrics == "judgements" and not filters.metric:
        judged = {scope.evaluation_name for scope in matching if scope.kind == "judgement"}
        matching = [
            scope
            for scope in matching
            if scope.kind == "judgement" or scope.evaluation_name not in judged
        ]
    models = {model for scope in matching for model in models_of(scope)}
    for pattern in [pattern for pattern in filters.model if not matches_one(pattern, models)]:
        elsewhere = {
            scope.evaluation_name for scope in scopes if matches_one(pattern, models_of(scope))
        }
        if elsewhere:
            raise UsageError(
                f"no model of the chosen evaluations matches {pattern!r}; "
                f"{_available('model', models)}. It matches "
                f"models of other evaluations: {listed(sorted(elsewhere))}"
            )
    check_patterns("model", filters.model, models)
    chosen = [(scope, set(filter(filters.accepts_model, models_of(scope)))) for scope in matching]
    chosen = [(scope, names) for scope, names in chosen if names]
    if scopes and not chosen:
        names = {
            "evaluations": sorted({scope.evaluation_name for scope in scopes}),
            "models": sorted({model for scope in scopes for model in models_of(scope)}),
        }
        raise nothing_matches(filters, names)
    return chosen


def check_patterns(
    kind: str, patterns: Sequence[str], names: Collection[str], where: str = ""
) -> None:
    """Raise a UsageError if a pattern matches no name of a kind; an empty name stands for none."""
    for pattern in patterns:
        if not matches_one(pattern, names):
            hint = did_you_mean(pattern, filter(None, names)) or f"; {_available(kind, names)}"
            raise UsageError(f"no {kind}{where} matches {pattern!r}{hint}")


def matches_one(pattern: str, names: Iterable[str]) -> bool:
    """Whether a pattern matches one of some names."""
    return any(matches_any(name, [pattern]) for name in names)


def _available(kind: str, names: Collection[str]) -> str:
    named = sorted(filter(None, names))
    if not named and kind == "metric":
        return "the records name no metric (evaluation_result_id)"
    return f"available: {listed(named)}" if named else f"there are no {kind}s"
