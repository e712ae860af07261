"""Collect the values of models over corpora, and find the changes that are more than chance.

1. Read manifests and summaries; merge what they have into scopes, and choose some of these by filters.
2. Values, records and errors come from the summaries.
3. For each corpus and the ones before it in which its models last had answers, compare the values of questions, which
   come from the indexes of the corpora.
4. Adjust all p-values for their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Final

import msgspec

from fastrec.answers.choosing import choose_scopes
from fastrec.answers.index import Index, open_index
from fastrec.answers.table import Query, Scope
from fastrec.corpus.documents import read_manifest, read_summary
from fastrec.corpus.manifest import Manifest
from fastrec.errors import UsageError, utf8
from fastrec.filters import Filters
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress
from fastrec.summary.document import ModelSummary, Summary
from fastrec.summary.paired import compare_pairs
from fastrec.summary.significance import adjust
from fastrec.summary.titles import metrics_of
from fastrec.trends.document import Change, EvaluationTrend, ModelTrend, Night, Point, Trend
from fastrec.trends.nights import Found, find_nights

__all__ = ["collect_trend"]

_CELLS: Final = 4_000_000  # values of questions and models to hold at a time, of each of two corpora


class _Corpus(msgspec.Struct):
    """A corpus and what its summary says."""

    found: Found
    manifest: Manifest
    summary: Summary
    models: dict[tuple[str, str | None], dict[str, ModelSummary]]
    """By evaluation and metric."""

    @classmethod
    def read(cls, found: Found) -> _Corpus:
        manifest = read_manifest(found.path)
        summary = read_summary(found.path, manifest)
        models = {
            (one.evaluation_name, one.metric): {model.model_id: model for model in one.by_model}
            for one in summary.evaluations
        }
        return cls(found, manifest, summary, models)

    def all_models(self) -> set[str]:
        return {model for models in self.models.values() for model in models}


class _Comparison(msgspec.Struct):
    """A change to compute."""

    trend: EvaluationTrend
    model: ModelTrend
    change: Change


def collect_trend(
    paths: Sequence[str],
    *,
    filters: Filters | None = None,
    p: float = 0.05,
    jobs: int = 1,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
) -> Trend:
    """Collect the trend over corpora; see `fastrec.trend`."""
    if not 0 <= p <= 1:
        raise UsageError(f"p must be between 0 and 1, not {p}")
    found, notices = find_nights(paths)
    corpora = [_Corpus.read(one) for one in found]
    scopes = _merged(corpora)
    metrics = metrics_of(scopes)
    evaluations = [
        _evaluation(scope, query.models or scope.models, metrics[scope.evaluation_name], corpora)
        for scope, query in choose_scopes(scopes, filters or Filters())
    ]
    comparisons = _compare(corpora, evaluations, jobs=jobs, progress=progress, limits=limits)
    tested = [(change, change.p) for change in comparisons if change.p is not None]
    for (change, _), adjusted in zip(tested, adjust([value for _, value in tested]), strict=True):
        change.p_adjusted = adjusted
        change.significant = adjusted < p
    return Trend(
        p=p,
        comparisons=len(tested),
        nights=list(_nights(corpora)),
        evaluations=evaluations,
        notices=[*notices, *_mismatches(corpora)],
    )


def _merged(corpora: Sequence[_Corpus]) -> list[Scope]:
    """Return all evaluations and metrics of all corpora, with all of their models."""
    merged: dict[tuple[str, str | None], Scope] = {}
    for corpus in corpora:
        for one in corpus.summary.evaluations:
            name = one.evaluation_name, one.metric
            known = merged.get(name)
            merged[name] = Scope(
                evaluation_name=one.evaluation_name,
                metric=one.metric,
                questions=max(one.questions, known.questions if known else 0),
                models=tuple(sorted({*corpus.models[name], *(known.models if known else ())})),
                graded=one.graded or (known is not None and known.graded),
            )
    return sorted(merged.values(), key=lambda one: (one.evaluation_name, one.metric is not None, one.metric or ""))


def _evaluation(scope: Scope, models: Sequence[str], metrics: int, corpora: Sequence[_Corpus]) -> EvaluationTrend:
    made = []
    for name in models:
        points, changes = [], []
        last = None
        for corpus in corpora:
            model = corpus.models.get((scope.evaluation_name, scope.metric), {}).get(name)
            if model is None:
                continue
            night = corpus.found.name
            points.append(_point(night, model, graded=scope.graded))
            if model.questions_answered:
                if last is not None:
                    changes.append(_no_change(last, night))
                last = night
        made.append(ModelTrend(model_id=name, points=points, changes=changes))
    return EvaluationTrend(
        evaluation_name=scope.evaluation_name, metric=scope.metric, metrics=metrics, graded=scope.graded, models=made
    )


def _point(night: str, model: ModelSummary, *, graded: bool) -> Point:
    return Point(
        night=night,
        records=model.records,
        errors=model.errors,
        questions=model.questions_answered,
        value=model.mean_score if graded else model.accuracy,
    )


def _no_change(before: str, after: str) -> Change:
    """Return a change that is still to be computed."""
    return Change(
        before=before, after=after, questions=0, better=0, worse=0, old=None, new=None, difference=None, test=None,
        p=None,
    )  # fmt: skip


def _compare(
    corpora: Sequence[_Corpus],
    evaluations: Sequence[EvaluationTrend],
    *,
    jobs: int,
    progress: Progress | None,
    limits: Limits,
) -> list[Change]:
    """Compute all changes, pair of corpora by pair, and return them. At most a few indexes are open at a time."""
    numbers = {corpus.found.name: number for number, corpus in enumerate(corpora)}
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
                    path = corpora[number].found.path
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


def _nights(corpora: Sequence[_Corpus]) -> Iterator[Night]:
    before: set[str] | None = None
    for corpus in corpora:
        models = corpus.all_models()
        yield Night(
            name=corpus.found.name,
            corpus=utf8(corpus.found.path),
            line_counts=corpus.summary.line_counts,
            skipped=len(corpus.manifest.skipped),
            models=len(models),
            appeared=[] if before is None else sorted(models - before),
            disappeared=[] if before is None else sorted(before - models),
        )
        before = models


def _mismatches(corpora: Sequence[_Corpus]) -> Iterator[str]:
    """Yield a notice for each pair of neighbours whose hashes differ, so that no question has the same one."""
    for old, new in pairwise(corpora):
        ours, theirs = (
            f"schema {one.summary.schema} and {one.summary.sample_hash.algorithm} hashes" for one in (old, new)
        )
        if ours != theirs:
            yield (
                f"{old.found.name} has {ours}, {new.found.name} has {theirs}: their questions cannot be matched, so "
                "nothing is compared"
            )
