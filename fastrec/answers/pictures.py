"""Pictures of an evaluation, with their numbers as tables that unfold; for `report` and `view`.

- the results of models as dots with intervals
- the difficulty of questions, as a histogram
- how often models agree, as a heat map in which similar models are neighbours
- results against the length of answers, their latency, and what they cost
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from fastrec.answers.calibration import find_calibration
from fastrec.answers.codes import Array, by_key, count_of
from fastrec.answers.costs import ModelCost
from fastrec.answers.facts import spread_range
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.table import Query
from fastrec.answers.values import value_blocks
from fastrec.errors import counted
from fastrec.pages import render_macro, render_template
from fastrec.pages.html import Cell, Html, number_cell
from fastrec.pages.svg import WIDTH, Scale, Spot, heat_class, scatter
from fastrec.statistics.intervals import OptionalNumber
from fastrec.summary.present_ranking import (
    EvaluationStats,
    ModelStats,
    Stats,
    about,
    legend,
    unranked_in_words,
)
from fastrec.wording import cost_text, latency_text

MOST_ROWS = 1_000  # models of a table
_MOST_DRAWN = 12  # evaluations with pictures
_ABOUT = (
    "A dot is the accuracy of a model, or its mean score where scores are other than 0 and 1; the "
    "line through it is its 95% interval, over questions. Models whose lines overlap may differ by "
    "chance only. Two models agree on a question if both are right or both are wrong; similar "
    "models are neighbours. In plots of results against something, the scale across is "
    "logarithmic, and best is at the top left; filled: no other model is better in both."
)
_MOST_DOTS = 25  # results of a dot plot
_BINS = 20  # of a histogram
_MOST_MAPPED = 20  # models of a heat map


class Result(NamedTuple):
    """The accuracy or mean score of a model, the ends of its interval, and their format."""

    value: OptionalNumber
    low: OptionalNumber
    high: OptionalNumber
    spec: str


def result_of(model: ModelStats, *, accuracy: bool) -> Result:
    if accuracy:
        return Result(model.accuracy, model.accuracy_low, model.accuracy_high, ".1%")
    spec = ".3f" if abs(model.mean_score or 0) < 10 else ".4g"
    return Result(model.mean_score, model.score_low, model.score_high, spec)


def are_shares(models: Sequence[ModelStats]) -> bool:
    """Whether all mean scores are from 0 to 1, so that they can be drawn like an accuracy."""
    return all(0 <= model.mean_score <= 1 for model in models if model.mean_score is not None)


def dots_picture(caption: str, results: Mapping[str, Result], *, shares: bool) -> Html:
    """Draw the first results as dots with intervals, below each other, with names beside them.

    The scale is from 0 to 1 if they are shares, else from end to end.
    """
    dots = []
    for name, (value, low, high, spec) in results.items():
        if value is not None:
            left, right = (value if end is None else end for end in (low, high))
            dots.append((name, format(value, spec), left, value, right))
    if not dots:
        return Html("")
    least = 0.0 if shares else min(left for _, _, left, _, _ in dots)
    most = 1.0 if shares else max(right for *_, right in dots)
    scale = Scale(least, most, WIDTH)
    marks = [
        (name, text, *(round(scale(value)) for value in values))
        for name, text, *values in dots[:_MOST_DOTS]
    ]
    ends = (f"{least:.4g}", f"{most:.4g}")
    return render_macro("charts.html", "dot_chart", caption, marks, len(dots), ends)


def model_cells(
    model: ModelStats,
    *,
    accuracy: bool,
    characters: OptionalNumber = None,
    cost: OptionalNumber = None,
) -> dict[str, Cell]:
    """The cells about a model on an evaluation, by the heads of their columns."""
    value, low, high, spec = result_of(model, accuracy=accuracy)
    score = model.mean_score
    latency = model.latency_ms
    numbers = {
        "accuracy": (value if accuracy else None, spec),
        "score": (None if accuracy and score == value else score, ".4g"),
        "95% low": (low, spec),
        "95% high": (high, spec),
        "errors": (model.errors or None, ","),
        "questions": (model.questions, ","),
        "answers": (model.answers if model.answers > model.questions else None, ","),
        "coverage": (model.coverage, ".1%"),
        "characters": (characters, ",.0f"),
        "tokens/record": (model.tokens_per_record, ",.0f"),
        "latency p50, ms": (latency.p50, ",.0f"),
        "p90": (latency.p90, ",.0f"),
        "p99": (latency.p99, ",.0f"),
        "cost/answer": (cost, ".4g"),
    }
    return {"rank": Cell(model.rank), **number_cells(numbers)}


def number_cells(numbers: Mapping[str, tuple[OptionalNumber, str]]) -> dict[str, Cell]:
    """Make cells of numbers with formats, by the heads of their columns; empty without a number."""
    return {head: Cell(number_cell(*number).text) for head, number in numbers.items()}


CellsTable = tuple[list[str], list[list[Cell]]]  # its heads, and its rows


def cells_table(head: str, rows: Mapping[Cell, Mapping[str, Cell]]) -> CellsTable:
    """Make a table of cells by row and column; columns that say nothing are left out."""
    used = {head for cells in rows.values() for head, cell in cells.items() if cell.text}
    heads = [head for head in dict.fromkeys(chain(*rows.values())) if head in used]
    shown = [
        [name, *(cells.get(column, Cell("")) for column in heads)] for name, cells in rows.items()
    ]
    return [head, *heads], shown


def evaluations_html(
    index: QuestionTable, stats: Stats, costs: Sequence[ModelCost] = (), most: int = MOST_ROWS
) -> Html:
    """Show evaluations with their models: the largest one, and the others folded.

    Those with the most records have pictures. A table has at most so many models.
    """
    paid = by_key(
        (model.evaluation_name, (model.model_id, model.cost / (model.answers - model.unknown)))
        for model in costs
        if model.cost is not None
    )
    totals = [evaluation for evaluation in stats.evaluations if evaluation.group is None]
    largest = sorted(totals, key=lambda evaluation: -evaluation.records)[:_MOST_DRAWN]
    shown = []
    for evaluation in sorted(stats.evaluations, key=lambda candidate: candidate is not largest[0]):
        query = query_of(evaluation)
        is_drawn = any(evaluation is large for large in largest)
        extra = {
            "characters": mean_lengths_of(index, query) if is_drawn else {},
            # Costs are those of whole evaluations.
            "cost": {} if evaluation.group else dict(paid.get(evaluation.evaluation_name, ())),
        }
        accuracy = stats.shows_accuracy(evaluation)
        drawn = _pictures(index, evaluation, extra, accuracy=accuracy) if is_drawn else []
        shown.append(
            {
                "title": evaluation.title,
                "caption": f"{evaluation.title}: {about(evaluation)}",
                "is_drawn": is_drawn,
                "pictures": drawn,
                "table": _models_table(evaluation, extra, most, accuracy=accuracy),
                "notes": _notes(evaluation, most),
            }
        )
    lines = [line for line in (*legend(stats), _ABOUT) if "±" not in line]
    return render_template("evaluations.html", evaluations=shown, legend=lines)


_Extra = Mapping[str, Mapping[str, float]]  # mean characters and cost of an answer, by model


def _models_table(
    evaluation: EvaluationStats, extra: _Extra, most: int, *, accuracy: bool
) -> CellsTable:
    rows = {}
    for model in evaluation.by_model[:most]:
        numbers = {name: of_models.get(model.model_id) for name, of_models in extra.items()}
        rows[Cell(model.model_id)] = model_cells(model, accuracy=accuracy, **numbers)
    return cells_table("model", rows)


def _notes(evaluation: EvaluationStats, most: int) -> list[str]:
    notes = unranked_in_words(evaluation)
    if most < len(evaluation.by_model):
        left = f"{most:,} of {len(evaluation.by_model):,}"
        notes.append(f"Shown: the best {left} models; `fastrec stats` lists all.")
    return notes


def _pictures(
    index: QuestionTable, evaluation: EvaluationStats, extra: _Extra, *, accuracy: bool
) -> list[Html]:
    """Draw an evaluation and metric: its models, best first, and its questions."""
    query = query_of(evaluation)
    results = {
        model.model_id: result_of(model, accuracy=accuracy)
        for model in evaluation.by_model
        if model.answers
    }
    if not results:
        return []
    spell = f"{{:{next(iter(results.values())).spec}}}".format
    latencies = {model.model_id: model.latency_ms.p50 or 0.0 for model in evaluation.by_model}

    def against(what: str, known: Mapping[str, float], spell_x: Callable[[float], str]) -> Html:
        spots = [
            Spot(name, known.get(name, 0.0), result.value or 0.0)
            for name, result in results.items()
        ]
        return scatter(what, spots, spell_x, spell, lower=evaluation.lower_is_better)

    measure = "Accuracy" if accuracy else "Mean score"
    shares = accuracy or are_shares(evaluation.by_model)
    return [
        dots_picture(f"{measure} of models, with 95% intervals", results, shares=shares),
        agreement_picture(index, query, list(results)),
        difficulty_picture(index, query),
        against("the mean length of an answer", extra["characters"], _characters),
        against("median latency", latencies, latency_text),
        against("the cost of an answer", extra["cost"], cost_text),
    ]


def _characters(length: float) -> str:
    return counted(round(length), "character")


def mean_lengths_of(index: QuestionTable, query: Query) -> dict[str, float]:
    """The mean number of characters of the answers of each model that has any."""
    table = index.table(query)
    lengths = table.gather("response_characters")[table.is_answer]
    sums = np.bincount(table.model[table.is_answer], lengths, len(table.models))
    counts = table.count_models(table.is_answer)
    return {table.models[at]: float(sums[at] / counts[at]) for at in np.flatnonzero(counts)}


def difficulty_picture(index: QuestionTable, query: Query) -> Html:
    """Draw how many questions are how difficult, by the models of a query."""
    scope = index.scope(query)
    facts = index.facts(query)
    is_answered = facts.models > 0
    if not scope or not is_answered.any():
        return Html("")
    values = facts.score[is_answered].tolist()
    caption = "Questions by mean score"
    spell = "{:.4g}".format
    if not scope.graded:
        values = (facts.right[is_answered] / facts.models[is_answered]).tolist()
        caption = "Questions by share of models that are right"
        spell = "{:.0%}".format
    low = min(0.0, *values)
    high = max(1.0, *values)
    bin_of = Scale(low, high, _BINS)
    counts = count_of(np.array([min(int(bin_of(value)), _BINS - 1) for value in values]), _BINS)
    value_of = Scale(0, _BINS, high, low)
    rows = [(spell(value_of(at)), count) for at, count in enumerate(counts.tolist())]
    return render_macro(
        "charts.html",
        "histogram",
        caption,
        counts.tolist(),
        spell(low),
        spell(high),
        ("from", "questions"),
        rows,
    )


def agreement_picture(index: QuestionTable, query: Query, models: Sequence[str]) -> Html:
    """Draw how much models agree, in percent: a table as a heat map, similar ones side by side.

    Two models agree on a question as far as their values are equal: 1 if both are right or both
    wrong. Of many models, the first ones are drawn.
    """
    scope = index.scope(query)
    names = models[:_MOST_MAPPED]
    if not scope or len(names) < 3:
        return Html("")
    shares = _agreement(index, query, names, graded=scope.graded)
    order = _by_similarity(shares)
    least = np.nanmin(shares)
    colour = Scale(least, 1.0)
    rows = []
    for place in order:
        cells = [
            ("", "") if np.isnan(share) else (f"{100 * share:.0f}", heat_class(colour(share)))
            for share in shares[place, order].tolist()
        ]
        rows.append((names[place], cells))
    first = "" if len(names) == len(models) else f"the first {len(names)} of "
    caption = f"Agreement of {first}{counted(models, 'model')}, in percent"
    return render_macro("charts.html", "heat_map", caption, rows)


def _agreement(index: QuestionTable, query: Query, models: Sequence[str], *, graded: bool) -> Array:
    """Models × models: 1 minus the mean difference on common questions; NaN without any."""
    distance = spread_range(index.table(query)) if graded else 1.0
    blocks = [block for block, _ in value_blocks(index, query, models, graded=graded)]
    values = np.concatenate(blocks) / distance
    means = []
    with np.errstate(invalid="ignore", divide="ignore"):
        for column in values.T:
            apart = np.abs(values - column[:, np.newaxis])
            means.append(np.nansum(apart, axis=0) / (~np.isnan(apart)).sum(axis=0))
    return 1 - np.array(means)


def _by_similarity(shares: Array) -> list[int]:
    """Order models: each is followed by the most similar one of the others."""
    known = np.where(np.isnan(shares), -1.0, shares)
    order = [0]
    others = list(range(1, len(known)))
    while others:
        nearest = max(others, key=lambda other: (known[order[-1], other], -other))
        others.remove(nearest)
        order.append(nearest)
    return order


def calibration_pictures(
    index: QuestionTable, confidence: str, queries: Sequence[Query], title: Sequence[str]
) -> list[Html]:
    """Draw the shares of right answers of models against their confidence, with the numbers.

    `title` has the fields that name a picture.
    """
    pictures = []
    for model in find_calibration(index, confidence, queries):
        rows = [
            (f"{bin_.confidence:.1%}", number_cell(bin_.accuracy, ".1%"), bin_.answers)
            for bin_ in model.bins
        ]
        names = " · ".join(filter(None, (getattr(model, field) for field in title)))
        if model.answers:
            pictures.append(render_macro("charts.html", "calibration", names, model, rows))
    return pictures
