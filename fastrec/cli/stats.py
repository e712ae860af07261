"""`fastrec stats`."""

from __future__ import annotations

from typing import Any

import click

from fastrec.cli.console import (
    ask_for_input,
    jobs_option,
    no_progress_option,
    print_json,
    print_notice,
    reader_may_leave,
    using,
    verbose_option,
)

__all__ = ["stats"]

_RANKINGS = ["accuracy", "score", "coverage", "errors", "tokens", "latency", "model"]


@click.command(short_help="Compare the models of each evaluation.")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--by", type=click.Choice(_RANKINGS), default="accuracy", show_default=True,
              help="What to rank models by, the best first: few tokens per record, a low median latency.")  # fmt: skip
@click.option("--evaluation", "evaluations", multiple=True, metavar="PATTERN",
              help="Only evaluations whose name matches, as 'mmlu*'; may be repeated.")  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="PATTERN",
              help="Only models whose id matches, as 'org/*'; may be repeated.")  # fmt: skip
@click.option("--common", is_flag=True, help="Count only samples that all of these models answered.")
@click.option("--format", "output_format", type=click.Choice(["table", "json", "csv", "markdown"]), default="table",
              show_default=True, help="For people, for programs, or for a document.")  # fmt: skip
@jobs_option
@click.option("--work-dir", type=click.Path(file_okay=False), envvar="FASTREC_WORK_DIR",
              show_envvar=True, help="Where to put temporary files, if shards are read.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print the statistics and errors only.")
@no_progress_option
@verbose_option
def stats(paths: tuple[str, ...], output_format: str, quiet: bool, no_progress: bool, **options: Any) -> None:
    """Compare the models of each evaluation: accuracy, score, errors, tokens, latency, coverage.

    PATHS are a corpus that `fastrec normalize` made, whose summary is there at once; or any shards, which are read and
    sorted so that copies count once, and nothing is published. Each model is given with n, the number of its records,
    and its coverage, the share of the evaluation's samples that it answered. Models that answered different samples
    are not comparable: --common counts those alone that all of them answered.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or nothing of the names given is there
      3     something could not be read

    \b
    Examples:
      fastrec stats corpus
      fastrec stats corpus --common --model 'org/*' --model other/model
      fastrec stats runs/ --by latency --format csv > models.csv
    """
    from fastrec.cli.limits import cap_memory
    from fastrec.cli.progress import make_progress
    from fastrec.cli.tables import csv_of, markdown_of, print_stats
    from fastrec.commands.stats import stats as run

    cap_memory(options["jobs"])
    ask_for_input(paths)
    with make_progress(quiet=quiet or no_progress) as progress, using(*paths or ("",)):
        found = run(paths, **options, progress=progress, notice=None if quiet else print_notice)
    with reader_may_leave():
        if output_format == "json":
            print_json(found)
        elif output_format == "csv":
            click.echo(csv_of(found), nl=False)
        elif output_format == "markdown":
            click.echo("\n".join(markdown_of(found)))
        elif found.evaluations:
            print_stats(found)
        else:
            click.echo("there are no records")
