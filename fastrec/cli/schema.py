"""`fastrec schema`."""

from __future__ import annotations

import click

__all__ = ["schema"]


@click.command
def schema() -> None:
    """Print the JSON Schema of a record, exactly as it was published."""
    from fastrec.records.shape import schema_bytes

    click.echo(schema_bytes(), nl=False)
