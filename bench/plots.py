"""Where the marks of plots are; `report.html` draws them.

A line over the runs with its target, and bars in groups as a picture of its own.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader

_WIDTH = 340
_HEIGHT = 120
_MARGIN = 10


class Point(NamedTuple):
    """A value and its tooltip."""

    value: float
    label: str


@cache
def _templates() -> Any:
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").module


def render(macro: str, *values: Any) -> str:
    """Fill a macro of `report.html`."""
    return str(getattr(_templates(), macro)(*values))


def plot(points: Sequence[Point], target: float | None) -> dict[str, Any]:
    """Place values in order. The scale includes zero, all values and the target."""
    values = [point.value for point in points]
    top = max(*values, target or 0.0) * 1.08 or 1.0
    low = min(*values, 0.0)
    step = (_WIDTH - 2 * _MARGIN) / len(points)

    def y(value: float) -> float:
        height = (value - low) / (top - low) * (_HEIGHT - 2 * _MARGIN)
        return round(_HEIGHT - _MARGIN - height, 1)

    dots = [
        (round(_MARGIN + step * (number + 0.5), 1), y(point.value), point.label)
        for number, point in enumerate(points)
    ]
    return {"dots": dots, "zero": y(0), "target": None if target is None else y(target)}


class Group(NamedTuple):
    """Bars side by side, a value for each name of the legend, and lines of text below them."""

    label: str
    notes: list[str]
    values: list[float]


def bar_plot(
    title: str, subtitle: str, legend: Sequence[str], groups: Sequence[Group], footer: str = ""
) -> str:
    """Draw the groups, whose values are seconds. The scale begins at zero."""
    longest = max(value for group in groups for value in group.values)
    return render("bar_plot", title, subtitle, legend, groups, longest or 1.0, footer)
