"""`normalize`: turn shards into one sorted corpus.

1. Find the shards and check the output path (`inputs`). Guess the target.
2. Make the corpus and its documents (`driver`). Start again if the target was guessed wrong, or
   kept work is damaged.
3. Publish the output directory atomically, or put it at `OUT.refused` if it does not pass the gate.

Finished tasks are in a journal, from which the next run resumes if this one is interrupted
(`resume`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from time import perf_counter, time_ns
from typing import Unpack

from msgspec import Struct
from msgspec.structs import replace

from fastrec.corpus.output import CORPUS, KEPT, Output, work_root_of
from fastrec.corpus.publish import (
    check_inputs_not_in,
    check_output,
    check_reachable,
    open_output,
    too_little_space,
)
from fastrec.corpus.trust import remember, trusted_shards
from fastrec.engine import is_small, make_engine
from fastrec.engine.base import OTHER_PHASE, Engine, Phase, Result
from fastrec.errors import (
    CorpusError,
    DamagedFileError,
    NoMatchError,
    NothingValidError,
    RefusedError,
    UsageError,
    shown,
    utf8,
)
from fastrec.normalize.context import RunContext
from fastrec.normalize.driver import Corpus, make_corpus
from fastrec.normalize.inputs import Streams, check_fields, check_formats, find_records
from fastrec.normalize.kept import Base, Kept, KeptOrReason, find_base, recover_kept
from fastrec.normalize.options import AUTO, NormalizeArguments, Options, make_options
from fastrec.normalize.pass1 import WrongTargetError, choose_target
from fastrec.normalize.resume import Journal, Settings, reusable_settings
from fastrec.parameters import AnyPath, Notice, Paths, path_names
from fastrec.progress import Progress
from fastrec.schemas.registry import NEWEST_SCHEMA, TARGETS
from fastrec.schemas.schema import Schema
from fastrec.sources.shard import Shards, total_text
from fastrec.storage import is_private, is_url, join, storage_of, without_file_protocol
from fastrec.storage.local import scratch_directory
from fastrec.summary.document import Summary, filled


class NormalizeResult(Struct):
    """The result of a run."""

    #: Path of the corpus, or of the refused one.
    output: str
    #: Why the corpus was not published, and is in `OUT.refused` instead of `OUT`; null if it was.
    refused: str | None
    #: The document `summary.json`.
    summary: Summary
    #: Number of parts.
    parts: int
    #: Whether `--incremental` was given.
    incremental: bool
    #: Parts that were made. Others are those of the last run.
    parts_written: int
    #: Files in the corpus.
    shards: int
    #: Files as the last run read them, not read again.
    unchanged: int
    #: Files that the last run did not have; all without `--incremental` or usable work.
    new: int
    #: Files that changed since the last run.
    changed: int
    #: Files of the last run that are not there any more.
    gone: int
    #: Size of all files.
    input_bytes: int
    #: Size of the decompressed text.
    text_bytes: int
    #: Records that filters left out; they are not among the lines.
    filtered: int
    #: Size of the parts.
    output_bytes: int
    #: How long it took.
    seconds: float
    #: Where the time went.
    phases: list[Phase]
    #: Unreadable shards that `--skip-bad-shards` left out of the corpus.
    skipped: list[str]
    #: Notices for the user.
    notices: list[str]


def normalize(
    paths: Paths,
    output: AnyPath,
    *,
    files_from: str | None = None,
    progress: Progress | None = None,
    **options: Unpack[NormalizeArguments],
) -> Summary:
    """Turn shards into one sorted corpus at `output`, and return its summary.

    Args:
        paths: Files, directories, globs, or `-` for standard input.
        output: The directory to publish; it must not exist, unless `overwrite` is given.
        files_from: A file with further paths, one per line.
        progress: Receives the progress of the run.
        **options: How to normalize, and which records (`NormalizeArguments`). `docs/commands.md`
            explains each option.

    Raises:
        UsageError: An argument is wrong, or no record matches the filters; nothing was done.
        NothingValidError: No line is a valid record; nothing was published. `allow_empty` publishes
            an empty corpus.
        ForeignFormatError: An input is not JSON Lines, but Parquet, CSV, a JSON array …; nothing
            was done.
        BadShardsError: Some shards could not be read completely. It lists all of them; nothing was
            published.
        RefusedError: More than `max_rejects` lines were rejected, or an empty corpus would replace
            one with records. The old corpus stays; the new one is at `output` + `.refused`.
    """
    names = path_names(paths)
    result = run(names, output, make_options(**options), files_from=files_from, progress=progress)
    if result.refused:
        raise RefusedError(os.fspath(output), result.output, result.refused, result.summary)
    return result.summary


def run(
    names: Sequence[AnyPath],
    output: AnyPath,
    options: Options,
    *,
    files_from: str | None = None,
    progress: Progress | None = None,
    notice: Notice | None = None,
) -> NormalizeResult:
    """Turn shards into one sorted corpus at `output`, unless it is refused.

    `notice` receives each notice at once.
    """
    started = perf_counter()
    notices = []

    def note(message: str) -> None:
        notices.append(message)
        if notice:
            notice(message)

    paths = list(map(without_file_protocol, names))
    shards, messages = find_records(paths, files_from=files_from)
    for message in messages:
        note(message)
    target = without_file_protocol(output)
    check_output(target, paths, shards)
    if not options.skip_bad_shards:
        check_formats(shards)
    work = _work_root(target, options)
    with (
        open_output(
            target, CORPUS, work, overwrite=options.overwrite, fresh=options.fresh
        ) as opened,
        _resumable(opened),
    ):
        check_inputs_not_in(opened.refused, paths, shards)
        if options.gate or options.check_secrets or opened.old_marker is not None:
            opened.check_refused()
        corpus = run_passes(shards, options, opened, progress=progress, notice=note)
        manifest = corpus.manifest
        if corpus.kept:
            opened.keep_files(corpus.kept, corpus.kept_files)
        if manifest.refused:
            opened.refuse()
        else:
            opened.publish()
            if not manifest.trusted:
                remember(manifest.to_json(), is_guess=options.schema == AUTO)
            opened.remove_refused()
        if corpus.kept:
            with suppress(OSError):  # the corpus is published; the next run tries again
                kept = recover_kept(opened.kept_path)
                files = kept.files if isinstance(kept, Kept) else []
                opened.kept = frozenset(file.path for file in files)
    seconds = perf_counter() - started
    driver = Phase("driver", seconds=seconds - sum(phase.seconds for phase in corpus.phases))
    base = corpus.base
    changes = base.changes
    return filled(
        NormalizeResult,
        manifest,
        corpus,
        options,
        output=utf8(opened.refused if manifest.refused else target),
        parts=len(manifest.parts),
        shards=len(shards),
        unchanged=len(changes.unchanged),
        new=len(changes.new),
        changed=len(changes.changed),
        gone=len(base.paths_gone),
        input_bytes=sum(shard.size for shard in shards),
        text_bytes=sum(entry.text_bytes for entry in manifest.inputs),
        output_bytes=sum(part.bytes for part in manifest.parts),
        seconds=seconds,
        phases=[*corpus.phases, driver],
        notices=notices,
    )


def _work_root(output: str, options: Options) -> str:
    """Where temporary files go: next to the output, unless all workers of a store are here."""
    work = work_root_of(output, options.work_dir)
    if options.work_dir is not None or not is_url(output):
        return work
    if options.scheduler or options.incremental:
        return work
    kept = join(work, KEPT)
    if storage_of(kept).exists(kept):  # this run takes its place, and removes it
        return work
    return work_root_of(output, scratch_directory())


def run_passes(
    shards: Shards,
    options: Options,
    output: Output,
    *,
    progress: Progress | None,
    notice: Notice,
) -> Corpus:
    """Make a corpus in the staging directory of `output`, without publishing it."""
    small = is_small(total_text(shards)) and not any(shard.stream for shard in shards)
    private = any(
        map(is_private, (output.work, output.staged(""), *(shard.path for shard in shards)))
    )
    if private and options.engine == "dask":
        raise UsageError(
            "a cluster cannot read files in the memory of this process: give --engine pool"
        )
    if (small or private) and options.engine == "pool":
        memory = options.memory or options.memory_per_job * options.jobs
        options = replace(options, jobs=1, memory=memory)
    check_fields(shards, options.filters.where)
    engine = make_engine(options.jobs, options.engine, options.scheduler)
    corpus = run_attempts(
        make_corpus,
        shards,
        options,
        output,
        engine,
        kept=_find_kept(output),
        progress=progress or Progress(),
        notice=notice,
    )
    # Checks and counts run between all others, and are listed after them.
    phases = sorted(engine.times.values(), key=lambda phase: phase.name == OTHER_PHASE)
    return replace(corpus, phases=tuple(phase for phase in phases if phase.tasks))


def _find_kept(output: Output) -> KeptOrReason:
    """Read what the last run kept; None if there is nothing, or why it cannot be read."""
    kept = recover_kept(output.kept_path)
    if kept is None and output.holds_work() and not output.journals():
        return f"{shown(output.kept_path)} is missing"
    return kept


def run_attempts(
    make: Callable[[Shards, RunContext, Base], Result],
    shards: Shards,
    options: Options,
    output: Output,
    engine: Engine,
    *,
    kept: KeptOrReason,
    progress: Progress,
    notice: Notice,
) -> Result:
    """Make something of the shards.

    Start again if the target is wrong, or if kept work turns out to be damaged.
    """
    is_guess = options.schema == AUTO
    targets = TARGETS.values() if is_guess else [options.target]
    settings = {target.name: options.settings_of(target) for target in targets}
    target = _first_target(shards, options, output, kept, settings)
    may_start_again = is_guess or isinstance(kept, Kept)
    streams = Streams(kept=may_start_again and any(shard.stream for shard in shards))
    started_at = time_ns()
    say = cache(notice)  # a further attempt does not repeat a notice
    is_first = True
    is_settled = False
    with engine:
        if options.engine == "dask":  # a cluster has the size that it has
            options = replace(options, jobs=engine.jobs)
            check_reachable((output.working(""), output.staged("")), engine)
        while True:
            ours = settings[target.name]
            check = options.check if options.incremental else None
            marked = _mark_trusted(shards, options, target, say)
            base, reason = find_base(kept, marked, ours, engine, check)
            if reason:
                kept = None
                if check:
                    say(f"work kept by the last run is not used, and all shards are read: {reason}")
            with Journal(output, ours) as journal:
                context = RunContext(
                    options=options,
                    target=target,
                    output=output,
                    engine=engine,
                    journal=journal,
                    progress=progress,
                    notice=say,
                    streams=streams,
                    started_at=started_at,
                    is_first=is_first,
                    is_settled=is_settled,
                )
                if is_first:
                    _warn(marked, context, base)
                is_first = False
                try:
                    return make(marked, context, base)
                except WrongTargetError as exc:
                    say(str(exc))
                    target = exc.target
                    # The default version is certain: the whole input was read. The newest one is
                    # not if a bad shard had the later record.
                    is_settled = target is not NEWEST_SCHEMA
                except (DamagedFileError, CorpusError) as exc:
                    if exc.path not in base.files:
                        raise
                    kept = str(exc)


def _first_target(
    shards: Shards,
    options: Options,
    output: Output,
    kept: KeptOrReason,
    settings: dict[str, Settings],
) -> Schema:
    """The target of finished work, or else one that is given or guessed."""
    kept_settings = {}
    if isinstance(kept, Kept) and options.incremental:
        kept_settings = kept.settings
    if name := reusable_settings(settings, output.journals(), kept_settings):
        return TARGETS[name]
    # This also makes the judge of the target, which workers that are forked later inherit.
    return choose_target(shards, options.line_settings(options.target))


def _mark_trusted(shards: Shards, options: Options, target: Schema, notice: Notice) -> Shards:
    if options.judge:
        return shards
    return trusted_shards(
        shards,
        target,
        sort_fields=options.sort_fields_of(target),
        is_guess=options.schema == AUTO,
        trust=options.trust,
        why_judged_again=options.why_judged_again,
        notice=notice,
    )


def _warn(shards: Shards, context: RunContext, base: Base) -> None:
    """Give notices about scarce space, and about work that is lost."""
    unchanged = base.changes.unchanged
    read = [shard for number, shard in enumerate(shards) if number not in unchanged]
    judges_all = context.options.judges_all_lines
    written_as_runs = [shard for shard in read if judges_all or not shard.is_run]
    if scarce := too_little_space(context.output, read, written_as_runs):
        context.notice(scarce)
    if reason := context.journal.discarded:
        context.notice(f"finished work of an interrupted run is not reused: {reason}")


@contextmanager
def _resumable(output: Output) -> Iterator[None]:
    """If the run fails, add a note that it can be resumed.

    If nothing was finished, remove the work directory.
    """
    try:
        yield
    except BaseException as exc:
        if isinstance(exc, (NoMatchError, NothingValidError)) and not storage_of(
            output.kept_path
        ).exists(output.kept_path):
            output.clear()  # the same command would find the same
        elif output.holds_work():
            exc.add_note(
                f"Finished work is kept in {shown(output.work_root)}: the same command resumes "
                "from there, "
                "or starts over with --fresh."
            )
        else:
            output.clear()
        raise
