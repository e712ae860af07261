"""Small charts as plain SVG, for the pages of `report` and `view`.

Colours come from the classes of shapes, so that the style of a page decides them for light and dark
themes. Text is HTML beside a drawing where the drawing is stretched to the width of the screen.
Many marks of one kind are one path: a plot of hundreds of models has a few kilobytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from fastrec.html import Child, Html, each, html, joined, short_cell, tag

WIDTH: Final = 1000  # units of a drawing that is stretched to any width
NAMED: Final = 25  # results of a dot plot that have a name beside them
_ROW: Final = 20  # pixels of a row with a name; as in the style of `report`
_THIN: Final = 2  # pixels of a row without
_BAR: Final = 60
_SMALL: Final = 90  # the width of a chart in a cell of a table

Point = tuple[int, int]


class Scale(NamedTuple):
    """Where values are in a drawing: from `start` for `low` to `end` for `high`."""

    low: float
    high: float
    end: float = 1.0
    start: float = 0.0

    def __call__(self, value: float) -> float:
        low, high, end, start = self
        # The halves keep huge doubles from overflowing.
        share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
        return start + min(max(share, 0.0), 1.0) * (end - start)


def short(number: float) -> str:
    return f"{number:.5g}"


def drawing(box: str, label: str, *shapes: Child, **attributes: str | int) -> Html:
    return tag("svg", *shapes, viewBox=box, **attributes, role="img", aria_label=label)


def stretched(height: int, label: str, *paths: Html | None) -> Html:
    """Make a drawing that is stretched to any width."""
    box = f"0 0 {WIDTH} {height}"
    return drawing(box, label, *paths, height=height, preserveAspectRatio="none")


def path(class_: str, steps: Iterable[str]) -> Html:
    return html('<path class="{}" d="{}"></path>', class_, "".join(steps))


def dots(class_: str, points: Iterable[Point]) -> Html:
    """Draw points as lines without a length, whose round ends keep their shape if stretched."""
    return path(class_, (f"M{x} {y}h0" for x, y in points))


def line(class_: str, x1: float, x2: float, y: float) -> Html:
    """Draw a horizontal line."""
    ends = (class_, short(x1), short(x2), y, y)
    return html('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"></line>', *ends)


def bar(class_: str, x: float, y: float, width: float, height: float) -> Html:
    numbers = map(short, (x, y, width, height))
    return html('<rect class="{}" x="{}" y="{}" width="{}" height="{}"></rect>', class_, *numbers)


def ends(*texts: str) -> Html:
    """Label the ends of an axis, and maybe its middle."""
    return html('<p class="ends">{}</p>', each("<span>{}</span>", texts))


def figure(caption: str, *content: Child) -> Html:
    return html("<figure><figcaption>{}</figcaption>{}</figure>", caption, joined(*content))


class Dot(NamedTuple):
    """A result with its name, its text and the ends of its interval."""

    name: str
    text: str
    value: float
    low: float
    high: float


def dot_plot(results: Sequence[Dot], scale: Scale, label: str) -> Html:
    """Draw results as dots with intervals, below each other.

    The first ones have rows as high as names beside them, the others are thin.
    """
    intervals = []
    points = []
    top = 0
    for number, dot in enumerate(results):
        height = _ROW if number < NAMED else _THIN
        low, x, high = (round(scale(value)) for value in (dot.low, dot.value, dot.high))
        y = top + height // 2
        intervals.append(f"M{low} {y}H{high}")
        points.append((x, y))
        top += height
    shapes = [
        path("grid", (f"M{x} 0V{top}" for x in range(0, WIDTH + 1, WIDTH // 4))),
        path("span", intervals[:NAMED]),
        dots("spot", points[:NAMED]),
    ]
    if len(results) > NAMED:
        shapes.append(path("thin-span", intervals[NAMED:]))
        shapes.append(dots("thin-spot", points[NAMED:]))
    return stretched(top, label, *shapes)


def stacked_bar(parts: Sequence[tuple[str, int]], what: str) -> Html:
    """Draw the shares of named parts as one bar, with a legend; the names are classes."""
    whole = sum(count for _, count in parts)
    if not whole:
        return Html("")
    pieces = []
    legend = []
    start = 0.0
    for name, count in parts:
        pieces.append(bar(f"part {name}", start, 0, count / whole * WIDTH, 18))
        start += count / whole * WIDTH
        key = '<span><i class="key {name}"></i>{name} {share:.2%}</span>'
        legend.append(html(key, name=name, share=count / whole))
    label = ", ".join(f"{count / whole:.2%} {name}" for name, count in parts if count)
    box = f"0 0 {WIDTH} 18"
    drawn = drawing(box, f"{what}: {label}", *pieces, class_="stack", preserveAspectRatio="none")
    return html('{}<p class="legend">{}</p>', drawn, legend)


def bars(heights: Sequence[float]) -> list[Html]:
    """Draw bars side by side with an axis below, 200 wide and 60 high, from shares."""
    shown = [
        bar("fill", 10 * number + 1, 60 - 56 * share, 8, 56 * share)
        for number, share in enumerate(heights)
        if share
    ]
    return [*shown, line("axis", 0, 200, 60.5)]


def share_bar(share: float | None, class_: str = "share") -> Html:
    """Draw a share from 0 to 1; empty if there is none."""
    return Html("") if share is None else _share_bar(round(Scale(0, 1, _BAR)(share)), class_)


@lru_cache(maxsize=4 * _BAR)
def _share_bar(width: int, class_: str) -> Html:
    return html(
        '<svg class="bar {}" viewBox="0 0 60 8" aria-hidden="true">'
        '<rect class="fill" width="{}" height="8" rx="2"></rect></svg>',
        class_,
        width,
    )


def interval_bar(share: float, low: float, high: float) -> Html:
    """Draw a share from 0 to 1, with a line from the lower to the upper end of its interval."""
    at = Scale(0, 1, _SMALL)
    return _small(
        bar("track", 0, 3, _SMALL, 6),
        bar("fill", 0, 3, at(share), 6),
        line("whisker", at(low), at(high), 6),
    )


def quantile_range(quantiles: Sequence[float], low: float, high: float) -> Html:
    """Draw the median as a dot, the 90th percentile as a thick line and the 99th as a thin one.

    The axis is logarithmic, from `low` to `high`.
    """
    at = Scale(math.log(low), math.log(high), _SMALL - 4, 4)
    p50, p90, p99 = (at(math.log(value)) if value and low < high else 4 for value in quantiles)
    dot = html('<circle cx="{}" cy="6" r="3"></circle>', short(p50))
    return _small(line("thin", p50, p99, 6), line("thick", p50, p90, 6), dot)


def _small(*shapes: Html) -> Html:
    return html(
        '<svg class="small" width="90" height="12" viewBox="0 0 90 12" aria-hidden="true">{}</svg>',
        shapes,
    )


def heat_cell(
    value: float | None, spec: str, note: Html | None = None, *, coloured: bool = True
) -> Html:
    """Make a cell of a heat map, coloured by a share from 0 to 1."""
    if value is None:
        return short_cell("–", note, class_="none")
    class_ = f"h{round(value * 10)}" if coloured else ""
    return short_cell(format(value, spec), note, class_=class_)
