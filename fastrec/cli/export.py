"""`fastrec export`."""

from __future__ import annotations

from typing import Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, format_bytes, format_speed, print_notice, safe
from fastrec.cli.options import choice_option, command, flag, given_filters, option, shared
from fastrec.cli.progress import make_progress
from fastrec.errors import counted


@command("Write a corpus as Parquet, CSV, a matrix or pairs.",
         usage="the command line is wrong, CORPUS is not a corpus, or no record matches the filters",
         failure="failed, nothing published")  # fmt: skip
@shared("corpus")
@option("-o --output", "Directory to publish the tables as.", type=click.Path(), required=True)
@choice_option("--format", ["parquet", "csv", "matrix", "pairs"], "Format of the tables.")
@shared("filters", "jobs")
@flag("--overwrite", "Replace an existing export.")
@shared("raw_cells")
@option("--details", "TOML file with what pairs need and no record says.", type=click.Path(dir_okay=False))
@flag("-q --quiet", "Print errors only.")
@shared("no_progress")
def export(corpus: str, output: str, quiet: bool, no_progress: bool, **options: Any) -> None:
    """Write CORPUS as tables. OUTPUT is published atomically, with a README.md that explains the columns.

    \b
    Formats:
      parquet   typed, nested columns, the same in all files, with a dataset card
                for the Hugging Face hub; no value is lost or changed
                (needs: pip install pyarrow)
      csv       one flat table: ids, metric, score, correctness, tokens, latency,
                error, response length, turns, tool calls
      matrix    models × questions as CSV: scores, correctness; a question has
                a column for each metric
      pairs     for each run an aggregate of 0.3.0 and its samples file, in the
                folders of the public data store; what is required and unknown
                is listed at once, for --details

    In CSV, text that a spreadsheet would take for a formula has a single quote in front; README.md has the rule.

    \b
    Examples:
      fastrec export corpus -o tables
      fastrec export corpus -o flat --format csv
      fastrec export corpus -o matrix --format matrix
      fastrec export new-corpus -o store --format pairs --details details.toml
      fastrec export corpus -o wrong --wrong --model 'org/*'
    """
    from fastrec.commands.export import export as run

    stages = ("sort", "merge", "write") if given_filters(options) else ("write",)
    with make_progress(*stages, quiet=quiet or no_progress) as progress, explain_damage(corpus):
        done = run(corpus, output, **options, progress=progress)
    if quiet:
        return
    with allow_broken_pipe():
        print_notice(*done.notices)
        sizes = f"{format_bytes(done.text_bytes)} → {format_bytes(done.bytes)}"
        speed = format_speed(done.text_bytes, done.seconds)
        files = f"{counted(done.files, 'file')} in {safe(output)}"
        click.echo(f"{counted(done.rows, 'record')}: {files}, {sizes} {speed}", err=True)
