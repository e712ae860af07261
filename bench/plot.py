"""Inline SVG plots: one line over the runs, its target, and dots with tooltips."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import msgspec

__all__ = ["Point", "plot"]

_WIDTH = 340
_HEIGHT = 120
_LEFT = 8
_RIGHT = 8
_TOP = 10
_BOTTOM = 10


class Point(msgspec.Struct, frozen=True):
    """A value and its tooltip."""

    value: float
    label: str


def plot(points: Sequence[Point], target: float | None) -> str:
    """Plot values in order. The scale includes zero, all values and the target."""
    top = (
        max([point.value for point in points] + ([target] if target is not None else [])) * 1.08
        or 1.0
    )
    low = min(0.0, *(point.value for point in points), 0.0)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - low) / (top - low) * (_HEIGHT - _TOP - _BOTTOM)

    def x(number: int) -> float:
        span = _WIDTH - _LEFT - _RIGHT - 12
        return _LEFT + 6 + (span * number / (len(points) - 1) if len(points) > 1 else span / 2)

    positions = [(x(number), y(point.value)) for number, point in enumerate(points)]
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    parts.append(
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>'
    )
    if target is not None:
        parts.append(
            f'<line class="target" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(target):.1f}" '
            f'y2="{y(target):.1f}"/>'
        )
    parts.append(
        f'<polyline points="{" ".join(f"{left:.1f},{high:.1f}" for left, high in positions)}"/>'
    )
    for (left, high), point in zip(positions, points, strict=True):
        parts.append(
            f'<circle cx="{left:.1f}" cy="{high:.1f}" '
            f'r="3"><title>{escape(point.label)}</title></circle>'
        )
    return "".join([*parts, "</svg>"])
