"""HTML: a template says how a page or a piece of it looks, its caller which values it shows.

Every value is escaped, unless it is `Html`, the result of a macro, or a text that a filter of
this module has made into markup. An unknown name is an error. A line break in a template is for its
readers, with the white space around it, if it is next to a tag or to a field.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from fastrec.errors import counted, listed
from fastrec.pages.html import Cell, Html, Table, allowed, as_cell, escaped, exact, multiline
from fastrec.pages.markdown import markdown
from fastrec.wording import (
    NONE,
    SIGNS,
    cost_text,
    cut_middle,
    latency_text,
    score_text,
    signs_of,
    tokens_text,
)

if TYPE_CHECKING:
    from jinja2 import Environment

_LINE_BREAK = re.compile(r"(?<=[>}])\s*\n\s*|\s*\n\s*(?=[<{])")


def render_template(name: str, /, **values: Any) -> Html:
    return Html(_environment().get_template(name).render(values))


def render_macro(template: str, macro: str, /, *values: Any, **named: Any) -> Html:
    """Fill a macro of a template."""
    return Html(getattr(_environment().get_template(template).module, macro)(*values, **named))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - 40 ms

    environment = Environment(
        autoescape=True,
        finalize=escaped,
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
    )
    environment.filters |= {function.__name__: function for function in _FILTERS}
    environment.globals |= {
        "NONE": NONE,
        "SIGNS": SIGNS,
        "counted": counted,
        "fields_table": fields_table,
    }
    return environment


def _source(name: str) -> str:
    """Read a template; a comment around a line break drops it, and keeps the numbers of lines."""
    text = files(__name__).joinpath("templates", name).read_text(encoding="utf-8")
    return _LINE_BREAK.sub(lambda space: f"{{#{space[0]}#}}", text)


def number(value: float | None, spec: str = ",") -> str:
    """Format a number; empty if there is none."""
    return "" if value is None else format(value, spec)


def one_line(text: str, most: int) -> str:
    """Put the beginning of a text on one line."""
    start = text[: most * 4]
    line = " ".join(start.split())
    if len(line) <= most and start == text:
        return line
    return line[:most].rstrip() + "…"


def indented(text: str) -> str:
    """Indent what is JSON; a text is left as it is."""
    try:
        return msgspec.json.format(text, indent=2) if text.lstrip().startswith(("{", "[")) else text
    except (msgspec.DecodeError, RecursionError):
        return text


def fields_table(columns: Mapping[str, str], items: Iterable[object]) -> Table:
    """Make a table of objects.

    A column has a head and a field, maybe with a kind: `hash:code`, `metric:text`, `names:listed`.
    """
    fields = [field.partition(":") for field in columns.values()]
    rows = [[_KINDS[kind](attrgetter(name)(item)) for name, _, kind in fields] for item in items]
    return list(columns), rows


_KINDS: dict[str, Callable[[Any], Any]] = {
    "": lambda value: value,
    "text": lambda value: str(value or ""),
    "listed": listed,
    "cost": lambda cost: Cell(cost_text(cost), "num"),
    "code": lambda value: Cell(value if isinstance(value, str) else ", ".join(value), "code"),
}


_FILTERS = (
    allowed,
    as_cell,
    cut_middle,
    exact,
    indented,
    latency_text,
    markdown,
    multiline,
    number,
    one_line,
    score_text,
    signs_of,
    tokens_text,
)
