"""`fastrec validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fastrec.cli.console import (
    Count,
    ask_for_input,
    counted,
    decimal,
    jobs_option,
    megabytes,
    pace,
    print_error,
    print_json,
    print_notice,
    reader_may_leave,
    safe,
    size_option,
    verbose_option,
)
from fastrec.cli.findings import print_groups

if TYPE_CHECKING:
    from fastrec.commands.validate.result import Validation

__all__ = ["validate"]


@click.command(short_help="Check every record of some shards.")
@click.argument("paths", nargs=-1, type=click.Path())
@jobs_option
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="How to report: for people, for programs, or as annotations of a GitHub workflow.",
)
@click.option("--max-errors", type=Count(min=1), metavar="N", help="Stop once so many invalid lines were found.")
@click.option("--json-log", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write every finding to this file, one JSON a line.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Warnings fail too.")
@click.option("--files-from", type=click.Path(), metavar="FILE",
              help="Read further paths from this file (- for stdin), one a line.")  # fmt: skip
@click.option(
    "--max-line-bytes", type=size_option, default=1 << 30, show_default="1GiB", help="A longer line is invalid."
)
@click.option("--max-window", type=size_option, default=128 << 20, show_default="128MiB", help="Largest zstd window.")
@click.option(
    "--hash",
    "algorithm",
    type=click.Choice(["sha256", "xxh3_128"]),
    default="sha256",
    show_default=True,
    help="What a given sample_hash is compared with.",
)
@verbose_option
def validate(paths: tuple[str, ...], output_format: str, strict: bool, **options: object) -> None:
    """Check every record of some shards against the schema.

    PATHS are files, directories (searched for *.jsonl*), quoted patterns, or - for standard input. Plain, zstd, gzip,
    bz2 and xz are told by their first bytes.

    \b
    Exit codes:
      0     all lines are valid
      1     invalid lines were found; with --strict: or something to warn about
      2     the command line is wrong
      3     a shard could not be read whole, or the log not be written

    \b
    Examples:
      fastrec validate runs/
      fastrec validate 'runs/2026-*/*.jsonl.zst' --json-log findings.jsonl
      fastrec validate runs/ --format github --strict
    """
    from fastrec.cli.limits import cap_memory
    from fastrec.commands.validate import validate as run

    ask_for_input(paths)
    cap_memory(int(options["jobs"]))  # type: ignore[call-overload]
    report = run(paths, **options)  # type: ignore[arg-type]
    failed = bool(report.invalid or (strict and report.warnings))
    with reader_may_leave():
        for notice in report.notices:
            print_notice(notice)
        for bad in report.bad_shards:
            print_error(f"{bad}. Its records do not count; fetch it again or leave it out")
        if output_format == "json":
            print_json(report)
        elif output_format == "github":
            _print_github(report)
        else:
            rest = "findings of other kinds; --json-log FILE lists every one"
            print_groups(report.groups, sum(report.codes.values()), rest)
        if output_format != "json":
            click.echo(_verdict(report, good=not failed and not report.bad_shards))
    if report.bad_shards:
        raise click.exceptions.Exit(3)
    if failed:
        raise click.exceptions.Exit(1)


def _print_github(report: Validation) -> None:
    for group in report.groups:
        place = group.locations[0]
        more = f" (and {decimal(group.count - 1)} more)" if group.count > 1 else ""
        message = _workflow(f"{group.path}: {group.message} [{group.code}]{more}", "\r\n%")
        source = _workflow(place.source, "\r\n%:,")
        click.echo(f"::{group.severity} file={source},line={place.line},title={group.code}::{message}")


def _workflow(text: str, special: str) -> str:
    """Escape what has a meaning in a workflow command."""
    return safe("".join(f"%{ord(char):02X}" if char in special else char for char in text))


def _verdict(report: Validation, *, good: bool) -> str:
    """One line that says it all."""
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
    timing = f"{megabytes(report.text_bytes)} {pace(report.text_bytes, report.seconds)}"
    early = "; stopped at --max-errors" if report.stopped_early else ""
    return f"{word}: {', '.join(parts)} ({timing}){early}"
