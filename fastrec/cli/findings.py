"""Findings for people: equal ones are printed once, with their count and first locations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fastrec.cli.spelling import decimal, safe

if TYPE_CHECKING:
    from fastrec.judge.groups import FindingGroup

__all__ = ["print_groups"]


def print_groups(groups: Sequence[FindingGroup], count: int, rest: str) -> None:
    """Print groups of findings; `count` is the number of all findings, and `rest` describes those not in a group."""
    for group in groups:
        colour = "red" if group.severity == "error" else "yellow"
        locations = ", ".join(f"{safe(one.source)}:{one.line}" for one in group.locations)
        click.echo(f"{click.style(group.severity, fg=colour)} {group.code}  {decimal(group.count)} ×")
        click.echo(f"    {safe(group.path)}: {safe(group.message)}")
        click.echo(f"    {locations}{', …' if group.count > len(group.locations) else ''}")
    hidden = count - sum(group.count for group in groups)
    if hidden:
        click.echo(f"… and {decimal(hidden)} {rest}")
