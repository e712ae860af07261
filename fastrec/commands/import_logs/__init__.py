"""`import`: turn logs of evaluation harnesses into shards of records, one shard per log.

    find ──▶ plan each log ──▶ convert its slices to work files ──▶ write its shard ──▶ compare with
    its aggregates

Slices of all logs are converted in parallel; meanwhile, finished shards are written. A log with
damage anywhere has no shard. `import.json` accounts for each log.

Planning, converting and writing are tasks. A slice becomes a work file of bundles: only when all
slices of a log are converted is it known which metrics are graded. Then the bundles become lines,
which say so. A shard is one frame of zstd, because simple readers stop after the first. So the
shard of a large log is compressed by the threads of zstd.
"""

import errno
import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, groupby
from math import isclose
from operator import call, itemgetter
from typing import Any

import msgspec
import zstandard
from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_128

from fastrec._version import __version__
from fastrec.commands.import_logs.discover import Found, find_logs
from fastrec.commands.import_logs.document import (
    Comparison,
    Import,
    ImportedLog,
    ImportOutput,
    MetricAccount,
    open_output,
)
from fastrec.engine import check_jobs, is_small, make_engine
from fastrec.engine.base import Engine, collector_off
from fastrec.errors import (
    FastrecError,
    LogError,
    NotATableError,
    ShardError,
    UsageError,
    check_choice,
    is_out_of_memory,
    listed,
    out_of_memory,
    shown,
    utf8,
)
from fastrec.filters import Strings, as_tuple
from fastrec.harnesses.convert import (
    ONE_ROW,
    Bundle,
    Converted,
    Converter,
    line_maker,
    read_bundles,
    write_bundles,
)
from fastrec.harnesses.log import (
    BadLog,
    FoundFile,
    Log,
    LogPlan,
    RunInfo,
    in_groups,
    with_every_metric,
)
from fastrec.harnesses.metadata import chosen_names, names_of, notes_on
from fastrec.harnesses.registry import HARNESSES, harness_named
from fastrec.harnesses.table import NAMED, TableColumns, columns_from
from fastrec.harnesses.table.guess import guess
from fastrec.harnesses.values import Names, OptionalInt, Texts
from fastrec.json_documents import sorted_counts
from fastrec.parameters import CORES, AnyPath, Paths, path_names
from fastrec.progress import Progress
from fastrec.sources.inputs import AnyFile, find_files
from fastrec.storage import (
    hash_of_file,
    join,
    open_reader,
    storage_of,
    without_file_protocol,
)

_FAILURES = (LogError, ShardError, OSError, MemoryError)  # of reading a log
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_TOLERANCE = 1e-6  # some harnesses compute means with 32-bit floats
_BLOCK = 1 << 20
_FEWEST_COPIED = 2  # rows of a run that are no accident
_FEW = 3  # files that a message names
_LEVEL = 1  # 1.4 to 2 times as fast as level 3, for 2 to 4 % more bytes
# text that a thread compresses at a time: the bytes depend on it, not on the threads
_JOB_BYTES = 4 << 20


class ConvertTask(Struct, frozen=True):
    """Converts a slice of a log."""

    log: Log
    run: RunInfo
    log_slice: Any
    path: str  # the work file to write
    number: int  # the position of the log among all logs
    by_sample: bool  # whether a figure of the log needs the scores of each sample
    patterns: Names
    chosen: frozenset[str] | None  # the metadata to keep; None: all

    def __str__(self) -> str:
        return f"reading {shown(self.log.path)}"

    @collector_off()
    def __call__(self) -> Converted:
        converter = Converter(
            self.log.harness, self.run, self.patterns, self.chosen, by_sample=self.by_sample
        )
        result = converter.result
        result.number = self.number
        result.path = self.path
        try:
            with storage_of(self.path).create(self.path, for_work=True) as file:
                for group in in_groups(
                    self._bundles(converter), lambda bundle: bundle.line_size, _BLOCK
                ):
                    file.write(write_bundles(group))
        except _FAILURES as exc:
            if str(getattr(exc, "filename", None)).startswith(self.path):
                raise  # the work file could not be written
            result.problem = _reason(exc, self.log)
        return result

    def _bundles(self, converter: Converter) -> Iterator[Bundle]:
        harness = harness_named(self.log.harness)
        samples = (
            harness.samples(self.log, self.run, self.log_slice)
            if hasattr(harness, "samples")
            else with_every_metric(harness.read(self.log)[1])
        )
        for sample in samples:
            if isinstance(sample, str):
                converter.leave_out(sample)
            elif bundle := converter.bundle(sample):
                yield bundle


class ShardTask(Struct, frozen=True):
    """Compresses the lines of a log, and removes its work files."""

    path: str
    # The work file of each slice, how its records begin, and its metrics.
    slices: Sequence[tuple[str, bytes, Names]]
    notes: dict[str, Texts]  # what the metadata of records say about their metric
    threads: int = 1

    def __str__(self) -> str:
        return f"writing {shown(self.path)}"

    @collector_off()
    def __call__(self) -> None:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            _LEVEL, threads=self.threads, job_size=_JOB_BYTES, write_checksum=True
        )
        stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        with storage_of(self.path).create(self.path) as shard:
            for path, head, metrics in self.slices:
                lines_of = line_maker(head, metrics, self.notes)
                with open_reader(path) as file:
                    for bundles in in_groups(
                        read_bundles(file),
                        lambda bundle: bundle.line_size * len(bundle.scores),
                        _BLOCK,
                    ):
                        shard.write(
                            stream.compress(b"".join(chain.from_iterable(map(lines_of, bundles))))
                        )
                storage_of(path).remove(path)
            shard.write(stream.flush())


class _Job(Struct):
    """A log to import, and what was done of it."""

    log: Log
    plan: LogPlan
    stable_id: str  # of the content of all its files
    slices: list[Converted] = []
    account: ImportedLog | None = None


@collector_off()
def plan_log(log: Log) -> _Job | BadLog | str:
    """Plan a log, or say why it cannot be imported, or the kind of a file that is no table."""
    harness = harness_named(log.harness)
    try:
        plan = harness.plan(log) if hasattr(harness, "plan") else harness.read(log)[0]
        return _Job(log, plan, _stable_id(log))
    except NotATableError as exc:
        return exc.reason
    except _FAILURES as exc:
        return BadLog(utf8(log.path), _reason(exc, log))


def _stable_id(log: Log) -> str:
    # Tasks that share all their files are logs of their own, and so are equal tables whose paths
    # say something else.
    names = [log.task, *log.in_path.values()]
    digest = xxh3_128("/".join(names).encode())
    for file in log.files:
        digest.update(b"%d\n" % file.size)
        if file.size:
            hash_of_file(file.path, digest=digest)
    return digest.hexdigest()[:16]


def _reason(exc: Exception, log: Log) -> str:
    if is_out_of_memory(exc):
        return str(out_of_memory(log.path))
    if isinstance(exc, OSError):
        if exc.errno in _NO_SPACE:  # for a copy of the log
            raise exc
        exc = LogError(str(exc.filename or log.path), f"cannot be read: {exc.strerror or exc}")
    assert isinstance(exc, LogError | ShardError)
    return exc.reason if exc.path == log.path else str(exc)


def _account_of(job: _Job, total: Converted) -> ImportedLog:
    log = job.log
    plan = job.plan
    samples = total.samples + sum(plan.left_out.values())
    return ImportedLog(
        log=utf8(log.path),
        harness=log.harness,
        file=f"{log.harness}-{job.stable_id}.jsonl.zst",
        evaluation_id=plan.run.evaluation_id,
        evaluation_name=plan.run.task,
        model_id=plan.run.model,
        harness_version=plan.run.version,
        samples=samples,
        records=total.records,
        errors=total.errors,
        metrics={
            name: MetricAccount(totals.records, totals.scored, totals.mean, totals.graded)
            for name, totals in sorted(total.metrics.items())
        },
        left_out=sorted_counts(total.left_out + Counter(plan.left_out)),
        metrics_left_out=sorted_counts(total.metrics_left_out),
        metadata=sorted(total.metadata),
        fields_left_out={
            name: {reason: total.fields_left_out[name, reason] for _, reason in pairs}
            for name, pairs in groupby(sorted(total.fields_left_out), itemgetter(0))
        },
        comparisons=_compare(plan, total, samples),
        not_compared=dict(sorted(plan.not_compared.items())),
        notes=[*plan.notes, *(f"has no column {column}" for column in plan.absent)],
    )


def _compare(plan: LogPlan, total: Converted, samples: int) -> list[Comparison]:
    """Compare what a log states with its records.

    Metrics that the user left out are not compared.
    """
    comparisons = []

    def add_count(name: str, metric: str, stated: OptionalInt, counted: int) -> None:
        if stated is not None:
            comparisons.append(Comparison(name, metric, stated, counted, stated == counted))

    add_count("number of samples", "", plan.expected_samples, samples)
    for stated in plan.aggregates:
        if stated.metric in total.metrics_left_out:
            continue
        totals = total.metrics.get(stated.metric)
        mean = totals.reduced_mean(stated.reducer) if totals else None
        agrees = mean is not None and isclose(
            stated.value, mean, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE
        )
        comparisons.append(Comparison(stated.name, stated.metric, stated.value, mean, agrees))
        if totals:
            name = f"{stated.name}: number of scores"
            add_count(name, stated.metric, stated.samples, totals.scored)
    return comparisons


class _Importer:
    """Imports logs: what it knows of each, by its position among all of them."""

    def __init__(
        self,
        inputs: Found,
        planned: Sequence[_Job | BadLog | str],
        output: ImportOutput,
        **choices: Any,
    ) -> None:
        """`choices` are the patterns of metrics and the names of metadata of each `ConvertTask`."""
        self._inputs = inputs
        self._output = output
        self._choices = choices
        self._jobs, self._same_logs = _distinct(inputs, planned)
        self._shards: list[ShardTask] = []  # of logs whose slices are all converted
        # Of tables, by what the records of a run begin with, and by log: the sum of their rows, and
        # the first log that has some.
        self._row_sums: dict[tuple[bytes, int], tuple[int, int]] = {}

    def run(self, engine: Engine, progress: Progress) -> Import:
        for number, job in self._jobs.items():
            if not job.plan.slices:
                self._end(number)
        for _, converted in engine.run(call, self._tasks()):
            if not converted:
                continue
            job = self._jobs[converted.number]
            job.slices.append(converted)
            count = len(job.plan.slices)
            progress.advance(job.log.size // count, converted.records, 0)
            if len(job.slices) == count:
                self._end(converted.number)
        # All cores are busy, even with one large shard.
        threads = max(engine.jobs // max(len(self._shards), 1), 1)
        rest = [replace(shard, threads=threads) for shard in self._shards]
        for _ in engine.run(call, rest):
            pass
        self._note_copies()
        inputs = self._inputs
        return Import(
            fastrec=__version__,
            logs=[job.account for job in self._jobs.values() if job.account],
            bad_logs=sorted(inputs.bad, key=lambda bad: bad.path),
            same_logs=self._same_logs,
            other_files=sum(map(len, inputs.skipped.values())),
            skipped_files={kind: [*map(utf8, paths)] for kind, paths in inputs.skipped.items()},
        )

    def _note_copies(self) -> None:
        """Note runs of a table that have all rows of another run."""
        first: dict[int, str] = {}
        for (head, _), (row_sum, number) in sorted(self._row_sums.items(), key=itemgetter(1)):
            run = msgspec.json.decode(head + b"}")["evaluation_id"]
            name = f"{run} ({utf8(self._jobs[number].log.path)})"
            same = first.setdefault(row_sum, name)
            rows = row_sum // ONE_ROW
            if same != name and rows >= _FEWEST_COPIED:
                account = self._jobs[number].account
                assert account
                account.notes.append(f"all {rows:,} rows of {run} are equal to those of {same}")

    def _tasks(self) -> Iterator[ConvertTask | ShardTask]:
        """Yield the slices of all logs.

        Meanwhile, write shards, so that no worker waits for the largest log.
        """
        for number, job in self._jobs.items():
            plan = job.plan
            by_sample = any(figure.reducer for figure in plan.aggregates)
            for position, log_slice in enumerate(plan.slices):
                path = f"{self._output.work}/{number:06d}-{position:06d}"
                yield ConvertTask(
                    job.log, plan.run, log_slice, path, number, by_sample, **self._choices
                )
                while self._shards:
                    yield self._shards.pop()

    def _end(self, number: int) -> None:
        """Account for a log whose slices are all converted; its shard can be written."""
        job = self._jobs[number]
        total = Converted()
        files = []
        for part in sorted(job.slices, key=lambda part: part.path):
            files.append((part.path, part.head, tuple(part.metrics)))
            total += part
        job.slices = []
        if total.problem:
            self._inputs.bad.append(BadLog(utf8(job.log.path), total.problem))
            return
        job.account = _account_of(job, total)
        run = job.plan.run
        notes = notes_on(job.log.harness, list(total.metrics), run.lower_is_better)
        for name, totals in total.metrics.items():
            if totals.graded:
                notes[name]["graded"] = "true"
            if name in run.scales:
                low, high = run.scales[name]
                notes[name] |= {"min_score": f"{low:g}", "max_score": f"{high:g}"}
        for head, row_sum in total.row_sums.items():
            # Rows in files of their own are compared as a run.
            key = head, number if row_sum >= _FEWEST_COPIED * ONE_ROW else -1
            before, first = self._row_sums.get(key, (0, number))
            self._row_sums[key] = before + row_sum, min(first, number)
        self._shards.append(ShardTask(join(self._output.shards, job.account.file), files, notes))


def _distinct(
    inputs: Found, planned: Sequence[_Job | BadLog | str]
) -> tuple[dict[int, _Job], Texts]:
    """The logs to import, by position: intact, and each content once; then the others' copies."""
    first: dict[tuple[str, str], _Job] = {}
    jobs = {}
    same_logs = {}
    # A column that only some tables lack is noted.
    absent = [{*job.plan.absent} for job in planned if isinstance(job, _Job)]
    lacking = set.intersection(*absent) if absent else ()
    for number, job in enumerate(planned):
        if isinstance(job, str):
            inputs.skip(job, inputs.logs[number].path)
        elif isinstance(job, BadLog):
            inputs.bad.append(job)
        elif lacking:
            inputs.bad.append(BadLog(utf8(job.log.path), job.plan.absent[min(lacking)]))
        elif (same := first.setdefault((job.log.harness, job.stable_id), job)) is not job:
            same_logs[utf8(job.log.path)] = utf8(same.log.path)
        else:
            jobs[number] = job
    return jobs, same_logs


def import_logs(
    paths: Paths,
    output: AnyPath,
    *,
    from_: str = "auto",
    metric: Strings = (),
    metadata: str = "all",
    columns: AnyPath | None = None,
    jobs: int = CORES,
    progress: Progress | None = None,
    **table: str,
) -> Import:
    """Import logs of harnesses, or tables.

    Args:
        paths: Logs, directories, globs or URLs.
        output: A directory for the shards. It replaces an earlier import there.
        from_: The harness whose logs are imported; `auto` recognises it by the content of each
            file.
        metric: Patterns of metrics; the scores of others are left out.
        metadata: The metadata of samples to keep: `all`, `none`, or names separated by commas.
        columns: A TOML file with the keyword arguments of a table.
        jobs: Processes to use; small inputs are imported in this process.
        progress: Receives the progress.
        **table: What the columns mean: then the files are tables (`TableColumns`).

    Raises:
        UsageError: There are no logs, or another argument is wrong.
        FastrecError: No sample became a record.
        OSError: A shard cannot be written.
    """
    check_jobs(jobs)
    check_choice("from", from_, ("auto", *HARNESSES))
    patterns = as_tuple("metric", metric)
    chosen = chosen_names(metadata)
    names = path_names(paths)
    if not names:
        raise UsageError("no input: name logs, directories of logs, globs or URLs")
    directory = without_file_protocol(output)
    meaning = _columns(columns, table)
    if meaning and chosen is not None:  # then the table itself knows whether it has these columns
        meaning = replace(meaning, metadata=metadata)
        chosen = None
    files = find_files(names)
    # How many slices there will be is not known yet: archives have ten times their size in text.
    processes = 1 if is_small(sum(file.size for file in files)) else jobs
    with ExitStack() as outputs:  # closed after the workers, which write there, have ended
        with make_engine(processes) as engine:
            inputs = _tables(files, meaning) if meaning else find_logs(engine, names, files, from_)
            opened = outputs.enter_context(open_output(directory))
            progress = progress or Progress()
            progress.start("import", sum(log.size for log in inputs.logs))
            planned = engine.in_order(plan_log, inputs.logs)
            importer = _Importer(inputs, planned, opened, patterns=patterns, chosen=chosen)
            result = importer.run(engine, progress)
            progress.finish()
        if not result.logs and not result.bad_logs and not result.same_logs:
            kinds = "; ".join(
                f"{kind}: {listed(files, _FEW)}" for kind, files in result.skipped_files.items()
            )
            raise UsageError(f"all files are left out; {kinds}; --guess proposes options")
        if result.logs:  # otherwise an earlier import stays as it is
            _check_choices(patterns, chosen or (), result.logs)
            _check_records(result.logs)
            opened.publish(result)
    return result


def _columns(path: AnyPath | None, table: Texts) -> TableColumns | None:
    """What the columns of tables mean, by a file and by arguments, which come first.

    None if there are only logs.
    """
    given = TableColumns(**table)
    if path is not None:
        name = os.fspath(path)
        read = columns_from(storage_of(name).read_all(name), name)
        given = replace(read, **{field: value for field, value in table.items() if value})
    if given == TableColumns():
        return None
    return given.resolved()


def _tables(files: Sequence[AnyFile], columns: TableColumns) -> Found:
    inputs = Found()
    for file in files:
        in_path = columns.in_path(utf8(file.path))
        if in_path is None:
            inputs.skip(f"--from-path {columns.from_path} does not match", file.path)
            continue
        tables = (FoundFile(file.path, file.size, (NAMED if file.is_named else "table")),)
        inputs.logs.append(Log("table", file.path, tables, columns=columns, in_path=in_path))
    return inputs


def guess_columns(paths: Sequence[str], output: str) -> list[str]:
    """Propose the command that imports the tables of some paths; further lines are comments."""
    files = find_files(paths)
    with suppress(UsageError), make_engine(1) as engine:
        logs = find_logs(engine, paths, files, "auto").logs
        if logs:
            note = f"# there are logs of {logs[0].harness}, which need no columns"
            return [shlex.join(["fastrec", "import", *paths, "-o", output]), note]
    return guess(paths, files, output)


def _check_records(logs: Sequence[ImportedLog]) -> None:
    reasons = [f"{shown(log.log)}: {reason}" for log in logs for reason in log.left_out]
    if reasons and not any(log.records for log in logs):
        raise FastrecError(f"no sample became a record: {listed(reasons, _FEW)}")


def _check_choices(patterns: Names, chosen: Collection[str], logs: Sequence[ImportedLog]) -> None:
    if patterns and not any(log.records for log in logs):
        known = sorted({name for log in logs for name in log.metrics_left_out})
        named = ", ".join(map(repr, patterns))
        raise UsageError(f"no metric matches {named}; the logs have {listed(known, 30)}")
    have = {name for log in logs for name in log.metadata}
    unknown = [repr(name) for name in sorted(chosen) if have.isdisjoint(names_of(name))]
    if unknown:
        known = sorted(have) or ["none"]
        raise UsageError(
            f"no sample has the metadata {listed(unknown)}; the logs have {listed(known, 30)}"
        )
