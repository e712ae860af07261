"""The values of models on questions, for tests and means.

A value is the share of right answers of a model to a question, or its score if the metric is
graded. `value_rows` has exact values, also of repeats; `value_blocks` has doubles, for all models
at once; `judged_pairs` has the verdicts of two metrics on the same answers.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from fastrec.answers.codes import Array, count_of, ranks_of, rows_of
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.records import RIGHT, ScopeRecords
from fastrec.answers.table import Query
from fastrec.answers.trials import read_trials
from fastrec.errors import NoMatchError, counted
from fastrec.limits import in_batches
from fastrec.statistics.exact import Value, mean_of
from fastrec.statistics.repeats import MEAN, RepeatsAs, Trial, match_trials
from fastrec.summary.document import EvaluationSummary, ModelSummary
from fastrec.wording import Scope as Named

_CELLS = 4_000_000  # of a matrix of questions × models
_REDUCED_CELLS = 1_000_000  # values of questions and models to hold at a time

_Trials = dict[str, list[Trial]]  # by model, its records of a question
# The names of a question and of a model, and the verdicts of two metrics on an answer.
_Judged = tuple[str, str, Trial | None, Trial | None]


def value_rows(
    index: QuestionTable,
    query: Query,
    models: Sequence[str],
    *,
    graded: bool | None = None,
    repeats: RepeatsAs = MEAN,
) -> dict[str, tuple[Value, ...]]:
    """By name of a question (`QuestionRow.name`), the value of each of some models, or None.

    `graded` says whether values are scores, if that must be the same in several corpora. Several
    answers become one value, an exact one, as `repeats` says.
    """
    scope = index.scope(query)
    if not scope:
        return {}
    by_score = (scope.graded if graded is None else graded) and not repeats.by_verdict
    table = index.table(query)
    return table_values(table, models, index.ids(query), graded=by_score, repeats=repeats)


def table_values(
    table: ScopeRecords,
    models: Sequence[str],
    questions: Array | None = None,
    *,
    graded: bool,
    repeats: RepeatsAs = MEAN,
) -> dict[str, tuple[Value, ...]]:
    """The same of some or all questions of a scope; values are scores if `graded`."""
    cells = table.cells
    ids = np.arange(table.questions) if questions is None else questions
    columns = table.columns_of(models)
    row_of = np.full(table.questions, -1, dtype=np.int64)
    row_of[ids] = np.arange(len(ids))
    rows = np.full((len(ids), len(models)), None, dtype=object)
    is_chosen = (row_of[cells.question] >= 0) & (columns[cells.model] >= 0)
    single = is_chosen & cells.is_answered & (cells.records == 1) & (repeats.k == 1)
    values = cells.values(graded=graded)[single]
    rows[row_of[cells.question[single]], columns[cells.model[single]]] = values
    # Cells do not have the scores of errors.
    is_error = ~cells.is_answered & repeats.errors_as_wrong
    repeated = is_chosen & ((cells.records > 1) | is_error)
    places = np.flatnonzero(repeated[cells.place])
    needs_texts = repeats.kind in ("majority", "first")
    for (question, model), own in read_trials(table, places, texts=needs_texts).items():
        rows[row_of[question], columns[model]] = repeats.value(own, graded=graded)
    names = [table.names[number] for number in ids.tolist()]
    return dict(zip(names, map(tuple, rows.tolist()), strict=True))


def value_blocks(
    index: QuestionTable, scope: Named, models: Sequence[str], *, graded: bool, common: bool = False
) -> Iterator[tuple[Array, Array]]:
    """Yield the values of some models, many questions at a time, and the clusters of these.

    A block has a row for each question and a column for each model; NaN is no answer. With
    `common`, only questions that all of them have answered. Questions are in the order of clusters,
    each of which is in one block.
    """
    table = index.table(scope)
    cells = table.cells
    columns = table.columns_of(models)
    by_cluster = np.argsort(table.clusters, kind="stable")
    clusters = table.clusters[by_cluster]
    row_of = ranks_of(by_cluster)
    chosen = np.flatnonzero((columns[cells.model] >= 0) & cells.is_answered)
    chosen = chosen[np.argsort(row_of[cells.question[chosen]], kind="stable")]
    row = row_of[cells.question[chosen]]
    column = columns[cells.model[chosen]]
    values = cells.values(graded=graded)[chosen]
    step = max(_CELLS // max(len(models), 1), 1)
    start = 0
    while start < table.questions:
        last = clusters[min(start + step, table.questions) - 1]
        stop = int(np.searchsorted(clusters, last, side="right"))
        begin, end = np.searchsorted(row, [start, stop]).tolist()
        block = np.full((stop - start, len(models)), np.nan)
        block[row[begin:end] - start, column[begin:end]] = values[begin:end]
        is_counted = ~np.isnan(block).any(axis=1) | (not common)
        yield block[is_counted], clusters[start:stop][is_counted]
        start = stop


def trials_of(
    index: QuestionTable, query: Query, other: Query | None = None
) -> defaultdict[str, _Trials]:
    """By name of the question and by model: the records of a query.

    A hash that the metric of the other query splits is split here, too.
    """
    by_question = defaultdict[str, _Trials](dict)
    if index.scope(query) is None:
        return by_question
    table = index.table(query)
    if other and index.scope(other):
        table = table.split_by(index.table(other).split_hashes())
    trials = read_trials(table, np.flatnonzero(index.chosen(query)))
    for (number, model), own in trials.items():
        by_question[table.names[number]][table.models[model]] = own
    return by_question


def judged_pairs(index: QuestionTable, first: Query, second: Query) -> Iterator[_Judged]:
    """The verdicts of two metrics on the same answers, with the names of question and model.

    `match_trials` says which answers are the same. An answer that only one of them judged has None
    for the other. If the queries choose questions by outcome, those that only one of them chooses
    are left out.
    """
    trials = trials_of(index, first, second)
    others = trials_of(index, second, first)
    for name in {**trials, **others}:
        if first.outcomes and not (name in trials and name in others):
            continue
        mine = trials.get(name, {})
        theirs = others.get(name, {})
        for model in {**mine, **theirs}:
            for trial, other in match_trials(mine.get(model, ()), theirs.get(model, ())):
                yield name, model, trial, other


def _answer_counts(table: ScopeRecords, repeats: RepeatsAs) -> list[tuple[int, int]]:
    """How many answers each model gave to questions that count, and how many are right."""
    is_answer = table.is_answer | repeats.errors_as_wrong
    answers = count_of(table.cells.place[is_answer], len(table.cells.question))
    counts = is_answer & (answers[table.cells.place] >= repeats.k)
    is_right = counts & (table.flag == RIGHT)
    return list(rows_of(table.count_models(counts), table.count_models(is_right)))


def reduce_repeats(index: QuestionTable, repeats: RepeatsAs) -> list[EvaluationSummary]:
    """Replace the means over answers by means over the values that several answers become.

    Answers, right ones, and questions are those that count: not of questions with too few answers.
    """
    reduced = []
    for evaluation in index.evaluations:
        query = query_of(evaluation)
        graded = evaluation.graded and not repeats.by_verdict
        counts = _answer_counts(index.table(evaluation), repeats)
        models: list[ModelSummary] = []
        step = max(_REDUCED_CELLS // evaluation.questions, 1)
        for batch in in_batches(evaluation.by_model, step):
            names = [model.model_id for model in batch]
            shares, scores = (
                zip(
                    *value_rows(index, query, names, graded=by_score, repeats=repeats).values(),
                    strict=True,
                )
                for by_score in (False, True)
            )
            models += map(_reduced, batch, shares, scores, counts[len(models) :])
        is_lower = graded and evaluation.lower_is_better  # not of verdicts
        reduced.append(
            replace(evaluation, graded=graded, lower_is_better=is_lower, by_model=models)
        )
    if reduced and not any(
        model.questions_answered for summary in reduced for model in summary.by_model
    ):
        raise NoMatchError(
            f"no model has {counted(repeats.k, 'answer')} to a question, which {repeats} needs"
        )
    return reduced


def _reduced(
    model: ModelSummary, shares: Sequence[Value], scores: Sequence[Value], counts: tuple[int, int]
) -> ModelSummary:
    """Replace the means of a model by those of the values of its questions."""
    questions, accuracy, accuracy_error = mean_of(shares)
    _, score, score_error = mean_of(scores)
    means = {
        "accuracy": accuracy,
        "accuracy_standard_error": accuracy_error,
        "mean_score": score,
        "score_standard_error": score_error,
    }
    answers, correct = counts
    return replace(
        model,
        **means,
        errors_as_wrong=replace(model.errors_as_wrong, **means),
        questions=questions,
        questions_answered=questions,
        answers=answers,
        correct=correct,
    )
