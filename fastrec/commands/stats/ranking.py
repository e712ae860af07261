"""Ranking: the numbers that follow from a summary, and the order of models by one of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from fastrec.commands.stats.choice import Choice, Chosen
from fastrec.commands.stats.document import EvaluationStats, ModelStats, Stats
from fastrec.summary.document import ModelSummary, Tokens

__all__ = ["RANKINGS", "rank"]

RANKINGS: Final[dict[str, Callable[[ModelStats], Any]]] = {
    "accuracy": lambda model: -model.accuracy,
    "score": lambda model: None if model.mean_score is None else -model.mean_score,
    "coverage": lambda model: -model.coverage,
    "errors": lambda model: model.errors / model.records,
    "tokens": lambda model: model.tokens_per_record,
    "latency": lambda model: model.latency_ms.p50,
    "model": lambda model: model.model_id,
}
"""By name: what is smallest for the model that comes first; None comes last."""


def rank(choice: Choice, by: str) -> Stats:
    """Rank the models of each evaluation; equals by accuracy, then by name."""
    place = RANKINGS[by]

    def order(model: ModelStats) -> tuple[Any, ...]:
        value = place(model)
        return value is None, 0 if value is None else value, -model.accuracy, model.model_id

    return Stats(by=by, common=choice.common, evaluations=[_evaluation(chosen, order) for chosen in choice.evaluations])


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


def _model(model: ModelSummary, samples: int) -> ModelStats:
    n, correct = model.records, model.correct
    return ModelStats(
        model_id=model.model_id,
        records=n,
        questions=model.questions,
        coverage=model.questions / samples,
        correct=correct,
        accuracy=model.accuracy,
        accuracy_standard_error=math.sqrt(correct * (n - correct) / (n - 1)) / n if n > 1 else None,
        mean_score=model.mean_score,
        score_standard_error=model.score_standard_error,
        errors=model.errors,
        tokens=model.tokens,
        tokens_per_record=_per_record(model.tokens),
        latency_ms=model.latency_ms,
    )


def _per_record(tokens: Tokens) -> float | None:
    total = int(tokens.total, 16) if isinstance(tokens.total, str) else tokens.total
    try:
        return total / tokens.records if tokens.records else None
    except OverflowError:  # beyond a double
        return None
