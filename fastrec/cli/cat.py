"""`fastrec cat`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, print_notice
from fastrec.cli.filters import filter_options, take_filters
from fastrec.cli.options import Count, command, jobs_option
from fastrec.errors import FastrecError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["cat"]

_MOST_NAMES = 10  # in a message


@command("Print the records of a corpus, or some of them.")
@click.argument("corpus", type=click.Path())
@filter_options
@click.option("--limit", type=Count(min=1), metavar="N", help="Print at most N records.")
@click.option("--source", is_flag=True,
              help='Print where each record comes from, too: {"source": …, "line": …, "record": {…}}. The corpus needs '
              "`normalize --track-sources`.")  # fmt: skip
@jobs_option
def cat(corpus: str, limit: int | None, source: bool, jobs: int, **options: Any) -> None:
    """Print the records of CORPUS in its order, byte for byte: all records, or only those that match every filter.

    The manifest tells which parts can contain a match. A filter on the first sort fields (the evaluation, then the
    hash) reads only a few parts; other filters read all of them.

    \b
    Exit codes:
      0     done, also if no record matches
      2     the command line is wrong, or CORPUS is not a corpus
      3     a part could not be read

    \b
    Examples:
      fastrec cat corpus --evaluation GSM8K --limit 10 | jq .output.raw
      fastrec cat corpus --sample-id 5 | jq -c '[.model_id, .evaluation.score]'
      fastrec cat corpus --model org/a --model org/b --errors | jq -r .error
      fastrec cat corpus --source --errors | jq -r '[.source, .line] | @tsv'
    """
    from fastrec.commands.cat import cat_blocks
    from fastrec.corpus.documents import read_manifest, read_summary

    found, filters = False, take_filters(options)
    with allow_broken_pipe(), explain_damage(corpus):
        for block in cat_blocks(corpus, filters, limit=limit, source=source, jobs=jobs):
            click.echo(block, nl=False)
            found = True
        if not found:
            hint = ""
            with contextlib.suppress(FastrecError):  # the records were read, so a damaged summary is no error here
                scopes = read_summary(corpus, read_manifest(corpus)).evaluations
                hint = f"; evaluations in this corpus: {_some(one.evaluation_name for one in scopes)}"
                if filters.metric:
                    hint += f"; metrics: {_some(one.metric for one in scopes if one.metric is not None)}"
                if filters.model or filters.exclude_model:
                    hint += f"; models: {_some(model.model_id for one in scopes for model in one.by_model)}"
            print_notice(f"no record matches{hint}")


def _some(names: Iterable[str]) -> str:
    """The first few different names, for a message."""
    different = list(dict.fromkeys(names))
    more = ", …" if len(different) > _MOST_NAMES else ""
    return (", ".join(different[:_MOST_NAMES]) or "none") + more
