"""`fastrec report`."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, format_bytes, print_exactly
from fastrec.cli.options import Count, command, flag, given_filters, option, prepare_reading, shared
from fastrec.cli.progress import make_progress
from fastrec.errors import shown


@command("Show a corpus on one HTML page.",
         usage="the command line is wrong, CORPUS is not a corpus, OUTPUT exists, or no record matches the filters",
         failure="something could not be read or written")  # fmt: skip
@shared("corpus")
@option("-o --output", "File to write, such as report.html; - for stdout.",
        type=click.Path(allow_dash=True), metavar="FILE", required=True)  # fmt: skip
@flag("--overwrite", "Replace an existing file.")
@shared("accuracy", "errors_as_wrong", "repeats_as")
@option("--confidence", "Draw how often answers are right against their confidence, a field or a metric.",
        metavar="FIELD")  # fmt: skip
@shared("prices")
@option("--questions", "Show this many of the hardest and most disputed questions, with answers; 0 for none.",
        type=Count(min=0), default=20, metavar="N")  # fmt: skip
@option("--trend", "Draw the results of models over these corpora; a directory stands for the corpora in it. May be "
        "repeated.", type=click.Path(), multiple=True, metavar="PATH")  # fmt: skip
@shared("group_by", "metrics", "primary", "min_coverage", "lower_is_better", "filters", "run")
def report(corpus: str, output: str, overwrite: bool, no_progress: bool, **options: Any) -> None:
    """Write an HTML page about CORPUS: results of models, questions with answers, line counts, hashes, rejected lines.

    The page is one self-contained file: it can be mailed, put on any server, and opened offline. Its tables can be
    sorted and searched. It depends on the corpora alone, and is written atomically. Questions come from the index of
    the corpus, which is built once and kept in the cache directory (FASTREC_CACHE, by default ~/.cache/fastrec).

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
