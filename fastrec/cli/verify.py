"""`fastrec verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fastrec.cli.console import allow_broken_pipe, print_json, print_notice
from fastrec.cli.options import jobs_option, verbose_option
from fastrec.cli.spelling import safe, spell_bytes, spell_speed
from fastrec.errors import counted

if TYPE_CHECKING:
    from fastrec.commands.verify import Verification
    from fastrec.commands.verify.problems import Problem

__all__ = ["verify"]


@click.command(short_help="Check that a corpus is intact.")
@click.argument("corpus", type=click.Path())
@jobs_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@verbose_option
def verify(corpus: str, jobs: int, as_json: bool) -> None:
    """Check a corpus that `fastrec normalize` published: checksums, sort order, normal form, duplicates, line counts.

    Every problem is printed on a line of its own, with the file and, if there is one, the line number.

    \b
    Exit codes:
      0     the corpus is OK
      1     the corpus is damaged
      2     the command line is wrong, or CORPUS is not a corpus
      3     the corpus could not be read

    \b
    Examples:
      fastrec verify corpus
      fastrec verify corpus --json | jq -r '.problems[].file' | sort -u
    """
    from fastrec.cli.memory import cap_memory
    from fastrec.commands.verify import verify as run

    cap_memory(jobs)
    found = run(corpus, jobs=jobs)
    with allow_broken_pipe():
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
    location = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    return f"{safe(location)}: {safe(problem.message)} [{problem.kind}]"


def _verdict(found: Verification) -> str:
    """Return the closing line."""
    word = click.style("OK" if found.ok else "damaged", fg="green" if found.ok else "red", bold=True)
    problems = "" if found.ok else f"{counted(len(found.problems), 'problem')}; "
    return (
        f"{word}: {problems}{counted(found.parts, 'part')}, {counted(found.records, 'record')} "
        f"({spell_bytes(found.text_bytes)} {spell_speed(found.text_bytes, found.seconds)})"
    )
