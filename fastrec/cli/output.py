"""Run what a command does, with progress, and print what it finds in the format that was asked for.

Options about output are the same for all commands. So a command does not get them as arguments:
`asked` has them.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from typing import Any, NamedTuple, TypeVar

import click

from fastrec.cli import memory
from fastrec.cli.console import (
    allow_broken_pipe,
    explain_damage,
    print_json,
    print_lines,
    print_notice,
    safe,
)
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import (
    Legends,
    Section,
    described,
    hidden_columns,
    latex_lines,
    markdown_lines,
    text_lines,
    with_units,
)
from fastrec.errors import listed

_Result = TypeVar("_Result")
_Row = dict[str, Any]


class Output(NamedTuple):
    """The options about output of a command."""

    output_format: str = "text"
    raw_cells: bool = False
    digits: int | None = None
    caption: str | None = None
    quiet: bool = False
    no_progress: bool = False


def asked() -> Output:
    """The options about output of the command that runs."""
    output: Output = click.get_current_context().obj
    return output


def warn_of_terminal(paths: Sequence[str]) -> None:
    """Tell a user whose terminal is read as standard input, since the command seems to hang."""
    if "-" in paths and sys.stdin is not None and sys.stdin.isatty():
        print_notice("reading from this terminal: type or paste lines, and end with Ctrl-D")


def run_with_progress(
    run: Callable[..., _Result],
    /,
    *arguments: Any,
    jobs: int,
    stages: Sequence[str] = ("read",),
    limited: bool = True,
    **options: Any,
) -> _Result:
    """Run a command: with limited memory, if so, and with a progress line of these stages."""
    if limited:
        memory.limit_memory(jobs)
    with make_progress(*stages, quiet=asked().quiet or asked().no_progress) as progress:
        return run(*arguments, **options, jobs=jobs, progress=progress)


def run_reading(run: Callable[..., _Result], /, *arguments: Any, **options: Any) -> _Result:
    """Run a command on its first argument, a corpus or several.

    An error about a damaged one says what to do.
    """
    first = arguments[0]
    with explain_damage(*(first if isinstance(first, tuple) else (first,))):
        return run_with_progress(run, *arguments, **options)


def print_csv(rows: Sequence[_Row], names: Iterable[str], *, exact: bool = False) -> None:
    """Print these columns of rows as CSV, or all.

    Texts have escapes; not if they should be exact, and do not go to a terminal.
    """
    from fastrec.csv_writer import CsvWriter

    spell = str if exact and not sys.stdout.isatty() else safe
    names = list(names) or (list(rows[0]) if rows else [])
    out = StringIO()
    writer = CsvWriter(out, raw_cells=asked().raw_cells)
    writer.writerow(names)
    for row in rows:
        values = (row[name] for name in names)
        cells = (str(value).lower() if isinstance(value, bool) else value for value in values)
        writer.writerow([spell(cell) if isinstance(cell, str) else cell for cell in cells])
    # Of text, click would remove escape sequences, which are part of the values.
    click.echo(out.getvalue().encode(errors="backslashreplace"), nl=False)


_TABLES: dict[str, Callable[..., Iterable[str]]] = {
    "text": text_lines,
    "markdown": markdown_lines,
    "latex": latex_lines,
}


def print_answer(
    answer: Any,
    sections: Iterable[Section] = (),
    legends: Legends = (),
    *,
    table: str = "",
    for_paper: bool = False,
    **printers: Callable[[Any], None],
) -> None:
    """Print the answer of a command: with the printer of the format, as tables, CSV or JSON.

    `table` has the legend and the columns of the CSV. `for_paper` puts units of Markdown and LaTeX
    into headings.
    """
    output_format = asked().output_format
    with allow_broken_pipe():
        if output_format in printers:
            printers[output_format](answer)
        elif output_format == "csv":
            print_csv(answer.rows(), described(table, "csv"))
        elif output_format == "json":
            print_json(answer)
        else:
            sections = list(sections)
            if for_paper and output_format != "text":
                sections = list(map(with_units, sections))
            if sections and table:
                legends = [described(table, "legend")]
            if sections or output_format != "text":
                print_lines(_TABLES[output_format](sections, legends, asked().caption))
    if hidden_columns:
        names = listed(hidden_columns)
        print_notice(f"the terminal is too narrow for these columns: {names}; `| less -S` has all")
        hidden_columns.clear()
