"""`fastrec trend`."""

from __future__ import annotations

from typing import Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, print_json, print_notice
from fastrec.cli.filters import name_filter_options
from fastrec.cli.options import (
    Number,
    choice_option,
    command,
    jobs_option,
    no_progress_option,
    prepare_reading,
    raw_cells_option,
)
from fastrec.cli.progress import make_progress
from fastrec.cli.trend_tables import csv_trend, print_trend

__all__ = ["trend"]


@command("Follow models over several corpora, such as nightly ones.")
@click.argument("corpora", nargs=-1, required=True, type=click.Path())
@name_filter_options
@click.option("--p", type=Number(min=0, max=1), default=0.05, show_default=True, metavar="P",
              help="Mark a change if its adjusted p-value is below this.")  # fmt: skip
@choice_option("--format", ["text", "json", "csv"], "Output format.", to="output_format")
@raw_cells_option
@jobs_option
@no_progress_option
def trend(corpora: tuple[str, ...], output_format: str, raw_cells: bool, no_progress: bool, **options: Any) -> None:
    """Follow the accuracy of each model over CORPORA, and mark the changes that are more than chance.

    CORPORA are directories or URLs that `fastrec normalize` published, the earliest first. A directory of such
    directories stands for all of them, in the order of their names.

    Each model is compared with the last earlier corpus in which it has answers, on the questions that it answered in
    both. The test is the exact McNemar test, or a sign-flip test or t-test over questions if some have several answers,
    or if scores are compared. p-values are adjusted for the number of comparisons (Benjamini and Hochberg). Graded
    metrics, which have scores other than 0 and 1, are followed by mean score.

    In the tables, ▲ and ▼ mark these changes. If there are many corpora, a table shows the first, the last, and those
    with changes; JSON and CSV have all. `fastrec diff` shows more about two corpora. `fastrec report --trend` draws
    the results.

    \b
    Exit codes:
      0     done, whatever changed
      2     the command line is wrong, or there is no corpus
      3     a corpus could not be read

    \b
    Examples:
      fastrec trend nights/
      fastrec trend corpus-monday corpus-tuesday --model 'org/*'
      fastrec trend nights/ --evaluation GSM8K --p 0.01
      fastrec trend nights/ --format csv > nights.csv
    """
    from fastrec.commands.trend import trend as run

    prepare_reading(options["jobs"])
    with make_progress("index", quiet=no_progress) as progress, explain_damage(*corpora):
        found = run(corpora, **options, progress=progress)
    with allow_broken_pipe():
        print_notice(*found.notices)
        if output_format == "json":
            print_json(found)
        elif output_format == "csv":
            click.echo(csv_trend(found, raw_cells=raw_cells), nl=False)
        else:
            print_trend(found)
