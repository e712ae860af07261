"""Charts about models: dots, scatter plots, histograms, heat maps, reliability, trends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Final, NamedTuple

from fastrec.answers.costs import ModelCost
from fastrec.errors import counted, listed
from fastrec.filters import AnyPath, Filters
from fastrec.html import (
    Html,
    each,
    field_table,
    html,
    joined,
    lazy,
    num,
    row,
    short_cell,
    short_row,
    soft,
    table,
    tag,
)
from fastrec.limits import current_limits
from fastrec.statistics.calibration import Calibration
from fastrec.summary.document import LineCounts
from fastrec.summary.present_ranking import EvaluationStats, ModelStats, Stats, largest
from fastrec.svg import (
    NAMED,
    WIDTH,
    Dot,
    Point,
    Scale,
    bars,
    dot_plot,
    dots,
    drawing,
    ends,
    figure,
    heat_cell,
    path,
    short,
    stretched,
)
from fastrec.trends import EvaluationTrend, ModelTrend, Trend, collect_trend
from fastrec.wording import cost_text, cut_middle, latency_text


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


def is_large(stats: Stats) -> bool:
    """Whether browsers would be slow to show so many models: then large tables are parsed late."""
    rows = sum(len(evaluation.by_model) for evaluation in stats.evaluations)
    return rows > current_limits().report_static_rows


def left_out(shown: int, total: int, what: str) -> Html:
    if shown >= total:
        return Html("")
    return soft(f"Shown: {shown:,} of {total:,} {what}; `fastrec stats` lists all.")


def gallery(
    about: str, cards: Iterable[Html], class_: str, stats: Stats, everything: Stats
) -> Html:
    """Show a card for each evaluation that has one; empty if none has."""
    shown = list(filter(None, cards))
    if not shown:
        return Html("")
    most = "evaluations with the most records"
    return joined(
        soft(about),
        html('<div class="{}">{}</div>', class_, shown),
        left_out(len(stats.evaluations), len(everything.evaluations), most),
    )


_BINS: Final = 20


def histogram(
    title: str, values: Sequence[float], *, unit: str = "", logarithmic: bool = False
) -> Html:
    """Draw the number of models by value; empty if there are no values."""
    if logarithmic:
        values = [value for value in values if value > 0]
    if not values:
        return Html("")
    scaled = list(map(math.log, values)) if logarithmic else values
    bin_of = Scale(min(scaled), max(scaled), _BINS)
    counts = Counter(min(int(bin_of(value)), _BINS - 1) for value in scaled)
    most = max(counts.values())
    low, high = (_end_text(end) + unit for end in (min(values), max(values)))
    label = (
        f"{title}: {counted(len(values), 'model')} from {low} to {high}, at most {most} in one bar"
    )
    shapes = bars([counts[number] / most for number in range(_BINS)])
    return figure(title, drawing("0 0 200 61", label, *shapes), ends(low, high))


def _end_text(value: float) -> str:
    return format(value, ",.0f" if 1_000 <= value < 1e15 else ".4g")


# A dot plot for each evaluation and metric: the accuracy or mean score of its models, with 95 %
# intervals. Names and values are a list beside the drawing.

_MOST: Final = 425  # models with a dot
_ABOUT: Final = (
    "Each dot is the accuracy of a model, or its mean score where scores are other than 0 and 1. "
    "The line through it is its 95% interval, over questions. Models whose lines overlap may "
    "differ by chance only."
)


def dot_plots(stats: Stats, everything: Stats) -> Html:
    """Show the models of each evaluation as dots with intervals, the best first."""
    cards = (
        _dot_card(evaluation, accuracy=stats.shows_accuracy(evaluation))
        for evaluation in stats.evaluations
    )
    return gallery(_ABOUT, cards, "plots", stats, everything)


def _dot_card(evaluation: EvaluationStats, *, accuracy: bool) -> Html:
    models = _dots(evaluation, accuracy=accuracy)
    if not models:
        return Html("")
    least = min(dot.low for dot in models)
    most = max(dot.high for dot in models)
    if accuracy or are_shares(evaluation.by_model):
        least = 0.0
        most = 1.0
    measure = "accuracy" if accuracy else "mean score"
    about = f"{measure}, {counted(evaluation.questions, 'question')}"
    not_judged = len(evaluation.by_model) - len(models)
    if not_judged:
        about += f"; {counted(not_judged, 'model')} not judged"
    named = [(dot.name, cut_middle(dot.name), dot.text) for dot in models[:NAMED]]
    best = models[0]
    worst = models[-1]
    label = f"{measure} of models: {best.name}, {best.text}"
    if best is not worst:
        label = (
            f"{measure} of models: {len(models):,} from {best.name}, {best.text}, "
            f"to {worst.name}, {worst.text}"
        )
    return html(
        '<article class="dots"><h3>{}</h3>{}<div><ol>{}</ol>{}</div>{}{}</article>',
        evaluation.title,
        soft(about),
        each('<li title="{}"><span>{}</span><b>{}</b></li>', named),
        dot_plot(models[:_MOST], Scale(least, most, WIDTH), label),
        ends("0%", "100%") if accuracy else ends(f"{least:.4g}", f"{most:.4g}"),
        _without_names(len(models)),
    )


def _dots(evaluation: EvaluationStats, *, accuracy: bool) -> list[Dot]:
    """The models that have a result, the best first: another order may have been chosen."""
    models = []
    results = [result_of(model, accuracy=accuracy) for model in evaluation.by_model]
    for model, (value, low, high, _) in zip(evaluation.by_model, results, strict=True):
        if value is not None:
            text = format(value, results[-1].spec)
            low = value if low is None else low
            high = value if high is None else high
            models.append(Dot(model.model_id, text, value, low, high))
    return sorted(models, key=lambda dot: dot.value if evaluation.lower_is_better else -dot.value)


def _without_names(models: int) -> Html | None:
    if models <= NAMED:
        return None
    drawn = min(models, _MOST) - NAMED
    more = f"; {models - _MOST:,} more are not drawn" if models > _MOST else ""
    return soft(f"The {NAMED} best have a name; {drawn:,} others have a dot only{more}.")


# Scatter plots of results against the cost of an answer and against the median latency. A name is
# left out where it would cover another; models that no other beats in both have theirs first.

_FRAME_WIDTH: Final = 520
_FRAME_HEIGHT: Final = 280
_CHARACTER: Final = 6.2  # the width of a character of a label
_MOST_POINTS: Final = 100  # in a plot
_MOST_SCATTERS: Final = 12
_ABOUT_SCATTERS: Final = (
    "Best is at the top left. Filled: no other model is better and cheaper, or better and faster."
)
_Points = Sequence[tuple[str, float | None, float | None]]  # model, cost or latency, result


class _Known(NamedTuple):
    """A model in a scatter plot: `x` is its cost or latency, `y` its result."""

    name: str
    x: float
    y: float


def scatter_plots(found: Stats, costs: Sequence[ModelCost]) -> Html:
    """Draw the results of the largest evaluations against the cost of an answer and latency."""
    stats = largest(found, _MOST_SCATTERS)
    paid: dict[tuple[str, str], float] = {}
    for model in costs:
        if model.cost is not None:
            key = (model.evaluation_name, model.model_id)
            paid[key] = model.cost / (model.answers - model.unknown)

    def card(evaluation: EvaluationStats) -> Html:
        accuracy = stats.shows_accuracy(evaluation)
        draw = partial(_scatter, accuracy=accuracy, lower=evaluation.lower_is_better)
        by_cost = []
        by_latency = []
        for model in evaluation.by_model:
            name = model.model_id
            result = result_of(model, accuracy=accuracy).value
            by_cost.append((name, paid.get((evaluation.evaluation_name, name)), result))
            by_latency.append((name, model.latency_ms.p50, result))
        drawn = joined(
            draw("cost of an answer", by_cost, cost_text),
            draw("median latency", by_latency, latency_text),
        )
        if not drawn:
            return drawn
        return html('<article class="scatter"><h3>{}</h3>{}</article>', evaluation.title, drawn)

    return gallery(_ABOUT_SCATTERS, map(card, stats.evaluations), "plots", stats, found)


def _scatter(
    what: str, found: _Points, spell: Callable[[float], str], *, accuracy: bool, lower: bool
) -> Html:
    """Draw models with names: cost or latency on a logarithmic scale, and the result."""
    models = [_Known(name, x, y) for name, x, y in found if x and x > 0 and y is not None]
    models = models[:_MOST_POINTS]
    if len(models) < 2:
        return Html("")
    front = _front(models, lower=lower)
    models.sort(key=lambda model: model[1:] not in front)
    costs = [model.x for model in models]
    results = [model.y for model in models]
    across = Scale(math.log(min(costs)), math.log(max(costs)), _FRAME_WIDTH)
    down = Scale(min(results), max(results), 0, _FRAME_HEIGHT)
    places = [(round(across(math.log(model.x))), round(down(model.y))) for model in models]
    taken = [(x - 5.0, x + 5.0, y) for x, y in places]
    spec = ".1%" if accuracy else ".3f"
    shapes: list[Html | None] = []
    for model, (x, y) in zip(models, places, strict=True):
        title = f"{model.name}: {model.y:{spec}}, {spell(model.x)}"
        class_ = None if model[1:] in front else "beaten"
        shapes.append(
            tag("circle", html("<title>{}</title>", title), cx=x, cy=y, r=5, class_=class_)
        )
        shapes.append(_label(cut_middle(model.name, 28), x, y, taken))
    measure = "Accuracy" if accuracy else "Mean score"
    caption = f"{measure} against {what}, {counted(len(models), 'model')}"
    axes = html(
        '<path class="axis" d="M-10 -10V290H530" fill="none"></path>'
        '<text x="-64" y="4">{}</text><text x="-64" y="284">{}</text>',
        format(max(results), spec),
        format(min(results), spec),
    )
    return figure(
        caption,
        drawing("-64 -16 604 312", caption, axes, *shapes),
        ends(spell(min(costs)), what, spell(max(costs))),
    )


def _front(models: Sequence[_Known], *, lower: bool) -> set[tuple[float, float]]:
    """The points that no other one beats: going right, each is better than all before."""
    sign = 1 if lower else -1
    best = math.inf
    front = set()
    for x, y in sorted((model.x, sign * model.y) for model in models):
        if y < best:
            best = y
            front.add((x, sign * y))
    return front


def _label(name: str, x: int, y: int, taken: list[tuple[float, float, int]]) -> Html | None:
    """Write a name right or left of its circle, where it covers nothing; None if it would.

    `taken` has the left end, the right end and the middle of circles and labels.
    """
    size = _CHARACTER * len(name)
    for left in (x + 9, x - 9 - size):
        right = left + size
        is_inside = 0 < left < right < _FRAME_WIDTH + 20
        covered = (
            start <= right and left <= end for start, end, middle in taken if abs(y - middle) <= 11
        )
        if is_inside and not any(covered):
            taken.append((left, right, y))
            text = '<text x="{}" y="{}" textLength="{}">{}</text>'
            return html(text, short(left), y + 4, short(size), name)
    return None


_MOST_UPRIGHT: Final = 10  # with more columns their headings are rotated


def heat_maps(stats: Stats) -> Html:
    """Show the accuracy or mean score, and the coverage, of every model on every evaluation."""
    limits = current_limits()
    by_size = sorted(stats.evaluations, key=lambda scope: -scope.records)
    evaluations = by_size[: limits.report_columns]
    evaluations.sort(key=lambda scope: (scope.evaluation_name, scope.metric or ""))
    places = _places(evaluations)
    if not places:
        return Html("")
    records: Counter[str] = Counter()
    results = []
    coverage = []
    for evaluation in evaluations:
        models = evaluation.by_model
        accuracy = stats.shows_accuracy(evaluation)
        cell = partial(_result_cell, accuracy=accuracy, coloured=accuracy or are_shares(models))
        results.append({model.model_id: cell(model) for model in models})
        coverage.append({model.model_id: heat_cell(model.coverage, ".1%") for model in models})
        records.update({model.model_id: model.records for model in models})
    most = max(limits.report_cells // len(evaluations), 1)
    names = [name for name, _ in records.most_common(most)]
    names.sort(key=lambda name: (places[name], name))
    shown = set(map(stats.shows_accuracy, evaluations))
    title = f"{'Accuracy' if True in shown else 'Mean score'} of models on evaluations"
    if len(shown) == 2:
        title += "; the mean score where scores are other than 0 and 1"
    heads = ("model", *(cut_middle(evaluation.title) for evaluation in evaluations))
    draw = partial(_heat_map, heads, names)
    about = "Coverage: the share of an evaluation's questions that a model answered"
    maps = [draw(title, "accuracy", results), draw(about, "coverage", coverage)]
    return joined(
        soft("Models with the best places on average come first."),
        left_out(len(names), len(records), "models with the most records"),
        left_out(len(evaluations), len(stats.evaluations), "evaluations with the most records"),
        map(lazy, maps) if is_large(stats) else maps,
    )


def _places(evaluations: Sequence[EvaluationStats]) -> dict[str, float]:
    """The mean place of each model, from 0 for the best."""
    places: dict[str, list[float]] = {}
    for evaluation in evaluations:
        for place, model in enumerate(evaluation.by_model):  # best first
            places.setdefault(model.model_id, []).append(place / len(evaluation.by_model))
    return {name: fmean(shares) for name, shares in places.items()}


def _heat_map(
    heads: Sequence[str],
    names: Sequence[str],
    title: str,
    kind: str,
    columns: Sequence[Mapping[str, Html]],
) -> Html:
    none = short_cell()
    rows = [short_row(name, (column.get(name, none) for column in columns)) for name in names]
    turned = " turned" if len(columns) > _MOST_UPRIGHT else ""
    return table(title, heads, rows, class_=f"heat {kind}{turned}")


def _result_cell(model: ModelStats, *, accuracy: bool, coloured: bool) -> Html:
    result = result_of(model, accuracy=accuracy)
    note = html("<small>{}</small>", counted(model.errors, "error")) if model.errors else None
    return heat_cell(result.value, result.spec, note, coloured=coloured)


def reliability_plots(models: Sequence[Calibration]) -> Html:
    """Draw the share of right answers against their confidence, for each model."""
    if not models:
        return Html("")
    known = [model for model in models if model.answers]
    plots = [_reliability(model) for model in known[: current_limits().report_scopes]]
    about = (
        "Each circle is a tenth of the range of confidence. On the line, as many answers are "
        "right as stated."
    )
    note = left_out(len(plots), len(known), "models and evaluations")
    return html('{}{}<div class="plots cards">{}</div>', soft(about), note, plots)


def _reliability(model: Calibration) -> Html:
    circles = [
        html(
            '<circle cx="{}" cy="{}" r="{}" class="kept">'
            "<title>{:,}: confidence {:.1%}, right {:.1%}</title></circle>",
            round(200 * tenth.confidence, 1),
            round(200 - 200 * tenth.accuracy, 1),
            round(3 + 7 * (tenth.answers / model.answers) ** 0.5, 1),
            tenth.answers,
            tenth.confidence,
            tenth.accuracy,
        )
        for tenth in model.bins
    ]
    title = " · ".join(filter(None, (model.evaluation_name, model.metric, model.model_id)))
    about = (
        f"{counted(model.answers, 'answer')}, calibration error {model.ece:.3f}, "
        f"Brier score {model.brier:.3f}"
    )
    axes = Html('<path class="axis" d="M0 0V200H200M0 200L200 0" fill="none"></path>')
    return html(
        "<article><h3>{}</h3>{}<figure>{}{}</figure></article>",
        title,
        soft(about),
        drawing("-12 -12 224 224", f"{title}: {about}", axes, *circles),
        ends("0%", "confidence, and share of right answers", "100%"),
    )


# Results over several corpora: a line for each of a few models of each evaluation, with changes
# marked.

_LINES: Final = 8  # models of a plot; page.css has as many colours
_TREND_HEIGHT: Final = 160
_MARGIN: Final = 8  # pixels above and below
_GRID: Final = (_MARGIN, _TREND_HEIGHT // 2, _TREND_HEIGHT - _MARGIN)
_MOST_CHANGES: Final = 500


def trend_plots(paths: Sequence[AnyPath], filters: Filters) -> Html:
    """Show how models changed over corpora: plots, changes, and the line counts of each corpus."""
    if not paths:
        return Html("")
    trend = collect_trend(paths, filters=filters)
    names = [corpus.name for corpus in trend.corpora]
    corpora = f"1 corpus, {names[0]}"
    if len(names) > 1:
        corpora = f"{len(names):,} corpora, from {names[0]} to {names[-1]}"
    about = (
        f"{corpora}. Lines: models that changed by more than chance, then the best. A ring "
        f"marks such a change: p < {trend.p:g}, adjusted for "
        f"{counted(trend.comparisons, 'comparison')}. Each model is compared with the last corpus "
        "before in which it has answers, on the questions that it answered in both."
    )
    shown = trend.evaluations[: current_limits().report_scopes]
    return joined(
        map(soft, (about, *trend.notices)),
        html('<div class="plots">{}</div>', (_trend_card(names, scope) for scope in shown)),
        _not_drawn(len(trend.evaluations) - len(shown), "evaluation"),
        _changes(trend),
        _line_counts(trend),
    )


def _not_drawn(number: int, what: str) -> Html:
    return soft(f"{counted(number, f'more {what}')} not drawn.") if number else Html("")


def _trend_card(corpora: Sequence[str], evaluation: EvaluationTrend) -> Html:
    models = _drawn_models(evaluation)
    return html(
        '<article class="trend"><h3>{}</h3>{}{}{}<ul>{}</ul>{}</article>',
        evaluation.title,
        soft(evaluation.measure),
        _trend_drawing(corpora, evaluation, models),
        ends(*dict.fromkeys((corpora[0], corpora[-1]))),
        (_legend(evaluation, model, number) for number, model in enumerate(models)),
        _not_drawn(len(evaluation.models) - len(models), "model"),
    )


def _drawn_models(evaluation: EvaluationTrend) -> list[ModelTrend]:
    """Choose the models with the least likely changes, then those with the best last value."""
    sign = 1 if evaluation.lower_is_better else -1

    def best_first(model: ModelTrend) -> tuple[float, str]:
        return sign * (_last(model) or 0.0), model.model_id

    def least_likely_first(model: ModelTrend) -> tuple[float, float, str]:
        changes = [change.p_adjusted or 0.0 for change in model.changes if change.significant]
        if changes:
            return min(changes), 0.0, model.model_id
        return math.inf, *best_first(model)

    known = [model for model in evaluation.models if _last(model) is not None]
    chosen = sorted(known, key=least_likely_first)[:_LINES]
    return sorted(chosen, key=best_first)


def _last(model: ModelTrend) -> float | None:
    return next((point.value for point in reversed(model.points) if point.value is not None), None)


def _trend_drawing(
    corpora: Sequence[str], evaluation: EvaluationTrend, models: Sequence[ModelTrend]
) -> Html:
    values = [point.value for model in models for point in model.points if point.value is not None]
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    across = Scale(0, len(corpora) - 1, WIDTH)
    down = Scale(low, high, _MARGIN, _TREND_HEIGHT - _MARGIN)
    paths = [path("grid", (f"M0 {y}H{WIDTH}" for y in _GRID))]
    columns = {name: number for number, name in enumerate(corpora)}
    for number, model in enumerate(models):
        points: dict[int, Point] = {}
        for point in model.points:
            if point.value is not None:
                column = columns[point.corpus]
                points[column] = (round(across(column)), round(down(point.value)))
        changes = [change for change in model.changes if change.significant]
        changed = [points[columns[change.after]] for change in changes]
        paths += _trend_paths(f"c{number}", points, changed)
    label = f"{evaluation.measure} of {counted(len(models), 'model')} in {len(columns):,} corpora"
    scale = each("<span>{}</span>", map(evaluation.spelled, (high, low) if values else ()))
    plot = stretched(_TREND_HEIGHT, label, *paths)
    return html('<div><p class="scale">{}</p>{}</div>', scale, plot)


def _trend_paths(
    colour: str, points: Mapping[int, Point], changed: Sequence[Point]
) -> Iterator[Html]:
    """Draw the points of a model by column, and rings around those that changed."""
    steps = []
    for column, (x, y) in points.items():
        # The line has a gap where a corpus has no value.
        step = "L" if column - 1 in points else "M"
        steps.append(f"{step}{x} {y}")
    yield path(f"line {colour}", steps)
    yield dots(f"spot {colour}", points.values())
    if changed:
        yield dots(f"ring {colour}", changed)
        yield dots("hole", changed)


def _legend(evaluation: EvaluationTrend, model: ModelTrend, number: int) -> Html:
    changes = []
    for change in model.changes:
        if change.significant:
            sign = "▲" if (change.difference or 0) > 0 else "▼"
            old, new = map(evaluation.spelled, (change.old, change.new))
            changes.append(html("<small>{} {}: {} → {}</small>", sign, change.after, old, new))
    return html(
        '<li><i class="key c{}"></i><span title="{}">{}</span><b>{}</b>{}</li>',
        number,
        model.model_id,
        cut_middle(model.model_id),
        evaluation.spelled(_last(model)),
        changes[:_LINES],
    )


def _changes(trend: Trend) -> Html:
    found = trend.significant_changes()
    if not found:
        return Html("<p>No change is more than chance.</p>")
    rows = []
    for evaluation, model, change in found[:_MOST_CHANGES]:
        spec = ".4g" if evaluation.graded else ".1%"
        cells = (
            evaluation.title,
            model.model_id,
            change.before,
            change.after,
            num(change.old, spec),
            num(change.new, spec),
            change.questions,
            change.better,
            change.worse,
            tag("td", change.p_text, class_="num", data_v=change.p_adjusted),
        )
        rows.append(row(*cells))
    title = f"Changes that are more than chance: {len(found):,}"
    if len(found) > len(rows):
        title += f", of which {len(rows):,} are shown"
    heads = ("evaluation", "model", "from", "to", "old", "new", "questions", "better", "worse", "p")
    return table(title, heads, rows)


def _line_counts(trend: Trend) -> Html:
    columns = {
        "corpus": "name",
        **{name: f"line_counts.{name}" for name in LineCounts.__struct_fields__},
        "models": "models",
        "appear": "appeared",
        "disappear": "disappeared",
    }
    formats = {"appeared": listed, "disappeared": listed}
    return field_table("Line counts of each corpus", columns, trend.corpora, formats)
