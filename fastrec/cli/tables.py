"""Tables and lists of findings: text for a terminal, Markdown, and CSV.

`tables.toml` describes the tables. A command makes a `Table` of its result, mostly with `table_of`;
`table_lines` and `markdown_table` render it, and escape its cells. A `Section` is a table with a
title and notes. CSV has columns of its own, with numbers in full precision.
"""

import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import inf
from pkgutil import get_data
from typing import Any, NamedTuple

import click

from fastrec.cli.console import (
    safe,
    spell,
    styled,
    terminal_columns,
    width_of,
)
from fastrec.errors import counted
from fastrec.wording import NONE

hidden_columns: dict[str, None] = {}  # the terminal was too narrow for columns of these names
_LATEX = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "–": "--",
        "↓": r"$\downarrow$",
        "·": r"$\cdot$",
    }
)


class Column(NamedTuple):
    name: str  # one that ends with ± is no heading, because the column belongs to the one before it
    cells: Sequence[object]
    is_left: bool = False
    # A narrow terminal hides columns in this order, as many as needed; None is never hidden.
    hidden: int | None = None

    @property
    def texts(self) -> list[str]:
        """The heading and the cells."""
        return ["" if self.name.endswith("±") else self.name, *map(str, self.cells)]


Table = Sequence[Column]


class Section(NamedTuple):
    """A table with a line above and some below."""

    title: str
    about: str
    table: Table | str  # a sentence stands for a table that would be empty
    notes: Sequence[str] = ()


def make_table(
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    left: Collection[str] = (),
    hidden: Sequence[str] = (),
) -> Table:
    """Make a table. The first column and those in `left` are aligned left.

    A narrow terminal hides `hidden`, in order.
    """
    return [
        Column(
            name,
            cells,
            is_left=not number or name in left,
            hidden=hidden.index(name) if name in hidden else None,
        )
        for number, (name, *cells) in enumerate(zip(names, *rows, strict=True))
    ]


Spelling = str | Callable[[Any], str]  # a template of `spell`, or a function of the item
Spellings = dict[str, Spelling]  # by column


@cache
def read_data(name: str) -> dict[str, Any]:
    """Read a TOML file beside this module."""
    data = get_data("fastrec.cli", f"{name}.toml")
    assert data
    return tomllib.loads(data.decode())


def described(table: str, key: str) -> Any:
    """What `tables.toml` says about a table: its columns, for example."""
    return read_data("tables").get(table, {}).get(key, {})


def table_of(
    name: str,
    items: Iterable[Any],
    own: Mapping[str, Spelling] = {},
    without: Collection[str] = (),
) -> Table:
    """Make the table of a name in `tables.toml`, with a row for each item.

    `own` has the spellings of columns without a template, and of further columns.
    """
    spellings = described(name, "columns") | own
    names = [column for column in spellings if column not in without]
    rows = [[spelled(spellings[column], item) for column in names] for item in items]
    return make_table(names, rows, described(name, "left"), list(described(name, "hidden")))


def spelled(spelling: Spelling, item: object) -> str:
    return spell(spelling, item) if isinstance(spelling, str) else spelling(item)


def table_lines(table: Table) -> Iterator[str]:
    """Yield the lines of a table, without the columns that a narrow terminal has no room for."""
    texts = [list(map(safe, column.texts)) for column in table]
    widths = [max(map(width_of, cells)) for cells in texts]
    most = terminal_columns() if sys.stdout.isatty() else inf
    excess = sum(2 + width for width in widths if width) - most
    hidden = set()
    for _, number in sorted(
        (column.hidden, number) for number, column in enumerate(table) if column.hidden is not None
    ):
        if excess > 0:
            excess -= 2 + widths[number]
            hidden.add(number)
            hidden_columns[table[number].name] = None
    padded = [
        [_padded(text, widths[number], column) for text in texts[number]]
        for number, column in enumerate(table)
        if number not in hidden
    ]
    head, *lines = ("  " + "  ".join(cells).rstrip() for cells in zip(*padded, strict=True))
    yield click.style(head, dim=True)
    yield from lines


def _padded(text: str, width: int, column: Column) -> str:
    padding = " " * (width - width_of(text))
    return text + padding if column.is_left else padding + text


def more_rows(more: int, noun: str, where: str) -> list[str]:
    """A note of how many rows a table leaves out, if any, and where all of them are listed."""
    return [f"… and {counted(more, f'more {noun}')}; {where} lists all"] if more > 0 else []


def section_lines(section: Section) -> Iterator[str]:
    """Yield a title, a table and notes as text."""
    title, about, table, notes = section
    yield f"{styled(title, bold=True)}: {safe(about)}"
    if isinstance(table, str):
        yield f"  {table}"
    elif table:
        yield from table_lines(table)
    yield from (f"  {safe(note)}" for note in notes)


def legend_lines(lines: Iterable[str]) -> list[str]:
    """The lines that explain the tables before them, after an empty line."""
    styles = [click.style(safe(line), dim=True) for line in lines]
    return ["", *styles] if styles else []


Legends = Iterable[Sequence[str]]  # lines that explain tables


def text_lines(
    sections: Iterable[Section], legends: Legends = (), _caption: str | None = None
) -> Iterator[str]:
    for number, section in enumerate(sections):
        if number:
            yield ""
        yield from section_lines(section)
    for lines in legends:
        yield from legend_lines(lines)


def escaped(text: str) -> str:
    """Escape what has a meaning in Markdown, in HTML or on a terminal."""
    return (
        re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", safe(text)).replace("&", "&amp;").replace("<", "&lt;")
    )


def markdown_table(table: Table) -> Iterator[str]:
    rules = ["---" if column.is_left else "--:" for column in table]
    head, *rows = zip(*(column.texts for column in table), strict=True)
    for row in (head, rules, *(map(escaped, row) for row in rows)):
        yield f"| {' | '.join(row)} |"


def markdown_lines(
    sections: Iterable[Section], legends: Legends = (), caption: str | None = None
) -> Iterator[str]:
    """Yield the lines of Markdown tables, and of what explains them."""
    if caption is not None:
        yield f"Table: {escaped(caption)}"
        yield ""
    for number, (title, about, table, notes) in enumerate(sections):
        if number:
            yield ""
        yield f"**{escaped(title)}**: {about}"
        yield ""
        if isinstance(table, str):
            yield table
        elif table:
            yield from markdown_table(table)
            if notes:
                yield ""
        yield from (f"- {escaped(note)}" for note in notes)
    for lines in filter(None, legends):
        yield ""
        yield from map(escaped, lines)


def with_units(section: Section) -> Section:
    """Move the unit of columns of percentages into their headings, so that cells are numbers."""
    if isinstance(section.table, str):
        return section
    return section._replace(table=list(map(_with_unit, section.table)))


def _with_unit(column: Column) -> Column:
    texts = list(map(str, column.cells))
    numbers = [text for text in texts if text not in ("", NONE)]
    if not numbers or not all("%" in number for number in numbers):
        return column
    return column._replace(
        name=f"{column.name} (%)", cells=[text.replace("%", "") for text in texts]
    )


def latex_lines(
    sections: Iterable[Section], legends: Legends, caption: str | None
) -> Iterator[str]:
    """Yield the lines of tables for the package booktabs."""
    begin = []
    end = []
    if caption is not None:
        begin = ["\\begin{table}", "\\centering", f"\\caption{{{_latex(caption)}}}"]
        end = ["\\end{table}"]
    yield from (f"% {safe(line)}" for lines in legends for line in lines)
    for title, about, table, _ in sections:
        yield f"% {safe(title)}: {safe(about)}"
        if isinstance(table, str):
            yield f"% {table}"
            continue
        alignment = "".join("l" if column.is_left else "r" for column in table)
        yield from (*begin, f"\\begin{{tabular}}{{{alignment}}}", "\\toprule")
        cells = [map(_latex, column.texts) for column in table]
        head, *rows = (f"{' & '.join(row)} \\\\" for row in zip(*cells, strict=True))
        yield from (head, "\\midrule", *rows, "\\bottomrule", "\\end{tabular}", *end)


def _latex(text: str) -> str:
    r"""Escape what has a meaning in LaTeX.

    >>> _latex("a_b 5% ± 1"), _latex("\\x{y}^")
    ('a\\_b 5\\% $\\pm$ 1', '\\textbackslash{}x\\{y\\}\\textasciicircum{}')
    """
    return safe(text).translate(_LATEX)
