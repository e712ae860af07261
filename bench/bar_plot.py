"""An SVG of bars in groups: a picture of its own, readable on any background."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

__all__ = ["Group", "bar_plot"]

_WIDTH = 900
_HEIGHT = 380
_LEFT = 24
_RIGHT = 24
_TOP = 84
_BOTTOM = 104
_COLORS: Final = ("#b9c2cd", "#2563a8")
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#1c2530}"
    ".title{font-size:17px;font-weight:600}.soft{fill:#66717f;font-size:12px}.middle{text-anchor:middle}"
    ".axis{stroke:#98a3b0}.card{fill:#fff;stroke:#e2e5e9}"
)


class Group(msgspec.Struct, frozen=True):
    """Bars side by side, one value for each name of the legend, and the lines of text below them."""

    label: str
    notes: list[str]
    values: list[float]


def bar_plot(
    title: str,
    subtitle: str,
    legend: Sequence[str],
    groups: Sequence[Group],
    *,
    unit: str,
    footer: str = "",
) -> str:
    """Draw the groups. The scale begins at zero, and every bar shows its value."""
    top = max((value for group in groups for value in group.values), default=0) or 1.0
    base = _HEIGHT - _BOTTOM
    scale = (base - _TOP) / top
    span = (_WIDTH - _LEFT - _RIGHT) / max(len(groups), 1)
    bar = min(42.0, span * 0.8 / len(legend))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT - 1}" rx="8"/>',
        _text(_LEFT, 30, title, "title"),
        _text(_LEFT, 50, subtitle, "soft"),
        _text(_LEFT, _HEIGHT - 16, footer, "soft"),
    ]
    for number, name in enumerate(legend):
        at = _WIDTH - _RIGHT - 120 * (len(legend) - number)
        parts.append(
            f'<rect x="{at}" y="20" width="12" height="12" rx="2" fill="{_COLORS[number]}"/>'
        )
        parts.append(_text(at + 18, 31, name))
    for position, group in enumerate(groups):
        middle = _LEFT + span * (position + 0.5)
        for number, value in enumerate(group.values):
            left = middle + bar * (number - len(group.values) / 2)
            height = value * scale
            parts.append(
                f'<rect x="{left + 1:.1f}" y="{base - height:.1f}" width="{bar - 2:.1f}" '
                f'height="{height:.1f}" '
                f'fill="{_COLORS[number]}"/>'
            )
            parts.append(
                _text(left + bar / 2, base - height - 5, f"{value:.1f} {unit}", "soft middle")
            )
        parts.append(_text(middle, base + 19, group.label, "middle"))
        for line, note in enumerate(group.notes):
            parts.append(_text(middle, base + 37 + 15 * line, note, "soft middle"))
    parts.append(
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>'
    )
    return "".join([*parts, "</svg>\n"])


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{name}>{escape(words)}</text>'
