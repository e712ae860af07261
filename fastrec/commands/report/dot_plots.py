"""A dot plot for each evaluation and metric: the accuracy or mean score of its models, with 95 % intervals.

Names and values are a list beside the drawing, so that text keeps its size while the drawing is stretched to the width
of the screen. All intervals are one path and all dots another: a plot of hundreds of models has a few kilobytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fastrec.commands.report.scales import are_shares, left_out, position
from fastrec.errors import counted
from fastrec.html import Html, joined, tag
from fastrec.limits import Limits
from fastrec.summary.ranking import EvaluationStats, ModelStats, Stats

__all__ = ["dot_plots"]

_WIDTH: Final = 1000  # units of the drawing, stretched to any width
_ROW: Final = 20  # pixels of a row with a name; as in page.css
_THIN: Final = 2  # pixels of a row without
_NAMED: Final = 25  # models with a name
_MOST: Final = 425  # models with a dot
_ABOUT: Final = (
    "Each dot is the accuracy of a model, or its mean score where scores are other than 0 and 1. The line through it "
    "is its 95% interval, over questions. Models whose lines overlap may differ by chance only."
)


class _Dot(NamedTuple):
    name: str
    value: float
    low: float
    high: float


def dot_plots(stats: Stats, limits: Limits) -> Html:
    """Show the models of each evaluation as dots with intervals, the best first."""
    shown = stats.evaluations[: limits.report_charts]
    cards = [card for one in shown if (card := _card(one, accuracy=stats.shows_accuracy(one)))]
    if not cards:
        return Html("")
    return joined(
        tag("p", _ABOUT, class_="soft"),
        tag("div", *cards, class_="plots"),
        left_out(len(shown), len(stats.evaluations), "evaluations"),
    )


def _card(evaluation: EvaluationStats, *, accuracy: bool) -> Html:
    dots = [dot for model in evaluation.by_model if (dot := _dot(model, accuracy=accuracy))]
    if not dots:
        return Html("")
    dots.sort(key=lambda dot: -dot.value)  # another order may have been chosen
    shares = accuracy or are_shares(evaluation.by_model)
    low, high = (0.0, 1.0) if shares else (min(dot.low for dot in dots), max(dot.high for dot in dots))
    spec = ".1%" if accuracy else ".4g"
    measure = "accuracy" if accuracy else "mean score"
    notes = [f"{measure}, {counted(evaluation.questions, 'question')}"]
    if len(dots) < len(evaluation.by_model):
        notes.append(f"{counted(len(evaluation.by_model) - len(dots), 'model')} not judged")
    named = [
        tag("li", tag("span", dot.name), tag("b", format(dot.value, spec)), title=dot.name) for dot in dots[:_NAMED]
    ]
    ends = (f"{low:.0%}", f"{high:.0%}") if accuracy else (f"{low:.4g}", f"{high:.4g}")
    return tag(
        "article",
        tag("h3", evaluation.title),
        tag("p", "; ".join(notes), class_="soft"),
        tag("div", tag("ol", *named), _drawing(dots[:_MOST], low, high, f"{measure} of models: {_spoken(dots, spec)}")),
        tag("p", *(tag("span", end) for end in ends), class_="ends"),
        _without_names(len(dots)),
        class_="dots",
    )


def _dot(model: ModelStats, *, accuracy: bool) -> _Dot | None:
    if accuracy:
        value, low, high = model.accuracy, model.accuracy_low, model.accuracy_high
    else:
        value, low, high = model.mean_score, model.score_low, model.score_high
    if value is None:
        return None
    return _Dot(model.model_id, value, value if low is None else low, value if high is None else high)


def _drawing(dots: Sequence[_Dot], low: float, high: float, label: str) -> Html:
    def at(value: float) -> int:
        return round(position(value, low, high) * _WIDTH)

    named = min(len(dots), _NAMED)
    rows = [_ROW * row + _ROW // 2 for row in range(named)]
    rows += [_ROW * named + _THIN * row + 1 for row in range(len(dots) - named)]
    height = _ROW * named + _THIN * (len(dots) - named)
    ends = [(at(dot.low), at(dot.high)) for dot in dots]
    points = [at(dot.value) for dot in dots]
    lines = [f"M{start} {row}H{end}" for (start, end), row in zip(ends, rows, strict=True)]
    spots = [f"M{point} {row}h0" for point, row in zip(points, rows, strict=True)]
    return tag(
        "svg",
        tag("path", class_="grid", d="".join(f"M{x} 0V{height}" for x in range(0, _WIDTH + 1, _WIDTH // 4))),
        tag("path", class_="span", d="".join(lines[:named])),
        tag("path", class_="spot", d="".join(spots[:named])),
        tag("path", class_="thin-span", d="".join(lines[named:])) if lines[named:] else None,
        tag("path", class_="thin-spot", d="".join(spots[named:])) if spots[named:] else None,
        viewBox=f"0 0 {_WIDTH} {height}",
        height=height,
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _spoken(dots: Sequence[_Dot], spec: str) -> str:
    best, worst = dots[0], dots[-1]
    if len(dots) == 1:
        return f"{best.name}, {best.value:{spec}}"
    return f"{len(dots):,} from {best.name}, {best.value:{spec}}, to {worst.name}, {worst.value:{spec}}"


def _without_names(dots: int) -> Html | None:
    if dots <= _NAMED:
        return None
    drawn = min(dots, _MOST) - _NAMED
    more = f"; {dots - _MOST:,} more are not drawn" if dots > _MOST else ""
    return tag("p", f"The {_NAMED} best have a name; {drawn:,} others have a dot only{more}.", class_="soft")
