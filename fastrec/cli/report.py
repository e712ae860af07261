"""`fastrec report`."""

from __future__ import annotations

import sys

import click

from fastrec.cli.console import megabytes, reader_may_leave, using, verbose_option
from fastrec.errors import shown

__all__ = ["report"]

_STDOUT = "-"


@click.command(short_help="Show a corpus on one HTML page.")
@click.argument("corpus", type=click.Path())
@click.option("-o", "--output", type=click.Path(allow_dash=True), metavar="FILE", required=True,
              help="The file to write, such as report.html; - for stdout.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
@verbose_option
def report(corpus: str, output: str, overwrite: bool) -> None:
    """Write one HTML page that shows CORPUS: books, rejects, models on evaluations, conflicts, hashes.

    The page needs nothing but itself: it can be mailed, put on any server, and opened without a network. Its tables
    sort and can be searched. It depends on the corpus alone, and appears whole or not at all.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, CORPUS is no corpus, or OUTPUT exists
      3     something could not be read or written

    \b
    Examples:
      fastrec report corpus -o report.html
      fastrec report corpus -o - | gzip > report.html.gz
    """
    if output == _STDOUT:
        from fastrec.commands.report import make_page

        with using(corpus):
            page = make_page(corpus)
        with reader_may_leave():
            sys.stdout.buffer.write(page)
            sys.stdout.buffer.flush()
        return
    from fastrec.commands.report import write_report

    with using(corpus):
        size = write_report(corpus, output, overwrite=overwrite)
    with reader_may_leave():
        click.echo(f"{shown(output)}: {megabytes(size)}", err=True)
