"""Rank ranges of models within an evaluation and metric (`statistics.ranks`)."""

from __future__ import annotations

from collections.abc import Sequence

from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Query
from fastrec.answers.values import value_blocks
from fastrec.limits import current_limits
from fastrec.statistics.ranks import pair_sums, rank_ranges, significant
from fastrec.summary.present_ranking import EvaluationStats


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
