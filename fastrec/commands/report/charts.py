"""Small charts as plain SVG: bars and ranges next to a number, a stacked bar, a histogram."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from fastrec.errors import counted
from fastrec.html import Html, joined, tag

__all__ = ["bar", "histogram", "latency_range", "latency_scale", "stacked"]

_WIDTH: Final = 90
_HEIGHT: Final = 12
_BINS: Final = 20


def bar(share: float, low: float, high: float) -> Html:
    """Draw a share from 0 to 1, with a line from the lower to the upper end of its interval."""
    return _small(
        tag("rect", class_="track", y=3, width=_WIDTH, height=6),
        tag("rect", class_="fill", x=0, y=3, width=_short(share * _WIDTH), height=6),
        tag("line", class_="whisker", x1=_short(low * _WIDTH), x2=_short(high * _WIDTH), y1=6, y2=6),
    )


def latency_scale(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of a logarithmic scale for latencies; None if none is above zero."""
    above = [value for value in values if value > 0]
    return (math.log(min(above)), math.log(max(above))) if above else None


def latency_range(quantiles: Sequence[float | None], scale: tuple[float, float] | None) -> Html:
    """Draw the median as a dot, the 90th percentile as a thick line and the 99th as a thin one."""
    if scale is None or None in quantiles:
        return Html("")
    low, high = scale
    positions = [
        4 + (_WIDTH - 8) * ((math.log(value) - low) / (high - low) if value and high > low else 0)
        for value in quantiles
    ]
    p50, p90, p99 = map(_short, positions)
    return _small(
        tag("line", class_="thin", x1=p50, x2=p99, y1=6, y2=6),
        tag("line", class_="thick", x1=p50, x2=p90, y1=6, y2=6),
        tag("circle", cx=p50, cy=6, r=3),
    )


def stacked(parts: Sequence[tuple[str, int]]) -> Html:
    """Draw the shares of named parts as one bar, with a legend."""
    whole = sum(count for _, count in parts)
    if not whole:
        return Html("")
    pieces, start = [], 0.0
    for name, count in parts:
        share = count / whole * 1_000
        pieces.append(tag("rect", class_=f"part {name}", x=_short(start), width=_short(share), height=18))
        start += share
    label = ", ".join(f"{count / whole:.2%} {name}" for name, count in parts if count)
    legend = (tag("span", tag("i", class_=f"key {name}"), f"{name} {count / whole:.2%}") for name, count in parts)
    box = {"viewBox": "0 0 1000 18", "preserveAspectRatio": "none"}
    drawing = tag("svg", *pieces, class_="stack", **box, role="img", aria_label=f"Lines: {label}")
    return joined(drawing, tag("p", *legend, class_="legend"))


def histogram(title: str, values: Sequence[float], *, unit: str = "", logarithmic: bool = False) -> Html:
    """Draw the number of models by value; empty if there are no values."""
    values = [value for value in values if value > 0 or not logarithmic]
    if not values:
        return Html("")
    scaled = [math.log(value) for value in values] if logarithmic else list(values)
    low, high = min(scaled), max(scaled)
    counts = [0] * _BINS
    for value in scaled:
        # The halves keep the widest range of doubles from overflowing.
        position = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
        counts[min(int(position * _BINS), _BINS - 1)] += 1
    most = max(counts)
    bars = [
        tag("rect", class_="fill", x=10 * number + 1, width=8, y=_short(60 - height), height=_short(height))
        for number, height in enumerate(count / most * 56 for count in counts)
        if height
    ]
    ends = [format(end, ",.0f" if 1_000 <= end < 1e15 else ".4g") + unit for end in (min(values), max(values))]
    label = f"{title}: {counted(len(values), 'model')} from {ends[0]} to {ends[1]}, at most {most} in one bar"
    axis = tag("line", class_="axis", x1=0, x2=200, y1=60.5, y2=60.5)
    drawing = tag("svg", *bars, axis, viewBox="0 0 200 61", role="img", aria_label=label)
    return tag(
        "figure", tag("figcaption", title), drawing, tag("p", *(tag("span", end) for end in ends), class_="ends")
    )


def _small(*parts: Html) -> Html:
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag("svg", *parts, class_="small", width=_WIDTH, height=_HEIGHT, viewBox=box, aria_hidden="true")


def _short(number: float) -> str:
    return f"{number:.5g}"
