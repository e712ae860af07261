"""`fastrec schema`."""

from __future__ import annotations

import click

from fastrec.cli.console import allow_broken_pipe
from fastrec.cli.options import command, flag


@command("Print the schema of a record.")
@click.argument("version", required=False)
@flag("--list list_versions", "List the versions instead.")
def schema(version: str | None, list_versions: bool) -> None:
    """Print the JSON Schema of a record.

    VERSION is 0.2.0, 0.2.0-released, 0.2.1 or 0.3.0. Without it, print the schema of 0.2.0, byte for byte as published.

    \b
    Examples:
      fastrec schema > record.schema.json
      fastrec schema 0.3.0 | jq .required
      fastrec schema --list
    """
    from fastrec.schemas.registry import DEFAULT_SCHEMA, SCHEMAS, TARGETS, schema_named

    with allow_broken_pipe():
        if not list_versions:
            click.echo((schema_named(version) if version else DEFAULT_SCHEMA).source, nl=False)
            return
        for one in SCHEMAS.values():
            corpus = "yes" if one.name in TARGETS else "no; normalize upgrades its records"
            click.echo(click.style(one.name, bold=True))
            click.echo(f"    {one.about}")
            click.echo(f"    schema_version: {', '.join(sorted(one.labels))}")
            click.echo(f"    corpus: {corpus}")
