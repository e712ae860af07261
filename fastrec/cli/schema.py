"""`fastrec schema`."""

from __future__ import annotations

import click

from fastrec.cli.console import allow_broken_pipe
from fastrec.cli.options import command

__all__ = ["schema"]


@command("Print the schema of a record.")
def schema() -> None:
    """Print the JSON Schema of a record, byte for byte as published.

    \b
    Exit codes:
      0     done
      2     the command line is wrong

    \b
    Examples:
      fastrec schema > record.schema.json
      fastrec schema | jq .required
    """
    from fastrec.schemas.registry import DEFAULT_SCHEMA

    with allow_broken_pipe():
        click.echo(DEFAULT_SCHEMA.source, nl=False)
