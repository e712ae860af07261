"""Charts about models: pictures of evaluations, calibration, trends."""

import math
from collections.abc import Iterator, Mapping, Sequence

from fastrec.answers.pictures import (
    calibration_picture,
)
from fastrec.errors import counted, listed
from fastrec.filters import AnyPath, Filters
from fastrec.html import (
    Html,
    details,
    each,
    field_table,
    html,
    joined,
    num,
    row,
    soft,
    table,
    tag,
)
from fastrec.limits import current_limits
from fastrec.statistics.calibration import Calibration
from fastrec.summary.document import LineCounts
from fastrec.svg import (
    WIDTH,
    Point,
    Scale,
    dots,
    ends,
    path,
    stretched,
)
from fastrec.trends import EvaluationTrend, ModelTrend, Trend, collect_trend
from fastrec.wording import cut_middle


def left_out(shown: int, total: int, what: str) -> Html:
    if shown >= total:
        return Html("")
    return soft(f"Shown: {shown:,} of {total:,} {what}; `fastrec stats` lists all.")


def reliability_plots(models: Sequence[Calibration]) -> Html:
    """Draw the share of right answers against their confidence, for each model."""
    known = [model for model in models if model.answers][: current_limits().report_scopes]
    if not known:
        return Html("")
    plots = []
    for model in known:
        names = (model.evaluation_name, model.metric, model.model_id)
        plots.append(calibration_picture(model, " · ".join(filter(None, names))))
    about = (
        "Each circle is a tenth of the range of confidence. On the line, as many answers are "
        "right as stated."
    )
    return html('{}<div class="plots">{}</div>', soft(about), plots)


# Results over several corpora: a line for each of a few models of each evaluation, with changes
# marked.

_FIRST = 2  # plots that are shown; the others unfold
_LINES = 8  # models of a plot; page.css has as many colours
_TREND_HEIGHT = 160
_MARGIN = 8  # pixels above and below
_GRID = (_MARGIN, _TREND_HEIGHT // 2, _TREND_HEIGHT - _MARGIN)
_MOST_CHANGES = 500


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
    cards = [_trend_card(names, scope) for scope in shown]
    return joined(
        map(soft, (about, *trend.notices)),
        html('<div class="plots">{}</div>', cards[:_FIRST]),
        details("More evaluations", html('<div class="plots">{}</div>', cards[_FIRST:]))
        if len(cards) > _FIRST
        else None,
        _not_drawn(len(trend.evaluations) - len(shown), "evaluation"),
        details("Changes, and line counts of each corpus", _changes(trend), _line_counts(trend)),
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
    return html(
        '<li><i class="key c{}"></i><span title="{}">{}</span><b>{}</b></li>',
        number,
        model.model_id,
        cut_middle(model.model_id),
        evaluation.spelled(_last(model)),
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
