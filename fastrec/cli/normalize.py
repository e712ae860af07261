"""`fastrec normalize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fastrec.cli.console import (
    allow_broken_pipe,
    format_bytes,
    format_repairable,
    format_speed,
    print_json,
    print_notice,
    print_stderr,
    print_warning,
    safe,
)
from fastrec.cli.options import Checked, Size, choice_option, flag, option, prepare_reading, shared
from fastrec.cli.progress import make_progress
from fastrec.errors import RefusedError, counted, shown

if TYPE_CHECKING:
    from fastrec.cli.tables import Section
    from fastrec.normalize.dry_run import Plan
    from fastrec.normalize.run import NormalizeResult


def _check_max_rejects(number: str) -> None:
    from fastrec.normalize.options import parse_max_rejects

    parse_max_rejects(number)


@click.command(short_help="Make one clean, sorted corpus from any shards.")
@shared("paths")
@option("-o --output", "Where to publish the corpus: directory or URL.", type=click.Path(), required=True)
@shared("jobs")
@choice_option("--engine", ["pool", "dask"], "Where tasks run: local processes, or a Dask cluster.",
               envvar="FASTREC_ENGINE", show_envvar=True)  # fmt: skip
@option("--scheduler", "Address of the Dask scheduler.", metavar="ADDRESS", envvar="FASTREC_SCHEDULER",
        show_envvar=True, show_default="a cluster on this machine")  # fmt: skip
@option("--memory", "Total memory to use.", type=Size(), envvar="FASTREC_MEMORY", show_envvar=True,
        show_default="512MiB per job")  # fmt: skip
@option("--part-size", "Uncompressed text per part; a corpus of less than 8 such parts gets smaller ones, of at least "
        "16 MiB.", type=Size(), default="64MiB")  # fmt: skip
@choice_option("--compression", ["zst", "gz", "none"], "Compression of the parts.")
@option("--level", "Compression level.", type=int, default=3)
@option("--sort-by", "Sort by these comma-separated fields first, then by the others.", metavar="FIELDS",
        show_default="evaluation_name, sample_hash, model_id, evaluation_id, sample_id, and evaluation_result_id if "
        "records have it")  # fmt: skip
@choice_option("--schema", ["auto", "0.2.0", "0.3.0"], "Schema version of the corpus; auto: 0.2.0 if all valid records "
               "are of that version, else 0.3.0.")  # fmt: skip
@choice_option("--hash-algorithm", ["sha256", "xxh3_128"], "Algorithm of sample_hash. --hash sha256 and --hash "
               "xxh3_128 do the same, as in earlier releases.")  # fmt: skip
@choice_option("--sample-hash", ["replace", "fill", "verify"], "What to do if a record's sample_hash is wrong: replace "
               "it, keep it (fill), or reject the record (verify).")  # fmt: skip
@shared("repair")
@choice_option("--same-run", ["keep", "ignore"], "What to do with records that are equal but for evaluation_id and "
               "schema_version: keep all of them, or ignore the run and drop all but the first as "
               "duplicates.")  # fmt: skip
@choice_option("--conflicts", ["keep", "first", "reject"], "What to do with contradictions, which are records of one "
               "identity with the same output and different verdicts: keep all of them, keep the first, or reject all "
               "of them.")  # fmt: skip
@choice_option("--repeats", ["keep", "first", "reject"], "What to do with repeats, which are other records of one "
               "identity, such as epochs: keep all of them, keep the first, or reject all of them.")  # fmt: skip
@flag("--track-sources", "Also write the shard and the line of each record, to a small file beside its part.")
@option("--map", "Rename models, evaluations and metrics: a TOML file with [models], [evaluations] and [metrics], in "
        'which each line is "old" = "new"; a * matches anything.', metavar="FILE", type=click.Path())  # fmt: skip
@flag("--keep-names", "With --map: keep the old names in metadata.original_model_id and the like.")
@option("--labels", "Correct verdicts: a file of JSON lines, such as `fastrec view --labels` writes. The verdict "
        "before stays in metadata.original_score and the like.", metavar="FILE", type=click.Path())  # fmt: skip
@flag("--strict-labels", "Publish nothing if a label matches no record or several.")
@option("--fixes", "Replace rejected lines by their corrected versions: the file that `fastrec rejects --extract` "
        "wrote, edited.", metavar="FILE", type=click.Path())  # fmt: skip
@flag("--trust", "Do not judge the records of a corpus again, even if somebody else has published it.")
@flag("--judge", "Judge the records of a corpus again, even if you have published it with this fastrec.")
@option("--max-rejects", "If more lines than this are rejected, do not publish: put the corpus at OUTPUT.refused, and "
        "exit 1.", type=Checked("N|N%", _check_max_rejects),
        show_default="publish in any case; exit 1 if any line is rejected")  # fmt: skip
@flag("--skip-bad-shards", "Publish without the shards that cannot be read.")
@flag("--allow-empty", "Publish a corpus even if no line is valid, or no record matches the filters.")
@flag("--incremental", "Keep work for the next run, and reuse what the last run kept: only new and changed shards are "
      "read, and only parts that change are written. `fastrec clean` removes kept work.")  # fmt: skip
@choice_option("--check", ["stat", "content"], "How --incremental tells whether a file has changed: by size, "
               "modification time and inode or ETag (stat), or by reading it (content).")  # fmt: skip
@flag("--fresh", "Do not reuse the work of earlier runs.")
@flag("--overwrite", "Replace an existing corpus, but not by one without any records.")
@option("--work-dir", "Directory or URL for temporary files and kept work.", type=click.Path(),
        envvar="FASTREC_WORK_DIR", show_envvar=True,
        show_default="next to the output; TMPDIR for a store, without --scheduler and --incremental")  # fmt: skip
@shared("filters", "reading")
@flag("--dry-run", "Show what would be read, and stop. With --incremental, judge new and changed shards in a temporary "
      "directory, to say how many parts would be written.")  # fmt: skip
@shared("json")
@flag("-q --quiet", "Print only errors and skipped shards.")
@shared("no_progress")
@option("-v --verbose", "Print a table of models too; with -vv, also where the time went, and a traceback for "
        "unexpected errors.", count=True)  # fmt: skip
def normalize(
    *, paths: tuple[str, ...], files_from: str | None, output: str, sort_by: str | None, dry_run: bool, as_json: bool,
    quiet: bool, no_progress: bool, verbose: int, **given: Any,
) -> None:  # fmt: skip
    """Turn any number of shards into one clean, sorted corpus.

    PATHS are files, directories (searched for *.jsonl*), quoted patterns, URLs of these in an object store (s3://,
    gs://, hf:// …), or - for standard input. OUTPUT is published atomically: part-*.jsonl.zst, summary.json,
    manifest.json, and, if lines were rejected, rejects.jsonl.zst.

    \b
    Exit codes:
      0     done
      1     done and published, but lines were rejected (without --max-rejects);
            or refused, and put at OUTPUT.refused: more than --max-rejects lines
            were rejected, or no records would replace a corpus with records
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
    from fastrec.normalize.options import make_options
    from fastrec.normalize.run import run

    options = make_options(**given, sort_by=sort_by or ())
    if dry_run:
        from fastrec.normalize.dry_run import plan

        with allow_broken_pipe():
            _print_plan(plan(paths, output, options, files_from=files_from), as_json=as_json)
        return
    prepare_reading(options.jobs, paths)
    with make_progress("sort", "merge", quiet=quiet or no_progress) as progress:
        notice = None if quiet else print_notice
        result = run(paths, output, options, files_from=files_from, progress=progress, notice=notice)
    try:
        with allow_broken_pipe():
            if as_json:
                print_json(result)
            elif verbose:
                from fastrec.cli.stats import stats_sections
                from fastrec.cli.tables import print_section, print_sections
                from fastrec.summary.present_choice import choose
                from fastrec.summary.present_ranking import facts_of, rank

                ranked = rank(choose(result.summary), facts_of(result.summary))
                ranked.others = len(result.summary.evaluations) - len(ranked.evaluations)
                print_sections(*stats_sections(ranked, most=20))
                if verbose > 1:
                    click.echo()
                    print_section(_phases_section(result))
    except OSError as exc:
        verb = "refused: it is in" if result.refused else "published as"
        exc.add_note(f"The corpus was {verb} {shown(result.output)}.")
        raise
    rejected = result.summary.line_counts.rejected
    if not quiet:
        print_stderr(_closing_line(result))
        if repairable := result.summary.repairable.lines:
            print_notice(format_repairable(repairable, result.summary.repairable.by_code, rejected))
    print_warning(skipped_lines(result.skipped))  # also with --quiet: a nightly job must not lose shards silently
    if result.refused:
        raise RefusedError(output, result.output, result.refused, result.summary)
    if rejected and options.gate is None:
        if not quiet:
            print_notice(f"run `fastrec rejects {shown(output)}` to see why lines were rejected")
        raise click.exceptions.Exit(1)


def _phases_section(result: NormalizeResult) -> Section:
    from fastrec.cli.tables import Section, Table, columns

    rows = []
    for phase in result.phases:
        times = (phase.seconds, phase.cpu_seconds, phase.waiting_seconds)
        rows.append([phase.name, f"{phase.tasks:,}", *(f"{seconds:.2f} s" for seconds in times)])
    table = Table(columns(["phase", "tasks", "time", "processor", "waiting"]), rows)
    about = "processor time and waiting are sums over all tasks; in the time of the driver, no tasks ran"
    return Section("Where the time went", about, table)


def _print_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    print_notice(*plan.notices)
    for path in plan.paths:
        click.echo(safe(path))
    sizes = f"{format_bytes(plan.input_bytes)}, about {format_bytes(plan.estimated_text_bytes)} of text"
    work = "" if plan.incremental else f": {counted(plan.tasks, 'task')}, about {counted(plan.estimated_parts, 'part')}"
    click.echo(f"{counted(plan.shards, 'shard')}, {sizes}{work}; schema {plan.schema}")
    if reuse := plan.incremental:
        for name, some in (("new", reuse.new), ("changed", reuse.changed), ("gone", reuse.gone)):
            for path in () if reuse.is_estimate else some:
                click.echo(f"{name}: {safe(path)}")
        shards = _format_changes(plan.shards, reuse.unchanged, len(reuse.new), len(reuse.changed), len(reuse.gone))
        written = "about" if reuse.is_estimate else f"{reuse.parts_written:,} of"
        click.echo(f"{shards}; {written} {counted(reuse.parts, 'part')} to write")


def _format_changes(shards: int, unchanged: int, new: int, changed: int, gone: int) -> str:
    counts = (("unchanged", unchanged), ("new", new), ("changed", changed), ("gone", gone))
    found = ", ".join(f"{count:,} {name}" for name, count in counts if count)
    return f"{counted(shards, 'shard')}: {found or 'none'}"


def _closing_line(result: NormalizeResult) -> str:
    summary, counts = result.summary, result.summary.line_counts
    contradictions = counted(summary.contradictions.identities, "contradiction")
    repaired = f"{summary.repaired.lines:,} repaired; " if summary.repaired.lines else ""
    if fixes := summary.fixes:
        repaired = f"{fixes.fixed:,} fixed; {repaired}"
    if labels := summary.labels:
        repaired = f"{counted(labels.changed, 'verdict')} changed; {repaired}"
    filtered = f"{result.filtered:,} filtered out; " if result.filtered else ""
    parts = counted(result.parts, "part")
    if result.incremental:
        shards = _format_changes(result.shards, result.unchanged, result.new, result.changed, result.gone)
        parts = f"{shards}; {result.parts_written:,} of {parts} written"
    # The size of a stream is unknown.
    size = format_bytes(result.input_bytes) if result.input_bytes else f"{format_bytes(result.text_bytes)} of text"
    return (
        f"{counted(counts.lines, 'line')}: {counts.kept:,} kept, {counted(counts.duplicates, 'duplicate')}, "
        f"{counts.rejected:,} rejected, {counts.blank:,} blank; {filtered}{repaired}{contradictions}, "
        f"{counted(summary.repeats.identities, 'repeat')}; "
        f"{parts}, {size} → {format_bytes(result.output_bytes)} "
        f"{format_speed(result.text_bytes, result.seconds)}"
    )
