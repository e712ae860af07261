"""Collect the values of models over corpora, and find the changes that are more than chance.

1. Read manifests and summaries; merge what they have into scopes, and choose some of these by filters.
2. Values, records and errors come from the summaries.
3. For each corpus and the ones before it in which its models last had answers, compare the values of questions, which
   come from the indexes of the corpora.
4. Adjust all p-values for their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from fastrec.answers.choosing import choose_scopes
from fastrec.answers.table import Scope
from fastrec.corpus.documents import read_manifest, read_summary
from fastrec.corpus.manifest import Manifest
from fastrec.errors import UsageError, utf8
from fastrec.filters import Filters
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress
from fastrec.summary.document import ModelSummary, Summary
from fastrec.summary.significance import adjust
from fastrec.summary.titles import metrics_of
from fastrec.trends.compare import compare_corpora
from fastrec.trends.document import Change, EvaluationTrend, ModelTrend, Night, Point, Trend
from fastrec.trends.nights import Found, find_nights

__all__ = ["collect_trend"]


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
    comparisons = compare_corpora(found, evaluations, jobs=jobs, progress=progress, limits=limits)
    tested = [(change, change.p) for change in comparisons if change.p is not None]
    for (change, _), adjusted in zip(tested, adjust([value for _, value in tested]), strict=True):
        change.p_adjusted = adjusted
        change.significant = adjusted < p
    return Trend(
        p=p,
        comparisons=len(tested),
        nights=list(_nights(corpora, evaluations)),
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


def _nights(corpora: Sequence[_Corpus], evaluations: Sequence[EvaluationTrend]) -> Iterator[Night]:
    """Describe each corpus, with the chosen models that it has and the one before has not, and the other way round."""
    there: dict[str, set[str]] = {corpus.found.name: set() for corpus in corpora}
    for evaluation in evaluations:
        for model in evaluation.models:
            for point in model.points:
                there[point.night].add(model.model_id)
    before: set[str] | None = None
    for corpus in corpora:
        models = there[corpus.found.name]
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
