"""`fastrec normalize`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import (
    ask_for_input,
    counted,
    decimal,
    jobs_option,
    megabytes,
    no_progress_option,
    pace,
    print_json,
    print_notice,
    reader_may_leave,
    safe,
    say,
    size_option,
)
from fastrec.errors import shown

if TYPE_CHECKING:
    from fastrec.normalize.run import NormalizeResult, Plan

__all__ = ["normalize"]

_MOST_MODELS = 20  # of each evaluation in the table


class MaxRejects(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A number of lines, or a share of them: `100`, `0.5%`."""

    name = "N|N%"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, bool]:
        """Turn what was typed into a number and whether it is a percentage."""
        text = str(value)
        try:
            number = float(text.removesuffix("%"))
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            self.fail(f"{text!r} is neither a number of lines nor a percentage such as 0.5%", param, ctx)
        return number, text.endswith("%")


@click.command(short_help="Make one clean, sorted corpus of a pile of shards.")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, help="Directory or URL to publish the corpus as.")
@jobs_option
@click.option("--engine", type=click.Choice(["pool", "dask"]), envvar="FASTREC_ENGINE", default="pool",
              show_envvar=True, show_default=True,
              help="Where tasks run: processes of this machine, or a Dask cluster.")  # fmt: skip
@click.option("--scheduler", metavar="ADDRESS", envvar="FASTREC_SCHEDULER", show_envvar=True,
              show_default="a cluster on this machine", help="Dask scheduler to use.")  # fmt: skip
@click.option("--memory", type=size_option, envvar="FASTREC_MEMORY", show_envvar=True, show_default="512MiB per job",
              help="Total memory to use.")  # fmt: skip
@click.option("--part-size", type=size_option, default="64MiB", show_default=True, help="Text per part.")
@click.option("--compression", type=click.Choice(["zst", "gz", "none"]), default="zst", show_default=True,
              help="How parts are compressed.")  # fmt: skip
@click.option("--level", type=int, default=3, show_default=True, help="Compression level.")
@click.option("--sort-by", metavar="FIELDS",
              show_default="evaluation_name, sample_hash, model_id, evaluation_id, sample_id",
              help="Fields to sort by, in this order, separated by commas; the others follow.")  # fmt: skip
@click.option("--hash", type=click.Choice(["sha256", "xxh3_128"]), default="sha256", show_default=True,
              help="How sample_hash is computed.")  # fmt: skip
@click.option("--sample-hash", type=click.Choice(["replace", "fill", "verify"]), default="replace", show_default=True,
              help="Another sample_hash than the computed one: replace, leave, or reject it.")  # fmt: skip
@click.option("--conflicts", type=click.Choice(["keep", "first", "reject"]), default="keep", show_default=True,
              help="What to do with different records of one identity.")  # fmt: skip
@click.option(
    "--max-rejects", type=MaxRejects(), default="0", show_default=True, help="Exit 0 up to so many rejected lines."
)
@click.option("--skip-bad-shards", is_flag=True, help="Publish without the shards that cannot be read.")
@click.option("--fresh", is_flag=True, help="Use nothing that an earlier, unfinished run has left.")
@click.option("--overwrite", is_flag=True, help="Replace a corpus that is there.")
@click.option("--work-dir", type=click.Path(), envvar="FASTREC_WORK_DIR", show_envvar=True,
              show_default="beside the output; under TMPDIR, if that is in a store and no scheduler is named",
              help="Directory or URL for temporary files.")  # fmt: skip
@click.option("--files-from", type=click.Path(), metavar="FILE",
              help="Read further paths from this file (- for stdin), one a line.")  # fmt: skip
@click.option(
    "--max-line-bytes", type=size_option, default="1GiB", show_default=True, help="A longer line is rejected."
)
@click.option("--max-window", type=size_option, default="128MiB", show_default=True, help="Largest zstd window.")
@click.option("--dry-run", is_flag=True, help="Say what would be read, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the final report as JSON on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@no_progress_option
@click.option("-v", "--verbose", count=True, help="Print the summary table too; -vv: details of unexpected errors.")
def normalize(paths: tuple[str, ...], output: str, **given: Any) -> None:
    """Turn any pile of shards into one clean, sorted corpus.

    PATHS are files, directories (searched for *.jsonl*), quoted patterns, URLs of all these in a store (s3://, gs://,
    hf:// …), or - for standard input. OUTPUT appears whole or not at all: part-*.jsonl.zst, summary.json,
    manifest.json, and rejects.jsonl.zst if lines were rejected.

    \b
    Exit codes:
      0     done, and no more lines rejected than --max-rejects allows
      1     done and published, but more lines were rejected
      2     the command line is wrong
      3     not done, nothing published: a bad shard, a full disk, a worker that
            kept dying
      130   interrupted; what was finished is kept for the next run
      143   terminated; the same

    \b
    Examples:
      fastrec normalize runs/ -o corpus
      fastrec normalize 'runs/2026-*/*' -o corpus --overwrite --max-rejects 0.1%
      fastrec normalize runs/ -o corpus --overwrite --dry-run
      zcat old.gz | fastrec normalize - -o old-corpus
    """
    from fastrec.normalize.options import Options
    from fastrec.normalize.run import plan, run

    dry_run, as_json, quiet, verbose = (given.pop(name) for name in ("dry_run", "as_json", "quiet", "verbose"))
    no_progress = given.pop("no_progress")
    most, is_share = given.pop("max_rejects")
    files_from = given.pop("files_from")
    sort_by = tuple(field.strip() for field in (given.pop("sort_by") or "").split(",") if field.strip())
    options = Options(**given, sort_by=sort_by)
    if dry_run:
        with reader_may_leave():
            _print_plan(plan(paths, options, files_from=files_from), as_json=as_json)
        return
    from fastrec.cli.limits import cap_memory
    from fastrec.cli.progress import make_progress

    ask_for_input(paths)
    cap_memory(options.jobs)
    with make_progress(quiet=quiet or no_progress) as progress:
        notice = None if quiet else print_notice
        report = run(paths, output, options, files_from=files_from, progress=progress, notice=notice)
    if not quiet:
        for skipped in report.skipped:
            print_notice(f"skipped {skipped}")
    with _published(report), reader_may_leave():
        if as_json:
            print_json(report)
        elif verbose:
            from fastrec.cli.tables import print_stats
            from fastrec.summary.ranking import rank_all

            print_stats(rank_all(report.summary), most=_MOST_MODELS)
    books = report.summary.line_counts
    too_many = books.rejected > (most / 100 * books.lines if is_share else most)
    if not quiet:
        say(_closing_line(report))
    if too_many:
        if not quiet:
            print_notice(f"`fastrec rejects {shown(output)}` says why lines were rejected")
        raise click.exceptions.Exit(1)


@contextlib.contextmanager
def _published(report: NormalizeResult) -> Iterator[None]:
    """Print in here: if that fails, say that the work is done."""
    try:
        yield
    except OSError as exc:
        exc.add_note(f"The corpus is published all the same, as {shown(report.output)}.")
        raise


def _print_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    for notice in plan.notices:
        print_notice(notice)
    for path in plan.paths:
        click.echo(safe(path))
    click.echo(
        f"{counted(plan.shards, 'shard')}, {megabytes(plan.input_bytes)}, "
        f"about {megabytes(plan.estimated_text_bytes)} of text: "
        f"{counted(plan.tasks, 'task')}, about {counted(plan.estimated_parts, 'part')}"
    )


def _closing_line(report: NormalizeResult) -> str:
    books, conflicts = report.summary.line_counts, report.summary.conflicts
    # A stream has no size of its own.
    size = megabytes(report.input_bytes) if report.input_bytes else f"{megabytes(report.text_bytes)} of text"
    return (
        f"{counted(books.lines, 'line')}: {decimal(books.kept)} kept, {counted(books.duplicates, 'duplicate')}, "
        f"{decimal(books.rejected)} rejected, {decimal(books.blank)} blank; "
        f"{counted(conflicts.identities, 'conflict')}; {counted(report.parts, 'part')}, "
        f"{size} → {megabytes(report.output_bytes)} "
        f"{pace(report.text_bytes, report.seconds)}"
    )
