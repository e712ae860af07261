"""`fastrec normalize`: make a corpus."""

from __future__ import annotations

import sys
from shutil import which
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from fastrec.cli import memory
from fastrec.cli.console import (
    allow_broken_pipe,
    format_repairable,
    print_json,
    print_lines,
    print_notice,
    print_stderr,
    print_warning,
    safe,
    say,
    spell,
)
from fastrec.cli.options import command, parameter_tables
from fastrec.cli.output import asked, warn_of_terminal
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import (
    Section,
    make_table,
    more_rows,
    section_lines,
    table_of,
)
from fastrec.errors import RefusedError, arguments, shown
from fastrec.normalize.options import DEFAULTS, OPTIONS, make_options, spell_size

if TYPE_CHECKING:
    from fastrec.normalize.dry_run import Plan
    from fastrec.normalize.options import About
    from fastrec.normalize.run import NormalizeResult


_BOARD_EVALUATIONS = 8
_BOARD_MODELS = 3
_BOARD_COLUMNS = 3  # rank, model and mean


def _usage_and_settings(name: str, about: About) -> tuple[str, dict[str, Any]]:
    """How an option is spelled, and its settings, as in a table of parameters."""
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
    return usage, settings


@command(dict(_usage_and_settings(*option) for option in OPTIONS.items() if option[1].help))
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
        # Also with --quiet, since it says why the exit code is 1.
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
    counts = [spell(f"[?{{{kind}:,}} {kind}]", changes) for kind in kinds]
    return spell(
        "{shards:shard}: {counts}", shards=shards, counts=", ".join(filter(None, counts)) or "none"
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
