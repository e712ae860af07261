"""`fastrec cat`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, print_notice
from fastrec.cli.options import Count, command, jobs_option
from fastrec.errors import FastrecError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["cat"]

_MOST_NAMES = 10  # in a message


@command("Print the records of a corpus, or some of them.")
@click.argument("corpus", type=click.Path())
@click.option("--evaluation", multiple=True, metavar="NAME",
              help="Only records with this evaluation_name; may be repeated, for any of them.")  # fmt: skip
@click.option("--metric", multiple=True, metavar="ID",
              help="Only records with this evaluation_result_id; may be repeated.")  # fmt: skip
@click.option("--model", multiple=True, metavar="ID", help="Only records with this model_id; may be repeated.")
@click.option("--sample-id", multiple=True, metavar="ID",
              help='Only records with this sample_id; 5 matches the integer 5 and the string "5"; may be '
              "repeated.")  # fmt: skip
@click.option("--hash", multiple=True, metavar="HASH",
              help="Only records with this sample_hash: all answers to one question; may be repeated.")  # fmt: skip
@click.option("--where-error", is_flag=True, help="Only records with a non-empty error.")
@click.option("--limit", type=Count(min=1), metavar="N", help="Print at most N records.")
@click.option("--source", is_flag=True,
              help='Print where each record comes from, too: {"source": …, "line": …, "record": {…}}. The corpus needs '
              "`normalize --track-sources`.")  # fmt: skip
@jobs_option
def cat(corpus: str, limit: int | None, source: bool, jobs: int, **filters: Any) -> None:
    """Print the records of CORPUS in its order, byte for byte: all records, or only those that match every filter.

    The manifest tells which parts can contain a match. A filter on the first sort fields (the evaluation, then the
    hash) reads only a few parts; a filter on a model or a sample_id reads all of them.

    \b
    Exit codes:
      0     done, also if no record matches
      2     the command line is wrong, or CORPUS is not a corpus
      3     a part could not be read

    \b
    Examples:
      fastrec cat corpus --evaluation GSM8K --limit 10 | jq .output.raw
      fastrec cat corpus --sample-id 5 | jq -c '[.model_id, .evaluation.score]'
      fastrec cat corpus --model org/a --model org/b --where-error | jq -r .error
      fastrec cat corpus --source --where-error | jq -r '[.source, .line] | @tsv'
    """
    from fastrec.commands.cat import Selection, cat_blocks
    from fastrec.corpus.documents import read_manifest, read_summary

    found = False
    with allow_broken_pipe(), explain_damage(corpus):
        for block in cat_blocks(corpus, Selection(**filters), limit=limit, source=source, jobs=jobs):
            click.echo(block, nl=False)
            found = True
        if not found:
            hint = ""
            with contextlib.suppress(FastrecError):  # the records were read, so a damaged summary is no error here
                scopes = read_summary(corpus, read_manifest(corpus)).evaluations
                hint = f"; evaluations in this corpus: {_some(one.evaluation_name for one in scopes)}"
                if filters["metric"]:
                    hint += f"; metrics: {_some(one.metric for one in scopes if one.metric is not None)}"
            print_notice(f"no record matches{hint}")


def _some(names: Iterable[str]) -> str:
    """The first few different names, for a message."""
    different = list(dict.fromkeys(names))
    more = ", …" if len(different) > _MOST_NAMES else ""
    return (", ".join(different[:_MOST_NAMES]) or "none") + more
