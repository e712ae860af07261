"""`normalize`: from any pile of shards to one sorted corpus.

    shards ──▶ pass 1, one task per slice of input ──▶ runs ──▶ pass 2, one task per part ──▶ parts ──▶ publish

1. Find the shards; check where the corpus is to go.
2. Pass 1 (`driver`, `feed`, `pass1`): judge, normalize and sort, into runs on disk.
3. Cut the keys into parts; pass 2 (`pass2`): gather, drop copies, count and compress each part.
4. Put the books together (`books`): summary and manifest; they must balance.
5. Publish by one rename (`publish`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from fastrec.corpus.documents import MANIFEST
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.output import Kind, Output
from fastrec.corpus.publish import check_output, open_output, too_little_space
from fastrec.engine import make_engine
from fastrec.engine.jobs import is_small
from fastrec.errors import UsageError, shown, utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.driver import Normalizer, purpose_of
from fastrec.normalize.journal import Journal
from fastrec.normalize.options import Options
from fastrec.normalize.progress import NoProgress, Progress
from fastrec.normalize.reach import check_reachable
from fastrec.sources.inputs import find_shards
from fastrec.sources.shard import Shard
from fastrec.sources.tasks import TASK_BYTES, gather_tasks, growth, total_text
from fastrec.storage.local import scratch_directory
from fastrec.storage.paths import is_private, is_url, without_file_protocol
from fastrec.summary.document import Summary

__all__ = ["NoProgress", "NormalizeResult", "Options", "Plan", "Progress", "normalize", "plan", "run", "run_passes"]


class NormalizeResult(msgspec.Struct, kw_only=True):
    """What a run did: the summary of the corpus, and what it took to make it."""

    output: str
    """Where the corpus is published."""
    summary: Summary
    """What is in it: the document `summary.json`."""
    parts: int
    """How many it has."""
    shards: int
    """Files read."""
    input_bytes: int
    """Their size."""
    text_bytes: int
    """Text in them, once it was decompressed."""
    output_bytes: int
    """Size of the parts."""
    seconds: float
    """How long it took."""
    skipped: list[str]
    """Shards that could not be read and were left out, with `--skip-bad-shards`."""
    notices: list[str]
    """What is good to know."""


class Plan(msgspec.Struct, kw_only=True):
    """What a run would do."""

    shards: int
    """Files that would be read."""
    input_bytes: int
    """Their size."""
    estimated_text_bytes: int
    """How much text they may hold."""
    tasks: int
    """Tasks of the first pass."""
    estimated_parts: int
    """How many parts the corpus may have."""
    paths: list[str]
    """The files."""
    notices: list[str]
    """What is good to know."""


def normalize(
    inputs: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    files_from: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Summary:
    """Turn a pile of shards into one sorted corpus at `output`, and return its summary.

    Args:
        inputs: Files, directories, globs, or `-` for standard input.
        output: The directory to publish; it must not exist, unless `overwrite` is given.
        files_from: A file with further paths, one a line.
        progress: Hears how far the run is.
        **options: The fields of `Options`: `jobs`, `memory`, `part_size`, `level`, `compression`, `sort_by`, `hash`,
            `sample_hash`, `conflicts`, `skip_bad_shards`, `fresh`, `overwrite`, `work_dir`, `max_line_bytes`,
            `max_window`, `engine`, `scheduler`.

    Raises:
        UsageError: An argument makes no sense; nothing was done.
        BadShardsError: Some shards could not be read whole; all of them are named, nothing was published.
    """
    names = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    return run(names, output, Options(**options), files_from=files_from, progress=progress).summary


def plan(names: Sequence[str | os.PathLike[str]], options: Options, *, files_from: str | None = None) -> Plan:
    """Say what a run would do, without doing it."""
    shards, notices = find_shards([os.fspath(name) for name in names], files_from=files_from)
    text = total_text(shards)
    task_bytes = min(TASK_BYTES, options.run_bytes)
    slices = [piece for shard in shards for piece in shard.slices(task_bytes)]
    return Plan(
        shards=len(shards),
        input_bytes=sum(shard.size for shard in shards),
        estimated_text_bytes=text,
        tasks=len(gather_tasks(slices, task_bytes * growth(text))),
        estimated_parts=-(-text // options.part_size),
        paths=[utf8(shard.path) for shard in shards],
        notices=notices,
    )


def run(
    names: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    options: Options,
    *,
    files_from: str | None = None,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
) -> NormalizeResult:
    """Normalize, and report what it took.

    Args:
        names: Files, directories, globs, or `-` for standard input.
        output: The directory to publish.
        options: How to do it.
        files_from: A file with further paths, one a line.
        progress: Hears how far the run is.
        notice: Hears what is good to know, when it is found out; the report has all of it too.
    """
    started = time.perf_counter()
    notices: list[str] = []

    def note(message: str) -> None:
        notices.append(message)
        if notice:
            notice(message)

    paths = [without_file_protocol(os.fspath(name)) for name in names]
    shards, found = find_shards(paths, files_from=files_from)
    for message in found:
        note(message)
    target = without_file_protocol(os.fspath(output))
    check_output(target, paths, shards)
    work_dir = options.work_dir
    if work_dir is None and is_url(target) and not options.scheduler:
        work_dir = scratch_directory()  # all workers are here: what they pass on need not go through the store
    kind = Kind("a corpus", MANIFEST)
    with (
        open_output(
            target, kind, work_dir, overwrite=options.overwrite, fresh=options.fresh, limits=options.limits
        ) as made,
        _kept_for_the_next_run(made),
    ):
        manifest, summary = run_passes(shards, options, made, progress=progress, notice=note)
        made.publish()
    return NormalizeResult(
        output=utf8(target),
        summary=summary,
        parts=len(manifest.parts),
        shards=len(shards),
        input_bytes=sum(shard.size for shard in shards),
        text_bytes=sum(entry.text_bytes for entry in manifest.inputs),
        output_bytes=sum(part.bytes for part in manifest.parts),
        seconds=time.perf_counter() - started,
        skipped=manifest.skipped,
        notices=notices,
    )


def run_passes(
    shards: Sequence[Shard],
    options: Options,
    output: Output,
    *,
    progress: Progress | None,
    notice: Callable[[str], None],
) -> tuple[Manifest, Summary]:
    """Run both passes: the corpus is in the place it is published from then, and is not published."""
    if scarce := too_little_space(output, shards):
        notice(scarce)
    small = is_small(total_text(shards)) and not any(shard.stream for shard in shards)
    private = any(map(is_private, (output.work, output.staged(""), *(shard.path for shard in shards))))
    if private and options.engine == "dask":
        raise UsageError("what is in the memory of this process cannot be seen by a cluster: give --engine pool")
    if (small or private) and options.engine == "pool":
        options = msgspec.structs.replace(options, jobs=1, memory=options.memory_per_job * options.jobs)
    with (
        Journal(output.working("journal"), purpose_of(options)) as journal,
        make_engine(options.jobs, options.engine, options.scheduler, options.limits) as engine,
    ):
        if options.engine == "dask":
            check_reachable((output.working(""), output.staged("")), engine)
        return Normalizer(shards, RunContext(options, output, engine, journal, progress or NoProgress(), notice)).run()


@contextlib.contextmanager
def _kept_for_the_next_run(output: Output) -> Iterator[None]:
    """If the run fails, say where its work is; if there is none worth keeping, remove it."""
    try:
        yield
    except BaseException as exc:
        if output.holds_work():
            exc.add_note(
                f"What was finished is kept in {shown(output.work)}: the same command goes on from there, "
                "or starts anew with --fresh."
            )
        else:
            output.clear()
        raise
