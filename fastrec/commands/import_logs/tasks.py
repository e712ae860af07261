"""The tasks of an import, which run in workers: plan a log, convert a slice of it, and write its shard.

A slice becomes a work file of bundles. Only when all slices of a log are converted is it known which metrics are
graded. Then their bundles become lines, which say so. A shard is one frame of zstd, because simple readers stop after
the first. So the shard of a large log is compressed by the threads of zstd.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import zstandard
from xxhash import xxh3_128

from fastrec.engine.base import collector_off
from fastrec.errors import LogError, ShardError, is_out_of_memory, out_of_memory, shown
from fastrec.harnesses.convert import Bundle, Converter, LineMaker, MetricTotals, read_bundles, write_bundles
from fastrec.harnesses.log import Log, LogPlan, RunInfo
from fastrec.harnesses.metadata import FieldCounts
from fastrec.harnesses.registry import harness_named
from fastrec.storage import storage_of

_BLOCK: Final = 1 << 20
_LEVEL: Final = 1  # 1.4 to 2 times as fast as level 3, for 2 to 4 % more bytes
_JOB_BYTES: Final = 4 << 20  # text that a thread compresses at a time: the bytes depend on it, not on the threads


class PlannedLog(msgspec.Struct):
    stable_id: str = ""
    """Of the content of all its files."""
    plan: LogPlan | None = None
    problem: str = ""


class ConvertTask(msgspec.Struct, frozen=True):
    log: Log
    run: RunInfo
    log_slice: Any
    patterns: tuple[str, ...]
    chosen: frozenset[str] | None
    """The metadata to keep; None: all."""
    path: str
    """The work file to write."""
    number: int
    """The position of the log among all logs."""
    by_sample: bool = False
    """Whether a figure of the log needs the scores of each sample."""

    def __str__(self) -> str:
        return f"reading {shown(self.log.path)}"


class Converted(msgspec.Struct):
    number: int
    path: str
    samples: int = 0
    records: int = 0
    errors: int = 0
    head: bytes = b""
    metrics: dict[str, MetricTotals] = {}
    """In the order in which they came up: bundles have positions in it."""
    left_out: dict[str, int] = {}
    metrics_left_out: dict[str, int] = {}
    fields_left_out: FieldCounts = FieldCounts()
    metadata: frozenset[str] = frozenset()
    problem: str = ""


class ShardTask(msgspec.Struct, frozen=True):
    path: str
    slices: Sequence[tuple[str, bytes, tuple[str, ...]]]
    """The work file of each slice, how its records begin, and its metrics."""
    notes: dict[str, dict[str, str]]
    """What the metadata of records say about their metric."""
    threads: int = 1

    def __str__(self) -> str:
        return f"writing {shown(self.path)}"


@collector_off()
def plan_log(log: Log) -> PlannedLog:
    try:
        return PlannedLog(plan=harness_named(log.harness).plan(log), stable_id=_stable_id(log))
    except (LogError, ShardError, OSError, MemoryError) as exc:
        return PlannedLog(problem=_reason(exc, log))


def _stable_id(log: Log) -> str:
    digest = xxh3_128(log.task.encode())  # tasks that share all their files are logs of their own
    for file in log.files:
        digest.update(b"%d\n" % file.size)
        with storage_of(file.path).open_reader(file.path) as source:
            while file.size and (block := source.read(_BLOCK)):
                digest.update(block)
    return digest.hexdigest()[:16]


def _reason(exc: Exception, log: Log) -> str:
    """Say why a log cannot be imported, and in which of its files, if there are several."""
    if is_out_of_memory(exc):
        return str(out_of_memory(log.path))
    if isinstance(exc, OSError):
        exc = LogError(str(exc.filename or log.path), f"cannot be read: {exc.strerror or exc}")
    assert isinstance(exc, LogError | ShardError)
    return exc.reason if exc.path == log.path else str(exc)


@collector_off()
def convert_slice(task: ConvertTask) -> Converted:
    """Turn the samples of a slice into bundles in a work file."""
    converter = Converter(task.log.harness, task.run, task.patterns, task.chosen, by_sample=task.by_sample)
    result = Converted(task.number, task.path)
    try:
        with storage_of(task.path).create(task.path, for_work=True) as file:
            waiting: list[Bundle] = []
            size = 0
            for sample in harness_named(task.log.harness).samples(task.log, task.run, task.log_slice):
                if isinstance(sample, str):
                    converter.leave_out(sample)
                    continue
                if (bundle := converter.bundle(sample)) is None:
                    continue
                waiting.append(bundle)
                size += bundle.line_size
                result.records += len(bundle.scores)
                if size >= _BLOCK:
                    file.write(write_bundles(waiting))
                    waiting, size = [], 0
            if waiting:
                file.write(write_bundles(waiting))
    except (LogError, ShardError, OSError, MemoryError) as exc:
        if isinstance(exc, OSError) and exc.filename and str(exc.filename).startswith(task.path):
            raise  # the work file could not be written
        result.problem = _reason(exc, task.log)
        return result
    result.samples, result.errors, result.head = converter.samples, converter.errors, converter.head
    result.metrics = converter.metrics
    result.left_out, result.metrics_left_out = converter.left_out, converter.metrics_left_out
    result.fields_left_out, result.metadata = converter.keeper.left_out, frozenset(converter.keeper.names)
    return result


@collector_off()
def write_shard(task: ShardTask) -> None:
    """Compress the lines of a log, and remove its work files."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL, threads=task.threads, job_size=_JOB_BYTES, write_checksum=True
    )
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with storage_of(task.path).create(task.path) as shard:
        for path, head, metrics in task.slices:
            for block in _blocks_of_lines(path, LineMaker(head, metrics, task.notes)):
                shard.write(stream.compress(block))
            storage_of(path).remove(path)
        shard.write(stream.flush())


def _blocks_of_lines(path: str, maker: LineMaker) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    with storage_of(path).open_reader(path) as file:
        for bundles in read_bundles(file.read):
            for bundle in bundles:
                parts += maker.lines(bundle)
                size += bundle.line_size * len(bundle.scores)
                if size >= _BLOCK:
                    yield b"".join(parts)
                    parts, size = [], 0
    yield b"".join(parts)
