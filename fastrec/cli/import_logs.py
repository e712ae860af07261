"""`fastrec import`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    clip,
    print_error,
    print_json,
    print_notice,
    safe,
    terminal_width,
    width_of,
)
from fastrec.cli.options import choice_option, flag, option, prepare_reading, shared, together
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import Table, columns, print_table
from fastrec.errors import arguments, counted, listed, shown

if TYPE_CHECKING:
    from fastrec.commands.import_logs.document import Import


_MOST_ROWS = 20
_MOST_BAD = 20
_EXAMPLES = 3
_HARNESSES = ["auto", "lm-eval", "inspect", "helm", "lighteval", "alpaca-eval", "mt-bench", "openai-evals", "promptfoo"]


_TABLE_OPTIONS = {
    "evaluation": "Name of the evaluation, for a table without such a column.",
    "evaluation-column": "Column of a table with the name of the evaluation.",
    "model": "Name of the model, for a table without such a column.",
    "model-column": "Column with the model.",
    "id-column": "Column with the sample_id; default: by the question.",
    "input-column": "Column with the question.",
    "output-column": "Column with what the model said.",
    "reference-column": "Column with the correct answer.",
    "choices-column": "Column with the choices, as a list.",
    "correct-column": "Column with true or false, 1 or 0, yes or no.",
    "score-column": "Column with a score; several with commas.",
    "error-column": "Column that says what went wrong.",
    "run": "Name of the run; default: a hash of the table.",
}


@click.command(short_help="Turn logs of evaluation harnesses, or tables, into shards of records.")
@shared("paths")
@option("-o --output", "Directory for the shards. Replaces an earlier import there.", type=click.Path(), required=True,
        metavar="DIR")  # fmt: skip
@choice_option("--from from_", _HARNESSES, f"Harness whose logs are imported: {', '.join(_HARNESSES[1:])}; auto: "
               "recognise it by the content.", metavar="HARNESS")  # fmt: skip
@click.option("--metric", multiple=True, metavar="PATTERN",
              help="Import only metrics that match, like acc* or *:strict-match; may be repeated.")  # fmt: skip
@click.option("--metadata", default="all", show_default=True, metavar="all|none|NAME,...",
              help="Metadata of samples to keep. Values of more than 4,096 characters are cut, unless you name "
                   "their field.")  # fmt: skip
@option("--columns", "TOML file with the options of a table, as keys.", type=click.Path(dir_okay=False))
@flag("--guess", "Print the command for a table, and do nothing.")
@together(*(click.option(f"--{name}", default="", metavar="NAME", help=text) for name, text in _TABLE_OPTIONS.items()))
@shared("jobs")
@flag("--strict", "Exit 1 if the records do not reproduce the figures of a log.")
@flag("--skip-bad-logs", "Exit 0 even if some logs could not be imported.")
@choice_option("--format output_format", ["text", "json"], "Output format; json prints the account of all logs.")
@shared("no_progress")
@click.option("-v", "--verbose", count=True,
              help="Name all skipped files; with -vv, print a traceback for unexpected errors.")  # fmt: skip
def import_logs(
    paths: tuple[str, ...],
    *,
    strict: bool,
    skip_bad_logs: bool,
    output_format: str,
    no_progress: bool,
    verbose: int,
    guess: bool,
    **options: Any,
) -> None:
    """Turn logs of evaluation harnesses, or tables, into shards of records.

    Known are lm-eval, Inspect, HELM, lighteval, AlpacaEval, MT-Bench, OpenAI evals and promptfoo.

    PATHS are logs, directories of logs, quoted patterns or URLs. Files are recognised by their content. Each log
    becomes one shard of records, one record per sample, metric and repeat; import.json accounts for every sample.

    The means that a log states are computed again from its records. Those that differ are listed: something was lost
    or mixed up, in the log or by the import.

    With options that name columns, PATHS are tables: CSV, TSV, JSON Lines, JSON arrays of objects, or Parquet. A row
    is a sample, each column of scores a metric. Other columns become metadata. Rows that do not fit are listed.

    \b
    Exit codes:
      0     all logs are imported
      1     with --strict: a log states figures that its records do not reproduce
      2     the command line is wrong, or there are no logs
      3     a log was not imported (see --skip-bad-logs), or a shard not written

    \b
    Examples:
      fastrec import logs/ -o records
      fastrec import 'results/**/*_2026-*.json*' -o records
      fastrec import logs/ -o records --from inspect --metric 'includes*'
      fastrec import answers.csv -o records --guess
      fastrec normalize records -o corpus
    """
    from fastrec.commands.import_logs import guess_columns
    from fastrec.commands.import_logs import import_logs as run

    if guess:
        for line in guess_columns(paths, options["output"]):
            click.echo(line)
        return
    prepare_reading(options["jobs"])
    with make_progress("import", quiet=no_progress) as progress:
        result = run(paths, **options, progress=progress)
    with allow_broken_pipe():
        for bad in result.bad_logs[:_MOST_BAD]:
            print_error(f"{shown(bad.path)}: {bad.reason}")
        if len(result.bad_logs) > _MOST_BAD:
            where = "import.json lists them" if result.logs else "--format json lists them"
            print_error(f"{len(result.bad_logs) - _MOST_BAD:,} more logs could not be imported; {where}")
        if any(bad.path.endswith((".csv", ".tsv", ".parquet")) for bad in result.bad_logs) and not result.logs:
            print_notice("tables need options that name their columns: --guess proposes them")
        if output_format == "json":
            print_json(result)
        else:
            _print_skipped(result, paths, is_all=bool(verbose))
            _print_account(result)
            if result.logs:
                click.echo(f"next: fastrec normalize {arguments([options['output']])} -o corpus")
    if result.bad_logs and (not skip_bad_logs or not result.logs):
        raise click.exceptions.Exit(3)
    if strict and any(log.disagreements for log in result.logs):
        raise click.exceptions.Exit(1)


def _print_account(result: Import) -> None:
    for same, first in result.same_logs.items():
        print_notice(f"{shown(same)} has the same content as {shown(first)}: imported once")
    for log in result.logs:
        print_notice(*(f"{shown(log.log)}: {note}" for note in log.notes))
    rows = []
    for harness in dict.fromkeys(log.harness for log in result.logs):
        logs = [log for log in result.logs if log.harness == harness]
        compared = [one for log in logs for one in log.comparisons]
        agreeing = sum(one.agrees for one in compared)
        figures = f"{agreeing:,} of {len(compared):,}" if compared else "none stated"
        rows.append([harness, *(f"{number:,}" for number in (
            len(logs), sum(log.samples for log in logs), sum(log.records for log in logs),
            sum(log.errors for log in logs),
        )), figures])  # fmt: skip
    if rows:
        names = ["harness", "logs", "samples", "records", "with error", "figures reproduced"]
        print_table(Table(columns(names), rows))
    left_out = Counter[str]()
    for log in result.logs:
        left_out.update(log.left_out)
    for reason, count in list(left_out.items())[:_MOST_ROWS]:
        print_notice(f"{counted(count, 'sample')} left out: {safe(reason)}")
    if len(left_out) > _MOST_ROWS:
        more = sum(left_out.values()) - sum(list(left_out.values())[:_MOST_ROWS])
        print_notice(f"{counted(more, 'more sample')} left out: import.json says why")
    _print_fields(result)
    rows = [
        [safe(shown(log.log)), safe(one.name)]
        + ["none" if number is None else f"{number:.6g}" for number in (one.stated, one.recomputed)]
        for log in result.logs
        for one in log.disagreements
    ]
    if rows:
        click.echo("\nThe records do not reproduce these figures of the logs:")
        print_table(Table(columns(["log", "figure", "stated", "recomputed"]), _fitting(rows[:_MOST_ROWS])))
    if len(rows) > _MOST_ROWS:
        click.echo(f"… and {len(rows) - _MOST_ROWS:,} more: see import.json")


def _print_skipped(result: Import, paths: Sequence[str], *, is_all: bool) -> None:
    """Say which files were skipped and why: all of them, or some examples of each kind."""
    for kind, files in result.skipped_files.items():
        named = listed([*map(shown, files)], len(files) if is_all else _EXAMPLES)
        step = f"; for them: fastrec normalize {arguments(paths)} -o corpus" if "record" in kind else ""
        print_notice(f"{counted(len(files), 'file')} skipped, {kind}: {named}{step}")


def _print_fields(result: Import) -> None:
    """Print which fields of logs are not in the records, or not whole."""
    fields = Counter[tuple[str, str, str]]()
    for log in result.logs:
        for field, reasons in log.fields_left_out.items():
            for reason, count in reasons.items():
                fields[log.harness, field, reason] += count
    if not fields:
        return
    click.echo("\nFields of the logs that are left out:")
    rows = [[harness, safe(field), f"{fields[harness, field, reason]:,}", reason] for harness, field, reason in fields]
    print_table(Table(columns(["harness", "field", "values", "why"], left=["field", "why"]), rows[:_MOST_ROWS]))
    if len(rows) > _MOST_ROWS:
        click.echo(f"… and {len(rows) - _MOST_ROWS:,} more: see import.json")


def _fitting(rows: list[list[str]]) -> list[list[str]]:
    """Cut the beginning of logs and the end of figures, so that the table fits into the terminal."""
    width = terminal_width()
    if width is None:
        return rows
    logs, figures, *numbers = [max(map(width_of, cells)) for cells in zip(*rows, strict=True)]
    room = width - 8 - max(numbers[0], len("stated")) - max(numbers[1], len("recomputed"))
    figures = min(figures, max(room // 2, room - logs))
    return [[clip(log[::-1], room - figures)[::-1], clip(figure, figures), *others] for log, figure, *others in rows]
