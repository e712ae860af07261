"""`fastrec cat`."""

from __future__ import annotations

import contextlib
from typing import Any

from fastrec.cli.console import allow_broken_pipe, explain_damage, print_exactly, print_notice
from fastrec.cli.options import Count, command, flag, option, shared
from fastrec.errors import FastrecError, listed


@command("Print the records of a corpus, or some of them.", ok="done, also if no record matches",
         usage="the command line is wrong, or CORPUS is not a corpus", failure="a part could not be read")  # fmt: skip
@shared("corpus", "filters")
@option("--limit", "Print at most N records.", type=Count(min=1), metavar="N")
@flag("--source", 'Print where each record comes from, too: {"source": …, "line": …, "record": {…}}. The corpus needs '
      "`normalize --track-sources`.")  # fmt: skip
@shared("jobs")
def cat(corpus: str, limit: int | None, source: bool, jobs: int, **options: Any) -> None:
    """Print the records of CORPUS in its order, byte for byte: all records, or only those that match every filter.

    The manifest tells which parts can contain a match. A filter on the first sort fields (the evaluation, then the
    hash) reads only a few parts; other filters read all of them. On a terminal, characters that could control it are
    printed as JSON escapes.

    \b
    Examples:
      fastrec cat corpus --evaluation GSM8K --limit 10 | jq .output.raw
      fastrec cat corpus --sample-id 5 | jq -c '[.model_id, .evaluation.score]'
      fastrec cat corpus --model org/a --model org/b --errors | jq -r .error
      fastrec cat corpus --source --errors | jq -r '[.source, .line] | @tsv'
    """
    from fastrec.commands.cat import cat_blocks
    from fastrec.corpus.manifest import read_manifest, read_summary
    from fastrec.filters import did_you_mean, make_filters, similar
    from fastrec.summary.present_choice import names_of

    found, filters = False, make_filters(**options)
    with allow_broken_pipe(), explain_damage(corpus):
        for block in cat_blocks(corpus, filters, limit=limit, source=source, jobs=jobs):
            print_exactly(block)
            found = True
        if not found:
            hint = ""
            with contextlib.suppress(FastrecError):  # the records were read, so a damaged summary is no error here
                names = names_of(read_summary(corpus, read_manifest(corpus)).evaluations)
                like = similar(filters.evaluation, names.evaluations) + similar(filters.metric, names.metrics)
                hint = did_you_mean([*like, *similar(filters.model, names.models)])
                hint += f"; evaluations in this corpus: {listed(names.evaluations) or 'none'}"
                if filters.metric:
                    hint += f"; metrics: {listed([name for name in names.metrics if name]) or 'none'}"
                if filters.model or filters.exclude_model:
                    hint += f"; models: {listed(sorted(names.models)) or 'none'}"
            print_notice(f"no record matches{hint}")
