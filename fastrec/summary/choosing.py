"""Choose evaluations, metrics and models of a summary by patterns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from fastrec.errors import UsageError
from fastrec.filters import Filters, matches_any
from fastrec.summary.document import EvaluationSummary, ModelSummary, Summary
from fastrec.summary.titles import metrics_of

__all__ = ["Chosen", "choose"]

_MOST_NAMES: Final = 10  # listed in a message


class Chosen(msgspec.Struct):
    """An evaluation with one of its metrics, and the models of it to rank."""

    evaluation: EvaluationSummary
    metrics: int
    """How many metrics the evaluation has."""
    count: int
    """How many models were chosen."""
    answering: int
    """How many of them have answers."""
    models: list[ModelSummary]
    """Their numbers; empty if only common questions count and there are none."""
    common_questions: int | None
    """Questions that all of these have answered, if known."""


def choose(summary: Summary, filters: Filters | None = None, *, errors_as_wrong: bool = False) -> list[Chosen]:
    """Choose evaluations, models and metrics by name. What the filters say about samples and outcomes does not matter.

    With `errors_as_wrong`, records with an error are answers as well.

    Raises:
        UsageError: A pattern matches nothing, or nothing is left.
    """
    filters = filters or Filters()
    evaluations, models, metrics = filters.evaluation, filters.model, filters.metric
    _check("evaluation", evaluations, {one.evaluation_name for one in summary.evaluations})
    found = [one for one in summary.evaluations if filters.accepts_evaluation(one.evaluation_name)]
    _check_metrics(metrics, found)
    found = [one for one in found if matches_any(one.metric or "", metrics)]
    counts = metrics_of(summary.evaluations)
    _check("model", models, {model.model_id for one in found for model in one.by_model}, summary.evaluations)
    chosen = []
    for one in found:
        some = [model for model in one.by_model if filters.accepts_model(model.model_id)]
        if some:
            answering = sum(errors_as_wrong or model.answers > 0 for model in some)
            common = one.questions_all_models if errors_as_wrong else one.questions_answered_by_all
            known = common if len(some) == one.models else None
            chosen.append(Chosen(one, counts[one.evaluation_name], len(some), answering, some, known))
    if summary.evaluations and not chosen:
        names = {one.evaluation_name for one in summary.evaluations}
        ids = {model.model_id for one in summary.evaluations for model in one.by_model}
        raise UsageError(f"nothing is left; evaluations: {_some(names)}; models: {_some(ids)}")
    return chosen


def _check_metrics(patterns: Sequence[str], evaluations: Sequence[EvaluationSummary]) -> None:
    """Check that each pattern matches a metric of these evaluations."""
    names = {one.metric for one in evaluations if one.metric is not None}
    for pattern in patterns:
        if not any(matches_any(one.metric or "", [pattern]) for one in evaluations):
            available = f"available: {_some(names)}" if names else "the records name no metric (evaluation_result_id)"
            raise UsageError(f"no metric of the chosen evaluations matches {pattern!r}; {available}")


def _check(
    kind: str, patterns: Sequence[str], names: Collection[str], everywhere: Sequence[EvaluationSummary] = ()
) -> None:
    """Check that each pattern matches a name; `everywhere` has the evaluations that were not chosen too."""
    for pattern in patterns:
        if any(matches_any(name, [pattern]) for name in names):
            continue
        available = f"available: {_some(names)}" if names else f"there are no {kind}s"
        others = {
            one.evaluation_name
            for one in everywhere
            if any(matches_any(model.model_id, [pattern]) for model in one.by_model)
        }
        if not others:
            raise UsageError(f"no {kind} matches {pattern!r}; {available}")
        raise UsageError(
            f"no {kind} of the chosen evaluations matches {pattern!r}; {available}. "
            f"It matches {kind}s of other evaluations: {_some(others)}"
        )


def _some(names: Collection[str]) -> str:
    """List the first names in order, and count the others."""
    first = sorted(names)[:_MOST_NAMES]
    return ", ".join(first) + (f" and {len(names) - len(first):,} more" if len(names) > len(first) else "")
