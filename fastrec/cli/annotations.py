"""Annotations of a GitHub workflow: findings that appear beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from fastrec.cli.spelling import safe

if TYPE_CHECKING:
    from fastrec.judge.findings import FindingGroup

__all__ = ["print_annotations"]


def print_annotations(groups: Iterable[FindingGroup]) -> None:
    """Print a workflow command for each group of findings, at its first location."""
    for group in groups:
        first = group.locations[0]
        more = f" (and {group.count - 1:,} more)" if group.count > 1 else ""
        message = _workflow(f"{group.path}: {group.message} [{group.code}]{more}", "\r\n%")
        source = _workflow(first.source, "\r\n%:,")
        level = "notice" if group.severity == "note" else group.severity
        click.echo(f"::{level} file={source},line={first.line},title={group.code}::{message}")


def _workflow(text: str, special: str) -> str:
    """Escape characters that have a meaning in a workflow command."""
    return safe("".join(f"%{ord(char):02X}" if char in special else char for char in text))
