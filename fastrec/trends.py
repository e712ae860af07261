"""Models over several corpora, such as those of successive nights.

    paths ──▶ corpora ──▶ their summaries ──▶ values per evaluation, metric and model
                     ──▶ their columns ──▶ changes between neighbouring corpora that are more than
                     chance

1. Read manifests and summaries; merge what they have into scopes, and choose some of these by
   filters.
2. Values, records and errors come from the summaries.
3. For each corpus and the ones before it in which its models last had answers, compare the values
   of questions.
4. Adjust all p-values for their number.

The result, `Trend`, depends on the corpora, their names and the options alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from fastrec.answers.choosing import choose_scopes
from fastrec.answers.codes import by_key
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.selection import Groups, Selection, select_same_bins
from fastrec.answers.table import Scope
from fastrec.answers.values import table_values
from fastrec.corpus.manifest import MANIFEST, is_corpus, is_refused, read_manifest
from fastrec.errors import UsageError, shown, utf8
from fastrec.filters import AnyPath, Filters
from fastrec.notebook import Rows, Tabular, flat
from fastrec.progress import Progress
from fastrec.statistics.adjust import adjust_p_values
from fastrec.statistics.intervals import OptionalNumber
from fastrec.statistics.paired import Test, compare_series
from fastrec.storage import base_name, join, storage_of
from fastrec.summary.document import LineCounts, ScopeNames, filled, scope_order
from fastrec.summary.present_choice import with_directions
from fastrec.summary.present_ranking import add_groups
from fastrec.where import GroupValues, ScopeName, empty_group, largest_groups
from fastrec.wording import metrics_of, title_of, value_text


class TrendCorpus(Struct):
    """One of the corpora, such as that of a night."""

    #: The name of its directory, or its path if another has that name.
    name: str
    #: Its path.
    path: str
    #: The line counts of the corpus as a whole.
    line_counts: LineCounts
    #: Shards that it lacks because they could not be read.
    skipped: int
    #: Chosen models with records in it.
    models: int
    #: Chosen models with records in it, but none in the corpus before.
    appeared: list[str]
    #: Chosen models with records in the corpus before, but none in it.
    disappeared: list[str]


class Point(Struct):
    """One model on one evaluation and metric in one corpus."""

    #: The name of the corpus.
    corpus: str
    #: Its records.
    records: int
    #: Records with a non-empty error.
    errors: int
    #: Questions that it answered.
    questions: int
    #: The accuracy, or the mean score of a graded metric.
    value: OptionalNumber


class Change(Struct):
    """A model in two corpora, compared on the questions that it answered in both."""

    #: The last corpus before `after` in which the model has answers.
    before: str
    #: The later corpus.
    after: str
    #: Questions that it answered in both, which the numbers are about.
    questions: int = 0
    #: Questions with a better share of right answers, or mean score, in the later corpus.
    better: int = 0
    #: Questions with a worse one.
    worse: int = 0
    #: Accuracy or mean score in the earlier corpus.
    old: OptionalNumber = None
    #: The same in the later.
    new: OptionalNumber = None
    #: `new` minus `old`.
    difference: OptionalNumber = None
    #: The test that gave `p` (docs/leaderboard.md#the-test-of-two-models); null if no question was
    #: compared.
    test: Test | None = None
    #: The p-value: how likely chance alone makes so large a difference.
    p: OptionalNumber = None
    #: The p-value adjusted for many tests (docs/leaderboard.md#many-tests).
    p_adjusted: OptionalNumber = None
    #: Whether `p_adjusted` is below the chosen `p`.
    significant: bool = False

    @property
    def p_text(self) -> str:
        """The adjusted p-value as text. One that is too small for a number is not 0."""
        if self.p_adjusted is None:
            return "–"
        return f"{self.p_adjusted:.2g}" if self.p_adjusted else "<1e-300"


class ModelTrend(Struct):
    """One model on one evaluation and metric."""

    model_id: str
    #: For each corpus with records of it.
    points: list[Point]
    #: For each corpus with answers of it but the first.
    changes: list[Change]


class EvaluationTrend(ScopeNames):
    """One metric of an evaluation, or an evaluation without metrics."""

    #: Metrics that the evaluation has in any corpus, chosen or not.
    metrics: int
    #: Whether any corpus has other scores than 0 and 1, so that mean scores are compared in all.
    graded: bool
    #: Whether a lower score is better.
    lower_is_better: bool
    #: The chosen models, by `model_id`.
    models: list[ModelTrend]
    #: With --group-by: the value of each field, null for records without it; null in totals.
    group: GroupValues | None = None

    @property
    def title(self) -> str:
        """The evaluation, the metric if it has several, ↓ if lower is better, and the group."""
        return title_of(
            self.evaluation_name, self.metric, self.metrics, self.group, lower=self.lower_is_better
        )

    def spelled(self, value: OptionalNumber) -> str:
        return value_text(value, graded=self.graded)

    @property
    def measure(self) -> str:
        return "mean score" if self.graded else "accuracy"


_CHANGES = [name for name in Change.__struct_fields__ if name not in ("after", "significant")]


class Trend(Tabular):
    """How models changed over several corpora."""

    #: A change is significant if its adjusted p-value is below this.
    p: float
    #: Changes with a p-value.
    comparisons: int
    #: The corpora, in order.
    corpora: list[TrendCorpus]
    #: By evaluation and metric.
    evaluations: list[EvaluationTrend]
    #: Directories that are left out, and corpora whose questions cannot be matched.
    notices: list[str]
    #: Metrics that are left out because they judge no answer: costs and bookkeeping.
    others: int = 0
    #: `--cluster`: tests are over clusters of questions with the same value of this field; null if
    #: they are over questions.
    cluster: str | None = None

    def rows(self) -> Rows:
        """A row for each evaluation, metric, model and corpus, with the last change."""
        no_group = empty_group(self.evaluations)
        rows = []
        for evaluation in self.evaluations:
            names = {
                "evaluation_name": evaluation.evaluation_name,
                "metric": evaluation.metric,
                "graded": evaluation.graded,
            }
            group = no_group | (evaluation.group or {})
            for model in evaluation.models:
                changes = {change.after: change for change in model.changes}
                for point in model.points:
                    change = changes.get(point.corpus)
                    row = flat(point, {**names, "model_id": model.model_id})
                    row |= {f"change_{name}": getattr(change, name, None) for name in _CHANGES}
                    row |= {"significant": getattr(change, "significant", None), **group}
                    rows.append(row)
        return rows

    def changes(self) -> Iterator[tuple[EvaluationTrend, ModelTrend, Change]]:
        """Yield all changes, each with its evaluation and model."""
        for evaluation in self.evaluations:
            for model in evaluation.models:
                for change in model.changes:
                    yield evaluation, model, change

    def significant_changes(self) -> list[tuple[EvaluationTrend, ModelTrend, Change]]:
        return [row for row in self.changes() if row[-1].significant]


def find_corpora(paths: Sequence[AnyPath]) -> tuple[list[tuple[str, AnyPath]], list[str]]:
    """Return names and paths of corpora, and notices about directories that are left out.

    A path is a corpus, or a directory whose sub-directories are corpora. Corpora are in the order
    of the paths. Those of one directory are in the order of their names, numbers by value.
    """
    if not paths:
        raise UsageError("name at least one corpus, or a directory of corpora")
    places = []
    notices = []
    for place in paths:
        path = os.fspath(place)
        if is_corpus(path):
            places.append(place)
        else:
            inside, refused = _inside(path)
            places += inside
            notices += [
                f"{shown(corpus)} is left out: it is a refused corpus, which was not published"
                for corpus in refused
            ]
    if not places:
        raise UsageError("there is no published corpus: " + "; ".join(notices))
    corpora = [os.fspath(place) for place in places]
    for path in corpora:
        if corpora.count(path) > 1:
            raise UsageError(f"{shown(path)} is given twice")
    names = [utf8(base_name(path)) for path in corpora]
    spelled = (
        name if names.count(name) == 1 else utf8(path)
        for name, path in zip(names, corpora, strict=True)
    )
    return list(zip(spelled, places, strict=True)), notices


def _inside(directory: str) -> tuple[list[str], list[str]]:
    storage = storage_of(directory)
    if not storage.is_directory(directory):
        read_manifest(directory)  # says why it is not a corpus
    # In an object store, these are all objects below it.
    below = len(join(directory, ""))
    places = {path[:below] + path[below:].partition("/")[0] for path in storage.files_in(directory)}
    corpora = set(filter(is_corpus, places))
    refused = {corpus for corpus in corpora if is_refused(storage.read_all(join(corpus, MANIFEST)))}
    published = sorted(corpora - refused, key=_natural)
    if not published and not refused:
        read_manifest(directory)
    return published, sorted(refused)


def _natural(path: str) -> tuple[list[tuple[float, str]], str]:
    """Return a sort key that puts `night-9` before `night-10`."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", base_name(path))
    # Numbers come before other texts.
    return [(int(piece[:4_000]) if piece.isdigit() else inf, piece) for piece in pieces], path


_CELLS = 1_000_000  # values of questions and models to hold at a time, of each corpus
_Changes = Sequence[tuple[str, Change]]  # of models


def _compare_scope(corpora: Mapping[str, _Corpus], scope: Scope, trend: EvaluationTrend) -> None:
    """Compute all changes of an evaluation and metric."""
    pairs = by_key(
        ((change.before, change.after), (model.model_id, change))
        for model in trend.models
        for change in model.changes
    )
    step = max(_CELLS // scope.questions, 1)
    for (before, after), changes in pairs.items():
        for start in range(0, len(changes), step):
            batch = changes[start : start + step]
            _compare_pair(corpora[before], corpora[after], scope, batch)


def _compare_pair(old: QuestionTable, new: QuestionTable, scope: Scope, changes: _Changes) -> None:
    """Compute the changes of some models between two corpora."""
    query = query_of(scope)
    models = [model for model, _ in changes]
    before = old.table(query).split_by(new.table(query).split_hashes())
    after = new.table(query).split_by(old.table(query).split_hashes())
    earlier, later = (table_values(table, models, graded=scope.graded) for table in (before, after))
    names = earlier.keys() & later.keys()
    series = (
        [(earlier[name][column], later[name][column]) for name in names]
        for column in range(len(models))
    )
    clusters = before.clusters_of(names) if names else None
    compared = compare_series(series, graded=scope.graded, clusters=clusters)
    for paired, (_, change) in zip(compared, changes, strict=True):
        change.better = paired.fell if scope.lower_is_better else paired.rose
        change.worse = paired.rose if scope.lower_is_better else paired.fell
        change.old = paired.first
        change.new = paired.second
        for name in ("questions", "difference", "test", "p"):
            setattr(change, name, getattr(paired, name))


class _Corpus(QuestionTable):
    """The records of a corpus that count."""

    def __init__(self, name: str, selection: Selection) -> None:
        super().__init__(selection)
        self.name = name

    @property
    def hashes(self) -> str:
        """The kind of its hashes: questions of corpora with other ones cannot be matched."""
        summary = self.selection.summary
        return f"schema {summary.schema} and {summary.sample_hash.algorithm} hashes"


def collect_trend(
    paths: Sequence[AnyPath],
    filters: Filters,
    groups: Groups = (),
    *,
    cluster: str | None = None,
    metrics: str = "judgements",
    lower_is_better: Sequence[str] = (),
    p: float = 0.05,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Trend:
    """Collect the trend of some corpora; the arguments are those of `trend`."""
    if not 0 <= p <= 1:
        raise UsageError(f"p must be between 0 and 1, not {p}")
    named, notices = find_corpora(paths)
    names, places = zip(*named, strict=True)
    by_name, by_record = filters.split()
    select = partial(select_same_bins, places, cluster=cluster, jobs=jobs, progress=progress)
    corpora = list(map(_Corpus, names, select(by_record, ())))
    evaluations, others = _follow(corpora, by_name, metrics, lower_is_better)
    for corpus in corpora:
        notices += corpus.selection.notes
    trend = Trend(
        p=p,
        comparisons=0,
        corpora=list(_described(corpora, evaluations)),
        evaluations=evaluations,
        notices=[*notices, *_mismatches(corpora)],
        others=others,
        cluster=cluster,
    )
    if groups:
        by_group = list(map(_Corpus, names, select(filters, groups)))
        parts, _ = _follow(by_group, Filters(), "all", lower_is_better)
        parts = largest_groups(evaluations, parts, groups, _records, trend.notices.append)
        add_groups(trend, parts, groups)
    changes = adjust_p_values(change for _, _, change in trend.changes())
    for change in changes:
        change.significant = (change.p_adjusted or 0.0) < p
    trend.comparisons = len(changes)
    return trend


def _records(evaluation: EvaluationTrend) -> int:
    return sum(point.records for model in evaluation.models for point in model.points)


def _follow(
    corpora: Sequence[_Corpus], filters: Filters, metrics: str, lower_is_better: Sequence[str]
) -> tuple[list[EvaluationTrend], int]:
    """Follow the chosen models on the chosen metrics; also return how many metrics are left out."""
    known = [scope for corpus in corpora for scope in corpus.selection.summary.evaluations]
    scopes = with_directions(_merged(corpora), lower_is_better, known)
    chosen = choose_scopes(scopes, filters, metrics)
    numbers = metrics_of(scopes)
    by_name = {corpus.name: corpus for corpus in corpora}
    evaluations = []
    for scope, query in chosen:
        models = [_model(name, scope, corpora) for name in query.models or scope.models]
        metric_number = numbers[scope.evaluation_name]
        trend = filled(EvaluationTrend, scope, metrics=metric_number, models=models)
        _compare_scope(by_name, scope, trend)
        evaluations.append(trend)
    return evaluations, len(choose_scopes(scopes, filters, "all")) - len(chosen)


def _merged(corpora: Sequence[_Corpus]) -> list[Scope]:
    merged: dict[ScopeName, Scope] = {}
    for scope in chain.from_iterable(corpus.scopes for corpus in corpora):
        name = scope.evaluation_name, scope.metric
        known = merged.get(name, scope)
        merged[name] = replace(
            scope,
            questions=max(scope.questions, known.questions),
            models=tuple(sorted({*scope.models, *known.models})),
            graded=scope.graded or known.graded,
            kind="judgement" if "judgement" in (scope.kind, known.kind) else scope.kind,
            lower_is_better=scope.lower_is_better or known.lower_is_better,
        )
    return [merged[name] for name in sorted(merged, key=scope_order)]


def _model(name: str, scope: Scope, corpora: Sequence[_Corpus]) -> ModelTrend:
    """A model in all corpora; its changes are still to be computed."""
    trend = ModelTrend(model_id=name, points=[], changes=[])
    last = None
    for corpus in corpora:
        model = corpus.results.get((scope.evaluation_name, scope.metric, name))
        if model is None:
            continue
        value = model.mean_score if scope.graded else model.accuracy
        answered = model.questions_answered
        point = filled(Point, model, corpus=corpus.name, questions=answered, value=value)
        trend.points.append(point)
        if answered:
            if last is not None:
                trend.changes.append(Change(before=last, after=corpus.name))
            last = corpus.name
    return trend


def _described(
    corpora: Sequence[_Corpus], evaluations: Sequence[EvaluationTrend]
) -> Iterator[TrendCorpus]:
    """Describe each corpus, with the chosen models that appeared and disappeared."""
    there = by_key(
        (point.corpus, model.model_id)
        for evaluation in evaluations
        for model in evaluation.models
        for point in model.points
    )
    before = set(there.get(corpora[0].name, ()))
    for corpus in corpora:
        models = set(there.get(corpus.name, ()))
        selection = corpus.selection
        yield filled(
            TrendCorpus,
            selection.summary,
            name=corpus.name,
            path=utf8(selection.corpus),
            skipped=len(selection.manifest.skipped),
            models=len(models),
            appeared=sorted(models - before),
            disappeared=sorted(before - models),
        )
        before = models


def _mismatches(corpora: Sequence[_Corpus]) -> Iterator[str]:
    """Yield a notice for each pair of neighbours whose hashes are of different kinds."""
    for old, new in pairwise(corpora):
        if old.hashes != new.hashes:
            yield (
                f"{old.name} has {old.hashes}, {new.name} has {new.hashes}: their questions "
                "cannot be matched, so nothing is compared (`normalize` with `--schema` and "
                "`--hash-algorithm` makes them alike)"
            )
