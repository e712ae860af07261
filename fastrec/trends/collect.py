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
from fastrec.errors import UsageError, utf8
from fastrec.filters import Filters
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress
from fastrec.summary.document import LineCounts
from fastrec.summary.significance import adjust
from fastrec.summary.titles import metrics_of
from fastrec.trends.compare import compare_corpora
from fastrec.trends.corpora import NamedCorpus, find_corpora
from fastrec.trends.document import Change, EvaluationTrend, ModelTrend, Point, Trend, TrendCorpus

__all__ = ["collect_trend"]


class _Cell(msgspec.Struct, frozen=True, gc=False):
    """What is needed of a model in a summary: there may be thousands of models in hundreds of corpora."""

    records: int
    errors: int
    answered: int
    accuracy: float | None
    mean_score: float | None


class _Corpus(msgspec.Struct):
    """What is needed of the documents of a corpus."""

    named: NamedCorpus
    line_counts: LineCounts
    skipped: int
    hashes: str
    """The kind of its hashes: questions of corpora with other ones cannot be matched."""
    scopes: list[Scope]
    models: dict[tuple[str, str | None], dict[str, _Cell]]
    """By evaluation and metric."""

    @classmethod
    def read(cls, named: NamedCorpus) -> _Corpus:
        manifest = read_manifest(named.path)
        summary = read_summary(named.path, manifest)
        models = {
            (one.evaluation_name, one.metric): {
                model.model_id: _Cell(
                    model.records, model.errors, model.questions_answered, model.accuracy, model.mean_score
                )
                for model in one.by_model
            }
            for one in summary.evaluations
        }
        scopes = [
            Scope(
                evaluation_name=one.evaluation_name,
                metric=one.metric,
                questions=one.questions,
                models=tuple(models[one.evaluation_name, one.metric]),
                graded=one.graded,
            )
            for one in summary.evaluations
        ]
        hashes = f"schema {summary.schema} and {summary.sample_hash.algorithm} hashes"
        return cls(named, summary.line_counts, len(manifest.skipped), hashes, scopes, models)


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
    found, notices = find_corpora(paths)
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
        corpora=list(_described(corpora, evaluations)),
        evaluations=evaluations,
        notices=[*notices, *_mismatches(corpora)],
    )


def _merged(corpora: Sequence[_Corpus]) -> list[Scope]:
    """Return all evaluations and metrics of all corpora, with all of their models."""
    merged: dict[tuple[str, str | None], Scope] = {}
    for one in [scope for corpus in corpora for scope in corpus.scopes]:
        known = merged.get((one.evaluation_name, one.metric), one)
        merged[one.evaluation_name, one.metric] = Scope(
            evaluation_name=one.evaluation_name,
            metric=one.metric,
            questions=max(one.questions, known.questions),
            models=tuple(sorted({*one.models, *known.models})),
            graded=one.graded or known.graded,
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
            here = corpus.named.name
            points.append(_point(here, model, graded=scope.graded))
            if model.answered:
                if last is not None:
                    changes.append(_no_change(last, here))
                last = here
        made.append(ModelTrend(model_id=name, points=points, changes=changes))
    return EvaluationTrend(
        evaluation_name=scope.evaluation_name, metric=scope.metric, metrics=metrics, graded=scope.graded, models=made
    )


def _point(corpus: str, model: _Cell, *, graded: bool) -> Point:
    return Point(
        corpus=corpus,
        records=model.records,
        errors=model.errors,
        questions=model.answered,
        value=model.mean_score if graded else model.accuracy,
    )


def _no_change(before: str, after: str) -> Change:
    """Return a change that is still to be computed."""
    return Change(
        before=before, after=after, questions=0, better=0, worse=0, old=None, new=None, difference=None, test=None,
        p=None,
    )  # fmt: skip


def _described(corpora: Sequence[_Corpus], evaluations: Sequence[EvaluationTrend]) -> Iterator[TrendCorpus]:
    """Describe each corpus, with the chosen models that it has and the one before has not, and the other way round."""
    there: dict[str, set[str]] = {corpus.named.name: set() for corpus in corpora}
    for evaluation in evaluations:
        for model in evaluation.models:
            for point in model.points:
                there[point.corpus].add(model.model_id)
    before: set[str] | None = None
    for corpus in corpora:
        models = there[corpus.named.name]
        yield TrendCorpus(
            name=corpus.named.name,
            path=utf8(corpus.named.path),
            line_counts=corpus.line_counts,
            skipped=corpus.skipped,
            models=len(models),
            appeared=[] if before is None else sorted(models - before),
            disappeared=[] if before is None else sorted(before - models),
        )
        before = models


def _mismatches(corpora: Sequence[_Corpus]) -> Iterator[str]:
    """Yield a notice for each pair of neighbours whose hashes differ, so that no question has the same one."""
    for old, new in pairwise(corpora):
        if old.hashes != new.hashes:
            yield (
                f"{old.named.name} has {old.hashes}, {new.named.name} has {new.hashes}: their questions cannot be "
                "matched, so nothing is compared"
            )
