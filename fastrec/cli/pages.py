"""Commands that make pages for a browser: `report` and `view`."""

from __future__ import annotations

import os
import sys
from io import BytesIO
from typing import Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, format_bytes, print_exactly, print_notice
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


@command("Look at questions and answers in a browser.", ok="ended with Ctrl-C",
         usage="the command line is wrong, or CORPUS is not a corpus", failure="a part could not be read",
         interrupted="interrupted while the index was built")  # fmt: skip
@shared("corpus")
@option("--port", "Port to listen on.", type=Count(min=0, max=65535), default=0, show_default="a free one")
@flag("--no-browser", "Print the address, but do not open a browser.")
@option("--labels", "Show a button on each answer that was judged wrongly: it adds a line to this file, for `fastrec "
        "normalize --labels`.", metavar="FILE", type=click.Path())  # fmt: skip
@shared("primary", "lower_is_better", "run")
def view(corpus: str, no_browser: bool, no_progress: bool, **options: Any) -> None:
    """Show CORPUS on a local web page: questions, the answers of all models side by side, and whole transcripts.

    The first start builds an index, and keeps it in the cache directory (FASTREC_CACHE, by default ~/.cache/fastrec).
    Only this machine can reach the page, and only with the address that is printed. Press ? on a page for its keys, and
    Ctrl-C here to end.

    \b
    Needs: pip install starlette uvicorn markdown-it-py

    \b
    Examples:
      fastrec view corpus
      fastrec view corpus --no-browser --port 8000
      fastrec view corpus --labels labels.jsonl
      fastrec view s3://bucket/corpus
    """
    from fastrec.commands.view import view as run

    with make_progress("index", quiet=no_progress) as progress, explain_damage(corpus):
        opened = run(corpus, **options, progress=progress)
    with opened:
        with allow_broken_pipe():
            click.echo(opened.address)
            sys.stdout.flush()
        if not no_browser:
            _open_browser(opened.address)
        try:
            opened.serve()
        except KeyboardInterrupt:
            print_notice("ended")


def _open_browser(address: str) -> None:
    """Open a browser if there is a display: a text browser would take over this terminal."""
    import threading
    import webbrowser

    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        print_notice("no display found: open the address in a browser, for example through an SSH tunnel")
        return
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
