"""`fastrec check-pairs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fastrec.cli.console import allow_broken_pipe, format_timing, print_error, print_notice
from fastrec.cli.options import command, prepare_reading, shared
from fastrec.cli.progress import make_progress
from fastrec.cli.tables import print_findings
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.commands.check_pairs import PairCheck


@command("Check aggregates against their samples files.", ok="no findings", check="there are findings",
         usage="the command line is wrong, or a directory has nothing to check",
         failure="a file could not be read completely")  # fmt: skip
@click.argument("directories", nargs=-1, required=True, type=click.Path(), metavar="DIR...")
@shared("jobs", "findings_format", "no_progress")
def check_pairs(directories: tuple[str, ...], jobs: int, output_format: str, no_progress: bool) -> None:
    """Check aggregates (`<uuid>.json`) against their samples files (`<uuid>_samples.jsonl`).

    DIR is any directory of a datastore, `data/<collection>/<developer>/<model>/` or `flat/objects/`, or a copy of a
    part of one. Samples files may be compressed with zstd, gzip, bz2 or xz. Other JSON files are ignored and counted.

    Each aggregate has its samples file and each samples file its aggregate; path, format, checksum and number of rows
    are as stated; all rows are valid records with the ids of the aggregate and of one of its results; their mean is the
    score of that result, within rounding. The names of files and folders follow the rule.

    Scores of metrics that are no means, such as BLEU, are not compared if they differ. They are counted.

    \b
    Examples:
      fastrec check-pairs data/
      fastrec check-pairs data/gsm8k data/mmlu --format github
      fastrec check-pairs flat/objects --format json | jq .codes
    """
    from fastrec.commands.check_pairs import check_pairs as run

    prepare_reading(jobs)
    with make_progress("check", quiet=no_progress) as progress:
        report = run(directories, jobs=jobs, progress=progress)
    with allow_broken_pipe():
        for bad in report.bad_files:
            print_error(bad)
        print_findings(report, output_format, "--format json")
        if report.invalid:
            print_notice("`fastrec validate` lists all errors of rows")
        if output_format != "json" and (report.aggregates or report.samples or not report.ok):
            _print_counts(report)
    if not report.ok:
        raise click.exceptions.Exit(3 if report.bad_files else 1)
    if not report.aggregates and not report.samples:
        print_error(
            "there is nothing to check: no aggregates (<uuid>.json) and no samples files (<uuid>_samples.jsonl)"
        )
        raise click.exceptions.Exit(2)


def _print_counts(report: PairCheck) -> None:
    if report.results:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.not_compared.items())
        others = f", {sum(report.not_compared.values()):,} not compared ({reasons})" if reasons else ""
        counts = f"{report.reproduced:,} reproduced by the rows, {report.different:,} different"
        click.echo(f"scores of {counted(report.results, 'result')}: {counts}{others}")
    for count, what in ((report.without_checksum, "checksum"), (report.without_total_rows, "number of rows")):
        if count:
            click.echo(f"{count:,} of {counted(report.pairs, 'pair')}: the aggregate states no {what}")
    word = click.style("OK" if report.ok else "not OK", fg="green" if report.ok else "red", bold=True)
    findings = f"{counted(sum(report.codes.values()), 'finding')}; " if report.codes else ""
    counts = (
        f"{counted(report.pairs, 'pair')}, {counted(report.aggregates, 'aggregate')}, "
        f"{counted(report.samples, 'samples file')}, {counted(report.rows, 'row')}"
    )
    ignored = f", {counted(report.ignored, 'other file')} ignored" if report.ignored else ""
    bad = f", {counted(len(report.bad_files), 'file')} unreadable" if report.bad_files else ""
    click.echo(f"{word}: {findings}{counts}{ignored}{bad} ({format_timing(report.text_bytes, report.seconds)})")
