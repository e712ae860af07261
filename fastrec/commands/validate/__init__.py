"""`validate`: judge every line of some shards and report the findings; the only output file is an optional log.

1. Find the shards and cut them into tasks.
2. Each task judges its lines and returns counts and groups of findings. With a log, it writes every finding to a file
   per slice.
3. The driver adds up the results in the order of the inputs, so that they do not depend on which task finishes first:
   slices into shards, then shards that were read completely into the result.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from fastrec.commands.validate.result import (
    FindingLog,
    JudgedSlice,
    LocatedFinding,
    Validation,
    log_findings,
    report_of,
    upgrade_steps,
)
from fastrec.engine import jobs_for, make_engine
from fastrec.errors import ShardError, UsageError, shown, utf8
from fastrec.filters import Strings, field_names
from fastrec.judge.batch import Batch
from fastrec.judge.findings import FindingGroups, Location
from fastrec.judge.judge import Judge, judge_slice
from fastrec.judge.repair import repair_codes
from fastrec.judge.version_rules import JudgeSettings
from fastrec.limits import Limits, current_limits
from fastrec.normalize.inputs import find_records
from fastrec.progress import Progress
from fastrec.schemas.hashes import HASHES
from fastrec.schemas.registry import SCHEMAS, chosen_schema
from fastrec.sources.formats import MAX_WINDOW
from fastrec.sources.lines import MAX_LINE_BYTES, ReadStats
from fastrec.sources.shard import Shard, Slice, TextEstimate, tasks_of, total_text

_judge = lru_cache(maxsize=1)(Judge)


class Reporter:
    """Reports the progress: of slices that this process reads, and of slices that workers have read."""

    def __init__(self, shards: Sequence[Shard], progress: Progress) -> None:
        self._text = TextEstimate(shards)
        self._progress = progress
        self._reported = (0, 0, 0, 0)
        """What is reported of the current slice: its estimated text, text, lines and invalid lines."""
        progress.start("judge", self._text.total)

    def reading(self, piece: Slice, stats: ReadStats, found: JudgedSlice) -> None:
        size = (piece.shard.size if piece.end is None else piece.end) - piece.start
        estimated = piece.estimated_text * min(stats.raw_bytes, size) // max(size, 1)
        self._report(estimated, stats.text_bytes, found)

    def finished(self, piece: Slice, found: JudgedSlice) -> None:
        self._report(piece.estimated_text, found.counts["text_bytes"] or self._reported[1], found)
        self._reported = (0, 0, 0, 0)

    def _report(self, estimated: int, text: int, found: JudgedSlice) -> None:
        now = (estimated, text, found.counts["lines"], found.counts["invalid"])
        new_estimated, new_text, *new_lines = (
            after - before for after, before in zip(now, self._reported, strict=True)
        )
        self._text.add(new_estimated, new_text)
        self._progress.expect(self._text.total)
        self._progress.advance(new_text, *new_lines)
        self._reported = now


class _SliceTask(msgspec.Struct, frozen=True):
    slices: tuple[Slice, ...]
    max_line_bytes: int
    max_window: int
    max_errors: int | None
    log: str | None
    """The beginning of the names of the slices' logs."""
    settings: JudgeSettings
    upgrade_report: bool
    limits: Limits

    def __str__(self) -> str:
        return "reading " + "; ".join(map(str, self.slices))


def validate(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    jobs: int = 1,
    files_from: str | None = None,
    max_errors: int | None = None,
    json_log: str | os.PathLike[str] | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_window: int = MAX_WINDOW,
    hash: str = "sha256",  # noqa: A002 - the name of the option
    schema: str = "auto",
    repair: Strings = (),
    upgrade_report: bool = False,
    progress: Progress | None = None,
) -> Validation:
    """Judge every line of some shards.

    Args:
        paths: Files, directories, globs, or `-` for standard input.
        jobs: Processes to use; small inputs are judged in this process.
        files_from: A file with further paths, one per line.
        max_errors: Stop after this many invalid lines.
        json_log: A file for every finding, one JSON object per line.
        max_line_bytes: A longer line is invalid, and never held in memory.
        max_window: The largest zstd window to accept.
        hash: The algorithm of the hash that `sample_hash` is compared with.
        schema: Judge every record by this schema version; `auto` tells the version of each record by its shape.
        repair: Names of repairs to make before a line is called invalid, or `all`; each is a finding of its own.
        upgrade_report: Also find what an upgrade to the newest version would change.
        progress: Receives the progress.

    Raises:
        UsageError: No input was found, or another argument is wrong.
        FastrecError: The log cannot be written.
    """
    limits = current_limits()
    started = time.perf_counter()
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, not {jobs}")
    if max_errors is not None and max_errors < 1:
        raise UsageError(f"max_errors must be at least 1, not {max_errors}")
    if hash not in HASHES:
        raise UsageError(f"hash must be one of {', '.join(HASHES)}, not {hash!r}")
    chosen_schema(schema)
    settings = JudgeSettings(
        schema=schema,
        algorithm=hash,
        warnings=True,
        normal=upgrade_report,  # it needs records and normal forms, verdicts do not
        repairs=frozenset(repair_codes(field_names("repair", repair))),
        known_input_bytes=0,
    )
    names = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    shards, notices = find_records([os.fspath(path) for path in names], files_from=files_from)
    validation = Validation(shards=len(shards), notices=notices)
    total = JudgedSlice(FindingGroups(limits.finding_groups))
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="fastrec-"))
        log = stack.enter_context(closing(_open_log(os.fspath(json_log), shards))) if json_log else None
        task = _SliceTask((), max_line_bytes, max_window, max_errors, None, settings, upgrade_report, limits)
        tasks = [
            replace(task, slices=slices, log=f"{scratch}/{number}" if log else None)
            for number, slices in enumerate(tasks_of(shards, limits.task_bytes))
        ]
        # Only this process can read a stream.
        jobs = 1 if any(shard.stream for shard in shards) else jobs_for(total_text(shards), len(tasks), jobs, limits)
        progress = progress or Progress()
        reporter = Reporter(shards, progress)
        results = stack.enter_context(closing(_in_order(tasks, jobs, max_errors, reporter)))
        for shard, pieces in groupby(results, key=lambda result: result[0].shard):
            found = JudgedSlice(FindingGroups(limits.finding_groups))
            for _, piece in pieces:
                found += piece
            validation.add(shard.path, found)
            if not found.error:
                total.groups.merge(found.groups)
                total.upgrades.merge(found.upgrades)
            if log:
                log.add(found)
        progress.finish()
    validation.codes, validation.groups = dict(total.groups.codes), total.groups.in_order()
    validation.versions = {name: validation.versions[name] for name in SCHEMAS if validation.versions.get(name)}
    if upgrade_report:
        validation.upgrade = report_of(total.upgrades, validation.versions)
    validation.stopped_early = max_errors is not None and validation.invalid >= max_errors
    validation.seconds = time.perf_counter() - started
    return validation


def _open_log(path: str, shards: Iterable[Shard]) -> FindingLog:
    """Open the log, but refuse a shard: opening it would empty it."""
    if os.path.exists(path):  # noqa: PTH110 - paths stay the str that was given
        for shard in shards:
            if not shard.stream and os.path.samefile(path, shard.path):  # noqa: PTH121
                raise UsageError(f"the log {shown(path)} is one of the shards: name another file")
    return FindingLog(path)


def _in_order(
    tasks: list[_SliceTask], jobs: int, max_errors: int | None, reporter: Reporter
) -> Generator[tuple[Slice, JudgedSlice], None, None]:
    """Run the tasks and yield the findings of each slice in the order of the inputs, until max_errors is reached."""
    early: dict[int, list[JudgedSlice]] = {}
    turn = invalid = 0
    # One process reports while it reads; several report when a task has finished.
    run_task = partial(_validate_task, reporter=reporter) if jobs == 1 else _validate_task
    with make_engine(jobs) as engine:
        for number, results in engine.run(run_task, tasks):
            early[number] = results
            while turn in early:
                # A task that reached max_errors skipped its last slices.
                for piece, found in zip(tasks[turn].slices, early.pop(turn), strict=False):
                    if jobs > 1:
                        reporter.finished(piece, found)
                    yield piece, found
                    invalid += found.counts["invalid"]
                    if max_errors is not None and invalid >= max_errors:
                        return
                turn += 1


def _validate_task(task: _SliceTask, reporter: Reporter | None = None) -> list[JudgedSlice]:
    """Judge the slices of a task. Runs in a worker, or in this process, with a reporter."""
    results: list[JudgedSlice] = []
    invalid = 0
    for number, piece in enumerate(task.slices):
        found = _validate_slice(piece, task, f"{task.log}-{number}" if task.log else None, reporter)
        if reporter:
            reporter.finished(piece, found)
        results.append(found)
        invalid += found.counts["invalid"]
        if task.max_errors is not None and invalid >= task.max_errors:
            break
    return results


def _validate_slice(piece: Slice, task: _SliceTask, log: str | None, reporter: Reporter | None) -> JudgedSlice:
    found, stats = JudgedSlice(FindingGroups(task.limits.finding_groups)), ReadStats()
    source = utf8(piece.shard.path)
    try:
        for judged in judge_slice(
            _judge(task.settings),
            piece,
            chunk_bytes=task.limits.chunk_bytes,
            max_line_bytes=task.max_line_bytes,
            max_window=task.max_window,
            stats=stats,
        ):
            batch = judged.batch
            found.counts.update(
                lines=batch.lines,
                valid=batch.valid,
                invalid=len(batch.rejected),
                repaired=len(batch.repaired),
                repairable=sum(bool(invalid.repairs) for invalid in batch.rejected),
                blank=batch.blank,
                warnings=len(batch.warnings),
            )
            found.versions += batch.versions
            if task.upgrade_report:
                for line, step in upgrade_steps(judged):
                    found.upgrades.add(step, Location(source, line))
            if reporter:
                reporter.reading(piece, stats, found)
            for invalid in batch.rejected:
                found.repairable.update(invalid.repairs)
            findings = _findings_in(batch)
            for line, finding, version in findings:
                found.groups.add(finding, Location(source, line), version)
            unlisted = [invalid for invalid in batch.rejected if invalid.unlisted]
            for invalid in unlisted:
                found.groups.codes.update(invalid.unlisted)
            if log and findings:
                found.logs = [(log, 0)]
                log_findings(log, source, findings, unlisted)
            if task.max_errors is not None and found.counts["invalid"] >= task.max_errors:
                break
    except ShardError as exc:
        # A shard counts as a whole or not at all, so the findings so far are dropped.
        return JudgedSlice(FindingGroups(0), error=str(exc), logs=found.logs)
    found.counts["text_bytes"], found.bom = stats.text_bytes, stats.bom
    return found


def _findings_in(batch: Batch) -> list[LocatedFinding]:
    """List the errors, warnings and repairs of a chunk by line."""
    found: list[LocatedFinding]
    found = [(one.line, finding, one.version) for one in batch.rejected for finding in one.findings]
    found += [(line, finding, None) for line, finding in batch.warnings]
    found += [(one.line, finding, None) for one in batch.repaired for finding in one.findings]
    return sorted(found, key=itemgetter(0))
