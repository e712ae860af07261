"""`fastrec cat`."""

from __future__ import annotations

import sys
from typing import Any

import click

from fastrec.cli.console import Count, jobs_option, print_notice, reader_may_leave, using, verbose_option
from fastrec.errors import shown

__all__ = ["cat"]


@click.command(short_help="Print the records of a corpus, or some of them.")
@click.argument("corpus", type=click.Path())
@click.option("--evaluation", metavar="NAME", help="Only records of this evaluation_name.")
@click.option("--model", metavar="ID", help="Only records of this model_id.")
@click.option("--sample-id", metavar="ID", help="Only records of this sample_id: 5 is the integer 5 and the string "
              '"5" alike.')  # fmt: skip
@click.option("--hash", metavar="HASH", help="Only records of this sample_hash: the answers to one question.")
@click.option("--where-error", is_flag=True, help="Only records with an error that is not empty.")
@click.option("--limit", type=Count(min=1), metavar="N", help="At most N records.")
@jobs_option
@verbose_option
def cat(corpus: str, limit: int | None, jobs: int, **asked: Any) -> None:
    """Print the records of CORPUS in their order, byte for byte: all, or those of which all that is asked is true.

    The keys in the manifest tell which parts to open: what the corpus is sorted by first (the evaluation, then the
    hash) is found in a moment; for a model or a sample_id every part is searched.

    \b
    Exit codes:
      0     done, found or not
      2     the command line is wrong, or CORPUS is no corpus
      3     a part could not be read

    \b
    Examples:
      fastrec cat corpus --evaluation GSM8K --limit 10 | jq .output.raw
      fastrec cat corpus --sample-id 5 | jq -c '[.model_id, .evaluation.score]'
      fastrec cat corpus --model org/model --where-error | jq -r .error
    """
    from fastrec.commands.cat import Selection, cat_blocks

    found = False
    with reader_may_leave(), using(corpus):
        stdout = sys.stdout.buffer
        for block in cat_blocks(corpus, Selection(**asked), limit=limit, jobs=jobs):
            stdout.write(block)
            found = True
        stdout.flush()
        if not found:
            print_notice(f"no record is like that; `fastrec stats {shown(corpus)}` lists evaluations and models")
