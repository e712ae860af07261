"""`fastrec export`."""

from __future__ import annotations

from typing import Any

import click

from fastrec.cli.console import (
    counted,
    jobs_option,
    megabytes,
    pace,
    print_notice,
    reader_may_leave,
    safe,
    using,
    verbose_option,
)

__all__ = ["export"]


@click.command(short_help="Write a corpus as Parquet, CSV or a matrix.")
@click.argument("corpus", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, help="Directory to publish the tables as.")
@click.option("--format", type=click.Choice(["parquet", "csv", "matrix"]), default="parquet",
              show_default=True, help="What to write.")  # fmt: skip
@jobs_option
@click.option("--overwrite", is_flag=True, help="Replace an export that is there.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@verbose_option
def export(corpus: str, output: str, quiet: bool, **options: Any) -> None:
    """Write CORPUS as tables. OUTPUT appears whole or not at all, with a README.md that says what the columns mean.

    \b
    Formats:
      parquet   typed, nested columns, the same in all files, with a card for the
                Hugging Face hub; no value is lost or changed
                (needs: pip install 'fastrec[parquet]')
      csv       one flat table: ids, score, correctness, tokens, latency, error
      matrix    models × samples as CSV: scores, correctness

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or CORPUS is no corpus
      3     not done, nothing published

    \b
    Examples:
      fastrec export corpus -o tables
      fastrec export corpus -o flat --format csv
      fastrec export corpus -o matrix --format matrix
    """
    from fastrec.commands.export import export as run

    with using(corpus):
        done = run(corpus, output, **options)
    if quiet:
        return
    with reader_may_leave():
        for notice in done.notices:
            print_notice(notice)
        click.echo(
            f"{counted(done.rows, 'record')}: {counted(done.files, 'file')} in {safe(output)}, "
            f"{megabytes(done.text_bytes)} → {megabytes(done.bytes)} {pace(done.text_bytes, done.seconds)}",
            err=True,
        )
