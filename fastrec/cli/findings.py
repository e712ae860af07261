"""Findings for people: equal ones together, with their count and first places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fastrec.cli.console import decimal, safe

if TYPE_CHECKING:
    from fastrec.judge.groups import FindingGroup

__all__ = ["print_groups"]


def print_groups(groups: Sequence[FindingGroup], count: int, rest: str) -> None:
    """Print groups of findings; `count` is how many findings there are in all, and `rest` says what others are."""
    for group in groups:
        click.echo(_spelled(group))
    hidden = count - sum(group.count for group in groups)
    if hidden:
        click.echo(f"… and {decimal(hidden)} {rest}")


def _spelled(group: FindingGroup) -> str:
    colour = "red" if group.severity == "error" else "yellow"
    times = f"{decimal(group.count)} ×"
    places = ", ".join(f"{safe(place.source)}:{place.line}" for place in group.locations)
    more = ", …" if group.count > len(group.locations) else ""
    return (
        f"{click.style(group.severity, fg=colour)} {group.code}  {times}\n"
        f"    {safe(group.path)}: {safe(group.message)}\n"
        f"    {places}{more}"
    )
