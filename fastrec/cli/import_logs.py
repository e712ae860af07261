"""`fastrec import`: turn logs of harnesses into records."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from fastrec.cli.console import (
    allow_broken_pipe,
    clip,
    print_error,
    print_json,
    print_lines,
    print_notice,
    safe,
    terminal_width,
)
from fastrec.cli.options import command
from fastrec.cli.output import asked, run_with_progress
from fastrec.cli.tables import Spelling, make_table, table_lines, table_of
from fastrec.errors import arguments, counted, listed, shown

if TYPE_CHECKING:
    from fastrec.commands.import_logs.document import Import, ImportedLog
    from fastrec.parameters import Names

_MOST_ROWS = 20
_MOST_BAD = 20
_EXAMPLES = 3
_MAY_BE_TABLE = re.compile(r"\.(csv|tsv|json|jsonl|parquet)\b")
_NUMBERS = 32  # columns that two numbers take at most, with the space between columns


@command()
def import_logs(
    paths: Names,
    strict: bool,
    skip_bad_logs: bool,
    verbose: int,
    guess: bool,
    **options: Any,
) -> None:
    """Turn logs of evaluation harnesses, or tables, into shards of records.

    Known are lm-eval, Inspect, HELM, lighteval, AlpacaEval, LiveBench, MT-Bench, OpenAI evals,
    promptfoo, tau-bench, tau2-bench, Terminal-Bench, Harbor and EvalPlus.

    PATHS are logs, directories of logs, quoted patterns or URLs. Files are recognised by their
    content. Each log becomes one shard of records, one record per sample, metric and repeat;
    import.json accounts for every sample.

    The means that a log states are computed again from its records. Those that differ are listed:
    something was lost or mixed up, in the log or by the import.

    With options that name columns, PATHS are tables: CSV, TSV, JSON Lines, JSON arrays or
    documents, or Parquet. A row is a sample, each column of scores a metric. Other columns become
    metadata. Rows that do not fit are listed, and files that are no such tables.

    \b
    Exit codes:
      0     all logs are imported
      1     with --strict: a log states figures that its records do not reproduce
      2     the command line is wrong, or there are no logs
      3     a log was not imported (see --skip-bad-logs), no sample became a
            record, or a shard was not written

    \b
    Examples:
      fastrec import logs/ -o records
      fastrec import 'results/**/*_2026-*.json*' -o records
      fastrec import logs/ -o records --from inspect --metric 'includes*'
      fastrec import answers.csv --guess
      fastrec normalize records -o corpus
    """
    from fastrec.commands.import_logs import guess_columns
    from fastrec.commands.import_logs import import_logs as run
    from fastrec.commands.import_logs.discover import OTHERS, RECORDS

    if guess:
        lines = guess_columns(paths, options["output"] or "records")
        with allow_broken_pipe():
            print_lines(lines)
        return
    if options["output"] is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    result = run_with_progress(run, paths, stages=("import",), **options)
    with allow_broken_pipe():
        for bad in result.bad_logs[:_MOST_BAD]:
            print_error(f"{shown(bad.path)}: {bad.reason}")
        if (more := len(result.bad_logs) - _MOST_BAD) > 0:
            where = "import.json" if result.logs else "--format json"
            print_error(f"{more:,} more logs could not be imported; {where} lists them")
        may_be_tables = any(re.search("no log of|not name", bad.reason) for bad in result.bad_logs)
        if may_be_tables and not result.logs:
            print_notice("tables need options that name their columns: --guess proposes them")
        if asked().output_format == "json":
            print_json(result)
        else:
            for kind, files in result.skipped_files.items():
                named = listed(map(shown, files), len(files) if verbose else _EXAMPLES)
                step = ""
                if kind == OTHERS and any(map(_MAY_BE_TABLE.search, files)):
                    step = "; for a table among them: fastrec import FILE --guess"
                print_notice(f"{counted(files, 'file')} skipped, {kind}: {named}{step}")
            _print_account(result)
            if result.logs:
                inputs = [options["output"], *(paths if RECORDS in result.skipped_files else ())]
                click.echo(f"next: fastrec normalize {arguments(inputs)} -o corpus")
    if result.bad_logs and (not skip_bad_logs or not result.logs):
        raise Exit(3)
    if strict and any(log.disagreements for log in result.logs):
        raise Exit(1)


def _print_account(result: Import) -> None:
    for same, first in result.same_logs.items():
        print_notice(f"{shown(same)} has the same content as {shown(first)}: imported once")
    by_harness: dict[str, list[ImportedLog]] = {}
    left_out = Counter[str]()
    logs_by_reason = defaultdict(list)
    fields = Counter[tuple[str, str, str]]()
    figures = []
    width = terminal_width()
    most = width and max((width - _NUMBERS) // 2, 8)
    for log in result.logs:
        print_notice(*(f"{shown(log.log)}: {note}" for note in log.notes))
        by_harness.setdefault(log.harness, []).append(log)
        left_out.update(log.left_out)
        for reason in log.left_out:
            logs_by_reason[reason].append(shown(log.log))
        for field, reasons in log.fields_left_out.items():
            fields.update({(log.harness, field, why): count for why, count in reasons.items()})
        for figure in log.disagreements:
            numbers = (_figure(figure.stated), _figure(figure.recomputed))
            # the end of a path and the beginning of a figure, so that the table fits
            path = clip(safe(shown(log.log))[::-1], most)[::-1]
            figures.append((path, clip(safe(figure.name), most), *numbers))
    if by_harness:
        print_lines(table_lines(table_of("logs", by_harness.values(), _HARNESS)))
    for reason, count in list(left_out.items())[:_MOST_ROWS]:
        logs = listed(logs_by_reason[reason], _EXAMPLES)
        print_notice(f"{logs}: {counted(count, 'sample')} left out: {safe(reason)}")
    if more := sum(list(left_out.values())[_MOST_ROWS:]):
        print_notice(f"{counted(more, 'more sample')} left out: import.json says why")
    rows = [(harness, field, f"{count:,}", why) for (harness, field, why), count in fields.items()]
    names = ["harness", "field", "values", "why"]
    _print_first("Fields of the logs that are left out:", names, rows, left=["field", "why"])
    names = ["log", "figure", "stated", "recomputed"]
    _print_first("The records do not reproduce these figures of the logs:", names, figures)


def _total(name: str) -> Spelling:
    """Spell the sum of an attribute of logs."""
    return lambda logs: f"{sum(map(attrgetter(name), logs)):,}"


def _reproduced(logs: Sequence[ImportedLog]) -> str:
    agreeing = [figure.agrees for log in logs for figure in log.comparisons]
    return f"{sum(agreeing):,} of {len(agreeing):,}" if agreeing else "none stated"


_HARNESS = {
    "harness": lambda logs: logs[0].harness,
    "samples": _total("samples"),
    "records": _total("records"),
    "with error": _total("errors"),
    "figures reproduced": _reproduced,
}


def _figure(number: float | None) -> str:
    return "none" if number is None else f"{number:.6g}"


def _print_first(
    title: str, names: Sequence[str], rows: Sequence[Names], left: Sequence[str] = ()
) -> None:
    """Print a title and a table of the first rows, if there are any."""
    if rows:
        table = make_table(names, rows[:_MOST_ROWS], left)
        print_lines([f"\n{title}", *table_lines(table)])
    if len(rows) > _MOST_ROWS:
        click.echo(f"… and {len(rows) - _MOST_ROWS:,} more: see import.json")
