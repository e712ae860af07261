"""A model: its results, the questions on which models of similar rank are ahead, its errors."""

import re
from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from statistics import fmean

import numpy as np
from msgspec.structs import replace

from fastrec.answers.board import BoardModel, Leaderboard
from fastrec.answers.codes import Array
from fastrec.answers.costs import Prices, find_costs
from fastrec.answers.pictures import (
    CellsTable,
    are_shares,
    calibration_pictures,
    cells_table,
    dots_picture,
    mean_lengths_of,
    model_cells,
    result_of,
)
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.records import ERROR
from fastrec.answers.table import Query
from fastrec.answers.values import value_rows
from fastrec.commands.view.addresses import MOST, AnswerName, PageState, Site, all_questions
from fastrec.corpus.columns import METADATA
from fastrec.errors import listed
from fastrec.judge.parse import decoded
from fastrec.pages.html import Cell, Html, number_cell
from fastrec.summary.present_ranking import Stats
from fastrec.wording import cut_middle

_NEAR = 2  # neighbours on each side
_WORST = 10  # questions
_MOST_QUERIES = 24  # evaluations whose records are looked at
_MOST_ERRORS = 1_000  # that are read
_MOST_VALUES = 5  # of a field
_FIELDS = ("run", "interaction_type", "schema_version")


def model_page(
    site: Site,
    index: QuestionTable,
    stats: Stats,
    board: Leaderboard,
    *,
    model: str,
    confidence: str,
    prices: Prices,
) -> Html:
    """Show a model; with a field of its confidence, also its calibration."""
    primary = {(evaluation.evaluation_name, evaluation.metric) for evaluation in board.evaluations}
    scopes = [scope for scope in index.scopes if model in scope.models]
    chosen = [
        scope for scope in scopes if (scope.evaluation_name, scope.metric) in primary
    ] or scopes
    queries = [replace(query_of(scope), models=(model,)) for scope in chosen[:_MOST_QUERIES]]
    near = _neighbours(board, model)
    names = [neighbour.model_id for neighbour in near if neighbour.model_id != model]
    others = [name for name in index.models if name not in (model, *names)]
    results, picture = _results(site, index, stats, model)
    return site.page(
        "model",
        model,
        [(model, None)],
        near=replace(board, models=near),
        other_models=others[:MOST],
        results=results,
        picture=picture,
        behind=rows_behind(site, index, queries, model, names),
        errors=_errors(index, queries),
        costs=find_costs(index, prices, queries) if prices else [],
        confidence=confidence,
        calibration=calibration_pictures(index, confidence, queries, ["evaluation_name"])
        if confidence
        else [],
        metadata=_metadata(
            index, np.sort(np.concatenate([index.numbers_of(query) for query in queries]))
        ),
    )


def _neighbours(board: Leaderboard, model: str) -> list[BoardModel]:
    """A model, with those before and after it in its table of the leaderboard.

    If it is alone in its table, those that have answered one of its evaluations.
    """
    for own in board.models:
        if own.model_id == model:
            others = [other for other in board.models if other.group == own.group]
            if len(others) == 1:
                others = [other for other in board.models if _is_common(other, own)]
            at = others.index(own) if own in others else 0
            return others[max(at - _NEAR, 0) : at + 1 + _NEAR]
    return []


def _is_common(other: BoardModel, own: BoardModel) -> bool:
    return any(cell and mine for cell, mine in zip(other.cells, own.cells, strict=True))


def _results(site: Site, index: QuestionTable, stats: Stats, model: str) -> tuple[CellsTable, Html]:
    """The results of a model by evaluation and metric, as a table and as a picture."""
    rows = {}
    results = {}
    for evaluation in stats.evaluations:
        for own in evaluation.by_model:
            if own.model_id == model:
                accuracy = stats.shows_accuracy(evaluation)
                query = all_questions(evaluation, (model,))
                characters = mean_lengths_of(index, query).get(model)
                cells = model_cells(own, accuracy=accuracy, characters=characters)
                rows[Cell(evaluation.title, href=site.query(query))] = cells
                wrong = replace(query, wrong=(model,))
                cells["wrong"] = Cell("show", href=site.query(wrong))
                if are_shares([own]):
                    results[evaluation.title] = result_of(own, accuracy=accuracy)
    picture = dots_picture("Results, with 95% intervals", results, shares=True)
    return cells_table("evaluation", rows), picture


_Rows = list[tuple[Cell | str | float | None, ...]]


def rows_behind(
    site: Site, index: QuestionTable, queries: Iterable[Query], model: str, others: Iterable[str]
) -> _Rows:
    """The questions on which a model is most behind others, and by how much."""
    models = (model, *others)
    gaps = []
    for query in queries:
        scope = index.scope(query)
        sign = -1 if scope and scope.lower_is_better else 1
        for name, (own, *values) in value_rows(index, query, models).items():
            known = [float(value) for value in values if value is not None]
            if own is not None and known:
                gaps.append((sign * (fmean(known) - float(own)), float(own), query, name))
    rows: _Rows = []
    for gap, own, query, name in nlargest(_WORST, gaps, key=lambda gap: gap[0]):
        question = index.row(query, name)
        if gap > 0 and question:
            state = PageState(query=all_questions(query), show=tuple(map(AnswerName, models)))
            title = f"{question.evaluation_name} · {question.sample_id}"
            link = Cell(title, href=site.questions(state)(name))
            numbers = number_cell(own, ".3f"), number_cell(gap, ".3f")
            rows.append((link, *numbers, question.excerpt))
    return rows


def _errors(index: QuestionTable, queries: Iterable[Query]) -> list[tuple[str, int]]:
    """Count the errors of a model by their first line, whatever its numbers are."""
    kinds = Counter[str]()
    for query in queries:
        table_of = index.table(query)
        is_own = (table_of.flag == ERROR) & table_of.are_models(query.models)[table_of.model]
        for line in index.selection.lines(np.sort(table_of.number[is_own])[:_MOST_ERRORS]):
            first = str(decoded(line)["error"]).strip().partition("\n")[0]
            kinds[cut_middle(re.sub(r"\d+", "#", first), 100)] += 1
    return kinds.most_common(_WORST)


def _metadata(index: QuestionTable, numbers: Array) -> _Rows:
    """The fields that have a few values in the records of a model."""
    part, _ = next(index.selection.by_part(numbers))
    keys = [METADATA + key for key in index.selection.columns(part).metadata_keys]
    rows: _Rows = []
    for name in (*_FIELDS, *keys):
        values = index.selection.codes(name, numbers)[1]
        texts = [value.decode() if isinstance(value, bytes) else str(value) for value in values]
        if len(texts) <= _MOST_VALUES or name in _FIELDS:
            rows.append((name, len(texts), listed(sorted(texts), _MOST_VALUES)))
    return rows
