"""`fastrec report`."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, format_bytes, print_exactly
from fastrec.cli.options import (
    Count,
    accuracy_option,
    command,
    errors_as_wrong_option,
    filter_options,
    given_filters,
    group_by_option,
    lower_is_better_option,
    metrics_option,
    min_coverage_option,
    prepare_reading,
    primary_option,
    repeats_as_option,
    run_options,
)
from fastrec.cli.progress import make_progress
from fastrec.errors import shown


@command("Show a corpus on one HTML page.")
@click.argument("corpus", type=click.Path())
@click.option("-o", "--output", type=click.Path(allow_dash=True), metavar="FILE", required=True,
              help="File to write, such as report.html; - for stdout.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@accuracy_option
@errors_as_wrong_option
@repeats_as_option
@click.option("--confidence", metavar="FIELD",
              help="Draw how often answers are right against their confidence, a field or a metric.")  # fmt: skip
@click.option("--questions", type=Count(min=0), default=20, show_default=True, metavar="N",
              help="Show this many of the hardest and most disputed questions, with answers; 0 for none.")  # fmt: skip
@click.option("--trend", type=click.Path(), multiple=True, metavar="PATH",
              help="Draw the results of models over these corpora; a directory stands for the corpora in it. May be "
                   "repeated.")  # fmt: skip
@group_by_option
@metrics_option
@primary_option
@min_coverage_option
@lower_is_better_option
@filter_options
@run_options
def report(corpus: str, output: str, overwrite: bool, no_progress: bool, **options: Any) -> None:
    """Write an HTML page about CORPUS: results of models, questions with answers, line counts, hashes, rejected lines.

    The page is one self-contained file: it can be mailed, put on any server, and opened offline. Its tables can be
    sorted and searched. It depends on the corpora alone, and is written atomically. Questions come from the index of
    the corpus, which is built once and kept in the cache directory (FASTREC_CACHE, by default ~/.cache/fastrec).

    \b
    Exit codes:
      0     done
      2     the command line is wrong, CORPUS is not a corpus, OUTPUT exists, or
            no record matches the filters
      3     something could not be read or written

    \b
    Examples:
      fastrec report corpus -o report.html
      fastrec report nights/2026-11-17 -o night.html --trend nights/
      fastrec report corpus -o subjects.html --group-by metadata.subject
      fastrec report corpus -o - | gzip > report.html.gz
      fastrec report corpus -o ours.html --model 'org/*' --exclude-model org/old
    """
    from fastrec.commands.report import report as run

    prepare_reading(options["jobs"])
    stages = ("sort", "merge", "index") if given_filters(options) or options["group_by"] else ("index",)
    with make_progress(*stages, quiet=no_progress) as progress, explain_damage(corpus, *options["trend"]):
        page = BytesIO()
        size = run(corpus, page if output == "-" else output, overwrite=overwrite, **options, progress=progress)
    with allow_broken_pipe():
        if output == "-":
            print_exactly(page.getvalue())
        else:
            click.echo(f"{shown(output)}: {format_bytes(size)}", err=True)
