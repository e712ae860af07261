"""Tables and lists: plain text for a terminal, and Markdown."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from fastrec.cli.console import pad, print_notice, safe, width_of
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.judge.findings import FindingGroup


Row = Sequence[str]

_MOST_GROUPS: Final = 20  # more do not fit on a screen


def print_table(names: Row, rows: Sequence[Row], optional: Sequence[str] = (), left: Collection[str] = ()) -> list[str]:
    """Print a table with the first column and those named in `left` aligned left, and the others right.

    If a terminal is too narrow, columns named in `optional` are hidden, the first ones first. Returns their names. A
    column whose name ends with ± has no heading, because it belongs to the column before it.
    """
    cells = {name: ("" if name.endswith("±") else name, *column) for name, *column in zip(names, *rows, strict=True)}
    widths = {name: max(map(width_of, column)) for name, column in cells.items()}
    hidden = _too_wide(widths, optional)
    columns = [
        [pad(cell, widths[name], right=number > 0 and name not in left) for cell in cells[name]]
        for number, name in enumerate(name for name in cells if name not in hidden)
    ]
    for number, row in enumerate(zip(*columns, strict=True)):
        line = "  " + "  ".join(row).rstrip()
        click.echo(line if number else click.style(line, dim=True))
    return hidden


def _too_wide(widths: dict[str, int], optional: Sequence[str]) -> list[str]:
    """Choose columns to hide, in the order of `optional`, until the table fits into the terminal."""
    if not sys.stdout.isatty():
        return []
    excess = sum(2 + width for width in widths.values() if width) - shutil.get_terminal_size().columns
    hidden = []
    for name in optional:
        if excess > 0 and name in widths:
            excess -= 2 + widths[name]
            hidden.append(name)
    return hidden


def print_more(more: int, noun: str, where: str) -> None:
    """Print how many rows a table leaves out, if any, and where all of them are listed."""
    if more > 0:
        click.echo(f"  … and {counted(more, f'more {noun}')}; {where} lists all")


def print_hidden(names: Sequence[str]) -> None:
    """Print a notice about hidden columns, if there are any."""
    if names:
        print_notice(f"the terminal is too narrow for these columns: {', '.join(dict.fromkeys(names))}")


def markdown_table(names: Row, rows: Sequence[Row], left: int = 1) -> Iterator[str]:
    """Yield the lines of a Markdown table with the first `left` columns aligned left and the others right."""
    head = ["" if name.endswith("±") else name for name in names]
    for row in (head, ["---"] * left + ["--:"] * (len(head) - left), *rows):
        yield f"| {' | '.join(row)} |"


def print_groups(groups: Sequence[FindingGroup], count: int, rest: str, remarks: Sequence[str] = ()) -> None:
    """Print the first groups of findings, each with its number and an example.

    `rest` describes the findings that are not shown, out of `count`. `remarks` has a remark for each group, or is
    empty.
    """
    for number, group in enumerate(groups[:_MOST_GROUPS]):
        colour = {"error": "red", "warning": "yellow"}.get(group.severity, "cyan")
        locations = ", ".join(f"{safe(one.source)}:{one.line}" for one in group.locations)
        judged = f", judged as {group.version}" if group.version else ""
        remark = remarks[number] if remarks else ""
        click.echo(f"{click.style(group.severity, fg=colour)} {group.code}  {group.count:,} ×{judged}{remark}")
        click.echo(f"    {safe(group.path)}: {safe(group.message)}")
        click.echo(f"    {locations}{', …' if group.count > len(group.locations) else ''}")
    if hidden := count - sum(group.count for group in groups[:_MOST_GROUPS]):
        click.echo(f"… and {hidden:,} {rest}")
