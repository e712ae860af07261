"""What tests and clusters add to the models of an evaluation and metric.

Rank ranges come from tests (`statistics.ranks`). If questions come in clusters, standard errors and
intervals are over these (`statistics.clusters`).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.values import value_blocks
from fastrec.limits import current_limits
from fastrec.statistics.clusters import cluster_errors
from fastrec.statistics.intervals import score_interval, wilson_interval
from fastrec.statistics.p_values import Bools
from fastrec.statistics.ranks import pair_sums, rank_ranges, significant
from fastrec.summary.present_ranking import EvaluationStats, ModelStats


def add_ranks(
    evaluations: Sequence[EvaluationStats], index: QuestionTable, *, common: bool = False
) -> None:
    """Add rank ranges to the models that are not `unranked`."""
    most = current_limits().compared_models
    for evaluation in evaluations:
        ranked = [model for model in evaluation.by_model if not model.unranked]
        for model in ranked[most:]:
            model.unranked = f"only the first {most:,} models are tested"
        names = [model.model_id for model in ranked[:most]]
        graded = evaluation.by == "score"
        sums = pair_sums(
            value_blocks(index, evaluation, names, graded=graded, common=common), len(names)
        )
        set_ranks(ranked[:most], significant(sums, lower=graded and evaluation.lower_is_better))


def set_ranks(models: Iterable[Any], better: Bools) -> None:
    """Set the rank ranges of models, given which are significantly better than which."""
    for model, (best, worst) in zip(models, rank_ranges(better), strict=True):
        model.rank_best = best
        model.rank_worst = worst


def add_cluster_errors(
    evaluations: Sequence[EvaluationStats], index: QuestionTable, *, common: bool
) -> None:
    """Set the standard errors and intervals of models over clusters of questions."""
    for evaluation in evaluations:
        evaluation.clusters = int(index.table(evaluation).clusters.max()) + 1
        models = [model for model in evaluation.by_model if model.questions]
        names = [model.model_id for model in models]
        for graded in (False, True):
            means = [model.mean_score if graded else model.accuracy for model in models]
            blocks = value_blocks(index, evaluation, names, graded=graded, common=common)
            errors = cluster_errors(blocks, np.array(means, dtype=np.float64))
            for model, (error, effective) in zip(models, errors, strict=True):
                if effective < model.questions:  # else the numbers over questions are exact
                    _set_error(model, error, effective, graded=graded)


def _set_error(model: ModelStats, error: float | None, effective: float, *, graded: bool) -> None:
    if graded:
        model.score_standard_error = error
        model.score_low, model.score_high = score_interval(model.mean_score, error)
    else:
        model.accuracy_standard_error = error
        model.accuracy_low, model.accuracy_high = wilson_interval(
            model.accuracy, error, model.questions, model.answers, effective
        )
