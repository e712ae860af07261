"""`fastrec validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fastrec.cli.console import allow_broken_pipe, note_terminal_input, print_error, print_json, print_notice
from fastrec.cli.findings import print_groups
from fastrec.cli.options import Count, choice_option, jobs_option, reading_options, verbose_option
from fastrec.cli.spelling import decimal, safe, spell_bytes, spell_speed
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.commands.validate.result import Validation

__all__ = ["validate"]


@click.command(short_help="Check every record of shards.")
@click.argument("paths", nargs=-1, type=click.Path())
@jobs_option
@choice_option("--format", ["text", "json", "github"],
               "Output format; github prints annotations of a GitHub workflow.", to="output_format")  # fmt: skip
@click.option("--max-errors", type=Count(min=1), metavar="N", help="Stop after this many invalid lines.")
@click.option("--json-log", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write every finding to this file, one JSON object per line.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@reading_options
@choice_option("--hash", ["sha256", "xxh3_128"], "Algorithm of sample_hash.", to="algorithm")
@verbose_option
def validate(paths: tuple[str, ...], output_format: str, strict: bool, **options: object) -> None:
    """Check every record of shards against the schema.

    PATHS are files, directories (searched for *.jsonl*), quoted patterns, or - for standard input. Plain, zstd, gzip,
    bz2 and xz files are recognized by their first bytes.

    \b
    Exit codes:
      0     all lines are valid
      1     some lines are invalid, or, with --strict, have warnings
      2     the command line is wrong
      3     a shard could not be read completely, or the log could not be written

    \b
    Examples:
      fastrec validate runs/
      fastrec validate 'runs/2026-*/*.jsonl.zst' --json-log findings.jsonl
      fastrec validate runs/ --format github --strict
    """
    from fastrec.cli.memory import cap_memory
    from fastrec.commands.validate import validate as run

    note_terminal_input(paths)
    cap_memory(int(options["jobs"]))  # type: ignore[call-overload]
    report = run(paths, **options)  # type: ignore[arg-type]
    failed = bool(report.invalid or (strict and report.warnings))
    with allow_broken_pipe():
        for notice in report.notices:
            print_notice(notice)
        for bad in report.bad_shards:
            print_error(f"{bad}. Its records do not count; download it again, or leave it out")
        if output_format == "json":
            print_json(report)
        elif output_format == "github":
            _print_github(report)
        else:
            rest = "other findings; --json-log FILE lists all"
            print_groups(report.groups, sum(report.codes.values()), rest)
        if output_format != "json":
            click.echo(_verdict(report, good=not failed and not report.bad_shards))
    if report.bad_shards:
        raise click.exceptions.Exit(3)
    if failed:
        raise click.exceptions.Exit(1)


def _print_github(report: Validation) -> None:
    for group in report.groups:
        first = group.locations[0]
        more = f" (and {decimal(group.count - 1)} more)" if group.count > 1 else ""
        message = _workflow(f"{group.path}: {group.message} [{group.code}]{more}", "\r\n%")
        source = _workflow(first.source, "\r\n%:,")
        click.echo(f"::{group.severity} file={source},line={first.line},title={group.code}::{message}")


def _workflow(text: str, special: str) -> str:
    """Escape characters that have a meaning in a workflow command."""
    return safe("".join(f"%{ord(char):02X}" if char in special else char for char in text))


def _verdict(report: Validation, *, good: bool) -> str:
    """Return the closing line."""
    word = click.style("valid" if good else "not valid", fg="green" if good else "red", bold=True)
    parts = [
        counted(report.lines, "line"),
        f"{decimal(report.valid)} valid",
        f"{decimal(report.invalid)} invalid",
        counted(report.warnings, "warning"),
    ]
    if report.blank:
        parts.append(f"{decimal(report.blank)} blank")
    if report.bad_shards:
        parts.append(f"{decimal(len(report.bad_shards))} of {counted(report.shards, 'shard')} unreadable")
    timing = f"{spell_bytes(report.text_bytes)} {spell_speed(report.text_bytes, report.seconds)}"
    early = "; stopped at --max-errors" if report.stopped_early else ""
    return f"{word}: {', '.join(parts)} ({timing}){early}"
