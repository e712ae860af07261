"""SVG plots: a line over the runs with its target, and bars in groups as a picture of its own."""

from collections.abc import Sequence
from html import escape

import msgspec

_WIDTH = 340
_HEIGHT = 120
_MARGIN = 10


class Point(msgspec.Struct, frozen=True):
    """A value and its tooltip."""

    value: float
    label: str


def plot(points: Sequence[Point], target: float | None) -> str:
    """Plot values in order. The scale includes zero, all values and the target."""
    values = [point.value for point in points]
    top = max(*values, target or 0.0) * 1.08 or 1.0
    low = min(*values, 0.0)
    step = (_WIDTH - 2 * _MARGIN) / len(points)

    def y(value: float) -> float:
        return _HEIGHT - _MARGIN - (value - low) / (top - low) * (_HEIGHT - 2 * _MARGIN)

    def level(kind: str, value: float) -> str:
        ends = f'x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{y(value):.1f}" y2="{y(value):.1f}"'
        return f'<line class="{kind}" {ends}/>'

    dots = [
        (f"{_MARGIN + step * (number + 0.5):.1f}", f"{y(value):.1f}")
        for number, value in enumerate(values)
    ]
    lines = " ".join(f"{x},{high}" for x, high in dots)
    circles = [
        f'<circle cx="{x}" cy="{high}" r="3"><title>{escape(point.label)}</title></circle>'
        for (x, high), point in zip(dots, points, strict=True)
    ]
    aim = "" if target is None else level("target", target)
    drawn = f'{level("axis", 0)}{aim}<polyline points="{lines}"/>{"".join(circles)}'
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{drawn}</svg>'


_BARS_WIDTH = 900
_BARS_HEIGHT = 380
_SIDE = 24
_TOP = 84
_BASE = _BARS_HEIGHT - 104
_COLORS = ("#b9c2cd", "#2563a8")
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2530}"
    ".title{font-size:17px;font-weight:600}.soft{fill:#66717f;font-size:12px}"
    ".middle{text-anchor:middle}.axis{stroke:#98a3b0}.card{fill:#fff;stroke:#e2e5e9}"
)


class Group(msgspec.Struct, frozen=True):
    """Bars side by side, a value for each name of the legend, and lines of text below them."""

    label: str
    notes: list[str]
    values: list[float]


def bar_plot(
    title: str, subtitle: str, legend: Sequence[str], groups: Sequence[Group], footer: str = ""
) -> str:
    """Draw the groups, whose values are seconds. The scale begins at zero."""
    scale = (_BASE - _TOP) / (max(value for group in groups for value in group.values) or 1.0)
    span = (_BARS_WIDTH - 2 * _SIDE) / len(groups)
    bar = min(42.0, span * 0.8 / len(legend))
    parts = [
        _text(_SIDE, 30, title, "title"),
        _text(_SIDE, 50, subtitle, "soft"),
        _text(_SIDE, _BARS_HEIGHT - 16, footer, "soft"),
    ]
    for number, name in enumerate(legend):
        left: float = _BARS_WIDTH - _SIDE - 120 * (len(legend) - number)
        parts += [_bar(number, left, 20, 12, 12), _text(left + 18, 31, name)]
    for position, group in enumerate(groups):
        middle = _SIDE + span * (position + 0.5)
        for number, value in enumerate(group.values):
            left = middle + bar * (number - len(group.values) / 2)
            top = _BASE - value * scale
            parts.append(_bar(number, left + 1, top, bar - 2, value * scale))
            parts.append(_text(left + bar / 2, top - 5, f"{value:.1f} s", "soft middle"))
        parts.append(_text(middle, _BASE + 19, group.label, "middle"))
        for line, note in enumerate(group.notes):
            parts.append(_text(middle, _BASE + 37 + 15 * line, note, "soft middle"))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {_BARS_WIDTH} {_BARS_HEIGHT}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f'<rect class="card" x="0.5" y="0.5" width="{_BARS_WIDTH - 1}" '
        f'height="{_BARS_HEIGHT - 1}" rx="8"/>{"".join(parts)}'
        f'<line class="axis" x1="{_SIDE}" x2="{_BARS_WIDTH - _SIDE}" y1="{_BASE}" y2="{_BASE}"/>'
        "</svg>\n"
    )


def _bar(number: int, x: float, y: float, width: float, height: float) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{_COLORS[number]}"/>'


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words)}</text>'
