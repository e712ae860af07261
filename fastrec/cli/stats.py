"""`fastrec stats`."""

from __future__ import annotations

from typing import Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, make_progress, print_json, print_notice
from fastrec.cli.options import choice_option, command, jobs_option, no_progress_option, prepare_reading

__all__ = ["stats"]

_RANKINGS = ["accuracy", "score", "coverage", "errors", "tokens", "latency", "model"]


@command("Compare the models of each evaluation.")
@click.argument("paths", nargs=-1, type=click.Path())
@choice_option("--by", _RANKINGS, "Rank models by this, best first; tokens are per record, latency is the median.")
@click.option("--evaluation", "evaluations", multiple=True, metavar="PATTERN",
              help="Only evaluations whose name matches, for example 'mmlu*'; may be repeated.")  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="PATTERN",
              help="Only models whose id matches, for example 'org/*'; may be repeated.")  # fmt: skip
@click.option("--common", is_flag=True, help="Count only questions that all of these models answered.")
@choice_option("--format", ["table", "json", "csv", "markdown"], "Output format.", to="output_format")
@jobs_option
@click.option("--work-dir", type=click.Path(file_okay=False), envvar="FASTREC_WORK_DIR",
              show_envvar=True, help="Directory for temporary files, if PATHS are shards.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print only the statistics and errors.")
@no_progress_option
def stats(paths: tuple[str, ...], output_format: str, quiet: bool, no_progress: bool, **options: Any) -> None:
    """Compare the models of each evaluation: accuracy, score, errors, tokens, latency, coverage.

    PATHS are either one corpus that `fastrec normalize` published, whose summary has all the numbers, or any shards.
    Shards are read and sorted, so that duplicates count once; nothing is published. In the tables, n is the number of
    records of a model, and coverage is the share of the evaluation's questions that it answered. Models that answered
    different questions are not comparable; --common counts only the questions that all of them answered.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or a pattern matches nothing
      3     something could not be read

    \b
    Examples:
      fastrec stats corpus
      fastrec stats corpus --common --model 'org/*' --model other/model
      fastrec stats runs/ --by latency --format csv > models.csv
    """
    from fastrec.cli.model_tables import csv_of, markdown_of, print_stats
    from fastrec.commands.stats import stats as run

    prepare_reading(options["jobs"], paths)
    with make_progress(quiet=quiet or no_progress) as progress, explain_damage(*paths or ("",)):
        found = run(paths, **options, progress=progress, notice=None if quiet else print_notice)
    with allow_broken_pipe():
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
