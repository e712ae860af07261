"""Tables and lists of findings: text for a terminal, Markdown, and CSV.

A command makes a `Table` of its result, mostly with `table_of`. `print_table` and `markdown_table`
render it, and escape its cells. A `Section` is a table with a title and notes. CSV has tables of
its own, with numbers in full precision.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fastrec.cli.console import (
    hidden_columns,
    print_hidden,
    print_json,
    safe,
    say,
    spell,
    styled,
    width_of,
)
from fastrec.errors import counted
from fastrec.wording import NONE

if TYPE_CHECKING:
    from fastrec.commands.check_pairs import PairCheck
    from fastrec.commands.validate import Validation
    from fastrec.judge.findings import FindingGroup, Location


_MOST_GROUPS = 20  # more do not fit on a screen
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
_Remarks = tuple[str, Sequence[str]]  # at the end of a line, and below it


class Column(NamedTuple):
    name: str  # one that ends with ± is no heading, because the column belongs to the one before it
    is_left: bool = False
    # A narrow terminal hides columns in this order, as many as needed; None is never hidden.
    hidden: int | None = None

    @property
    def heading(self) -> str:
        return "" if self.name.endswith("±") else self.name


Rows = Sequence[Sequence[object]]


class Table(NamedTuple):
    columns: Sequence[Column]
    rows: Rows


class Section(NamedTuple):
    """A table with a line above and some below."""

    title: str
    about: str
    table: Table | str  # a sentence stands for a table that would be empty
    notes: Sequence[str] = ()


def make_table(
    names: Sequence[str], rows: Rows, left: Collection[str] = (), hidden: Sequence[str] = ()
) -> Table:
    """Make a table. The first column and those in `left` are aligned left.

    A narrow terminal hides `hidden`, in order.
    """
    columns = [
        Column(name, not number or name in left, hidden.index(name) if name in hidden else None)
        for number, name in enumerate(names)
    ]
    return Table(columns, rows)


Spelling = str | Callable[[Any], str]  # a template of `spell`, or a function of the item
Spellings = dict[str, Spelling]  # by the names of columns


def table_of(
    items: Iterable[Any],
    spellings: Mapping[str, Spelling],
    left: Collection[str] = (),
    hidden: Sequence[str] = (),
) -> Table:
    """Make a table with a row for each item, and a column for each spelling."""
    rows = [[spelled(spelling, item) for spelling in spellings.values()] for item in items]
    return make_table(list(spellings), rows, left, hidden)


def spelled(spelling: Spelling, item: object) -> str:
    return spell(spelling, item) if isinstance(spelling, str) else spelling(item)


def print_table(table: Table) -> None:
    click.echo("\n".join(table_lines(table)))


def table_lines(table: Table) -> list[str]:
    """The lines of a table, without the columns that a narrow terminal has no room for."""
    heads = [column.heading for column in table.columns]
    texts = [list(map(safe, map(str, cells))) for cells in zip(heads, *table.rows, strict=True)]
    widths = [max(map(width_of, cells)) for cells in texts]
    hidden = list(_too_wide(table.columns, widths))
    hidden_columns.update(dict.fromkeys(table.columns[number].name for number in hidden))
    padded = []
    for number, column in enumerate(table.columns):
        if number not in hidden:
            pad = _pad_right if column.is_left else _pad_left
            padded.append([pad(text, widths[number]) for text in texts[number]])
    head, *lines = ("  " + "  ".join(cells).rstrip() for cells in zip(*padded, strict=True))
    return [click.style(head, dim=True), *lines]


def _pad_right(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def _pad_left(text: str, width: int) -> str:
    return " " * (width - width_of(text)) + text


def _too_wide(columns: Sequence[Column], widths: Sequence[int]) -> Iterator[int]:
    """Yield the numbers of columns to hide until the table fits into the terminal."""
    excess = sum(2 + width for width in widths if width) - shutil.get_terminal_size().columns
    order = sorted(
        (column.hidden, number)
        for number, column in enumerate(columns)
        if column.hidden is not None and sys.stdout.isatty()
    )
    for _, number in order:
        if excess > 0:
            excess -= 2 + widths[number]
            yield number


def print_section(section: Section) -> None:
    """Print a title, a table and notes."""
    say("{title:bold}: {about}", section)
    if isinstance(section.table, str):
        say("  {table}", section)
    elif section.table.rows:
        print_table(section.table)
    print_notes(section.notes)


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        say("  {}", note)


def more_rows(more: int, noun: str, where: str) -> list[str]:
    """A note of how many rows a table leaves out, if any, and where all of them are listed."""
    return [f"… and {counted(more, f'more {noun}')}; {where} lists all"] if more > 0 else []


def print_sections(sections: Iterable[Section], legends: Iterable[Sequence[str]]) -> None:
    for number, section in enumerate(sections):
        if number:
            click.echo()
        print_section(section)
    for lines in legends:
        print_legend(lines)
    print_hidden()


def print_legend(lines: Iterable[str]) -> None:
    """Print lines that explain the tables before them, after an empty line."""
    for number, line in enumerate(lines):
        click.echo(f"{'' if number else chr(10)}{click.style(safe(line), dim=True)}")


def escaped(text: str) -> str:
    """Escape what has a meaning in Markdown, in HTML or on a terminal."""
    return (
        re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", safe(text)).replace("&", "&amp;").replace("<", "&lt;")
    )


def markdown_table(table: Table, spell: Callable[[str], str] = escaped) -> Iterator[str]:
    """Yield the lines of a Markdown table; `spell` is applied to all cells."""
    rules = ["---" if column.is_left else "--:" for column in table.columns]
    rows = [[spell(str(cell)) for cell in row] for row in table.rows]
    for row in ([column.heading for column in table.columns], rules, *rows):
        yield f"| {' | '.join(row)} |"


def markdown_sections(
    sections: Iterable[Section], legends: Iterable[Sequence[str]]
) -> Iterator[str]:
    """Yield the lines of Markdown tables, and of what explains them."""
    for number, section in enumerate(sections):
        if number:
            yield ""
        yield f"**{escaped(section.title)}**: {section.about}"
        yield ""
        if isinstance(section.table, str):
            yield section.table
        elif section.table.rows:
            yield from markdown_table(section.table)
            if section.notes:
                yield ""
        yield from (f"- {escaped(note)}" for note in section.notes)
    for lines in filter(None, legends):
        yield ""
        yield from map(escaped, lines)


def with_units(table: Table | str) -> Table | str:
    """Move the unit of columns of percentages into their headings, so that cells are numbers."""
    if isinstance(table, str):
        return table
    heads = []
    cells = []
    for column, *texts in zip(table.columns, *table.rows, strict=True):
        numbers = [str(text) for text in texts if text not in ("", NONE)]
        if numbers and all("%" in number for number in numbers):
            column = column._replace(name=f"{column.name} (%)")
            texts = [str(text).replace("%", "") for text in texts]
        heads.append(column)
        cells.append(texts)
    return Table(heads, list(zip(*cells, strict=True)))


def latex_sections(
    sections: Iterable[Section], legends: Iterable[Sequence[str]], caption: str | None
) -> Iterator[str]:
    """Yield the lines of tables for the package booktabs."""
    begin: list[str] = []
    end: list[str] = []
    if caption is not None:
        begin = ["\\begin{table}", "\\centering", f"\\caption{{{_latex(caption)}}}"]
        end = ["\\end{table}"]
    yield from (f"% {safe(line)}" for lines in legends for line in lines)
    for title, about, table, _ in sections:
        yield f"% {safe(title)}: {safe(about)}"
        if isinstance(table, str):
            yield f"% {table}"
            continue
        alignment = "".join("l" if column.is_left else "r" for column in table.columns)
        names = [column.heading for column in table.columns]
        lines = [f"{' & '.join(map(_latex, map(str, row)))} \\\\" for row in (names, *table.rows)]
        head = f"\\begin{{tabular}}{{{alignment}}}", "\\toprule", lines[0], "\\midrule"
        yield from (*begin, *head, *lines[1:], "\\bottomrule", "\\end{tabular}", *end)


def _latex(text: str) -> str:
    r"""Escape what has a meaning in LaTeX.

    >>> _latex("a_b 5% ± 1"), _latex("\\x{y}^")
    ('a\\_b 5\\% $\\pm$ 1', '\\textbackslash{}x\\{y\\}\\textasciicircum{}')
    """
    return safe(text).translate(_LATEX)


def print_tables(
    output_format: str,
    sections: Iterable[Section],
    legends: Sequence[Sequence[str]],
    caption: str | None,
) -> None:
    """Print tables for a document: Markdown or LaTeX, with one unit in each column."""
    made = [section._replace(table=with_units(section.table)) for section in sections]
    if output_format == "latex":
        click.echo("\n".join(latex_sections(made, legends, caption)))
        return
    if caption is not None:
        click.echo(f"Table: {escaped(caption)}\n")
    click.echo("\n".join(markdown_sections(made, legends)))


def print_findings(report: Validation | PairCheck, output_format: str, where: str) -> None:
    """Print the findings of a command as `text`, `json` or `github`.

    `where` says what lists those that text omits.
    """
    if output_format == "json":
        print_json(report)
    elif output_format == "text":
        print_groups(report.groups, sum(report.codes.values()), f"other findings; {where} has more")
    else:
        for group in report.groups:
            click.echo(_workflow_command(group))


def _workflow_command(group: FindingGroup) -> str:
    """Spell a command of a GitHub workflow, which shows the group beside its first line."""
    first = group.locations[0]
    more = f" (and {group.count - 1:,} more)" if group.count > 1 else ""
    message = _escaped_for_workflow(f"{group.path}: {group.message} [{group.code}]{more}", "\r\n%")
    source = _escaped_for_workflow(first.source, "\r\n%:,")
    level = "notice" if group.severity == "note" else group.severity
    return f"::{level} file={source},line={first.line},title={group.code}::{message}"


def _escaped_for_workflow(text: str, special: str) -> str:
    return safe("".join(f"%{ord(char):02X}" if char in special else char for char in text))


def print_groups(
    groups: Sequence[FindingGroup],
    count: int,
    rest: str,
    about: Callable[[Any], _Remarks] = lambda _: ("", ()),
) -> None:
    """Print the first groups of findings, each with its number and an example.

    `rest` describes the findings that are not shown, out of `count`; `about` makes remarks on a
    group.
    """
    for group in groups[:_MOST_GROUPS]:
        colour = {"error": "red", "warning": "yellow"}.get(group.severity, "cyan")
        remark, further = about(group)
        severity = styled(group.severity, fg=colour)
        line = "{severity} {code}  {count:,} ×[?, judged as {version}]{remark}"
        say(line, group, severity=severity, remark=remark)
        say("    {path}: {message}", group)
        for line in (locations_text(group.locations, group.count), *further):
            say("    {}", line)
    if hidden := count - sum(group.count for group in groups[:_MOST_GROUPS]):
        click.echo(f"… and {hidden:,} {rest}")


def locations_text(locations: Sequence[Location], count: int) -> str:
    places = ", ".join(f"{location.source}:{location.line}" for location in locations)
    return f"{places}, …" if count > len(locations) else places
