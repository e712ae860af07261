"""Model statistics: the numbers that follow from a summary, with the models of each evaluation ranked.

`choose` selects evaluations and models. `rank` builds the `Stats` document that `fastrec stats --format json` prints
and that the HTML report shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from fastrec.errors import UsageError
from fastrec.summary.document import EvaluationSummary, Latency, ModelSummary, Summary, Tokens
from fastrec.summary.rows import from_portable

__all__ = ["RANKINGS", "Chosen", "EvaluationStats", "ModelStats", "Stats", "choose", "rank"]

_MOST_NAMES: Final = 10  # listed in a message


class ModelStats(msgspec.Struct, kw_only=True):
    """One model on one evaluation."""

    model_id: str
    records: int
    """Records that count."""
    questions: int
    """Distinct questions that these records answer."""
    coverage: float
    """Share of the evaluation's questions that the model answered."""
    correct: int
    """Records with evaluation.is_correct."""
    accuracy: float
    """correct / records."""
    accuracy_standard_error: float | None
    """From the sample variance, like score_standard_error; null for a single record."""
    mean_score: float | None
    """Mean of evaluation.score; true is 1."""
    score_standard_error: float | None
    """From the sample variance; null for a single record."""
    errors: int
    """Records with a non-empty error."""
    tokens: Tokens
    tokens_per_record: float | None
    """Mean over the records that have a token_usage."""
    latency_ms: Latency


class EvaluationStats(msgspec.Struct, kw_only=True):
    """One evaluation."""

    evaluation_name: str
    records: int
    """Records of the chosen models; with --common, only those on common questions."""
    models: int
    """Models that have records of this evaluation."""
    chosen: int
    """Models that were chosen."""
    questions: int
    """Questions of this evaluation."""
    common_questions: int | None
    """Questions that every chosen model answered; null if they were not counted, which takes --common."""
    by_model: list[ModelStats]
    """The chosen models, best first; empty with --common if they have no question in common."""


class Stats(msgspec.Struct, kw_only=True):
    """How the models of each evaluation compare."""

    by: str
    """What models are ranked by."""
    common: bool
    """Whether only questions count that every chosen model of an evaluation answered."""
    skipped: list[str]
    """Shards that could not be read when the corpus was made, with `--skip-bad-shards`; their records do not count."""
    evaluations: list[EvaluationStats]
    """Ordered by evaluation_name."""


class Chosen(msgspec.Struct):
    """An evaluation, and the models of it to rank."""

    evaluation: EvaluationSummary
    count: int
    """How many models were chosen."""
    models: list[ModelSummary]
    """Their numbers; empty if only common questions count and there are none."""
    common_questions: int | None
    """Questions that every chosen model answered, if known."""


RANKINGS: Final[dict[str, Callable[[ModelStats], Any]]] = {
    "accuracy": lambda model: -model.accuracy,
    "score": lambda model: None if model.mean_score is None else -model.mean_score,
    "coverage": lambda model: -model.coverage,
    "errors": lambda model: model.errors / model.records,
    "tokens": lambda model: model.tokens_per_record,
    "latency": lambda model: model.latency_ms.p50,
    "model": lambda model: model.model_id,
}
"""Sort keys by name: the best model has the smallest key, and None sorts last."""


def choose(summary: Summary, evaluations: Sequence[str] = (), models: Sequence[str] = ()) -> list[Chosen]:
    """Choose the evaluations and models that match any shell-style pattern of their kind; no patterns choose all.

    Raises:
        UsageError: A pattern matches nothing.
    """
    _check("evaluation", evaluations, {one.evaluation_name for one in summary.evaluations})
    found = [one for one in summary.evaluations if _matches(one.evaluation_name, evaluations)]
    _check("model", models, {model.model_id for one in found for model in one.by_model}, summary.evaluations)
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


def _check(
    kind: str, patterns: Sequence[str], names: Collection[str], everywhere: Sequence[EvaluationSummary] = ()
) -> None:
    """Check that each pattern matches a name; `everywhere` has the evaluations that were not chosen too."""
    for pattern in patterns:
        if any(_matches(name, [pattern]) for name in names):
            continue
        available = f"available: {_some(names)}" if names else f"there are no {kind}s"
        others = [
            one.evaluation_name
            for one in everywhere
            if any(_matches(model.model_id, [pattern]) for model in one.by_model)
        ]
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


def rank(chosen: Sequence[Chosen], by: str = "accuracy", *, common: bool = False, skipped: Sequence[str] = ()) -> Stats:
    """Rank the models of each evaluation; ties are broken by accuracy, then by name. `skipped` is only passed on."""
    key = RANKINGS[by]

    def order(model: ModelStats) -> tuple[Any, ...]:
        value = key(model)
        return value is None, 0 if value is None else value, -model.accuracy, model.model_id

    evaluations = [_evaluation(one, order) for one in chosen]
    return Stats(by=by, common=common, skipped=list(skipped), evaluations=evaluations)


def _evaluation(chosen: Chosen, order: Callable[[ModelStats], Any]) -> EvaluationStats:
    evaluation = chosen.evaluation
    return EvaluationStats(
        evaluation_name=evaluation.evaluation_name,
        records=sum(model.records for model in chosen.models),
        models=evaluation.models,
        chosen=chosen.count,
        questions=evaluation.questions,
        common_questions=chosen.common_questions,
        by_model=sorted((_model(model, evaluation.questions) for model in chosen.models), key=order),
    )


def _model(model: ModelSummary, questions: int) -> ModelStats:
    n, correct, tokens = model.records, model.correct, model.tokens
    try:
        per_record = from_portable(tokens.total) / tokens.records if tokens.records else None
    except OverflowError:  # too large for a double
        per_record = None
    same = {name: getattr(model, name) for name in ModelStats.__struct_fields__ if hasattr(model, name)}
    return ModelStats(
        **same,
        coverage=model.questions / questions,
        accuracy_standard_error=math.sqrt(correct * (n - correct) / (n - 1)) / n if n > 1 else None,
        tokens_per_record=per_record,
    )
