"""A model: its results, the questions on which models of similar rank are ahead, its errors."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from statistics import fmean

import numpy as np
from msgspec.structs import replace

from fastrec.answers.calibration import find_calibration
from fastrec.answers.codes import Array
from fastrec.answers.costs import Price, find_costs
from fastrec.answers.leaderboard import BoardModel, Leaderboard
from fastrec.answers.pictures import (
    are_shares,
    calibration_picture,
    cells_table,
    dots_picture,
    mean_lengths_of,
    model_cells,
    result_of,
)
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.records import ERROR
from fastrec.answers.table import Query
from fastrec.answers.transcript import decoded
from fastrec.answers.values import value_rows
from fastrec.commands.view.addresses import (
    Addresses,
    AnswerName,
    all_questions,
    name_text,
)
from fastrec.commands.view.layout import LONGEST_NAME, MOST, Frame
from fastrec.corpus.columns import METADATA
from fastrec.errors import listed
from fastrec.html import Child, Exact, Html, each, html, joined, num, row, short_cell, table, tag
from fastrec.summary.present_ranking import Stats
from fastrec.wording import cost_text, cut_middle

_NEAR = 2  # neighbours on each side
_WORST = 10  # questions
_MOST_QUERIES = 24  # evaluations whose records are looked at
_MOST_ERRORS = 1_000  # that are read
_MOST_VALUES = 5  # of a field
_FIELDS = ("run", "interaction_type", "schema_version")


def model_page(
    frame: Frame,
    index: QuestionTable,
    stats: Stats,
    board: Leaderboard,
    *,
    model: str,
    confidence: str,
    prices: Mapping[str, Price],
) -> Html:
    """Show a model; with a field of its confidence, also its calibration."""
    primary = {(one.evaluation_name, one.metric) for one in board.evaluations}
    scopes = [scope for scope in index.scopes if model in scope.models]
    chosen = [one for one in scopes if (one.evaluation_name, one.metric) in primary] or scopes
    queries = [replace(query_of(scope), models=(model,)) for scope in chosen[:_MOST_QUERIES]]
    near = _neighbours(board, model)
    names = [one.model_id for one in near if one.model_id != model]

    def box(of_model: str) -> Html:
        return model_box(frame.addresses, of_model, is_ticked=of_model == model)

    return frame.page(
        model,
        [(model, None)],
        html("<h1>{}</h1><h2>Models of similar rank</h2>", model),
        compare_form(
            frame.addresses,
            replace(board, models=near).to_html(frame.addresses.cell, box) if near else box(model),
            _choice(name for name in index.models if name not in (model, *names)),
        ),
        *_results(frame.addresses, index, stats, model),
        behind_table(
            "Questions on which similar models are ahead",
            frame.addresses,
            index,
            queries,
            names,
            heads=("result of this model", "behind their mean by"),
        ),
        _errors(index, queries),
        _costs(index, queries, prices),
        _calibration(frame, index, queries, confidence),
        _metadata(index, np.sort(np.concatenate([index.numbers_of(one) for one in queries]))),
    )


def _neighbours(board: Leaderboard, model: str) -> list[BoardModel]:
    """A model, with those before and after it in its table of the leaderboard.

    If it is alone in its table, those that have answered one of its evaluations.
    """
    for own in board.models:
        if own.model_id == model:
            others = [one for one in board.models if one.group == own.group]
            if len(others) == 1:
                others = [one for one in board.models if _is_common(one, own)]
            at = others.index(own) if own in others else 0
            return others[max(at - _NEAR, 0) : at + 1 + _NEAR]
    return []


def _is_common(one: BoardModel, other: BoardModel) -> bool:
    return any(cell and mine for cell, mine in zip(one.cells, other.cells, strict=True))


def model_box(addresses: Addresses, model: str, *, is_ticked: bool = False) -> Html:
    """Make a box to tick in a form that compares two models, and a link to the model."""
    box = tag(
        "input",
        type="checkbox",
        name="model",
        value=Exact(name_text(model)),
        checked=is_ticked,
        aria_label=f"Compare {model}",
    )
    address = addresses.models("model", model)
    return html('{} <a href="{}">{}</a>', box, address, cut_middle(model, LONGEST_NAME))


def compare_form(addresses: Addresses, *content: Child) -> Html:
    """Make a form that compares the two models that are ticked or chosen in it."""
    button = Html('<button class="button">Compare two models</button>')
    return html('<form action="{}">{}{}</form>', addresses.plain("pair"), joined(*content), button)


def _choice(models: Iterable[str]) -> Html:
    """Make a list to choose another model from."""
    options = [(Exact(name_text(name)), cut_middle(name, LONGEST_NAME)) for name in models]
    return html(
        '<select name="model" aria-label="Another model"><option value="">another model</option>{}'
        "</select> ",
        each('<option value="{}">{}</option>', options[:MOST]),
    )


def _results(
    addresses: Addresses, index: QuestionTable, stats: Stats, model: str
) -> tuple[Html, Html]:
    """Show the results of a model by evaluation and metric, as a table and as a picture."""
    rows: dict[str, dict[str, Html]] = {}
    results = {}
    for evaluation in stats.evaluations:
        for own in evaluation.by_model:
            if own.model_id == model:
                accuracy = stats.shows_accuracy(evaluation)
                query = all_questions(evaluation, (model,)).query
                characters = mean_lengths_of(index, query).get(model)
                cells = model_cells(own, accuracy=accuracy, characters=characters)
                rows[tag("a", evaluation.title, href=addresses.query(query))] = cells
                wrong = replace(query, wrong=(model,))
                cells["wrong"] = short_cell(tag("a", "show", href=addresses.query(wrong)))
                if are_shares([own]):
                    results[evaluation.title] = result_of(own, accuracy=accuracy)
    picture = dots_picture("Results, with 95% intervals", results, shares=True)
    return (
        cells_table("Results by evaluation and metric", "evaluation", rows),
        html('<div class="pictures">{}</div>', picture),
    )


def behind_table(
    caption: str,
    addresses: Addresses,
    index: QuestionTable,
    queries: Iterable[Query],
    others: Sequence[str],
    *,
    heads: tuple[str, str],
) -> Html:
    """Show the questions on which the only model of queries is most behind others.

    The heads are those of its results and of the distances.
    """
    gaps: list[tuple[float, float, Query, str]] = []
    for query in queries:
        scope = index.scope(query)
        sign = -1 if scope and scope.lower_is_better else 1
        models = (*query.models, *others)
        for name, (own, *values) in value_rows(index, query, models).items():
            known = [float(value) for value in values if value is not None]
            if own is not None and known:
                gaps.append((sign * (fmean(known) - float(own)), float(own), query, name))
    rows = []
    for gap, own, query, name in nlargest(_WORST, gaps, key=lambda gap: gap[0]):
        question = index.row(query, name)
        if gap > 0 and question:
            shown = tuple(map(AnswerName, (*query.models, *others)))
            state = replace(all_questions(query), show=shown)
            address = addresses.question(state, name)
            link = tag("a", f"{question.evaluation_name} · {question.sample_id}", href=address)
            rows.append(row(link, num(own, ".3f"), num(gap, ".3f"), question.excerpt))
    return table(caption, ("question", *heads, "input"), rows)


def _errors(index: QuestionTable, queries: Iterable[Query]) -> Html:
    """Count the errors of a model by their first line, whatever its numbers are."""
    kinds: Counter[str] = Counter()
    for query in queries:
        table_of = index.table(query)
        is_own = (table_of.flag == ERROR) & table_of.are_models(query.models)[table_of.model]
        for line in index.selection.lines(np.sort(table_of.number[is_own])[:_MOST_ERRORS]):
            first = str(decoded(line)["error"]).strip().partition("\n")[0]
            kinds[cut_middle(re.sub(r"\d+", "#", first), 100)] += 1
    rows = [row(kind, count) for kind, count in kinds.most_common(_WORST)]
    return table("Errors by kind", ("error", "records"), rows)


def _costs(index: QuestionTable, queries: Iterable[Query], prices: Mapping[str, Price]) -> Html:
    """Show what the answers of a model cost."""
    heads = ("evaluation", "records", "no tokens", "cost", "per right answer")
    costs = find_costs(index, prices, queries) if prices else []
    rows = [
        row(
            cost.evaluation_name,
            num(cost.answers, ","),
            num(cost.unknown, ","),
            short_cell(cost_text(cost.cost), class_="num"),
            short_cell(cost_text(cost.cost_per_right), class_="num"),
        )
        for cost in costs
    ]
    return table("Cost", heads, rows)


def _calibration(
    frame: Frame, index: QuestionTable, queries: Sequence[Query], confidence: str
) -> Html:
    form = html(
        '<form action="{}" class="find"><input type="hidden" name="model" value="{}">'
        '<input name="confidence" value="{}" placeholder="field or metric of the confidence" '
        'aria-label="Confidence"><button class="button">Draw calibration</button></form>',
        frame.addresses.plain("model"),
        Exact(name_text(queries[0].models[0])),
        Exact(confidence),
    )
    if not confidence:
        return form
    known = (one for one in find_calibration(index, confidence, queries) if one.answers)
    return joined(form, *(calibration_picture(one, one.evaluation_name) for one in known))


def _metadata(index: QuestionTable, numbers: Array) -> Html:
    """Show the fields that have a few values in the records of a model."""
    part, _ = next(index.selection.by_part(numbers))
    keys = [METADATA + key for key in index.selection.columns(part).metadata_keys]
    rows = []
    for name in (*_FIELDS, *keys):
        values = index.selection.codes(name, numbers)[1]
        texts = [one.decode() if isinstance(one, bytes) else str(one) for one in values]
        if len(texts) <= _MOST_VALUES or name in _FIELDS:
            rows.append(row(name, len(texts), listed(sorted(texts), _MOST_VALUES)))
    return table("Metadata of its records", ("field", "distinct values", "values"), rows)
