"""`fastrec validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import allow_broken_pipe, format_repairable, format_timing, print_error, print_notice, safe
from fastrec.cli.options import Count, choice_option, command, flag, option, prepare_reading, shared
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import print_findings
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.commands.validate.result import UpgradeReport, Validation


@command("Check every record of shards.", ok="all lines are valid",
         check="some lines are invalid, or, with --strict, have warnings",
         failure="a shard could not be read completely, or the log could not be written")  # fmt: skip
@shared("paths", "jobs", "findings_format")
@option("--max-errors", "Stop after this many invalid lines.", type=Count(min=1), metavar="N")
@option("--json-log", "Write all findings to this file as JSON lines (of a line, at most 100 errors).",
        type=click.Path(dir_okay=False), metavar="FILE")  # fmt: skip
@choice_option("--schema", ["auto", "0.2.0", "0.2.0-released", "0.2.1", "0.3.0"],
               "Judge every record by this schema version; auto: by the version that its shape is of.")  # fmt: skip
@flag("--upgrade-report", "List what an upgrade to the newest schema version would lose or may confuse.")
@flag("--strict", "Exit 1 for warnings too.")
@shared("reading")
@choice_option("--hash", ["sha256", "xxh3_128"], "Algorithm of sample_hash.")
@shared("repair", "no_progress")
def validate(paths: tuple[str, ...], output_format: str, strict: bool, no_progress: bool, **options: Any) -> None:
    """Check every record of shards against the schema.

    PATHS are files, directories (searched for *.jsonl*), quoted patterns, or - for standard input. Plain, zstd, gzip,
    bz2 and xz files are recognized by their first bytes.

    Findings are counted by code and field, each with one example: the first message, and the first three locations.
    Errors are those of the schema version that the record comes closest to ("judged as"), or that --schema names.

    \b
    Examples:
      fastrec validate runs/
      fastrec validate 'runs/2026-*/*.jsonl.zst' --json-log findings.jsonl
      fastrec validate runs/ --format github --strict
      fastrec validate runs/ --schema 0.2.0 --max-errors 10
      fastrec validate runs/ --upgrade-report
    """
    from fastrec.commands.validate import validate as run

    prepare_reading(options["jobs"], paths)
    with make_progress("judge", quiet=no_progress) as progress:
        report = run(paths, **options, progress=progress)
    failed = bool(report.invalid or (strict and report.warnings))
    with allow_broken_pipe():
        print_notice(*report.notices)
        for bad in report.bad_shards:
            print_error(f"{bad}. Its records do not count; if it is damaged, download it again, or leave it out")
        print_findings(report, output_format, "--json-log FILE")
        if output_format != "json":
            _print_upgrade(report.upgrade)
            if len(report.versions) > 1:
                click.echo("versions: " + ", ".join(f"{name} ({count:,})" for name, count in report.versions.items()))
            click.echo(_verdict(report, good=not failed and not report.bad_shards))
        if report.repairable:
            by_code = report.repairable_by_code
            print_notice(format_repairable(report.repairable, by_code, report.invalid, "invalid"))
    if failed or report.bad_shards:
        raise click.exceptions.Exit(3 if report.bad_shards else 1)


def _print_upgrade(upgrade: UpgradeReport | None) -> None:
    if upgrade is None:
        return
    click.echo(f"upgrade to {upgrade.target}: {counted(upgrade.records, 'record')} of earlier versions")
    for step in upgrade.steps:
        locations = ", ".join(f"{safe(one.source)}:{one.line}" for one in step.locations)
        click.echo(f"  {click.style(step.code, fg='cyan')}  {step.count:,} ×")
        click.echo(f"    {step.meaning}")
        click.echo(f"    {locations}{', …' if step.count > len(step.locations) else ''}")


def _verdict(report: Validation, *, good: bool) -> str:
    word = click.style("valid" if good else "not valid", fg="green" if good else "red", bold=True)
    repaired = f" ({report.repaired:,} repaired)" if report.repaired else ""
    counts = f"{counted(report.lines, 'line')}, {report.valid:,} valid{repaired}, {report.invalid:,} invalid"
    blank = f", {report.blank:,} blank" if report.blank else ""
    bad = f", {len(report.bad_shards):,} of {counted(report.shards, 'shard')} unreadable" if report.bad_shards else ""
    timing = format_timing(report.text_bytes, report.seconds)
    schema = f", schema {next(iter(report.versions))}" if len(report.versions) == 1 else ""
    early = "; stopped at --max-errors" if report.stopped_early else ""
    return f"{word}: {counts}, {counted(report.warnings, 'warning')}{blank}{bad}{schema} ({timing}){early}"
