"""`fastrec generate`."""

from __future__ import annotations

import click

from fastrec.cli.console import counted, megabytes, say, verbose_option

__all__ = ["generate"]

_share = click.FloatRange(0, 1)


@click.command
@click.option("-n", "--records", type=click.IntRange(min=0), default=10_000, show_default=True, help="How many lines.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same text everywhere.")
@click.option(
    "-o", "--output", type=click.Path(), required=True, help="Directory to write the shards to; must be empty."
)
@click.option("--shards", type=click.IntRange(min=1), default=8, show_default=True, help="How many files.")
@click.option(
    "--compression",
    type=click.Choice(["zst", "gz", "none", "mixed"]),
    default="zst",
    show_default=True,
    help="How the files are compressed.",
)
@click.option("--mix", type=click.Choice(["mixed", "single_turn", "agentic"]), default="mixed", show_default=True,
              help="Which interaction types.")  # fmt: skip
@click.option("--duplicates", type=_share, default=0.0, help="Share of lines that repeat a record.")
@click.option("--conflicts", type=_share, default=0.0, help="Share of lines with another's identity and other content.")
@click.option("--unknown-keys", type=_share, default=0.0, help="Share of records with keys the schema does not name.")
@click.option("--rejects", type=_share, default=0.0, help="Share of lines that are not valid, of every code.")
@click.option("--blanks", type=_share, default=0.0, help="Share of blank lines.")
@click.option("--warnings", type=_share, default=0.0, help="Share of records with something to warn about.")
@verbose_option
def generate(output: str, **options: object) -> None:
    """Make a synthetic corpus: many models that answer the same questions, in every spelling.

    \b
    Example:
      fastrec generate -n 100000 --seed 7 -o corpus/ --duplicates 0.1 --rejects 0.01
    """
    from fastrec.jobs.generate import generate as run

    made = run(output, **options)  # type: ignore[arg-type]
    say(
        f"{counted(made.lines, 'line')} in {counted(len(made.paths), 'shard')}: "
        f"{megabytes(made.text_bytes)} of text, {megabytes(made.file_bytes)} on disk"
    )
