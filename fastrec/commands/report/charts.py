"""Charts as plain SVG: a stacked bar, histograms, dots, scatter plots, trends; and heat maps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import fmean
from typing import Final, NamedTuple

from fastrec.answers.costs import ModelCost
from fastrec.errors import counted, listed
from fastrec.filters import AnyPath, Filters
from fastrec.html import Html, joined, lazy, num, row, short_cell, short_row, soft, table, tag
from fastrec.limits import current_limits
from fastrec.statistics.calibration import Calibration
from fastrec.summary.document import LineCounts
from fastrec.summary.present_ranking import EvaluationStats, ModelStats, Stats, largest
from fastrec.trends import EvaluationTrend, ModelTrend, Trend, collect_trend
from fastrec.wording import cost_text, cut_middle, latency_text


def is_large(stats: Stats) -> bool:
    """Whether the page has so many models that browsers would be slow: then large tables are parsed late."""
    return sum(len(one.by_model) for one in stats.evaluations) > current_limits().report_static_rows


def result_of(
    model: ModelStats, *, accuracy: bool
) -> tuple[float | None, float | None, float | None, str]:
    """The accuracy or mean score of a model, the ends of its interval, and how all of them are formatted."""
    if accuracy:
        return model.accuracy, model.accuracy_low, model.accuracy_high, ".1%"
    return (
        model.mean_score,
        model.score_low,
        model.score_high,
        ".3f" if abs(model.mean_score or 0) < 10 else ".4g",
    )


def are_shares(models: Sequence[ModelStats]) -> bool:
    """Whether all mean scores are from 0 to 1, so that they can be drawn like an accuracy."""
    return all(0 <= model.mean_score <= 1 for model in models if model.mean_score is not None)


def _position(value: float, low: float, high: float) -> float:
    """Where a value is on a scale, from 0 to 1. The halves keep huge doubles from overflowing."""
    share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
    return min(max(share, 0.0), 1.0)


def left_out(shown: int, total: int, what: str) -> Html:
    return (
        soft(f"Shown: {shown:,} of {total:,} {what}; `fastrec stats` lists all.")
        if shown < total
        else Html("")
    )


def gallery(
    about: str, cards: Iterable[Html], class_: str, stats: Stats, everything: Stats
) -> Html:
    """Show a card for each evaluation that has one; empty if none has."""
    made = list(filter(None, cards))
    if not made:
        return Html("")
    most = left_out(
        len(stats.evaluations), len(everything.evaluations), "evaluations with the most records"
    )
    return joined(soft(about), tag("div", *made, class_=class_), most)


_BINS: Final = 20


def stacked(parts: Sequence[tuple[str, int]]) -> Html:
    """Draw the shares of named parts as one bar, with a legend."""
    whole = sum(count for _, count in parts)
    if not whole:
        return Html("")
    pieces = []
    start = 0.0
    for name, count in parts:
        share = count / whole * 1_000
        pieces.append(
            tag("rect", class_=f"part {name}", x=short(start), width=short(share), height=18)
        )
        start += share
    label = ", ".join(f"{count / whole:.2%} {name}" for name, count in parts if count)
    legend = (
        tag("span", tag("i", class_=f"key {name}"), f"{name} {count / whole:.2%}")
        for name, count in parts
    )
    box = {"viewBox": "0 0 1000 18", "preserveAspectRatio": "none"}
    drawing = tag("svg", *pieces, class_="stack", **box, role="img", aria_label=f"Lines: {label}")
    return joined(drawing, tag("p", *legend, class_="legend"))


def histogram(
    title: str, values: Sequence[float], *, unit: str = "", logarithmic: bool = False
) -> Html:
    """Draw the number of models by value; empty if there are no values."""
    values = [value for value in values if value > 0 or not logarithmic]
    if not values:
        return Html("")
    scaled = [math.log(value) for value in values] if logarithmic else list(values)
    low, high = min(scaled), max(scaled)
    counts = [0] * _BINS
    for value in scaled:
        counts[min(int(_position(value, low, high) * _BINS), _BINS - 1)] += 1
    most = max(counts)
    bars = [
        tag(
            "rect",
            class_="fill",
            x=10 * number + 1,
            width=8,
            y=short(60 - height),
            height=short(height),
        )
        for number, height in enumerate(count / most * 56 for count in counts)
        if height
    ]
    ends = [
        format(end, ",.0f" if 1_000 <= end < 1e15 else ".4g") + unit
        for end in (min(values), max(values))
    ]
    label = (
        f"{title}: {counted(len(values), 'model')} from {ends[0]} to {ends[1]}, at most "
        f"{most} in one bar"
    )
    axis = tag("line", class_="axis", x1=0, x2=200, y1=60.5, y2=60.5)
    drawing = tag("svg", *bars, axis, viewBox="0 0 200 61", role="img", aria_label=label)
    return tag("figure", tag("figcaption", title), drawing, _ends(*ends))


def _ends(*texts: str) -> Html:
    return tag("p", *(tag("span", text) for text in texts), class_="ends")


def _plot(height: int, label: str, *paths: Html | None) -> Html:
    """Make a drawing that is stretched to any width."""
    box = f"0 0 {_PLOT_WIDTH} {height}"
    return tag(
        "svg",
        *paths,
        viewBox=box,
        height=height,
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _path(class_: str, steps: Iterable[str]) -> Html:
    return tag("path", class_=class_, d="".join(steps))


def short(number: float) -> str:
    return f"{number:.5g}"


# A dot plot for each evaluation and metric: the accuracy or mean score of its models, with 95 %
# intervals.
#
# Names and values are a list beside the drawing, so that text keeps its size while the drawing is
# stretched to the width of the screen. All intervals are one path and all dots another: a plot of
# hundreds of models has a few kilobytes.

_PLOT_WIDTH: Final = 1000  # units of the drawing, stretched to any width
_ROW: Final = 20  # pixels of a row with a name; as in page.css
_THIN: Final = 2  # pixels of a row without
_NAMED: Final = 25  # models with a name
_MOST: Final = 425  # models with a dot
_ABOUT: Final = (
    "Each dot is the accuracy of a model, or its mean score where scores are other than 0 and 1. "
    "The line through it "
    "is its 95% interval, over questions. Models whose lines overlap may differ by chance only."
)


class _Dot(NamedTuple):
    name: str
    value: float
    low: float
    high: float


def dot_plots(stats: Stats, everything: Stats) -> Html:
    """Show the models of each evaluation as dots with intervals, the best first.

    Say how many there are in all.
    """
    cards = (_card(one, accuracy=stats.shows_accuracy(one)) for one in stats.evaluations)
    return gallery(_ABOUT, cards, "plots", stats, everything)


def _card(evaluation: EvaluationStats, *, accuracy: bool) -> Html:
    dots = []
    spec = ""
    for model in evaluation.by_model:
        value, low, high, spec = result_of(model, accuracy=accuracy)
        if value is not None:
            interval = value if low is None else low, value if high is None else high
            dots.append(_Dot(model.model_id, value, *interval))
    if not dots:
        return Html("")
    # Another order may have been chosen.
    dots.sort(key=lambda dot: dot.value if evaluation.lower_is_better else -dot.value)
    shares = accuracy or are_shares(evaluation.by_model)
    least, most = (
        (0.0, 1.0) if shares else (min(dot.low for dot in dots), max(dot.high for dot in dots))
    )
    measure = "accuracy" if accuracy else "mean score"
    notes = [f"{measure}, {counted(evaluation.questions, 'question')}"]
    if len(dots) < len(evaluation.by_model):
        notes.append(f"{counted(len(evaluation.by_model) - len(dots), 'model')} not judged")
    named = [
        tag(
            "li",
            tag("span", cut_middle(dot.name)),
            tag("b", format(dot.value, spec)),
            title=dot.name,
        )
        for dot in dots[:_NAMED]
    ]
    best, worst = (f"{dot.name}, {dot.value:{spec}}" for dot in (dots[0], dots[-1]))
    said = f"{len(dots):,} from {best}, to {worst}" if len(dots) > 1 else best
    ends = ("0%", "100%") if accuracy else (f"{least:.4g}", f"{most:.4g}")
    return tag(
        "article",
        tag("h3", evaluation.title),
        soft("; ".join(notes)),
        tag(
            "div",
            tag("ol", *named),
            _drawing(dots[:_MOST], least, most, f"{measure} of models: {said}"),
        ),
        _ends(*ends),
        _without_names(len(dots)),
        class_="dots",
    )


def _drawing(dots: Sequence[_Dot], low: float, high: float, label: str) -> Html:
    def at(value: float) -> int:
        return round(_position(value, low, high) * _PLOT_WIDTH)

    named = min(len(dots), _NAMED)
    rows = [_ROW * row + _ROW // 2 for row in range(named)]
    rows += [_ROW * named + _THIN * row + 1 for row in range(len(dots) - named)]
    height = _ROW * named + _THIN * (len(dots) - named)
    lines = [f"M{at(dot.low)} {row}H{at(dot.high)}" for dot, row in zip(dots, rows, strict=True)]
    spots = [f"M{at(dot.value)} {row}h0" for dot, row in zip(dots, rows, strict=True)]
    return _plot(
        height,
        label,
        _path("grid", (f"M{x} 0V{height}" for x in range(0, _PLOT_WIDTH + 1, _PLOT_WIDTH // 4))),
        _path("span", lines[:named]),
        _path("spot", spots[:named]),
        _path("thin-span", lines[named:]) if lines[named:] else None,
        _path("thin-spot", spots[named:]) if spots[named:] else None,
    )


def _without_names(dots: int) -> Html | None:
    if dots <= _NAMED:
        return None
    drawn = min(dots, _MOST) - _NAMED
    more = f"; {dots - _MOST:,} more are not drawn" if dots > _MOST else ""
    return soft(f"The {_NAMED} best have a name; {drawn:,} others have a dot only{more}.")


# Scatter plots of results against the cost of an answer and against the median latency. A name is
# left out where it would cover another; models that no other beats in both have theirs first.

_SCATTER: Final = 520, 280  # the size of the frame
_CHARACTER: Final = 6.2  # the width of a character of a label
_MOST_POINTS: Final = 100  # in a plot
_MOST_SCATTERS: Final = 12
_ABOUT_SCATTERS: Final = (
    "Best is at the top left. Filled: no other model is better and cheaper, or better and faster."
)
_Points = Sequence[tuple[str, float | None, float | None]]  # model, cost or latency, result


def scatter_plots(found: Stats, costs: Sequence[ModelCost]) -> Html:
    """Draw the largest evaluations: accuracy or mean score against the cost of an answer, and against latency."""
    stats = largest(found, _MOST_SCATTERS)
    known = [(one, one.cost) for one in costs if one.cost is not None]
    paid = {
        (one.evaluation_name, one.model_id): cost / (one.answers - one.unknown)
        for one, cost in known
    }

    def card(one: EvaluationStats) -> Html:
        accuracy = stats.shows_accuracy(one)
        results = [(model, result_of(model, accuracy=accuracy)[0]) for model in one.by_model]
        by_cost = [
            (model.model_id, paid.get((one.evaluation_name, model.model_id)), y)
            for model, y in results
        ]
        by_latency = [(model.model_id, model.latency_ms.p50, y) for model, y in results]
        draw = partial(_scatter, accuracy=accuracy, lower=one.lower_is_better)
        drawn = (
            draw("cost of an answer", by_cost, cost_text),
            draw("median latency", by_latency, latency_text),
        )
        return (
            tag("article", tag("h3", one.title), *drawn, class_="scatter")
            if any(drawn)
            else Html("")
        )

    return gallery(_ABOUT_SCATTERS, map(card, stats.evaluations), "plots", stats, found)


def _scatter(
    what: str, found: _Points, spell: Callable[[float], str], *, accuracy: bool, lower: bool
) -> Html:
    """Draw points with names: their x is a cost or a latency, on a logarithmic scale, and their y is the result."""
    points = [(name, x, y) for name, x, y in found if x is not None and y is not None and x > 0][
        :_MOST_POINTS
    ]
    if len(points) < 2:
        return Html("")
    front: list[tuple[float, float]] = []  # points that no other one beats
    for _, x, y in sorted(points, key=lambda one: (one[1], one[2] if lower else -one[2])):
        if not front or (y < front[-1][1] if lower else y > front[-1][1]):
            front.append((x, y))
    (width, height) = _SCATTER
    spec = ".1%" if accuracy else ".3f"
    costs = [x for _, x, _ in points]
    values = [y for _, _, y in points]
    ends = min(costs), max(costs)

    def place(x: float, y: float) -> tuple[int, int]:
        across = _position(math.log(x), *map(math.log, ends))
        up = _position(y, min(values), max(values))
        return round(across * width), round(height - up * height)

    # The left end, the right end and the middle of circles and labels.
    taken = [(across - 5.0, across + 5.0, down) for across, down in map(place, costs, values)]
    drawn = []
    for name, x, y in sorted(points, key=lambda one: one[1:] not in front):
        across, down = place(x, y)
        said = tag("title", f"{name}: {y:{spec}}, {spell(x)}")
        drawn.append(
            tag(
                "circle",
                said,
                cx=across,
                cy=down,
                r=5,
                class_=None if (x, y) in front else "beaten",
            )
        )
        label = cut_middle(name, 28)
        size = _CHARACTER * len(label)
        for left in (across + 9, across - 9 - size):
            right = left + size
            if 0 < left < right < width + 20 and all(
                abs(down - y) > 11 or right < a or b < left for a, b, y in taken
            ):
                taken.append((left, right, down))
                drawn.append(tag("text", label, x=short(left), y=down + 4, textLength=short(size)))
                break
    scale = [
        tag("text", f"{end:{spec}}", x=-64, y=y)
        for end, y in ((max(values), 4), (min(values), height + 4))
    ]
    caption = (
        f"{'Accuracy' if accuracy else 'Mean score'} against {what}, "
        f"{counted(len(points), 'model')}"
    )
    frame = tag("path", class_="axis", d=f"M-10 -10V{height + 10}H{width + 10}", fill="none")
    box = f"-64 -16 {width + 84} {height + 32}"
    drawing = tag("svg", frame, *scale, *drawn, viewBox=box, role="img", aria_label=caption)
    return tag(
        "figure", tag("figcaption", caption), drawing, _ends(spell(ends[0]), what, spell(ends[1]))
    )


_MOST_UPRIGHT: Final = 10  # with more columns their headings are rotated


def heat_maps(stats: Stats) -> Html:
    """Show the accuracy (or the score, if it is graded) and the coverage of every model on every evaluation."""
    evaluations = sorted(stats.evaluations, key=lambda one: -one.records)[
        : current_limits().report_columns
    ]
    evaluations.sort(key=lambda one: (one.evaluation_name, one.metric or ""))
    records: Counter[str] = Counter()
    for evaluation in evaluations:
        records.update({model.model_id: model.records for model in evaluation.by_model})
    if not records:
        return Html("")
    by_model = [{model.model_id: model for model in one.by_model} for one in evaluations]
    places: dict[str, list[float]] = {name: [] for name in records}
    for one in evaluations:
        for place, model in enumerate(one.by_model):  # best first
            places[model.model_id].append(place / len(one.by_model))
    names = [
        name
        for name, _ in records.most_common(
            max(current_limits().report_cells // len(evaluations), 1)
        )
    ]
    names.sort(key=lambda name: (fmean(places[name]), name))
    heads = ("model", *(cut_middle(one.title) for one in evaluations))

    def map_of(title: str, kind: str, cells: Sequence[Callable[[ModelStats], Html]]) -> Html:
        none = short_cell()
        columns = list(zip(cells, by_model, strict=True))
        rows = [
            short_row(
                name, *(cell(found[name]) if name in found else none for cell, found in columns)
            )
            for name in names
        ]
        return table(
            title,
            heads,
            rows,
            class_=f"heat {kind}" + " turned" * (len(evaluations) > _MOST_UPRIGHT),
        )

    accuracies = list(map(stats.shows_accuracy, evaluations))
    title = (
        "Accuracy of models on evaluations"
        if any(accuracies)
        else "Mean score of models on evaluations"
    )
    if any(accuracies) and not all(accuracies):
        title += "; the mean score where scores are other than 0 and 1"
    results = [
        partial(_result, accuracy=accuracy, coloured=accuracy or are_shares(one.by_model))
        for one, accuracy in zip(evaluations, accuracies, strict=True)
    ]
    coverage = "Coverage: the share of an evaluation's questions that a model answered"
    maps = (
        map_of(title, "accuracy", results),
        map_of(
            coverage, "coverage", [lambda model: _heat(model.coverage, ".1%")] * len(evaluations)
        ),
    )
    return joined(
        soft("Models with the best places on average come first."),
        left_out(len(names), len(records), "models with the most records"),
        left_out(len(evaluations), len(stats.evaluations), "evaluations with the most records"),
        *map(lazy, maps) if is_large(stats) else maps,
    )


def _result(model: ModelStats, *, accuracy: bool, coloured: bool) -> Html:
    value, _, _, spec = result_of(model, accuracy=accuracy)
    return _heat(value, spec, model.errors, coloured=coloured)


def _heat(value: float | None, spec: str, errors: int = 0, *, coloured: bool = True) -> Html:
    note = tag("small", counted(errors, "error")) if errors else None
    if value is None:
        return short_cell("–", note, class_="none")
    return short_cell(format(value, spec), note, class_=f"h{round(value * 10)}" if coloured else "")


def reliability_plots(models: Sequence[Calibration]) -> Html:
    """Draw the share of right answers against their confidence, for each model.

    On the line, both are equal.
    """
    if not models:
        return Html("")
    known = [one for one in models if one.answers]
    plots = [_reliability(one) for one in known[: current_limits().report_scopes]]
    about = (
        "Each circle is a tenth of the range of confidence. On the line, as many answers are "
        "right as stated."
    )
    note = left_out(len(plots), len(known), "models and evaluations")
    return joined(soft(about), note, tag("div", *plots, class_="plots cards"))


def _reliability(one: Calibration) -> Html:
    circles = [
        tag("circle", tag("title", f"{some.answers:,}: confidence {some.confidence:.1%}, right "
f"{some.accuracy:.1%}"),
            cx=round(200 * some.confidence, 1), cy=round(200 - 200 * some.accuracy, 1),
            r=round(3 + 7 * (some.answers / one.answers) ** 0.5, 1), class_="kept")
        for some in one.bins
    ]  # fmt: skip
    frame = tag("path", class_="axis", d="M0 0V200H200M0 200L200 0", fill="none")
    title = " · ".join(filter(None, (one.evaluation_name, one.metric, one.model_id)))
    about = (
        f"{counted(one.answers, 'answer')}, calibration error {one.ece:.3f}, Brier score "
        f"{one.brier:.3f}"
    )
    drawing = tag(
        "svg",
        frame,
        *circles,
        viewBox="-12 -12 224 224",
        role="img",
        aria_label=f"{title}: {about}",
    )
    ends = _ends("0%", "confidence, and share of right answers", "100%")
    return tag("article", tag("h3", title), soft(about), tag("figure", drawing, ends))


# Results over several corpora: a line for each of a few models of each evaluation, with changes
# marked.

_LINES: Final = 8  # models of a plot; page.css has as many colours
_TREND_HEIGHT: Final = 160
_MARGIN: Final = 8  # pixels above and below
_MOST_CHANGES: Final = 500
_COUNTS: Final = LineCounts.__struct_fields__


def trend_plots(paths: Sequence[AnyPath], filters: Filters) -> Html:
    """Show how models changed over corpora: plots, a table of changes, and the line counts of each corpus."""
    if not paths:
        return Html("")
    trend = collect_trend(paths, filters=filters)
    names = [corpus.name for corpus in trend.corpora]
    ends = names if len(names) == 1 else [names[0], names[-1]]
    corpora = (
        f"1 corpus, {ends[0]}"
        if len(ends) == 1
        else f"{len(names):,} corpora, from {' to '.join(ends)}"
    )
    about = (
        f"{corpora}. Lines: models that changed by more than chance, then the best. A ring "
        f"marks such a change: p < {trend.p:g}, adjusted for "
        f"{counted(trend.comparisons, 'comparison')}. Each model "
        "is compared with the last corpus before in which it has answers, on the questions that "
        "it answered in both."
    )
    shown = trend.evaluations[: current_limits().report_scopes]
    return joined(
        *map(soft, (about, *trend.notices)),
        tag("div", *(_trend_card(names, ends, one) for one in shown), class_="plots"),
        _not_drawn(len(trend.evaluations) - len(shown), "evaluation"),
        _changes(trend),
        _line_counts(trend),
    )


def _not_drawn(number: int, what: str) -> Html:
    return soft(f"{counted(number, f'more {what}')} not drawn.") if number else Html("")


def _trend_card(corpora: Sequence[str], ends: Sequence[str], evaluation: EvaluationTrend) -> Html:
    models = _drawn_models(evaluation)
    return tag(
        "article",
        tag("h3", evaluation.title),
        soft(evaluation.measure),
        _trend_drawing(corpora, evaluation, models),
        _ends(*ends),
        tag("ul", *(_legend(evaluation, model, number) for number, model in enumerate(models))),
        _not_drawn(len(evaluation.models) - len(models), "model"),
        class_="trend",
    )


def _drawn_models(evaluation: EvaluationTrend) -> list[ModelTrend]:
    """Choose the models with the least likely changes, then those with the best last value, and sort them by it."""
    sign = 1 if evaluation.lower_is_better else -1

    def best_first(model: ModelTrend) -> tuple[float, str]:
        value = _last(model)
        return math.inf if value is None else sign * value, model.model_id

    changed = [
        (
            min(change.p_adjusted or 0.0 for change in model.changes if change.significant),
            model.model_id,
            model,
        )
        for model in evaluation.models
        if any(change.significant for change in model.changes)
    ]
    chosen = [model for _, _, model in sorted(changed, key=lambda one: one[:2])][:_LINES]
    best = sorted(evaluation.models, key=best_first)
    chosen += [model for model in best if model not in chosen and _last(model) is not None][
        : _LINES - len(chosen)
    ]
    return sorted(chosen, key=best_first)


def _last(model: ModelTrend) -> float | None:
    return next((point.value for point in reversed(model.points) if point.value is not None), None)


def _trend_drawing(
    corpora: Sequence[str], evaluation: EvaluationTrend, models: Sequence[ModelTrend]
) -> Html:
    values = [point.value for model in models for point in model.points if point.value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    columns = {name: number for number, name in enumerate(corpora)}

    def place(value: float, column: int) -> tuple[int, int]:
        x = (
            round(column / (len(columns) - 1) * _PLOT_WIDTH)
            if len(columns) > 1
            else _PLOT_WIDTH // 2
        )
        return x, _TREND_HEIGHT - _MARGIN - round(
            _position(value, low, high) * (_TREND_HEIGHT - 2 * _MARGIN)
        )

    heights = (_MARGIN, _TREND_HEIGHT // 2, _TREND_HEIGHT - _MARGIN)
    paths = [_path("grid", (f"M0 {y}H{_PLOT_WIDTH}" for y in heights))]
    for number, model in enumerate(models):
        known = ((columns[point.corpus], point.value) for point in model.points)
        at = {column: place(value, column) for column, value in known if value is not None}
        changed = [at[columns[change.after]] for change in model.changes if change.significant]
        # The line has a gap where a corpus has no value.
        line = (f"{'L' if column - 1 in at else 'M'}{x} {y}" for column, (x, y) in at.items())
        paths.append(_path(f"line c{number}", line))
        paths.append(_path(f"spot c{number}", (f"M{x} {y}h0" for x, y in at.values())))
        if changed:
            rings = [f"M{x} {y}h0" for x, y in changed]
            paths += [_path(f"ring c{number}", rings), _path("hole", rings)]
    label = f"{evaluation.measure} of {counted(len(models), 'model')} in {len(columns):,} corpora"
    scale = [tag("span", evaluation.spelled(end)) for end in (high, low)] if values else []
    return tag("div", tag("p", *scale, class_="scale"), _plot(_TREND_HEIGHT, label, *paths))


def _legend(evaluation: EvaluationTrend, model: ModelTrend, number: int) -> Html:
    spelled = evaluation.spelled
    changes = [
        f"{'▲' if (change.difference or 0) > 0 else '▼'} {change.after}: {spelled(change.old)} → "
        f"{spelled(change.new)}"
        for change in model.changes
        if change.significant
    ][:_LINES]
    key = tag("i", class_=f"key c{number}")
    value = tag("b", spelled(_last(model)))
    return tag(
        "li",
        key,
        tag("span", cut_middle(model.model_id), title=model.model_id),
        value,
        *(tag("small", change) for change in changes),
    )


def _changes(trend: Trend) -> Html:
    found = trend.significant_changes()
    if not found:
        return tag("p", "No change is more than chance.")
    rows = [
        row(
            evaluation.title,
            model.model_id,
            change.before,
            change.after,
            *(
                num(value, ".4g" if evaluation.graded else ".1%")
                for value in (change.old, change.new)
            ),
            num(change.questions),
            num(change.better),
            num(change.worse),
            tag("td", change.p_text, class_="num", data_v=change.p_adjusted),
        )
        for evaluation, model, change in found[:_MOST_CHANGES]
    ]
    title = f"Changes that are more than chance: {len(found):,}"
    if len(found) > len(rows):
        title += f", of which {len(rows):,} are shown"
    heads = ("evaluation", "model", "from", "to", "old", "new", "questions", "better", "worse", "p")
    return table(title, heads, rows)


def _line_counts(trend: Trend) -> Html:
    rows = [
        row(
            corpus.name,
            *(num(getattr(corpus.line_counts, name)) for name in _COUNTS),
            num(corpus.models),
            listed(corpus.appeared),
            listed(corpus.disappeared),
        )
        for corpus in trend.corpora
    ]
    return table(
        "Line counts of each corpus", ("corpus", *_COUNTS, "models", "appear", "disappear"), rows
    )
