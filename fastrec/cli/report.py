"""`fastrec report`."""

from __future__ import annotations

from typing import Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage
from fastrec.cli.filters import filter_options
from fastrec.cli.options import accuracy_option, command, errors_as_wrong_option, jobs_option
from fastrec.cli.spelling import spell_bytes
from fastrec.errors import shown

__all__ = ["report"]


@command("Show a corpus on one HTML page.")
@click.argument("corpus", type=click.Path())
@click.option("-o", "--output", type=click.Path(allow_dash=True), metavar="FILE", required=True,
              help="File to write, such as report.html; - for stdout.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@accuracy_option
@errors_as_wrong_option
@filter_options
@jobs_option
def report(corpus: str, output: str, overwrite: bool, **options: Any) -> None:
    """Write an HTML page about CORPUS: line counts, versions, models and evaluations, repeats, hashes, rejected lines.

    The page is one self-contained file: it can be mailed, put on any server, and opened offline. Its tables can be
    sorted and searched. It depends on the corpus alone, and is written atomically.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, CORPUS is not a corpus, OUTPUT exists, or
            no record matches the filters
      3     something could not be read or written

    \b
    Examples:
      fastrec report corpus -o report.html
      fastrec report corpus -o - | gzip > report.html.gz
      fastrec report corpus -o ours.html --model 'org/*' --exclude-model org/old
    """
    from fastrec.commands.report import make_page
    from fastrec.commands.report import report as run

    if output == "-":
        with explain_damage(corpus):
            page = make_page(corpus, **options)
        with allow_broken_pipe():
            click.echo(page, nl=False)
        return
    with explain_damage(corpus):
        size = run(corpus, output, overwrite=overwrite, **options)
    with allow_broken_pipe():
        click.echo(f"{shown(output)}: {spell_bytes(size)}", err=True)
