"""`fastrec stats`."""

from __future__ import annotations

from typing import Any, Final

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    explain_damage,
    print_json,
    print_notice,
    print_warning,
)
from fastrec.cli.filters import filter_options
from fastrec.cli.options import (
    accuracy_option,
    choice_option,
    command,
    errors_as_wrong_option,
    jobs_option,
    no_progress_option,
    prepare_reading,
    raw_cells_option,
)
from fastrec.cli.progress import make_progress
from fastrec.cli.question_tables import csv_questions, markdown_questions, print_questions
from fastrec.cli.spelling import safe
from fastrec.cli.stats_tables import csv_table, markdown_item, markdown_tables, print_stats

__all__ = ["stats"]

_RANKINGS: Final = ["accuracy", "score", "coverage", "errors", "tokens", "latency", "model"]


@command("Compare the models of each evaluation and metric.")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--by", type=click.Choice(_RANKINGS), show_default="accuracy; score where scores are not only 0 and 1",
              help="Rank models by this, best first; tokens are per record, latency is the median.")  # fmt: skip
@filter_options
@accuracy_option
@click.option("--common", is_flag=True, help="Count only questions that all of these models answered.")
@click.option("--hashes", is_flag=True,
              help="Show how producers computed sample_hash, for each evaluation and model.")  # fmt: skip
@click.option("--joins", is_flag=True,
              help="Show how many questions models have in common, and what keeps the others apart.")  # fmt: skip
@errors_as_wrong_option
@choice_option("--format", ["table", "json", "csv", "markdown"], "Output format.", to="output_format")
@raw_cells_option
@jobs_option
@click.option("--work-dir", type=click.Path(file_okay=False), envvar="FASTREC_WORK_DIR",
              show_envvar=True, help="Directory for temporary files.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print only the statistics and errors.")
@no_progress_option
def stats(
    paths: tuple[str, ...], output_format: str, raw_cells: bool, quiet: bool, no_progress: bool, **options: Any
) -> None:
    """Compare the models of each evaluation and metric: accuracy, score, errors, tokens, latency, coverage.

    PATHS are either one corpus that `fastrec normalize` published, whose summary has all the numbers, or any shards.
    Shards are read and sorted, so that duplicates count once; nothing is published.

    An answer is a record without an error. Accuracy and score are means over questions: a model with several answers to
    a question counts with their mean. In the tables, n is the number of questions that a model answered, and coverage
    is their share of the evaluation's questions. Models that answered different questions are not comparable; --common
    counts only the questions that all models with answers have answered.

    A metric is an evaluation_result_id. Each metric has its own table. If a metric has scores other than 0 and 1, its
    table shows the mean score and its interval instead of the accuracy, and models are ranked by score.

    Filters by name choose rows of these tables; the numbers in a row stay the same. With --sample-id, --hash, --right,
    --wrong or --errors, all numbers are those of the matching records alone.

    --hashes and --joins show other tables instead. --joins reads the whole corpus. Models were asked the same question
    if the sample_hash is the same. If only the sample_id is the same, it shows what differs: the prompt (input.raw),
    the reference, or only white space.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or a pattern matches nothing
      3     something could not be read

    \b
    Examples:
      fastrec stats corpus
      fastrec stats new-corpus --metric acc --metric 'rouge*'
      fastrec stats corpus --common --model 'org/*' --model other/model
      fastrec stats corpus --joins --evaluation GSM8K
      fastrec stats runs/ --by latency --format csv > models.csv
    """
    from fastrec.commands.stats import stats as run
    from fastrec.corpus.manifest import skipped_lines

    about_questions = options["hashes"] or options["joins"]
    if options["hashes"] and options["joins"] and output_format == "csv":
        raise click.UsageError("a CSV table has either hashes or joins: choose one of --hashes and --joins")
    prepare_reading(options["jobs"], paths)
    stages = ("sort", "merge", "count") if options["common"] or options["joins"] else ("sort", "merge")
    with make_progress(*stages, quiet=quiet or no_progress) as progress, explain_damage(*paths or ("",)):
        found = run(paths, **options, progress=progress, notice=None if quiet else print_notice)
    with allow_broken_pipe():
        missing = skipped_lines(found.skipped)
        if missing and output_format in ("table", "markdown"):
            spell = safe if output_format == "table" else markdown_item
            click.echo("\n".join([*map(spell, missing), ""]))
        elif not quiet:
            print_warning(missing)
        if output_format == "json":
            print_json(found)
        elif output_format == "csv" and about_questions:
            click.echo(csv_questions(found, raw_cells=raw_cells), nl=False)
        elif output_format == "csv":
            click.echo(csv_table(found, raw_cells=raw_cells), nl=False)
        elif output_format == "markdown":
            click.echo("\n".join(markdown_questions(found) if about_questions else markdown_tables(found)))
        elif found.evaluations and about_questions:
            print_questions(found)
        elif found.evaluations:
            print_stats(found)
        else:
            click.echo("there are no records")
