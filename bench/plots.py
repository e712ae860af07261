"""Fill the templates of `report.html`: the page, and bars in groups as a picture of its own."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader


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
