"""The command line: the only place that prints or exits. Each command is thin and imports its job when it runs."""

from __future__ import annotations

import io
import os
import signal
import sys

import click

from fastrec import __version__
from fastrec.cli.console import print_error, reader_may_leave, safe
from fastrec.cli.diff import diff
from fastrec.cli.generate import generate
from fastrec.cli.normalize import normalize
from fastrec.cli.rejects import rejects
from fastrec.cli.schema import schema
from fastrec.cli.validate import validate
from fastrec.cli.verify import verify
from fastrec.errors import FastrecError, shown

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fastrec")
def cli() -> None:
    """Turn piles of compressed JSONL evaluation records into one clean, sorted, comparable corpus.

    \b
    Examples:
      fastrec normalize runs/ -o corpus         make one clean, sorted corpus of a pile of shards
      fastrec verify corpus                     check a corpus that was made before
      fastrec rejects corpus                    list what was rejected, and why
      fastrec diff old-corpus corpus            say what changed, and which models regressed
      fastrec validate runs/                    check every record below a directory
      fastrec validate 'runs/**/*.jsonl.zst'    or those that a quoted pattern matches
      zcat old.gz | fastrec validate -          or standard input
      fastrec schema                            print the schema of a record
      fastrec generate -n 10000 -o corpus/      make a synthetic corpus to try things on
    """


for command in (normalize, verify, rejects, diff, validate, schema, generate):
    cli.add_command(command)


def main() -> None:
    """Run the command line; every error of ours ends in a message and its exit code, here and nowhere else."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an old terminal cannot show all that we print
    try:
        code = cli(standalone_mode=False) or 0
    except click.ClickException as exc:
        code = _explain(exc)
    except (click.Abort, KeyboardInterrupt):
        code = _fail(130, "interrupted")
    except FastrecError as exc:
        code = _fail(exc.exit_code, str(exc))
    except OSError as exc:
        place = f"{shown(os.fsdecode(exc.filename))}: " if isinstance(exc.filename, (str, bytes)) else ""
        code = _fail(3, f"{place}{exc.strerror or exc}")
    sys.exit(code)


def _fail(code: int, problem: str) -> int:
    with reader_may_leave():
        print_error(problem)
    return code


def _explain(exc: click.ClickException) -> int:
    """Say what is wrong with the command line in click's words, usage and hints included, but nothing raw."""
    text = io.StringIO()
    exc.show(text)
    with reader_may_leave():
        for line in text.getvalue().rstrip("\n").split("\n"):
            click.echo(safe(line), err=True)
    return 2


def _terminate(signum: int, _frame: object) -> None:
    sys.exit(128 + signum)  # through every `finally` and `with`: no scratch files and no workers stay behind
