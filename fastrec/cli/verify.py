"""`fastrec verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fastrec.cli.console import (
    counted,
    jobs_option,
    megabytes,
    pace,
    print_json,
    print_notice,
    reader_may_leave,
    safe,
    verbose_option,
)

if TYPE_CHECKING:
    from fastrec.commands.verify import Verification
    from fastrec.commands.verify.problems import Problem

__all__ = ["verify"]


@click.command(short_help="Check a corpus that was made before, byte by byte.")
@click.argument("corpus", type=click.Path())
@jobs_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@verbose_option
def verify(corpus: str, jobs: int, as_json: bool) -> None:
    """Check a corpus that `fastrec normalize` made: checksums, order, normal form, no copies, and the books.

    All that is wrong is named, each problem on a line of its own, with the file and the line where it has one.

    \b
    Exit codes:
      0     the corpus is sound
      1     something is wrong with it
      2     the command line is wrong, or CORPUS is no corpus
      3     it may not be read

    \b
    Examples:
      fastrec verify corpus
      fastrec verify corpus --json | jq -r '.problems[].file' | sort -u
    """
    from fastrec.cli.limits import cap_memory
    from fastrec.commands.verify import verify as run

    cap_memory(jobs)
    found = run(corpus, jobs=jobs)
    with reader_may_leave():
        for notice in found.notices:
            print_notice(notice)
        if as_json:
            print_json(found)
        else:
            for problem in found.problems:
                click.echo(_spelled(problem))
            click.echo(_verdict(found))
    if not found.ok:
        raise click.exceptions.Exit(1)


def _spelled(problem: Problem) -> str:
    place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    return f"{safe(place)}: {safe(problem.message)} [{problem.kind}]"


def _verdict(found: Verification) -> str:
    """One line that says it all."""
    word = click.style("sound" if found.ok else "not sound", fg="green" if found.ok else "red", bold=True)
    problems = "" if found.ok else f"{counted(len(found.problems), 'problem')}; "
    return (
        f"{word}: {problems}{counted(found.parts, 'part')}, {counted(found.records, 'record')} "
        f"({megabytes(found.text_bytes)} {pace(found.text_bytes, found.seconds)})"
    )
