"""`fastrec generate`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from fastrec.cli.console import format_bytes, print_stderr
from fastrec.cli.options import Count, Number, choice_option, command, option
from fastrec.errors import counted

_share = partial(option, type=Number(0, 1), metavar="SHARE", default=0.0)


@command("Make synthetic shards.", usage="the command line is wrong, or OUTPUT is not empty",
         failure="failed: something could not be written")  # fmt: skip
@option("-n --records", "Number of lines.", type=Count(min=0), metavar="N", default=10_000)
@option("--seed", "The same seed gives the same text everywhere.", type=int, default=0)
@option("-o --output", "Directory to write the shards to; must be empty.", type=click.Path(), required=True)
@option("--shards", "Number of files.", type=Count(min=1), metavar="N", default=8)
@choice_option("--compression", ["zst", "gz", "none", "mixed"], "Compression of the files.")
@choice_option("--mix", ["mixed", "single_turn", "agentic"], "Interaction types of the records.")
@choice_option("--text", ["evaluation", "words"], "Questions and answers that can be read, or long random words.")
@option("--schema", "Version of the records: 0.2.0, 0.2.0-released, 0.2.1, 0.3.0, or `mixed` for all of them. Records "
        "after 0.2.0 have several metrics and epochs, wrong labels, and hashes of all recipes.",
        metavar="VERSION", show_default="0.2.0")  # fmt: skip
@_share("--duplicates", "Share of lines that repeat a record.")
@_share("--conflicts", "Share of lines with the identity of another record and other content.")
@_share("--unknown-keys", "Share of records with keys that the schema does not name.")
@_share("--rejects", "Share of invalid lines, of every code in turn.")
@_share("--blanks", "Share of blank lines.")
@_share("--warnings", "Share of records with a warning, besides a wrong sample_hash in one record of a thousand.")
def generate(output: str, schema: str | None, **options: Any) -> None:
    """Make synthetic shards: many models that answer the same questions, in many JSON spellings.

    The questions are word problems, facts with choices, open questions, conversations and tasks for agents, in several
    languages. Large models answer more of them correctly.

    \b
    Examples:
      fastrec generate -n 2000 -o runs/
      fastrec generate -n 2000 -o messy/ --duplicates 0.1 --rejects 0.01
      fastrec generate -n 2000 -o new/ --schema 0.3.0
      fastrec generate -n 2000 -o all/ --schema mixed --rejects 0.1
    """
    from fastrec.commands.generate import generate as run

    if schema is not None:
        options["schema"] = schema
    made = run(output, **options)
    sizes = f"{format_bytes(made.text_bytes)} of text, {format_bytes(made.file_bytes)} on disk"
    print_stderr(f"{counted(made.lines, 'line')} in {counted(len(made.paths), 'shard')}: {sizes}")
