"""Commands that check: `validate`, `check-pairs` and `verify`; `rejects` lists what was wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from fastrec.cli.console import (
    allow_broken_pipe,
    explain_damage,
    format_repairable,
    print_error,
    print_exactly,
    print_json,
    print_notice,
    print_stderr,
    safe,
    say,
    spell,
    styled,
)
from fastrec.cli.options import command
from fastrec.cli.output import asked, print_answer, run_with_progress, warn_of_terminal
from fastrec.errors import shown

if TYPE_CHECKING:
    from fastrec.commands.check_pairs import PairCheck
    from fastrec.commands.rejects import RejectGroup, Rejects
    from fastrec.commands.validate import UpgradeReport, Validation
    from fastrec.commands.verify import Verification
    from fastrec.judge.findings import FindingGroup
    from fastrec.parameters import Names

_MOST_GROUPS = 20  # more do not fit on a screen
_Remarks = tuple[str, Sequence[str]]  # at the end of a line, and below it


@command()
def validate(paths: Names, strict: bool, **options: Any) -> None:
    """Check every record of shards against the schema.

    PATHS are files, directories (searched for *.jsonl*), quoted patterns, or - for standard input.
    Plain, zstd, gzip, bz2, xz and Parquet files are recognized by their first bytes.

    Findings are counted by code and field, each with one example: the first message, and the first
    three locations. Errors are those of the schema version that the record comes closest to
    ("judged as"), or that --schema names.

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
      fastrec validate runs/ --schema 0.2.0 --max-errors 10
      fastrec validate runs/ --upgrade-report
    """
    from fastrec.commands.validate import validate as run

    warn_of_terminal(paths)
    report = run_with_progress(run, paths, stages=("judge",), **options)
    failed = bool(report.invalid or (strict and report.warnings))
    with allow_broken_pipe():
        print_notice(*report.notices)
        for bad in report.bad_shards:
            print_error(
                f"{bad}. Its records do not count; if it is damaged, download it again, or leave "
                "it out"
            )
        print_findings(report, "--json-log FILE")
        if asked().output_format != "json":
            if report.upgrade:
                _print_upgrade(report.upgrade)
            versions = [f"{name} ({count:,})" for name, count in report.versions.items()]
            if len(versions) > 1:
                say("versions: {}", ", ".join(versions))
            good = not failed and not report.bad_shards
            schema = "".join(report.versions) if len(versions) == 1 else ""
            say(_VERDICT, report, good=good, schema=schema)
        if report.repairable:
            by_code = report.repairable_by_code
            print_notice(format_repairable(report.repairable, by_code, report.invalid, "invalid"))
    if failed or report.bad_shards:
        raise Exit(3 if report.bad_shards else 1)


_VERDICT = (
    "{good:valid/not valid}: {lines:line}, {valid:,} valid[? ({repaired:,} repaired)], "
    "{invalid:,} invalid, {warnings:warning}[?, {blank:,} blank]"
    "[?, {bad_shards:,} of {shards:shard} unreadable][?, schema {schema}] ({:timing})"
    "[?; stopped at --max-errors{stopped_early:if}]"
)


def _print_upgrade(upgrade: UpgradeReport) -> None:
    say("upgrade to {target}: {records:record} of earlier versions", upgrade)
    for step in upgrade.steps:
        say("  {code:cyan}  {count:,} ×", step)
        say("    {meaning}", step)
        say("    {}", locations_text(step))


@command()
def check_pairs(directories: Names, allow_warnings: bool, jobs: int) -> None:
    """Check aggregates (`<uuid>.json`) against their samples files (`<uuid>_samples.jsonl`).

    DIR is any directory of a datastore, `data/<collection>/<developer>/<model>/` or
    `flat/objects/`, or a copy of a part of one. Samples files may be compressed with zstd, gzip,
    bz2 or xz. Other JSON files are ignored and counted.

    What the public data store refuses is an error, what it warns of a warning. Each aggregate is
    valid by its JSON Schema and has its samples file, and each samples file its aggregate; path,
    format, checksum and number of rows are as stated; all rows are valid records with the ids of
    the aggregate and of one of its results; their mean is the score of that result, within
    rounding, and its standard error that of the mean. Scores are within their bounds. The names of
    files and folders follow the rule.

    Scores of metrics that are no means, such as BLEU, are not compared if they differ. They are
    counted.

    \b
    Exit codes:
      0     no findings
      1     there are findings: errors, or warnings without --allow-warnings
      2     the command line is wrong, or a directory has nothing to check
      3     a file could not be read completely

    \b
    Examples:
      fastrec check-pairs data/
      fastrec check-pairs data/gsm8k data/mmlu --format github
      fastrec check-pairs flat/objects --format json | jq .codes
    """
    from fastrec.commands.check_pairs import check_pairs as run

    report = run_with_progress(run, directories, stages=("check",), jobs=jobs)
    is_ok = report.ok or (allow_warnings and not report.errors and not report.bad_files)
    with allow_broken_pipe():
        for bad in report.bad_files:
            print_error(bad)
        print_findings(report, "--format json")
        if report.invalid:
            print_notice("`fastrec validate` lists all errors of rows")
        has_counts = report.aggregates or report.samples or not report.ok
        if has_counts and asked().output_format != "json":
            _print_counts(report, is_ok)
    if not is_ok:
        raise Exit(3 if report.bad_files else 1)
    if not report.aggregates and not report.samples:
        print_error(
            "there is nothing to check: no aggregates (<uuid>.json) and no samples files "
            "(<uuid>_samples.jsonl)"
        )
        raise Exit(2)


def _print_counts(report: PairCheck, is_ok: bool) -> None:
    others = ", ".join(f"{count:,} {reason}" for reason, count in report.not_compared.items())
    if report.results:
        say(
            "scores of {results:result}: {reproduced:,} reproduced by the rows, {different:,} "
            "different[?, {number:,} not compared ({others})]",
            report,
            number=sum(report.not_compared.values()),
            others=others,
        )
    facts = {"checksum": report.without_checksum, "number of rows": report.without_total_rows}
    for fact, lacking in facts.items():
        if lacking:
            text = "{lacking:,} of {pairs:pair}: the aggregate states no {fact}"
            say(text, report, lacking=lacking, fact=fact)
    say(
        "{is_ok:OK/not OK}: [?{findings}; ]{pairs:pair}, {aggregates:aggregate}, "
        "{samples:samples file}, {rows:row}[?, {ignored:other file} ignored]"
        "[?, {bad_files:file} unreadable] ({:timing})",
        report,
        is_ok=is_ok,
        findings=report.codes and spell("{errors:error}, {warnings:warning}", report),
    )


@command()
def rejects(corpus: str, code: Names, extract: str | None) -> None:
    """List the rejected lines of CORPUS, or extract them.

    Each line is listed under its first error, which is also how the summary counts it, with the
    number of lines that `fastrec normalize --repair` would keep. The other errors of these lines
    follow, up to ten in all. Extracted lines are the exact bytes of the input. Correct them in
    their places, and give the file to `fastrec normalize --fixes`; the file beside it,
    FILE.places.jsonl, says which line of which shard each one was.

    \b
    Exit codes:
      0     done
      2     the command line is wrong, or CORPUS is not a corpus
      3     the rejected lines could not be read or written

    \b
    Examples:
      fastrec rejects corpus
      fastrec rejects corpus --code json.syntax --extract fix.jsonl
      fastrec rejects corpus --extract - | head -1
    """
    from fastrec.commands.rejects import rejects as run

    stdout = _Terminal() if sys.stdout.isatty() else sys.stdout.buffer
    with allow_broken_pipe():
        with explain_damage(corpus):
            result = run(corpus, code=code, extract=stdout if extract == "-" else extract)
        if extract is None:
            print_answer(result, text=lambda rejects: _print_rejects(rejects, code))
        else:
            _print_extracted(result, extract)


def _print_rejects(rejects: Rejects, code: Names) -> None:
    if not rejects.lines:
        click.echo(f"no line was rejected{' as ' if code else ''}{' or '.join(code)}")
        return
    rest = "lines with other errors; --code CODE lists one code"
    print_groups(rejects.groups, rejects.lines, rest, _about_rejects)
    if rejects.repairable:
        click.echo(format_repairable(rejects.repairable, rejects.repairable_by_code, rejects.lines))
    counts = ", ".join(f"{count:,} {code}" for code, count in rejects.codes.items())
    say("{lines:rejected line}: {counts}", rejects, counts=counts)


def _about_rejects(group: RejectGroup) -> tuple[str, list[str]]:
    """Say how many lines of a group repairs would keep, and list further errors of these lines."""
    kept = "all" if group.repairable == group.count else f"{group.repairable:,}"
    line = "also {path}: {message} [{code}]"
    if group.count > 1:
        line += "[?  {count:,} ×]"
    lines = [spell(line, error) for error in group.further]
    if group.unlisted:
        lines.append(spell("and {unlisted:more error}", group))
    return f"; --repair would keep {kept} of them" if group.repairable else "", lines


class _Terminal(BytesIO):
    """A file whose lines are printed on the terminal."""

    def write(self, lines: Any) -> int:
        print_exactly(lines)
        return len(lines)


def _print_extracted(rejects: Rejects, target: str) -> None:
    where = "" if target == "-" else shown(target)
    sys.stdout.buffer.flush()
    for line in rejects.truncated:
        print_notice(
            f"{line.source}:{line.line} was too long to store, so it is not extracted; fix it in "
            "its shard"
        )
    lines = rejects.lines - len(rejects.truncated)
    counts = spell("{lines:rejected line}[? written to {where}]", lines=lines, where=where)
    print_stderr(counts if lines else "no line was rejected")
    if lines and where:
        print_notice(
            f"correct the lines in their places, then: fastrec normalize … --fixes {where}"
        )


@command()
def verify(corpus: str, jobs: int) -> None:
    """Check a corpus that `fastrec normalize` published.

    It checks checksums, sort order, normal form, duplicates and line counts. Every problem is
    printed on a line of its own, with the file and, if there is one, the line number.

    \b
    Exit codes:
      0     the corpus is OK
      1     the corpus is damaged
      2     the command line is wrong, or CORPUS is not a corpus
      3     the corpus could not be read

    \b
    Examples:
      fastrec verify corpus
      fastrec verify corpus --format json | jq -r '.problems[].file' | sort -u
    """
    from fastrec.commands.verify import verify as run

    result = run_with_progress(run, corpus, stages=("check",), jobs=jobs)
    print_notice(*result.notices)
    print_answer(result, text=_print_verification)
    if not result.ok:
        raise Exit(1)


def _print_verification(result: Verification) -> None:
    from fastrec.corpus.manifest import skipped_lines

    for problem in result.problems:
        say("{file}[?:{line}]: {message} [{kind}]", problem)
    say(
        "{ok:OK/damaged}: [?{problems:problem}; ]{parts:part}, {records:record} ({:timing})", result
    )
    for line in skipped_lines(result.skipped):
        say("{}", line)


def print_findings(report: Validation | PairCheck, where: str) -> None:
    """Print the findings of a command as `text`, `json` or `github`.

    `where` says what lists those that text omits.
    """
    output_format = asked().output_format
    if output_format == "json":
        print_json(report)
    elif output_format == "text":
        print_groups(report.groups, sum(report.codes.values()), f"other findings; {where} has more")
    else:
        for group in report.groups:
            click.echo(_workflow_command(group))


def _workflow_command(group: FindingGroup) -> str:
    """Spell a command of a GitHub workflow, which shows the group beside its first line."""
    first = group.locations[0]
    more = f" (and {group.count - 1:,} more)" if group.count > 1 else ""
    message = f"{group.path}: {group.message} [{group.code}]{more}"
    level = "notice" if group.severity == "note" else group.severity
    source = _escaped_for_workflow(first.source, "\r\n%:,")
    text = _escaped_for_workflow(message, "\r\n%")
    return f"::{level} file={source},line={first.line},title={group.code}::{text}"


def _escaped_for_workflow(text: str, special: str) -> str:
    return safe("".join(f"%{ord(char):02X}" if char in special else char for char in text))


def print_groups(
    groups: Sequence[FindingGroup],
    count: int,
    rest: str,
    about: Callable[[Any], _Remarks] = lambda _: ("", ()),
) -> None:
    """Print the first groups of findings, each with its number and an example.

    `rest` describes the findings that are not shown, out of `count`; `about` makes remarks on a
    group.
    """
    colours = {"error": "red", "warning": "yellow"}
    for group in groups[:_MOST_GROUPS]:
        remark, further = about(group)
        severity = styled(group.severity, fg=colours.get(group.severity, "cyan"))
        line = "{severity} {code}  {count:,} ×[?, judged as {version}]{remark}"
        say(line, group, severity=severity, remark=remark)
        say("    {path}: {message}", group)
        for line in (locations_text(group), *further):
            say("    {}", line)
    if hidden := count - sum(group.count for group in groups[:_MOST_GROUPS]):
        click.echo(f"… and {hidden:,} {rest}")


def locations_text(group: Any) -> str:
    """Say where the first lines of a group are."""
    places = ", ".join(f"{location.source}:{location.line}" for location in group.locations)
    return f"{places}, …" if group.count > len(group.locations) else places
