"""What tests and clusters add to the models of an evaluation and metric.

Rank ranges come from tests (`statistics.ranks`). If questions come in clusters, standard errors and
intervals are over these (`statistics.clusters`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Query
from fastrec.answers.values import value_blocks
from fastrec.limits import current_limits
from fastrec.statistics.clusters import cluster_errors
from fastrec.statistics.intervals import score_interval, wilson_interval
from fastrec.statistics.ranks import pair_sums, rank_ranges, significant
from fastrec.statistics.repeats import MEAN, RepeatsAs
from fastrec.summary.present_ranking import EvaluationStats, ModelStats


def add_ranks(
    evaluations: Sequence[EvaluationStats], index: QuestionTable, *, common: bool = False
) -> None:
    """Add rank ranges to the models that are not `unranked`."""
    most = current_limits().compared_models
    for one in evaluations:
        ranked = [model for model in one.by_model if not model.unranked]
        for model in ranked[most:]:
            model.unranked = f"only the first {most:,} models are tested"
        names = [model.model_id for model in ranked[:most]]
        query = Query(evaluation_name=one.evaluation_name, metric=one.metric)
        graded = one.by == "score"
        sums = pair_sums(
            value_blocks(index, query, names, graded=graded, common=common), len(names)
        )
        ranges = rank_ranges(significant(sums, lower=graded and one.lower_is_better))
        for model, (best, worst) in zip(ranked, ranges, strict=False):
            model.rank_best = best
            model.rank_worst = worst


def add_cluster_errors(
    evaluations: Sequence[EvaluationStats],
    index: QuestionTable,
    repeats: RepeatsAs,
    *,
    common: bool = False,
) -> None:
    """Set the standard errors and intervals of models over clusters of questions."""
    for one in evaluations:
        query = Query(evaluation_name=one.evaluation_name, metric=one.metric)
        one.clusters = index.table(query).count_clusters()
        models = [model for model in one.by_model if model.questions]
        blocks = partial(
            value_blocks,
            index,
            query,
            [model.model_id for model in models],
            common=common,
            repeats=repeats,
        )
        accuracies = np.array([model.accuracy for model in models], dtype=np.float64)
        errors, least = cluster_errors(blocks(graded=False), accuracies)
        scores = np.array([model.mean_score for model in models], dtype=np.float64)
        score_errors, _ = cluster_errors(blocks(graded=one.graded or repeats == MEAN), scores)
        with_errors = zip(models, errors, score_errors, least, strict=True)
        for model, error, score_error, at_least in with_errors:
            if at_least < model.questions:  # else each is one of its own, and the numbers are exact
                _set_errors(model, _or_none(error), _or_none(score_error), float(at_least))


def _or_none(error: float) -> float | None:
    return float(error) if math.isfinite(error) else None


def _set_errors(
    model: ModelStats, error: float | None, score_error: float | None, least: float
) -> None:
    model.accuracy_standard_error = error
    model.accuracy_low, model.accuracy_high = wilson_interval(
        model.accuracy, error, model.questions, model.answers, least
    )
    model.score_standard_error = score_error
    model.score_low, model.score_high = score_interval(model.mean_score, score_error)
