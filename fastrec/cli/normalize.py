"""Commands that make records and corpora: `import` and `normalize`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from shutil import which
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from fastrec.cli import memory
from fastrec.cli.console import (
    allow_broken_pipe,
    clip,
    format_repairable,
    print_error,
    print_json,
    print_lines,
    print_notice,
    print_stderr,
    print_warning,
    safe,
    say,
    spell,
    terminal_width,
    width_of,
)
from fastrec.cli.options import Command, command, option, parameter, parameter_tables
from fastrec.cli.output import asked, run_with_progress, warn_of_terminal
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import (
    Section,
    Spelling,
    Table,
    make_table,
    more_rows,
    section_lines,
    table_lines,
    table_of,
)
from fastrec.errors import RefusedError, arguments, counted, listed, shown
from fastrec.harnesses.registry import HARNESSES

if TYPE_CHECKING:
    from fastrec.commands.import_logs.document import Import, ImportedLog
    from fastrec.normalize.dry_run import Plan
    from fastrec.normalize.options import About
    from fastrec.normalize.run import NormalizeResult


_MOST_ROWS = 20
_BOARD_EVALUATIONS = 8
_BOARD_MODELS = 3
_BOARD_COLUMNS = 3  # rank, model and mean
_MOST_BAD = 20
_EXAMPLES = 3


@command(
    from_=option(
        f"--from from_ {'|'.join(['auto', *HARNESSES])}",
        f"Harness whose logs are imported: {', '.join(HARNESSES)}; auto: recognise it by the "
        "content.",
        metavar="HARNESS",
    )
)
def import_logs(
    paths: tuple[str, ...],
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
      3     a log was not imported (see --skip-bad-logs), or a shard not written

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

    if guess:
        lines = guess_columns(paths, options["output"] or "records")
        with allow_broken_pipe():
            click.echo("\n".join(lines))
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
                named = listed([*map(shown, files)], len(files) if verbose else _EXAMPLES)
                step = ""
                if "record" in kind:
                    step = f"; for them: fastrec normalize {arguments(paths)} -o corpus"
                print_notice(f"{counted(len(files), 'file')} skipped, {kind}: {named}{step}")
            _print_account(result)
            if result.logs:
                click.echo(f"next: fastrec normalize {arguments([options['output']])} -o corpus")
    if result.bad_logs and (not skip_bad_logs or not result.logs):
        raise Exit(3)
    if strict and any(log.disagreements for log in result.logs):
        raise Exit(1)


def _print_account(result: Import) -> None:
    for same, first in result.same_logs.items():
        print_notice(f"{shown(same)} has the same content as {shown(first)}: imported once")
    by_harness: dict[str, list[ImportedLog]] = {}
    left_out = Counter[str]()
    fields = Counter[tuple[str, str, str]]()
    figures = []
    for log in result.logs:
        print_notice(*(f"{shown(log.log)}: {note}" for note in log.notes))
        by_harness.setdefault(log.harness, []).append(log)
        left_out.update(log.left_out)
        for field, reasons in log.fields_left_out.items():
            fields.update({(log.harness, field, why): count for why, count in reasons.items()})
        for figure in log.disagreements:
            numbers = (_figure(figure.stated), _figure(figure.recomputed))
            figures.append((safe(shown(log.log)), safe(figure.name), *numbers))
    if by_harness:
        print_lines(table_lines(table_of("logs", by_harness.values(), _HARNESS)))
    for reason, count in list(left_out.items())[:_MOST_ROWS]:
        print_notice(f"{counted(count, 'sample')} left out: {safe(reason)}")
    if more := sum(list(left_out.values())[_MOST_ROWS:]):
        print_notice(f"{counted(more, 'more sample')} left out: import.json says why")
    rows = [(harness, field, f"{count:,}", why) for (harness, field, why), count in fields.items()]
    names = ["harness", "field", "values", "why"]
    table = make_table(names, rows[:_MOST_ROWS], left=["field", "why"])
    _print_first("Fields of the logs that are left out:", table, len(rows))
    names = ["log", "figure", "stated", "recomputed"]
    table = make_table(names, _fitting(figures[:_MOST_ROWS]))
    _print_first("The records do not reproduce these figures of the logs:", table, len(figures))


def _total(name: str) -> Spelling:
    """Spell the sum of an attribute of logs."""
    return lambda logs: f"{sum(map(attrgetter(name), logs)):,}"


def _reproduced(logs: Sequence[ImportedLog]) -> str:
    agreeing = [figure.agrees for log in logs for figure in log.comparisons]
    return f"{sum(agreeing):,} of {len(agreeing):,}" if agreeing else "none stated"


_HARNESS: dict[str, Spelling] = {
    "harness": lambda logs: logs[0].harness,
    "samples": _total("samples"),
    "records": _total("records"),
    "with error": _total("errors"),
    "figures reproduced": _reproduced,
}


def _figure(number: float | None) -> str:
    return "none" if number is None else f"{number:.6g}"


def _print_first(title: str, table: Table, count: int) -> None:
    """Print a title and a table of the first rows, if there are any."""
    if count:
        print_lines([f"\n{title}", *table_lines(table)])
    if count > _MOST_ROWS:
        click.echo(f"… and {count - _MOST_ROWS:,} more: see import.json")


def _fitting(rows: Sequence[tuple[str, ...]]) -> Sequence[Sequence[str]]:
    """Cut the beginning of logs and the end of figures, so that the table fits."""
    width = terminal_width()
    if width is None or not rows:
        return rows
    heads = ("", "", "stated", "recomputed")
    widths = [max(map(width_of, cells)) for cells in zip(heads, *rows, strict=True)]
    logs, figures, *numbers = widths
    room = width - 8 - sum(numbers)
    figures = min(figures, max(room // 2, room - logs))
    return [
        [clip(log[::-1], room - figures)[::-1], clip(figure, figures), *others]
        for log, figure, *others in rows
    ]


class _Normalize(Command):
    """A command that has an option for each field of `Options`.

    Importing them takes long, and `fastrec --help` does not need them. So they are added when the
    command is first used.
    """

    _is_complete = False

    @property
    def params(self) -> list[click.Parameter]:
        if not self._is_complete:
            self._is_complete = True
            self._params[3:3] = _list_options()  # after PATHS, --output and --jobs
        return self._params

    @params.setter
    def params(self, params: list[click.Parameter]) -> None:
        self._params = params


def _list_options() -> list[click.Parameter]:
    """An option for each field of `Options`, but for those that several commands share."""
    from fastrec.normalize.options import OPTIONS

    def carrier() -> None: ...

    for name, about in OPTIONS.items():
        if about.help:
            _option_for(name, about)(carrier)
    params: list[click.Parameter] = carrier.__click_params__  # type: ignore[attr-defined]
    return params


def _option_for(name: str, about: About) -> Callable[[Any], Any]:
    from fastrec.normalize.options import DEFAULTS, spell_size

    settings = {"help": about.help} | parameter_tables("normalize")["options"].get(name, {})
    default = DEFAULTS[name]
    usage = f"--{name.replace('_', '-')}"
    if about.choices:
        usage += f" {'|'.join(about.choices)}"
    elif about.is_size:
        settings["type"] = "SIZE"
    elif default is not False:
        settings.setdefault("type", "like the default")
    has_default = isinstance(default, int | str) and default is not False
    if has_default and not about.choices:
        settings["default"] = spell_size(default) if about.is_size else default
    return parameter(usage, settings)


@command(cls=_Normalize)
def normalize(
    *,
    paths: tuple[str, ...],
    files_from: str | None,
    output: str,
    sort_by: str | None,
    dry_run: bool,
    verbose: int,
    **given: Any,
) -> None:
    """Turn any number of shards into one clean, sorted corpus.

    PATHS are files, directories (searched for *.jsonl*), quoted patterns, URLs of these in an
    object store (s3://, gs://, hf:// …), or - for standard input. Files are JSON lines, plain or
    compressed, or Parquet tables of records. OUTPUT is published atomically:
    part-*.jsonl.zst, summary.json, manifest.json, and, if lines were rejected, rejects.jsonl.zst.

    \b
    Exit codes:
      0     done
      1     done and published, but lines were rejected (without --max-rejects);
            or refused, and put at OUTPUT.refused: more than --max-rejects lines
            were rejected, metadata have credentials (--check-secrets), or no
            records would replace a corpus with records
      2     the command line is wrong, or no record matches the filters
      3     failed, nothing published: a bad shard or corpus as input, no valid
            line, a full disk, or a worker that kept dying
      130   interrupted; the next run reuses finished work
      143   terminated; the next run reuses finished work

    \b
    Examples:
      fastrec normalize runs/ -o corpus
      fastrec normalize 'runs/2026-*/*' -o corpus --overwrite --max-rejects 0.1%
      fastrec normalize runs/ -o corpus --overwrite --dry-run
      fastrec normalize runs/ -o corpus --overwrite --incremental
      fastrec normalize runs/ -o repaired --schema 0.3.0 --repair all
      fastrec normalize corpus -o smaller --exclude-model org/old
      zcat old.gz | fastrec normalize - -o old-corpus
    """
    from fastrec.corpus.manifest import skipped_lines
    from fastrec.normalize.options import make_options
    from fastrec.normalize.run import run

    options = make_options(**given, sort_by=sort_by or ())
    quiet = asked().quiet
    if dry_run:
        from fastrec.normalize.dry_run import plan

        with allow_broken_pipe():
            _print_plan(plan(paths, output, options, files_from=files_from))
        return
    warn_of_terminal(paths)
    memory.limit_memory(options.jobs)
    with make_progress("sort", "merge", quiet=quiet or asked().no_progress) as progress:
        notice = None if quiet else print_notice
        result = run(
            paths, output, options, files_from=files_from, progress=progress, notice=notice
        )
    rejected = result.summary.line_counts.rejected
    if not quiet:
        print_stderr(_closing_line(result))
        if repairable := result.summary.repairable.lines:
            print_notice(format_repairable(repairable, result.summary.repairable.by_code, rejected))
    try:
        with allow_broken_pipe():
            if asked().output_format == "json":
                print_json(result)
            elif verbose and not result.refused:
                _print_made(result)
                if verbose > 1:
                    click.echo()
                    table = table_of("phases", result.phases)
                    print_lines(section_lines(Section("Where the time went", _ABOUT_PHASES, table)))
    except OSError as exc:
        verb = "refused: it is in" if result.refused else "published as"
        exc.add_note(f"The corpus was {verb} {shown(result.output)}.")
        raise
    # Also with --quiet: a nightly job must not lose shards silently.
    print_warning(skipped_lines(result.skipped))
    if result.refused:
        raise RefusedError(output, result.output, result.refused, result.summary)
    if rejected and options.gate is None:
        if not quiet:
            print_notice(f"run `fastrec rejects {shown(output)}` to see why lines were rejected")
        raise Exit(1)


def _print_made(result: NormalizeResult) -> None:
    """Print what was made, the best models, and what to do next: one screen."""
    from fastrec.answers.choosing import open_index
    from fastrec.answers.leaderboard import make_leaderboard

    board = make_leaderboard(open_index(result.output), most=_BOARD_EVALUATIONS)
    for title, models in board.groups()[:1]:
        heads, rows = board.table(models[:_BOARD_MODELS])
        cells = [row[:_BOARD_COLUMNS] for row in rows]
        first = make_table(heads[:_BOARD_COLUMNS], cells, left=("model",))
        notes = more_rows(len(models) - len(rows), "model", "`fastrec leaderboard`")
        section = Section(f"Leaderboard of {shown(result.output)}", title, first, notes)
        print_lines(["", *section_lines(section)])
    corpus = arguments([result.output])
    commands = {
        f"leaderboard {corpus}": "all models on each evaluation",
        f"questions {corpus} --wrong-by all": "questions that every model gets wrong",
        f"report {corpus} -o report.html": "everything on one page",
    }
    # Without an activated environment, only the path of the program is a command.
    program = "fastrec" if which("fastrec") else sys.argv[0]
    click.echo("\nTry next:")
    for line, text in commands.items():
        say("  {program} {line:<40}  # {text}", program=program, line=line, text=text)


_ABOUT_PHASES = (
    "processor time and waiting are sums over all tasks; in the time of the driver, no tasks ran"
)


def _print_plan(plan: Plan) -> None:
    if asked().output_format == "json":
        print_json(plan)
        return
    print_notice(*plan.notices)
    for path in plan.paths:
        click.echo(safe(path))
    reuse = plan.incremental
    work = "" if reuse else spell(": {tasks:task}, about {estimated_parts:part}", plan)
    say(
        "{shards:shard}, {input_bytes:size}, about {estimated_text_bytes:size} of text{work}; "
        "schema {schema}",
        plan,
        work=work,
    )
    if reuse:
        for kind in () if reuse.is_estimate else ("new", "changed", "gone"):
            for path in getattr(reuse, kind):
                click.echo(f"{kind}: {safe(path)}")
        written = "about" if reuse.is_estimate else f"{reuse.parts_written:,} of"
        changes = _format_changes(plan.shards, reuse)
        say("{changes}; {written} {parts:part} to write", reuse, changes=changes, written=written)


def _format_changes(shards: int, changes: object) -> str:
    """Say how many shards have changed; `changes` has numbers or lists of them."""
    kinds = ("unchanged", "new", "changed", "gone")
    found = [spell(f"[?{{{kind}:,}} {kind}]", changes) for kind in kinds]
    return spell(
        "{shards:shard}: {found}", shards=shards, found=", ".join(filter(None, found)) or "none"
    )


def _closing_line(result: NormalizeResult) -> str:
    summary = result.summary
    parts = "{parts:part}"
    if result.incremental:
        changes = _format_changes(result.shards, result)
        parts = f"{changes}; {{parts_written:,}} of {{parts:part}} written"
    changed = spell("{changed:verdict} changed; ", summary.labels) if summary.labels else ""
    if summary.fixes:
        changed += spell("{fixed:,} fixed; ", summary.fixes)
    # The size of a stream is unknown.
    size = "{input_bytes:size}" if result.input_bytes else "{text_bytes:size} of text"
    return spell(
        "{summary.line_counts.lines:line}: {summary.line_counts.kept:,} kept, "
        "{summary.line_counts.duplicates:duplicate}, {summary.line_counts.rejected:,} rejected, "
        "{summary.line_counts.blank:,} blank; [?{filtered:,} filtered out; ]"
        f"{changed}[?{{summary.repaired.lines:,}} repaired; ]"
        "{summary.contradictions.identities:contradiction}, {summary.repeats.identities:repeat}; "
        f"{parts}, {size} → {{output_bytes:size}} {{:speed}}",
        result,
    )
