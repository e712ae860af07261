"""Compare models between corpora, question by question: values come from the indexes of the corpora."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

import msgspec

from fastrec.answers.index import Index, open_index
from fastrec.answers.table import Query, Scope
from fastrec.limits import Limits
from fastrec.progress import Progress
from fastrec.summary.paired import compare_pairs
from fastrec.trends.corpora import NamedCorpus
from fastrec.trends.document import Change, EvaluationTrend, ModelTrend

__all__ = ["compare_corpora"]

_CELLS: Final = 1_000_000  # values of questions and models to hold at a time, of each of two corpora


class _Comparison(msgspec.Struct):
    """A change to compute."""

    trend: EvaluationTrend
    model: ModelTrend
    change: Change


def compare_corpora(
    corpora: Sequence[NamedCorpus],
    evaluations: Sequence[EvaluationTrend],
    *,
    jobs: int,
    progress: Progress | None,
    limits: Limits,
) -> list[Change]:
    """Compute all changes, pair of corpora by pair, and return them. At most a few indexes are open at a time."""
    numbers = {corpus.name: number for number, corpus in enumerate(corpora)}
    pairs: dict[tuple[int, int], list[_Comparison]] = {}
    for trend in evaluations:
        for model in trend.models:
            for change in model.changes:
                pair = numbers[change.after], numbers[change.before]
                pairs.setdefault(pair, []).append(_Comparison(trend, model, change))
    last_use = {number: pair for pair in sorted(pairs) for number in pair}
    with ExitStack() as stack:
        opened: dict[int, Index] = {}
        for pair in sorted(pairs):
            for number in pair:
                if number not in opened:
                    path = corpora[number].path
                    index = open_index(path, jobs=jobs, progress=progress, limits=limits)
                    opened[number] = stack.enter_context(index)
            _compare_pair(opened[pair[1]], opened[pair[0]], pairs[pair])
            for number in [number for number in opened if last_use[number] == pair]:
                opened.pop(number).close()
    return [one.change for pair in sorted(pairs) for one in pairs[pair]]


def _compare_pair(old: Index, new: Index, comparisons: Sequence[_Comparison]) -> None:
    """Compute the changes between two corpora."""
    by_scope: dict[int, list[_Comparison]] = {}
    for one in comparisons:
        by_scope.setdefault(id(one.trend), []).append(one)
    for some in by_scope.values():
        trend = some[0].trend
        query = Query(evaluation_name=trend.evaluation_name, metric=trend.metric)
        questions = max([scope.questions for index in (old, new) for scope in index.scopes if _is(scope, trend)])
        step = max(_CELLS // questions, 1)
        for start in range(0, len(some), step):
            batch = some[start : start + step]
            models = [one.model.model_id for one in batch]
            before, after = (index.values(query, models, graded=trend.graded) for index in (old, new))
            common = [(before[name], after[name]) for name in before.keys() & after.keys()]
            for column, one in enumerate(batch):
                pairs = ((first[column], second[column]) for first, second in common)
                found = compare_pairs(pairs, graded=trend.graded)
                change = one.change
                change.questions, change.better, change.worse = found.questions, found.rose, found.fell
                change.old, change.new, change.difference = found.first, found.second, found.difference
                change.test, change.p = found.test, found.p


def _is(scope: Scope, trend: EvaluationTrend) -> bool:
    return (scope.evaluation_name, scope.metric) == (trend.evaluation_name, trend.metric)
