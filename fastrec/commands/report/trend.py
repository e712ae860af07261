"""Results over several corpora: a line for each of a few models of each evaluation."""

from collections.abc import Sequence
from math import inf
from typing import Any

from fastrec.filters import AnyPath, Filters
from fastrec.limits import current_limits
from fastrec.pages import render_template
from fastrec.pages.html import Cell, Html, Row, number_cell
from fastrec.pages.svg import WIDTH, Scale
from fastrec.trends import Change, EvaluationTrend, ModelTrend, collect_trend

_LINES = 8  # models of a plot; page.css has as many colours
_TREND_HEIGHT = 160
_MARGIN = 8  # pixels above and below
_MOST_CHANGES = 500


def trend_section(paths: Sequence[AnyPath], filters: Filters, **how: Any) -> Html:
    """Show how models changed over corpora: plots, changes, and the line counts of each corpus."""
    if not paths:
        return Html("")
    trend = collect_trend(paths, filters, **how)
    names = [corpus.name for corpus in trend.corpora]
    shown = trend.evaluations[: current_limits().report_scopes]
    changes = trend.significant_changes()
    return render_template(
        "report/trend.html",
        trend=trend,
        names=names,
        plots=[_plot(names, evaluation) for evaluation in shown],
        found=len(changes),
        changes=_changes(changes[:_MOST_CHANGES]),
    )


def _drawn_models(evaluation: EvaluationTrend) -> list[ModelTrend]:
    """Choose the models with the least likely changes, then those with the best last value."""
    sign = 1 if evaluation.lower_is_better else -1

    def best_first(model: ModelTrend) -> tuple[float, str]:
        return sign * (_last(model) or 0.0), model.model_id

    def least_likely(model: ModelTrend) -> float:
        changes = (change.p_adjusted or 0.0 for change in model.changes if change.significant)
        return min(changes, default=inf)

    known = (model for model in evaluation.models if _last(model) is not None)
    chosen = sorted(sorted(known, key=best_first), key=least_likely)[:_LINES]
    return sorted(chosen, key=best_first)


def _last(model: ModelTrend) -> float | None:
    return next((point.value for point in reversed(model.points) if point.value is not None), None)


def _plot(corpora: Sequence[str], evaluation: EvaluationTrend) -> dict[str, Any]:
    models = _drawn_models(evaluation)
    values = [point.value for model in models for point in model.points if point.value is not None]
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    across = Scale(0, len(corpora) - 1, WIDTH)
    down = Scale(low, high, _MARGIN, _TREND_HEIGHT - _MARGIN)
    columns = {name: number for number, name in enumerate(corpora)}
    lines = []
    for model in models:
        points = {}
        for point in model.points:
            if point.value is not None:
                column = columns[point.corpus]
                points[column] = (round(across(column)), round(down(point.value)))
        changes = [change for change in model.changes if change.significant]
        lines.append(
            {
                "model": model.model_id,
                "last": _last(model),
                "points": points,
                "changed": [points[columns[change.after]] for change in changes],
            }
        )
    return {"evaluation": evaluation, "lines": lines, "scale": (high, low) if values else ()}


def _changes(changes: Sequence[tuple[EvaluationTrend, ModelTrend, Change]]) -> list[Row]:
    rows: list[Row] = []
    for evaluation, model, change in changes:
        spec = ".4g" if evaluation.graded else ".1%"
        rows.append(
            (
                evaluation.title,
                model.model_id,
                change.before,
                change.after,
                number_cell(change.old, spec),
                number_cell(change.new, spec),
                change.questions,
                change.better,
                change.worse,
                Cell(change.p_text, "num", value=change.p_adjusted),
            )
        )
    return rows
