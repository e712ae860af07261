"""`fastrec verify`."""

from __future__ import annotations

import click

from fastrec.cli.console import allow_broken_pipe, format_timing, print_json, print_notice, safe
from fastrec.cli.options import command, flag, prepare_reading, shared
from fastrec.cli.progress import make_progress
from fastrec.errors import counted


@command("Check that a corpus is intact.", ok="the corpus is OK", check="the corpus is damaged",
         usage="the command line is wrong, or CORPUS is not a corpus",
         failure="the corpus could not be read")  # fmt: skip
@shared("corpus", "jobs")
@flag("--json as_json", "Print the result as JSON.")
@shared("no_progress")
def verify(corpus: str, jobs: int, as_json: bool, no_progress: bool) -> None:
    """Check a corpus that `fastrec normalize` published: checksums, sort order, normal form, duplicates, line counts.

    Every problem is printed on a line of its own, with the file and, if there is one, the line number.

    \b
    Examples:
      fastrec verify corpus
      fastrec verify corpus --json | jq -r '.problems[].file' | sort -u
    """
    from fastrec.commands.verify import verify as run
    from fastrec.corpus.manifest import skipped_lines

    prepare_reading(jobs)
    with make_progress("check", quiet=no_progress) as progress:
        found = run(corpus, jobs=jobs, progress=progress)
    word = click.style("OK" if found.ok else "damaged", fg="green" if found.ok else "red", bold=True)
    counts = f"{counted(found.parts, 'part')}, {counted(found.records, 'record')}"
    timing = format_timing(found.text_bytes, found.seconds)
    with allow_broken_pipe():
        print_notice(*found.notices)
        if as_json:
            print_json(found)
        else:
            for problem in found.problems:
                location = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
                click.echo(f"{safe(location)}: {safe(problem.message)} [{problem.kind}]")
            problems = "" if found.ok else f"{counted(len(found.problems), 'problem')}; "
            click.echo("\n".join([f"{word}: {problems}{counts} ({timing})", *map(safe, skipped_lines(found.skipped))]))
    if not found.ok:
        raise click.exceptions.Exit(1)
