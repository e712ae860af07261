"""Values of models as blocks of questions × models, and the rank ranges that follow (`statistics.ranks`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from fastrec.answers.index import Index, cut_of
from fastrec.answers.marks import VALUES_BY_FLAGS
from fastrec.answers.table import Query
from fastrec.limits import current_limits
from fastrec.statistics.p_values import Array
from fastrec.statistics.ranks import pair_sums, rank_ranges, significant
from fastrec.summary.present_ranking import EvaluationStats

_VALUES: Final = np.array([np.nan if value is None else value for value in VALUES_BY_FLAGS])


def blocks_of(
    index: Index, query: Query, models: Sequence[str], *, graded: bool, common: bool = False
) -> Iterator[Array]:
    """Yield the values of some models, many questions at a time: questions × models, NaN without an answer.

    With `common`, only questions that all of them have answered.
    """
    scope = index.scope(query)
    assert scope is not None
    cut, positions = cut_of(scope, models)
    places = [positions[model][1] for model in models]
    for _, flags, shares, scores in index.marks(query, index.ids(query), cut, "flags", "shares", "scores"):
        values = _VALUES[_matrix(flags, np.uint8)[:, places]]
        packed = [score or share for score, share in zip(scores, shares, strict=True)] if graded else shares
        rows = [row for row, one in enumerate(packed) if one]
        if rows:
            exact = _matrix([packed[row] for row in rows], np.float64)[:, places]
            values[rows] = np.where(np.isnan(values[rows]), np.nan, exact)
        yield values[~np.isnan(values).any(axis=1)] if common else values


def _matrix(rows: Sequence[bytes], kind: Any) -> np.ndarray[Any, Any]:
    return np.frombuffer(b"".join(rows), dtype=kind).reshape(len(rows), -1)


def add_ranks(evaluations: Sequence[EvaluationStats], index: Index, *, common: bool = False) -> None:
    """Add rank ranges to the models that are not `unranked`."""
    most = current_limits().compared_models
    for one in evaluations:
        ranked = [model for model in one.by_model if not model.unranked]
        for model in ranked[most:]:
            model.unranked = f"only the first {most:,} models are tested"
        names = [model.model_id for model in ranked[:most]]
        query = Query(evaluation_name=one.evaluation_name, metric=one.metric)
        graded = one.by == "score"
        sums = pair_sums(blocks_of(index, query, names, graded=graded, common=common), len(names))
        ranges = rank_ranges(significant(sums, lower=graded and one.lower_is_better))
        for model, (best, worst) in zip(ranked, ranges, strict=False):
            model.rank_best, model.rank_worst = best, worst
