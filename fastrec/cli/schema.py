"""`fastrec schema`."""

from __future__ import annotations

import click

from fastrec.cli.console import reader_may_leave, verbose_option

__all__ = ["schema"]


@click.command
@verbose_option
def schema() -> None:
    """Print the JSON Schema of a record, exactly as it was published."""
    from fastrec.records.shape import schema_bytes

    with reader_may_leave():
        click.echo(schema_bytes(), nl=False)
