"""`fastrec diff`."""

from __future__ import annotations

from typing import Any

import click

from fastrec.cli.console import allow_broken_pipe, explain_damage, print_json, print_notice, print_stderr
from fastrec.cli.diff_tables import markdown_of, outcome_of, print_tables
from fastrec.cli.filters import filter_options
from fastrec.cli.options import Count, Number, choice_option, command, jobs_option
from fastrec.cli.spelling import safe

__all__ = ["diff"]


class Percentage(Number):
    """A percentage, with or without its sign."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        text: Any = value.strip().removesuffix("%") if isinstance(value, str) else value
        return super().convert(text, param, ctx)


@command("Compare two corpora.")
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option("--by", metavar="FIELDS", default="evaluation_name,sample_hash,model_id,sample_id",
              show_default="evaluation_name, sample_hash, model_id, sample_id",
              help="Match records that have the same values in these comma-separated fields; and the same metric "
              "(evaluation_result_id), where they name one.")  # fmt: skip
@click.option("--fail-on", type=Number(min=0), metavar="POINTS",
              help="Exit 1 if a model lost more than this many percentage points (hundredths of a score) on an "
              "evaluation with p < --p, is missing, or could not be compared.")  # fmt: skip
@click.option("--p", type=Number(0, 1), metavar="P", default=0.05, show_default=True,
              help="Significance level.")  # fmt: skip
@choice_option("--p-adjust", ["bh", "none"], "Which p --fail-on uses: adjusted for the number of models by the method "
               "of Benjamini and Hochberg, or that of each model by itself.")  # fmt: skip
@click.option("--min-compared", type=Percentage(0, 100), metavar="PERCENT", default=95, show_default=True,
              help="With --fail-on, exit 1 if less than this percentage of the questions that a model answered in "
              "OLD could be compared.")  # fmt: skip
@click.option("--allow-missing", multiple=True, metavar="PATTERN",
              help="Models that may be missing or incomplete: a pattern of model ids, evaluation names, metrics, "
              "evaluation/model, or evaluation/metric/model. Can be repeated.")  # fmt: skip
@click.option("--errors-as-wrong", is_flag=True,
              help="Count a record with an error as a wrong answer, instead of as none.")  # fmt: skip
@click.option("--accuracy", is_flag=True,
              help="Compare the accuracy even where scores are other than 0 and 1.")  # fmt: skip
@click.option("--lower-is-better", multiple=True, metavar="PATTERN",
              help="Graded metrics whose lower scores are better, such as error rates: a pattern of metrics, "
              "evaluation names, or evaluation/metric. Can be repeated.")  # fmt: skip
@click.option("--examples", type=Count(min=0), metavar="N", show_default="10 in JSON, else 0",
              help="List this many flips per model, and this many records of each kind.")  # fmt: skip
@choice_option("--format", ["table", "json", "markdown"], "Output format; markdown suits a pull request.",
               to="output_format")  # fmt: skip
@filter_options
@jobs_option
def diff(old: str, new: str, by: str, examples: int | None, output_format: str, **options: Any) -> None:
    """Compare two corpora: records, fields, and how many questions were answered better or worse.

    OLD and NEW are directories that `fastrec normalize` published, with the same schema, sort order and hash. Records
    match if they have the same evaluation, question, model and sample_id. The run (evaluation_id) is ignored, because
    it is a new one every night. Several records of one question, such as trials, are compared by their mean. Each
    metric of an evaluation (evaluation_result_id) is compared by itself.

    Accuracies cover questions that both corpora answered; a record with an error is no answer. Graded metrics, which
    have scores other than 0 and 1, are compared by mean score; higher is better, unless --lower-is-better says
    otherwise. p is the p-value of the exact McNemar test, or of a sign-flip test or t-test over questions if some have
    several answers, or if scores are compared.

    Without --fail-on, the exit code is 0 whatever changed. With it, a model that NEW lacks or that could hardly be
    compared is a failure, too.

    \b
    Exit codes:
      0     no regression
      1     with --fail-on: a model regressed, is missing, or is incomplete
      2     the command line is wrong, these corpora cannot be compared, or no
            record of them matches the filters
      3     a corpus could not be read

    \b
    Examples:
      fastrec diff corpus-monday corpus-tuesday
      fastrec diff corpus-monday corpus-tuesday --fail-on 0.5 --p 0.01
      fastrec diff old-corpus corpus --fail-on 0.5 --allow-missing 'org/old-*'
      fastrec diff corpus-monday corpus-tuesday --format markdown > comment.md
      fastrec diff corpus-monday corpus-tuesday --format json | jq .counts
      fastrec diff corpus-monday corpus-tuesday --evaluation 'GSM*'
    """
    from fastrec.commands.diff import diff as run

    listed = 10 if examples is None and output_format == "json" else examples or 0
    with explain_damage(old, new):
        found = run(old, new, by=by, examples=listed, **options)
    with allow_broken_pipe():
        print_notice(*found.notices)
        if output_format == "json":
            print_json(found)
        elif output_format == "markdown":
            click.echo("\n".join(markdown_of(found)))
        else:
            print_tables(found)
    if found.failed:
        if output_format != "table":  # the output may go to a file, but the reason belongs into the log of a job
            print_stderr(": ".join(outcome_of(found, safe)))
        raise click.exceptions.Exit(1)
