"""The command line: the only place that prints or exits. Each command is thin and imports its job when it runs."""

from __future__ import annotations

import sys

import click

from fastrec import __version__
from fastrec.cli.console import print_error
from fastrec.cli.generate import generate
from fastrec.cli.schema import schema
from fastrec.cli.validate import validate
from fastrec.errors import FastrecError

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="fastrec")
def cli() -> None:
    """Turn piles of compressed JSONL evaluation records into one clean, sorted, comparable corpus.

    \b
    Examples:
      fastrec validate runs/                    check every record below a directory
      fastrec validate 'runs/**/*.jsonl.zst'    or those that a quoted pattern matches
      zcat old.gz | fastrec validate -          or standard input
      fastrec schema                            print the schema of a record
      fastrec generate -n 10000 -o corpus/      make a synthetic corpus to try things on
    """


for command in (validate, schema, generate):
    cli.add_command(command)


def main() -> None:
    """Run the command line; every error of ours ends in a message and its exit code, here and nowhere else."""
    try:
        sys.exit(cli(standalone_mode=False) or 0)
    except click.ClickException as exc:
        exc.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        print_error("interrupted")
        sys.exit(130)
    except FastrecError as exc:
        print_error(str(exc))
        sys.exit(exc.exit_code)
    except BrokenPipeError:
        # Whoever read our output has had enough: no reason to complain, nor to try again when Python flushes.
        sys.stdout = None
        sys.exit(0)
