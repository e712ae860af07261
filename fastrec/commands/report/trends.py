"""Accuracy over several corpora: a line for each of a few models of each evaluation, with changes marked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from fastrec.commands.report.charts import position
from fastrec.errors import counted, listed
from fastrec.html import Html, joined, num, row, table, tag
from fastrec.limits import Limits
from fastrec.summary.document import LineCounts
from fastrec.trends import EvaluationTrend, ModelTrend, Point, Trend

_LINES: Final = 8  # models of a plot; page.css has as many colours
_WIDTH: Final = 1000
_HEIGHT: Final = 160
_MARGIN: Final = 8  # pixels above and below
_MOST_CHANGES: Final = 500
_COUNTS: Final = LineCounts.__struct_fields__


def trend_plots(trend: Trend, limits: Limits) -> Html:
    """Show how models changed over corpora: plots, a table of changes, and the line counts of each corpus."""
    shown = trend.evaluations[: limits.report_scopes]
    cards = [_card(trend, one) for one in shown]
    ends = _ends(trend)
    corpora = f"1 corpus, {ends[0]}" if len(ends) == 1 else f"{len(trend.corpora):,} corpora, from {' to '.join(ends)}"
    about = (
        f"{corpora}. Lines: models that changed by more than chance, then the best. A ring "
        f"marks such a change: p < {trend.p:g}, adjusted for {counted(trend.comparisons, 'comparison')}. Each model "
        "is compared with the last corpus before in which it has answers, on the questions that it answered in both."
    )
    hidden = len(trend.evaluations) - len(shown)
    return joined(
        tag("p", about, class_="soft"),
        *(tag("p", notice, class_="soft") for notice in trend.notices),
        tag("div", *cards, class_="plots"),
        tag("p", f"{counted(hidden, 'more evaluation')} not drawn.", class_="soft") if hidden > 0 else Html(""),
        _changes(trend),
        _line_counts(trend),
    )


def _card(trend: Trend, evaluation: EvaluationTrend) -> Html:
    models = _chosen(evaluation)
    left_out = len(evaluation.models) - len(models)
    legend = [_legend(evaluation, model, number) for number, model in enumerate(models)]
    more = tag("p", f"{counted(left_out, 'more model')} not drawn.", class_="soft") if left_out else None
    return tag(
        "article",
        tag("h3", evaluation.title),
        tag("p", evaluation.measure, class_="soft"),
        _drawing(trend, evaluation, models),
        tag("p", *(tag("span", name) for name in _ends(trend)), class_="ends"),
        tag("ul", *legend),
        more,
        class_="trend",
    )


def _ends(trend: Trend) -> list[str]:
    names = [corpus.name for corpus in trend.corpora]
    return names if len(names) == 1 else [names[0], names[-1]]


def _chosen(evaluation: EvaluationTrend) -> list[ModelTrend]:
    """Choose the models with the least likely changes, then those with the best last value, and sort them by it."""
    changed = [
        (min(change.p_adjusted or 0.0 for change in model.changes if change.significant), model.model_id, model)
        for model in evaluation.models
        if any(change.significant for change in model.changes)
    ]
    best_first = partial(_best_first, lower=evaluation.lower_is_better)
    best = sorted(evaluation.models, key=best_first)
    chosen = [model for _, _, model in sorted(changed, key=lambda one: one[:2])][:_LINES]
    chosen += [model for model in best if model not in chosen and _last(model) is not None][: _LINES - len(chosen)]
    return sorted(chosen, key=best_first)


def _last(model: ModelTrend) -> Point | None:
    return next((point for point in reversed(model.points) if point.value is not None), None)


def _best_first(model: ModelTrend, *, lower: bool) -> tuple[float, str]:
    last = _last(model)
    value = last.value if last else None
    return float("inf") if value is None else value if lower else -value, model.model_id


def _drawing(trend: Trend, evaluation: EvaluationTrend, models: Sequence[ModelTrend]) -> Html:
    values = [point.value for model in models for point in model.points if point.value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    columns = {corpus.name: number for number, corpus in enumerate(trend.corpora)}
    paths = []
    for number, model in enumerate(models):
        at = {
            columns[point.corpus]: _place(point.value, columns[point.corpus], len(columns), low, high)
            for point in model.points
            if point.value is not None
        }
        changed = [at[columns[change.after]] for change in model.changes if change.significant]
        # The line has a gap where a corpus has no value.
        line = "".join(f"{'L' if column - 1 in at else 'M'}{x} {y}" for column, (x, y) in at.items())
        paths.append(tag("path", class_=f"line c{number}", d=line))
        paths.append(tag("path", class_=f"spot c{number}", d="".join(f"M{x} {y}h0" for x, y in at.values())))
        if changed:
            rings = "".join(f"M{x} {y}h0" for x, y in changed)
            paths += [tag("path", class_=f"ring c{number}", d=rings), tag("path", class_="hole", d=rings)]
    label = f"{evaluation.measure} of {counted(len(models), 'model')} in {len(columns):,} corpora"
    grid = "".join(f"M0 {y}H{_WIDTH}" for y in (_MARGIN, _HEIGHT // 2, _HEIGHT - _MARGIN))
    drawing = tag(
        "svg",
        tag("path", class_="grid", d=grid),
        *paths,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        height=_HEIGHT,
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    scale = [tag("span", evaluation.spelled(end)) for end in (high, low)] if values else []
    return tag("div", tag("p", *scale, class_="scale"), drawing)


def _place(value: float, column: int, columns: int, low: float, high: float) -> tuple[int, int]:
    x = round(column / (columns - 1) * _WIDTH) if columns > 1 else _WIDTH // 2
    return x, _HEIGHT - _MARGIN - round(position(value, low, high) * (_HEIGHT - 2 * _MARGIN))


def _legend(evaluation: EvaluationTrend, model: ModelTrend, number: int) -> Html:
    last = _last(model)
    value = evaluation.spelled(last.value if last else None)
    changes = [
        tag(
            "small",
            f"{'▲' if (change.difference or 0) > 0 else '▼'} {change.after}: {evaluation.spelled(change.old)} → "
            f"{evaluation.spelled(change.new)}",
        )
        for change in model.changes
        if change.significant
    ][:_LINES]
    return tag("li", tag("i", class_=f"key c{number}"), tag("span", model.model_id), tag("b", value), *changes)


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
            *(num(value, ".4g" if evaluation.graded else ".1%") for value in (change.old, change.new)),
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
    return table("Line counts of each corpus", ("corpus", *_COUNTS, "models", "appear", "disappear"), rows)
