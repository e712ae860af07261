"""`validate`: judge every line of some shards and report the findings.

The only output file is an optional log.

1. Find the shards and cut them into tasks.
2. Each task judges its lines and returns counts and groups of findings. With a log, it writes every
   finding to a file per slice.
3. The driver adds up the results in the order of the inputs, so that they do not depend on which
   task finishes first: slices into shards with `+=`, which corrects line numbers, then shards that
   were read completely into `Validation`. A shard that cannot be read completely adds nothing but
   its error.

The log has every finding, except that a line lists at most a hundred errors.
"""

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Self

from msgspec import Struct, field
from msgspec.structs import replace

from fastrec.corpus.scan import run_in_order
from fastrec.engine import check_jobs, jobs_for
from fastrec.errors import ShardError, UsageError, check_choice, naming, shown, utf8, writing
from fastrec.filters import Strings, field_names
from fastrec.json_documents import CountsByName, sorted_counts
from fastrec.judge.batch import Batch
from fastrec.judge.findings import (
    CODES,
    NOTES,
    Finding,
    FindingGroup,
    FindingGroups,
    Location,
    SliceFindings,
)
from fastrec.judge.judge import JudgedChunk, judge_of, judge_slice
from fastrec.judge.parse import parse
from fastrec.judge.repair import repair_codes
from fastrec.judge.version_rules import JudgeSettings
from fastrec.limits import current_limits
from fastrec.normalize.inputs import find_records
from fastrec.notebook import Tabular
from fastrec.parameters import CORES, AnyPath, Paths, path_names
from fastrec.progress import Progress
from fastrec.schemas.hashes import HASHES
from fastrec.schemas.registry import NEWEST_SCHEMA, SCHEMAS, chosen_schema, schema_of
from fastrec.schemas.upgrade import upgrade_record, upgrade_value
from fastrec.schemas.view import NO_COUNTS, encode_json, json_decoder
from fastrec.sources.formats import MAX_WINDOW
from fastrec.sources.lines import MAX_LINE_BYTES, ReadStats
from fastrec.sources.shard import Shard, Shards, Slice, TextEstimate, tasks_of, total_text
from fastrec.summary.document import filled


class UpgradeStep(Struct):
    """A step that loses or may confuse something, and the records that it concerns."""

    #: Begins with `upgrade.`.
    code: str
    #: What the step does to a record.
    meaning: str
    #: Records that it concerns.
    count: int
    #: The first three lines.
    locations: list[Location]


class UpgradeReport(Struct):
    """What an upgrade of all valid records would change."""

    #: The newest version.
    target: str
    #: Valid records of earlier versions.
    records: int
    #: Steps that lose or may confuse something, the most frequent first.
    steps: list[UpgradeStep]


def _upgrade_steps(judged: JudgedChunk) -> Iterator[tuple[int, Finding]]:
    """Yield the lossy and ambiguous steps of the records of a chunk, with their line numbers."""
    batch = judged.batch
    start = 0
    for record, line, end in zip(batch.records, batch.numbers, batch.ends, strict=True):
        schema = schema_of(record)
        if schema is not NEWEST_SCHEMA:
            # A record of the slow path lacks its unknown keys, but its normal form has them.
            if batch.slow:
                value, _ = parse(bytes(judged.normal[start : end - 1]))
                _, codes = upgrade_value(value, schema)
            else:
                _, codes = upgrade_record(record, schema)
            for code in codes:
                yield line, Finding(code, "$", CODES[code])
        start = end


class Validation(Tabular):
    """The result of a validation: line counts, groups of findings, and unreadable shards."""

    #: Lines read, blank ones included.
    lines: int = 0
    #: Valid records, repaired ones included.
    valid: int = 0
    #: Valid lines by schema version, the oldest first.
    versions: CountsByName = {}
    #: Lines that are valid because they were repaired.
    repaired: int = 0
    #: Lines that are not.
    invalid: int = 0
    #: Invalid lines that repairs would make valid.
    repairable: int = 0
    #: By the code of a repair; a line may need several.
    repairable_by_code: CountsByName = {}
    #: Lines of white space only.
    blank: int = 0
    #: Findings: a line may have several.
    warnings: int = 0
    #: Size of the decompressed text.
    text_bytes: int = 0
    #: Number of shards.
    shards: int = 0
    #: How long it took.
    seconds: float = 0.0
    #: Whether `--max-errors` was reached, and the rest was not checked.
    stopped_early: bool = False
    #: Number of findings by code.
    codes: CountsByName = {}
    #: By code, path and version: at most 1,000, errors first, then the most frequent.
    groups: list[FindingGroup] = []
    #: With `--upgrade-report`: what an upgrade of all valid records would change.
    upgrade: UpgradeReport | None = None
    #: Shards that could not be read completely, and why; no line of theirs counts.
    bad_shards: list[str] = []
    #: Notices for the user.
    notices: list[str] = []

    @property
    def ok(self) -> bool:
        return not self.invalid and not self.bad_shards


class _JudgedSlice(SliceFindings):
    """What `validate` finds in slices; the counts are those of `Validation`, by field."""

    versions: Counter[str] = NO_COUNTS
    # Steps of an upgrade, each with the meaning of its code as its message.
    upgrades: FindingGroups = field(default_factory=lambda: FindingGroups(len(NOTES)))
    # Lines that repairs would make valid, by the code of a repair.
    repairable: Counter[str] = NO_COUNTS
    bom: bool = False
    # Files with every finding, and the number to add to the line numbers in each.
    logs: list[tuple[str, int]] = []
    error: str | None = None  # Why the shard could not be read completely.

    def __iadd__(self, other: Self) -> Self:
        lines = self.counts["lines"]
        self.upgrades.merge(other.upgrades, lines)
        self.logs += [(path, lines + base) for path, base in other.logs]
        self.versions += other.versions
        self.repairable += other.repairable
        self.bom |= other.bom
        self.error = self.error or other.error
        return super().__iadd__(other)


# A line number, a finding, and, if the line is invalid, the version that it was judged by.
_LocatedFinding = tuple[int, Finding, str | None]


class LoggedFinding(Struct):
    """A line of the log: one finding."""

    #: The shard.
    source: str
    #: Number of the line in the shard, from 1.
    line: int
    #: `error`, `warning` or `note`.
    severity: str
    #: The code.
    code: str
    #: The JSON path in the record, such as `$.evaluation.score`.
    path: str
    #: What was expected, and what was found.
    message: str
    #: The schema version of the errors; null for warnings, notes, and lines without a value.
    version: str | None


_decode = json_decoder(LoggedFinding)


def _log_findings(path: str, source: str, findings: Iterable[_LocatedFinding]) -> None:
    """Append findings to the log of a slice."""
    with naming(path), Path(path).open("ab") as file:
        for line, finding, version in findings:
            logged = LoggedFinding(
                source, line, finding.severity, finding.code, finding.path, finding.message, version
            )
            file.write(encode_json(logged) + b"\n")


class _FindingLog:
    """The log that the user asked for, joined from those of the slices.

    FastrecError if it cannot be written.
    """

    def __init__(self, path: str, shards: Iterable[Shard]) -> None:
        self._writing = partial(writing, path, "the log ")
        if os.path.exists(path):
            for shard in shards:
                # Opening it would empty it.
                if not shard.stream and os.path.samefile(path, shard.path):
                    raise UsageError(
                        f"the log {shown(path)} is one of the shards: name another file"
                    )
        with self._writing():
            self._file = Path(path).open("wb")  # noqa: SIM115 - see close

    def close(self) -> None:
        with self._writing():
            self._file.close()

    def add(self, judged: _JudgedSlice) -> None:
        """Append the findings of a shard with corrected line numbers; remove its slices' files."""
        for path, line_base in judged.logs:
            if not judged.error:
                with Path(path).open("rb") as lines, self._writing():
                    self._file.writelines(_renumbered(lines, line_base) if line_base else lines)
            Path(path).unlink()


def _renumbered(lines: Iterable[bytes], line_base: int) -> Iterator[bytes]:
    for line in lines:
        logged = _decode(line)
        logged.line += line_base
        yield encode_json(logged) + b"\n"


class Reporter:
    """Reports the progress of slices that this process reads, or that workers have read."""

    def __init__(self, shards: Shards, progress: Progress) -> None:
        self._text = TextEstimate(shards)
        self._progress = progress
        # Of the current slice: its estimated text, text, lines and invalid lines.
        self._reported = (0, 0, 0, 0)
        progress.start("judge", self._text.total)

    def report(self, piece: Slice, judged: _JudgedSlice, stats: ReadStats | None = None) -> None:
        """Report a slice: what was read of it so far, or all of it, without `stats`."""
        estimated = piece.estimated_text
        text = judged.counts["text_bytes"] or self._reported[1]
        if stats:
            estimated = estimated * min(stats.raw_bytes, piece.size) // max(piece.size, 1)
            text = stats.text_bytes
        now = (estimated, text, judged.counts["lines"], judged.counts["invalid"])
        new_estimated, new_text, *new_lines = (
            after - before for after, before in zip(now, self._reported, strict=True)
        )
        self._text.add(new_estimated, new_text)
        self._progress.expect(self._text.total)
        self._progress.advance(new_text, *new_lines)
        self._reported = now if stats else (0, 0, 0, 0)


class _SliceTask(Struct, frozen=True):
    slices: tuple[Slice, ...]
    max_line_bytes: int
    max_window: int
    max_errors: int | None
    log: str | None  # The beginning of the names of the slices' logs.
    settings: JudgeSettings

    def __str__(self) -> str:
        return "reading " + "; ".join(map(str, self.slices))


def validate(
    paths: Paths,
    *,
    jobs: int = CORES,
    files_from: str | None = None,
    max_errors: int | None = None,
    json_log: AnyPath | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_window: int = MAX_WINDOW,
    hash_algorithm: str = "sha256",
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
        hash_algorithm: The algorithm of the hash that `sample_hash` is compared with.
        schema: Judge every record by this schema version; `auto` tells the version of each record
            by its shape.
        repair: Names of repairs to make before a line is called invalid, or `all`; each is a
            finding of its own.
        upgrade_report: Also find what an upgrade to the newest version would change.
        progress: Receives the progress.

    Raises:
        UsageError: No input was found, or another argument is wrong.
        FastrecError: The log cannot be written.
    """
    started = perf_counter()
    check_jobs(jobs)
    if max_errors is not None and max_errors < 1:
        raise UsageError(f"max_errors must be at least 1, not {max_errors}")
    check_choice("hash_algorithm", hash_algorithm, HASHES)
    chosen_schema(schema)
    settings = JudgeSettings(
        schema=schema,
        algorithm=hash_algorithm,
        warnings=True,
        normal=upgrade_report,  # it needs records and normal forms, verdicts do not
        repairs=frozenset(repair_codes(field_names("repair", repair))),
        known_input_bytes=0,
    )
    shards, notices = find_records(path_names(paths), files_from=files_from)
    total = _JudgedSlice()
    counts = Counter[str]()
    bad_shards = []
    progress = progress or Progress()
    with ExitStack() as stack:
        scratch = stack.enter_context(TemporaryDirectory(prefix="fastrec-"))
        log = None
        if json_log:
            log = stack.enter_context(closing(_FindingLog(os.fspath(json_log), shards)))
        task = _SliceTask(
            slices=(),
            max_line_bytes=max_line_bytes,
            max_window=max_window,
            max_errors=max_errors,
            log=f"{scratch}/" if log else None,
            settings=settings,
        )
        results = stack.enter_context(closing(_judge_slices(shards, task, jobs, progress)))
        for shard, judged in _by_shard(results):
            if log:
                log.add(judged)
            if judged.error:  # nothing of a shard counts that could not be read completely
                bad_shards.append(judged.error)
                continue
            if judged.bom:
                notice = f"{shown(shard.path)} begins with a byte order mark, which was skipped"
                notices.append(notice)
            counts += judged.counts
            judged.counts.clear()  # so that line numbers stay those of each shard
            total += judged
        progress.finish()
    return Validation(
        **counts,
        versions={name: total.versions[name] for name in SCHEMAS if total.versions[name]},
        repairable_by_code=sorted_counts(total.repairable),
        shards=len(shards),
        seconds=perf_counter() - started,
        stopped_early=max_errors is not None and counts["invalid"] >= max_errors,
        codes=dict(total.groups.codes),
        groups=total.groups.in_order(),
        upgrade=_upgrade_report(total) if upgrade_report else None,
        bad_shards=bad_shards,
        notices=notices,
    )


def _by_shard(
    results: Iterable[tuple[Slice, _JudgedSlice]],
) -> Iterator[tuple[Shard, _JudgedSlice]]:
    """Add up the slices of each shard, which follow each other."""
    for shard, pieces in groupby(results, key=lambda result: result[0].shard):
        judged = _JudgedSlice()
        for _, piece in pieces:
            judged += piece
        yield shard, judged


def _upgrade_report(total: _JudgedSlice) -> UpgradeReport:
    newest = NEWEST_SCHEMA.name
    earlier = sum(count for name, count in total.versions.items() if name != newest)
    steps = [
        filled(UpgradeStep, group, meaning=group.message) for group in total.upgrades.in_order()
    ]
    return UpgradeReport(newest, earlier, steps)


def _judge_slices(
    shards: Shards, task: _SliceTask, jobs: int, progress: Progress
) -> Generator[tuple[Slice, _JudgedSlice]]:
    """Judge all slices as `task` says, and yield their findings in the order of the inputs.

    Stop when `max_errors` is reached.
    """
    tasks = [
        replace(task, slices=slices, log=task.log and f"{task.log}{number}")
        for number, slices in enumerate(tasks_of(shards, current_limits().task_bytes))
    ]
    text_bytes = total_text(shards)
    jobs = jobs_for(text_bytes, len(tasks), jobs)
    if any(shard.stream for shard in shards):  # only this process can read a stream
        jobs = 1
    reporter = Reporter(shards, progress)
    # One process reports while it reads; several report when a task has finished.
    run_task = partial(_validate_task, reporter=reporter) if jobs == 1 else _validate_task
    invalid = 0
    with closing(run_in_order(run_task, tasks, text_bytes=text_bytes, jobs=jobs)) as done:
        for finished, results in zip(tasks, done, strict=True):
            for piece, judged in zip(finished.slices, results, strict=True):
                if jobs > 1:
                    reporter.report(piece, judged)
                yield piece, judged
                invalid += judged.counts["invalid"]
                if task.max_errors is not None and invalid >= task.max_errors:
                    return


def _validate_task(task: _SliceTask, reporter: Reporter | None = None) -> list[_JudgedSlice]:
    """Judge the slices of a task. Runs in a worker, or in this process, with a reporter."""
    results = []
    for number, piece in enumerate(task.slices):
        judged = _validate_slice(
            piece, task, f"{task.log}-{number}" if task.log else None, reporter
        )
        if reporter:
            reporter.report(piece, judged)
        results.append(judged)
    return results


def _validate_slice(
    piece: Slice, task: _SliceTask, log: str | None, reporter: Reporter | None
) -> _JudgedSlice:
    judged = _JudgedSlice()
    stats = ReadStats()
    source = utf8(piece.shard.path)
    try:
        for chunk in judge_slice(
            judge_of(task.settings),
            piece,
            max_line_bytes=task.max_line_bytes,
            max_window=task.max_window,
            stats=stats,
        ):
            batch = chunk.batch
            judged.counts.update(
                lines=batch.lines,
                valid=batch.valid,
                invalid=len(batch.rejected),
                repaired=len(batch.repaired),
                repairable=sum(bool(invalid.repairs) for invalid in batch.rejected),
                blank=batch.blank,
                warnings=len(batch.warnings),
            )
            judged.versions += batch.versions
            if task.settings.normal:  # for a report about upgrades
                for line, step in _upgrade_steps(chunk):
                    judged.upgrades.add(step, source, line)
            if reporter:
                reporter.report(piece, judged, stats)
            findings = _findings_in(batch)
            for line, finding, version in findings:
                judged.groups.add(finding, source, line, version)
            for invalid in batch.rejected:
                judged.repairable.update(invalid.repairs)
                judged.groups.codes.update(invalid.unlisted)
            if log and findings:
                judged.logs = [(log, 0)]
                _log_findings(log, source, sorted(findings + _unlisted_in(batch), key=_by_line))
            if task.max_errors is not None and judged.counts["invalid"] >= task.max_errors:
                break
    except ShardError as exc:
        # A shard counts as a whole or not at all, so the findings so far are dropped.
        return _JudgedSlice(error=str(exc), logs=judged.logs)
    judged.counts["text_bytes"] = stats.text_bytes
    judged.bom = stats.bom
    return judged


_by_line = itemgetter(0)


def _findings_in(batch: Batch) -> list[_LocatedFinding]:
    """List the errors, warnings and repairs of a chunk by line."""
    findings = [
        *(
            (invalid.line, error, invalid.version)
            for invalid in batch.rejected
            for error in invalid.findings
        ),
        *((line, warning, None) for line, warning in batch.warnings),
        *(
            (repaired.line, repair, None)
            for repaired in batch.repaired
            for repair in repaired.findings
        ),
    ]
    return sorted(findings, key=_by_line)


def _unlisted_in(batch: Batch) -> list[_LocatedFinding]:
    """Say how many errors of invalid lines are not listed, by code."""
    more = "{:,} more errors of this kind are not listed".format
    return [
        (invalid.line, Finding(code, "$", more(count)), invalid.version)
        for invalid in batch.rejected
        for code, count in invalid.unlisted.items()
    ]
