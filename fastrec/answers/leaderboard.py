"""The leaderboard: all models on the primary metrics of several evaluations.

1. Choose the primary metric of each evaluation, and count who answered how many of its questions.
2. Group models by the evaluations that they have answered. Only models of one group are compared
   with each other.
3. Cut the groups into batches of `compared_models`, which bounds memory. For each batch, evaluation
   by evaluation:
   - Add up values question by question: pair sums for the tests (`ranks`), and bundles for the
     bootstrap. A bundle is one question, or a cluster of questions; more than 10,000 are dealt to
     10,000 bundles in turns, so that time is bounded.
   - Draw as many bundles as there are, with replacement, within each evaluation; 1,000 times, from
     a fixed seed. All models of an evaluation get the same draws.
   - Add the draws and the pair sums to those of the groups.

Models of a group are compared with each other only within their batch: of a group of more models,
the first ones by mean have ranks, and none has a mean rank or wins.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import inf
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from fastrec.answers.board import BoardCell, BoardEvaluation, BoardModel, Estimate, Leaderboard
from fastrec.answers.choosing import choose_primary, choose_scopes
from fastrec.answers.codes import by_key, count_of
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.ranks import set_ranks
from fastrec.answers.table import Scope
from fastrec.answers.values import value_blocks
from fastrec.errors import UsageError, counted, listed
from fastrec.filters import Filters
from fastrec.limits import current_limits, in_batches
from fastrec.statistics.bootstrap import draw_means, interval_ends
from fastrec.statistics.exact import exact_mean, to_double
from fastrec.statistics.p_values import Array, Bools
from fastrec.statistics.ranks import (
    MeanTest,
    PairSums,
    count_wins,
    pair_sums,
    significant,
)
from fastrec.summary.document import filled
from fastrec.wording import metrics_of, title_of

BUNDLES = 10_000
# Columns of tables and rows, besides those of evaluations.
_COLUMNS = "rank,model,mean,mean rank,wins,group,rank_best,rank_worst,model_id,mean_rank,win_share"


class _Column(NamedTuple):
    """An evaluation with its primary metric, and which models answered how many questions."""

    scope: Scope
    models: Sequence[str]
    means: dict[str, float]  # of each model: those of the summary, as in all commands
    answered: dict[str, int]  # questions of each model, if any
    enough: list[str]  # models that answered enough questions
    in_unit: bool  # whether all values are in [0, 1]

    def blocks(self, index: QuestionTable, models: Sequence[str]) -> Iterator[tuple[Array, Any]]:
        """Yield the values of some models, questions × models, and the clusters of questions."""
        return value_blocks(index, self.scope, models, graded=self.scope.graded)


def make_leaderboard(
    index: QuestionTable,
    filters: Filters | None = None,
    *,
    metrics: str = "judgements",
    primary: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    weight_by: str | None = None,
    min_coverage: float = 50.0,
    name_of: Callable[[str], str] = str,
    most: int | None = None,
) -> Leaderboard:
    """Compare the models on the primary metrics of the evaluations that match filters.

    `name_of` has other names of evaluations, for titles. With `most`, only so many evaluations,
    those with the most questions.

    Raises:
        UsageError: An argument is wrong, or there are too many evaluations and models.
    """
    chosen = choose_scopes(index.scopes, filters or Filters(), metrics)
    pairs = choose_primary(chosen, primary)
    scopes = [scope for scope, _ in pairs]
    known = sorted(name_of(scope.evaluation_name) for scope in scopes)
    if unknown := sorted((weights or {}).keys() - set(known)):
        raise UsageError(
            f"there is no evaluation {unknown[0]!r} to weight; evaluations: {listed(known)}"
        )
    models_of = [query.models or scope.models for scope, query in pairs]
    number = _most_columns(len(scopes), len({*chain(*models_of)}), most)
    largest = sorted(range(len(scopes)), key=lambda at: -scopes[at].questions)[:number]
    columns = [_look(index, scopes[at], models_of[at], min_coverage) for at in sorted(largest)]
    evaluations = _evaluations(
        columns,
        metrics_of(scope for scope, _ in chosen),
        name_of=name_of,
        weights=weights or {},
        by_questions=weight_by == "questions",
    )
    batches = _batches(columns, [evaluation.weight for evaluation in evaluations])
    for together in _filled(batches):
        _estimate_cells(index, columns, together)
    rows = {row.model_id: row for batch in batches for row in batch.rows}
    for at, column in enumerate(columns):
        _rank_cells(index, column, [rows[model].cells[at] for model in column.enough])
    return Leaderboard(
        evaluations=evaluations,
        models=sorted(rows.values(), key=_place),
        min_coverage=min_coverage,
        left_out=len(scopes) - len(columns),
    )


def _evaluations(
    columns: Sequence[_Column],
    metrics: Mapping[str, int],
    *,
    name_of: Callable[[str], str],
    weights: Mapping[str, float],
    by_questions: bool,
) -> list[BoardEvaluation]:
    """The evaluations with their weights; each has a title that no other column has."""
    evaluations = []
    titles = set(_COLUMNS.split(","))
    for column in columns:
        scope = column.scope
        name = name_of(scope.evaluation_name)
        several = metrics[scope.evaluation_name]
        title = title_of(name, scope.metric, several, lower=scope.lower_is_better)
        while title in titles:
            title += "_1"
        titles.add(title)
        weight = 0.0
        if column.in_unit and not scope.lower_is_better:
            weight = float(scope.questions) if by_questions else weights.get(name, 1.0)
        evaluation = filled(
            BoardEvaluation,
            scope,
            evaluation_name=name,
            title=title,
            metrics=several,
            weight=weight,
        )
        evaluations.append(evaluation)
    return evaluations


def _most_columns(evaluations: int, models: int, most: int | None) -> int:
    """How many evaluations to show.

    With `most`, there are as many as fit; otherwise all of them must fit.
    """
    limits = current_limits()
    fitting = min(limits.board_columns, max(limits.board_cells // max(models, 1), 1))
    if most is None and evaluations > fitting:
        raise UsageError(
            f"{counted(evaluations, 'evaluation')} of {counted(models, 'model')} are too many for "
            "a leaderboard: "
            f"it has up to {limits.board_columns:,} evaluations, and {limits.board_cells:,} "
            "cells. Choose some with "
            "--evaluation and --model, or group by a field with fewer values"
        )
    return fitting if most is None else min(most, fitting)


def _place(row: BoardModel) -> tuple[float, float, float, str]:
    # Groups are numbered in order, but for 0, which is the last one.
    return (
        row.group or inf,
        -row.mean.value if row.mean else 0.0,
        row.mean_rank.value if row.mean_rank else 0,
        row.model_id,
    )


def _look(
    index: QuestionTable, scope: Scope, models: Sequence[str], min_coverage: float
) -> _Column:
    """Look at all values of an evaluation.

    The means are those of the summary, unless they are beyond the range of doubles.
    """
    results = index.summary_of(scope).by_model
    means = {
        model.model_id: model.mean_score if scope.graded else model.accuracy for model in results
    }
    table = index.table(scope)
    cells = table.cells
    is_answer = cells.is_answered & table.are_models(models)[cells.model]
    values = cells.values(graded=scope.graded)[is_answer]
    numbers = count_of(cells.model[is_answer], len(table.models)).tolist()
    answered = {
        model: number for model, number in zip(table.models, numbers, strict=True) if number
    }
    least = min_coverage * scope.questions
    return _Column(
        scope,
        models,
        {model: mean for model, mean in means.items() if mean is not None},
        answered,
        [model for model, number in answered.items() if 100 * number >= least],
        in_unit=bool(values.min(initial=0.0) >= 0 and values.max(initial=1.0) <= 1),
    )


class _Batch:
    """Models of one group that are in memory at the same time, and sums over their evaluations."""

    def __init__(
        self, rows: list[BoardModel], shares: dict[int, Fraction], group_size: int
    ) -> None:
        """Start the sums; `group_size` is 0 after the first batch of a group."""
        self.rows = rows  # of the models
        self.shares = shares  # of evaluations in the mean, by position
        # Whether models have ranks: those of the first batch of a group.
        self.is_tested = group_size > 1
        self.is_whole = 1 < group_size == len(rows)  # whether these are all models of the group
        self._mean: Any = 0.0  # values and draws, as `_draw_models` returns them
        self._wins: Any = 0.0
        self._test: MeanTest | None = None
        self._better: Bools | None = None

    def add(
        self, at: int, scope: Scope, both: Array, sums: PairSums | None, better: Bools | None
    ) -> None:
        """Add an evaluation: values with their draws, and the sums of pairs if it is tested.

        `better` says which of these models are significantly better, if that is known.
        """
        share = self.shares[at]
        if share:
            self._mean = self._mean + float(share) * both
        if self.is_whole:
            self._wins = self._wins + count_wins(-both if scope.lower_is_better else both)
        if sums is None:
            return
        if share == 1 or len(self.shares) == 1:  # the same test as in a table of this evaluation
            self._better = better
            if better is None:
                self._better = significant(sums, lower=scope.lower_is_better)
            return
        if not self._test:
            self._test = MeanTest(len(self.rows))
        self._test.add(sums, float(share))

    def finish(self) -> None:
        """Estimate what these sums are for, and drop them."""
        models = len(self.rows)
        if any(self.shares.values()):
            self._mean[0] = list(map(self._exact_mean, self.rows))
            self._set("mean", self._mean)
        if self.is_whole and self.shares:
            wins = self._wins / len(self.shares)
            self._set("mean_rank", models - wins)
            self._set("win_share", wins / (models - 1))
        better = self._test.significant() if self._test else self._better
        if better is not None:
            set_ranks(self.rows, better)
        self._mean = self._wins = self._test = self._better = None

    def _exact_mean(self, row: BoardModel) -> float:
        """The mean of the cells of a model, rounded once."""
        mean = Fraction()
        for at, share in self.shares.items():
            cell = row.cells[at]
            if share and cell:
                mean += share * exact_mean(cell.value)
        return to_double(mean)

    def _set(self, name: str, numbers: Array) -> None:
        """Set an estimate of each model, given its values and draws."""
        for row, estimate in zip(self.rows, _with_intervals(numbers), strict=True):
            setattr(row, name, Estimate(*estimate))


def _batches(columns: Sequence[_Column], weights: Sequence[float]) -> list[_Batch]:
    """Group models by the evaluations that count for them, and cut large groups."""
    counting: dict[str, list[int]] = {model: [] for column in columns for model in column.models}
    for at, column in enumerate(columns):
        for model in column.enough:
            counting[model].append(at)
    groups = by_key((tuple(counting[model]), model) for model in sorted(counting))
    batches = []
    most = current_limits().compared_models
    # The groups with the most evaluations come first, and of these the largest.
    ordered = sorted(groups.items(), key=lambda item: (-len(item[0]), -len(item[1]), item[0]))
    for number, (places, models) in enumerate(ordered, 1):
        exact = {at: Fraction(repr(weights[at])) for at in places}
        total = sum(exact.values())
        shares = {at: weight / total if total else Fraction() for at, weight in exact.items()}
        if len(models) > most:  # the best are tested
            parts = [(columns[at].means, float(share)) for at, share in shares.items() if share]
            models.sort(
                key=lambda model: (
                    -sum(share * means.get(model, 0.0) for means, share in parts),
                    model,
                )
            )
        group = number if places else 0
        group_size = len(models)
        for names in in_batches(models, most):
            rows = [
                BoardModel(model_id=model, group=group, cells=[None] * len(columns))
                for model in sorted(names)
            ]
            batches.append(_Batch(rows, shares, group_size))
            group_size = 0
    return batches


def _filled(batches: Sequence[_Batch]) -> Iterator[list[_Batch]]:
    """Put batches together as long as they have at most `compared_models` models."""
    most = current_limits().compared_models
    together: list[_Batch] = []
    for batch in batches:
        if together and sum(len(earlier.rows) for earlier in together) + len(batch.rows) > most:
            yield together
            together = []
        together.append(batch)
    if together:
        yield together


def _estimate_cells(
    index: QuestionTable, columns: Sequence[_Column], batches: Sequence[_Batch]
) -> None:
    """Estimate all about some batches of models."""
    rows = {row.model_id: row for batch in batches for row in batch.rows}
    for at, column in enumerate(columns):
        models = [model for model in column.models if model in rows and model in column.answered]
        if not models:
            continue
        tested = [
            batch
            for batch in batches
            if batch.is_tested and (batch.shares.get(at) or [*batch.shares] == [at])
        ]
        enough = set(column.enough)
        ranks_cells = len(enough) > 1 and rows.keys() >= enough
        both, sums = _draw_models(index, column, models, with_sums=ranks_cells or bool(tested))
        for model, numbers in zip(models, _with_intervals(both), strict=True):
            rows[model].cells[at] = BoardCell(
                *numbers, questions=column.answered[model], counts=model in enough
            )
        place_of = {model: place for place, model in enumerate(models)}
        ranked: list[int] = []
        better = None
        if sums and ranks_cells:
            ranked = [place_of[model] for model in column.enough]
            better = significant(sums.chosen(ranked), lower=column.scope.lower_is_better)
            set_ranks([rows[model].cells[at] for model in column.enough], better)
        for batch in batches:
            if at in batch.shares:
                places = [place_of[row.model_id] for row in batch.rows]
                of_batch = sums.chosen(places) if sums and batch in tested else None
                known = better if places == ranked else None
                batch.add(at, column.scope, both[:, places], of_batch, known)
    for batch in batches:
        batch.finish()


def _rank_cells(index: QuestionTable, column: _Column, cells: Sequence[BoardCell | None]) -> None:
    """Rank the cells of an evaluation whose models were not in memory at the same time."""
    is_ranked = any(cell and cell.rank_best for cell in cells[:1])
    if 1 < len(cells) <= current_limits().compared_models and not is_ranked:
        sums = pair_sums(column.blocks(index, column.enough), len(cells))
        set_ranks(cells, significant(sums, lower=column.scope.lower_is_better))


def _draw_models(
    index: QuestionTable, column: _Column, models: Sequence[str], *, with_sums: bool
) -> tuple[Array, PairSums | None]:
    """The means of some models, followed by those in each draw; and the sums of all pairs."""
    scope = column.scope
    rows = min(int(index.table(scope).clusters.max()) + 1, BUNDLES)
    sums = np.zeros((rows, len(models)))
    counts = np.zeros((rows, len(models)))

    def blocks() -> Iterator[tuple[Array, Any]]:
        for block, of_questions in column.blocks(index, models):
            answered = ~np.isnan(block)
            # With one dimension, this takes a quarter of the time.
            places = ((of_questions % rows)[:, None] * len(models) + np.arange(len(models))).ravel()
            np.add.at(sums.ravel(), places, np.where(answered, block, 0.0).ravel())
            np.add.at(counts.ravel(), places, answered.astype(np.float64).ravel())
            yield block, of_questions

    pairs = pair_sums(blocks(), len(models)) if with_sums else None
    if not with_sums:
        deque(blocks(), 0)
    with np.errstate(all="ignore"):
        values = sums.sum(axis=0) / counts.sum(axis=0)
    for place, model in enumerate(models):
        values[place] = column.means.get(model, values[place])
    draws = draw_means(
        sums, counts, crc32(f"{scope.evaluation_name}\0{scope.metric or ''}".encode())
    )
    return np.vstack([values, draws]), pairs


def _with_intervals(rows: Array) -> Iterator[tuple[float, ...]]:
    """The numbers of the estimates of all models: the first row has values, others are draws."""
    return zip(rows[0].tolist(), *interval_ends(rows[1:]).tolist(), strict=True)
