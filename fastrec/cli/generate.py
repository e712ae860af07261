"""`fastrec generate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fastrec.cli.console import Count, Number, counted, megabytes, say, verbose_option

__all__ = ["generate"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _share(name: str, what: str) -> Callable[[_Command], _Command]:
    """Make the option for a share of something."""
    return click.option(name, type=Number(0, 1), metavar="SHARE", default=0.0, show_default=True,
                        help=f"Share of {what}.")  # fmt: skip


@click.command(short_help="Make synthetic shards to try things on.")
@click.option("-n", "--records", type=Count(min=0), metavar="N", default=10_000, show_default=True,
              help="How many lines.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same text everywhere.")
@click.option(
    "-o", "--output", type=click.Path(), required=True, help="Directory to write the shards to; must be empty."
)
@click.option("--shards", type=Count(min=1), metavar="N", default=8, show_default=True, help="How many files.")
@click.option(
    "--compression",
    type=click.Choice(["zst", "gz", "none", "mixed"]),
    default="zst",
    show_default=True,
    help="How the files are compressed.",
)
@click.option("--mix", type=click.Choice(["mixed", "single_turn", "agentic"]), default="mixed", show_default=True,
              help="Which interaction types.")  # fmt: skip
@_share("--duplicates", "lines that repeat a record")
@_share("--conflicts", "lines with another's identity and other content")
@_share("--unknown-keys", "records with keys the schema does not name")
@_share("--rejects", "lines that are not valid, of every code")
@_share("--blanks", "blank lines")
@_share("--warnings", "records with something to warn about")
@verbose_option
def generate(output: str, **options: object) -> None:
    """Make synthetic shards to try things on: many models that answer the same questions, in every spelling.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or OUTPUT is not empty
      3     not done: something could not be written

    \b
    Examples:
      fastrec generate -n 5000 -o runs/
      fastrec generate -n 5000 -o messy/ --duplicates 0.1 --rejects 0.01
    """
    from fastrec.commands.generate import generate as run

    made = run(output, **options)  # type: ignore[arg-type]
    say(
        f"{counted(made.lines, 'line')} in {counted(len(made.paths), 'shard')}: "
        f"{megabytes(made.text_bytes)} of text, {megabytes(made.file_bytes)} on disk"
    )
