"""Pictures of an evaluation, with their numbers as tables that unfold; for `report` and `view`.

- the results of models as dots with intervals
- the difficulty of questions, as a histogram
- how often models agree, as a heat map in which similar models are neighbours
- results against the length of answers, their latency, and what they cost
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from fastrec.answers.codes import Array, count_of
from fastrec.answers.facts import spread_range
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.records import ANSWERS
from fastrec.answers.table import Query
from fastrec.answers.values import value_blocks
from fastrec.errors import counted
from fastrec.html import (
    Html,
    details,
    html,
    joined,
    num,
    plain_table,
    row,
    short_cell,
    short_row,
    soft,
    tag,
)
from fastrec.statistics.calibration import Calibration
from fastrec.summary.present_ranking import EvaluationStats, ModelStats
from fastrec.svg import (
    WIDTH,
    Dot,
    Reliability,
    Scale,
    Spot,
    dot_chart,
    figure,
    heat_class,
    histogram,
    histogram_bars,
    reliability,
    scatter,
)
from fastrec.wording import cost_text, latency_text

_MOST_MAPPED: Final = 24  # models of a heat map


class Result(NamedTuple):
    """The accuracy or mean score of a model, the ends of its interval, and their format."""

    value: float | None
    low: float | None
    high: float | None
    spec: str


def result_of(model: ModelStats, *, accuracy: bool) -> Result:
    if accuracy:
        return Result(model.accuracy, model.accuracy_low, model.accuracy_high, ".1%")
    spec = ".3f" if abs(model.mean_score or 0) < 10 else ".4g"
    return Result(model.mean_score, model.score_low, model.score_high, spec)


def are_shares(models: Sequence[ModelStats]) -> bool:
    """Whether all mean scores are from 0 to 1, so that they can be drawn like an accuracy."""
    return all(0 <= model.mean_score <= 1 for model in models if model.mean_score is not None)


def dot_of(name: str, result: Result) -> Dot | None:
    value, low, high, spec = result
    if value is None:
        return None
    ends = (value if end is None else end for end in (low, high))
    return Dot(name, format(value, spec), value, *ends)


def dots_picture(caption: str, dots: Sequence[Dot], *, shares: bool) -> Html:
    """Draw results with intervals: from 0 to 1 if they are shares, else from end to end."""
    if not dots:
        return Html("")
    least = 0.0 if shares else min(dot.low for dot in dots)
    most = 1.0 if shares else max(dot.high for dot in dots)
    return dot_chart(caption, dots, Scale(least, most, WIDTH), f"{least:.4g}", f"{most:.4g}")


def numbers_table(heads: Sequence[str], rows: Sequence[Html]) -> Html:
    """Make a table of the numbers of a picture."""
    cells = (tag("th", head, scope="col") for head in heads)
    return html('<div class="wide">{}</div>', plain_table(cells, rows, class_="numbers"))


def evaluation_pictures(
    index: QuestionTable,
    evaluation: EvaluationStats,
    *,
    accuracy: bool,
    paid: Mapping[str, float] | None = None,
) -> Html:
    """Draw an evaluation and metric: its models, best first, and its questions.

    `paid` has the cost of an answer by model.
    """
    query = Query(evaluation_name=evaluation.evaluation_name, metric=evaluation.metric)
    models = evaluation.by_model
    results = {model.model_id: result_of(model, accuracy=accuracy) for model in models}
    dots = [dot for name, result in results.items() if (dot := dot_of(name, result))]
    dots.sort(key=lambda dot: dot.value if evaluation.lower_is_better else -dot.value)
    if not dots:
        return Html("")
    spell = partial(_spelled, spec=results[dots[0].name].spec)
    lengths = _mean_lengths(index, query)
    latencies = {model.model_id: model.latency_ms.p50 or 0.0 for model in models}

    def against(what: str, known: Mapping[str, float], spell_x: Callable[[float], str]) -> Html:
        spots = [Spot(dot.name, known.get(dot.name, 0.0), dot.value) for dot in dots]
        return scatter(what, spots, spell_x, spell, lower=evaluation.lower_is_better)

    measure = "Accuracy" if accuracy else "Mean score"
    shares = accuracy or are_shares(models)
    not_judged = len(models) - len(dots)
    about = [counted(evaluation.questions, "question"), counted(len(dots), "model")]
    if not_judged:
        about.append(f"{counted(not_judged, 'model')} not judged")
    difficulty, of_questions = difficulty_picture(index, query)
    drawn = joined(
        dots_picture(f"{measure} of models, with 95% intervals", dots, shares=shares),
        agreement_picture(index, query, [dot.name for dot in dots]),
        difficulty,
        against("the mean length of an answer", lengths, "{:,.0f} characters".format),
        against("median latency", latencies, latency_text),
        against("the cost of an answer", paid or {}, cost_text),
    )
    heads = ("model", measure.lower(), "low", "high", "characters", "latency, ms", "cost")
    rows = [
        row(
            dot.name,
            *(num(value, ".4g") for value in (dot.value, dot.low, dot.high)),
            num(lengths.get(dot.name), ",.0f"),
            num(latencies[dot.name] or None, ",.0f"),
            num((paid or {}).get(dot.name), ".4g"),
        )
        for dot in dots
    ]
    numbers = joined(numbers_table(heads, rows), of_questions)
    return html(
        '<div class="pictures">{}</div>{}', drawn, details("Numbers of these pictures", numbers)
    )


def _spelled(value: float, spec: str) -> str:
    return format(value, spec)


def _mean_lengths(index: QuestionTable, query: Query) -> dict[str, float]:
    """The mean number of characters of the answers of each model."""
    table = index.table(query)
    is_answer = table.flag & ANSWERS > 0
    models = table.model[is_answer]
    sums = np.bincount(
        models, weights=table.gather("response_characters")[is_answer], minlength=len(table.models)
    )
    means = sums / np.maximum(count_of(models, len(table.models)), 1)
    return dict(zip(table.models, means.tolist(), strict=True))


def difficulty_picture(index: QuestionTable, query: Query) -> tuple[Html, Html]:
    """Draw how many questions are how difficult, by the models of a query; and its numbers."""
    scope = index.scope(query)
    facts = index.facts(query)
    is_answered = facts.models > 0
    if scope is None or not is_answered.any():
        return Html(""), Html("")
    values = facts.score[is_answered].tolist()
    caption = "Questions by mean score"
    spell: Callable[[float], str] = "{:.4g}".format
    if not scope.graded:
        values = (facts.right[is_answered] / facts.models[is_answered]).tolist()
        caption = "Questions by share of models that are right"
        spell = "{:.0%}".format
    in_unit = min(values) >= 0 and max(values) <= 1
    low, high = (0.0, 1.0) if in_unit else (min(values), max(values))
    bins = histogram_bars(values, low, high)
    rows = [row(f"{spell(one.low)} to {spell(one.high)}", one.values) for one in bins]
    numbers = numbers_table((caption, "questions"), rows)
    return histogram(caption, bins, spell), numbers


def agreement_picture(index: QuestionTable, query: Query, models: Sequence[str]) -> Html:
    """Draw how much models agree, in percent: a table as a heat map, similar ones side by side.

    Two models agree on a question as far as their values are equal: 1 if both are right or both
    wrong. Of many models, the first ones are drawn.
    """
    scope = index.scope(query)
    names = models[:_MOST_MAPPED]
    if scope is None or len(names) < 3:
        return Html("")
    shares = _agreement(index, query, names, graded=scope.graded)
    order = _by_similarity(shares)
    least = np.nanmin(shares)
    colour = Scale(least, 1.0)
    rows = []
    for place in order:
        line = shares[place, order].tolist()
        cells = (
            short_cell()
            if np.isnan(share)
            else short_cell(f"{100 * share:.0f}", class_=heat_class(colour(share)))
            for share in line
        )
        rows.append(short_row(names[place], cells))
    first = "" if len(names) == len(models) else f"the first {len(names)} of "
    caption = f"Agreement of {first}{counted(len(models), 'model')}, in percent"
    drawn = plain_table(None, rows, class_="heat", aria_label=caption)
    return figure(caption, html('<div class="wide">{}</div>', drawn))


def _agreement(index: QuestionTable, query: Query, models: Sequence[str], *, graded: bool) -> Array:
    """Models × models: 1 minus the mean difference on common questions; NaN without any."""
    size = len(models)
    apart = np.zeros((size, size))
    common = np.zeros((size, size))
    distance = spread_range(index.table(query)) if graded else 1.0
    for block, _ in value_blocks(index, query, models, graded=graded):
        known = ~np.isnan(block)
        values = np.where(known, block / distance, 0.0)
        common += known.T.astype(np.float64) @ known
        for at in range(size):
            both = known & known[:, [at]]
            apart[at] += np.where(both, np.abs(values - values[:, [at]]), 0.0).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return 1 - apart / common


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


def calibration_picture(model: Calibration, title: str) -> Html:
    """Draw the share of right answers against their confidence, with its numbers."""
    about = (
        f"{counted(model.answers, 'answer')}, calibration error {model.ece:.3f}, "
        f"Brier score {model.brier:.3f}"
    )
    bins = [
        Reliability(one.answers / model.answers, one.confidence, one.accuracy) for one in model.bins
    ]
    rows = [
        row(f"{one.confidence:.1%}", num(one.accuracy, ".1%"), one.answers) for one in model.bins
    ]
    numbers = numbers_table(("confidence", "right", "answers"), rows)
    return html(
        "<article><h3>{}</h3>{}{}{}</article>",
        title,
        soft(about),
        reliability(f"{title}: {about}", bins),
        details("Numbers", numbers),
    )
