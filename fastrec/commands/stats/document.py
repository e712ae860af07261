"""What `stats` gives: evaluations, and in each the models that were chosen, the best first."""

from __future__ import annotations

import msgspec

from fastrec.summary.document import Latency, Tokens

__all__ = ["EvaluationStats", "ModelStats", "Stats"]


class ModelStats(msgspec.Struct, kw_only=True):
    """One model on one evaluation."""

    model_id: str
    records: int
    """How many of it count."""
    questions: int
    """Distinct samples that the records answer."""
    coverage: float
    """The share of the evaluation's samples that those are."""
    correct: int
    """Records with evaluation.is_correct."""
    accuracy: float
    """correct / records."""
    accuracy_standard_error: float | None
    """From the sample variance, as that of the score; None for a single record."""
    mean_score: float | None
    """Of evaluation.score; true is 1."""
    score_standard_error: float | None
    """From the sample variance; None for a single record."""
    errors: int
    """Records with a non-empty error."""
    tokens: Tokens
    tokens_per_record: float | None
    """Of the records that say it."""
    latency_ms: Latency


class EvaluationStats(msgspec.Struct, kw_only=True):
    """One evaluation."""

    evaluation_name: str
    records: int
    """Of the models chosen, and on common samples alone if that was asked for."""
    models: int
    """All that there are."""
    chosen: int
    """Those that were chosen."""
    questions: int
    """All that there are."""
    common_questions: int | None
    """Those that all chosen models answered; None if nobody counted: only a look at the records tells."""
    by_model: list[ModelStats]
    """The models chosen, ranked; none of them if there are no common samples and only those count."""


class Stats(msgspec.Struct, kw_only=True):
    """How the models of each evaluation compare."""

    by: str
    """What models are ranked by."""
    common: bool
    """Whether only samples count that all chosen models of an evaluation answered."""
    evaluations: list[EvaluationStats]
    """By evaluation_name."""
