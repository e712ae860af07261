"""`fastrec view`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, print_notice
from fastrec.cli.options import Count, command, flag, option, shared
from fastrec.cli.progress import make_progress


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
