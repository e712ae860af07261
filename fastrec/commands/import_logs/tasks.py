"""The tasks of an import, which run in workers: plan a log, convert a slice of it, and write its shard.

A slice becomes a work file of plain lines. Only when all slices of a log are converted is it known which metrics are
graded; then one task adds that to their records and compresses the lines of all slices into one shard.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from xxhash import xxh3_128

from fastrec.corpus.writer import ShardWriter, Written
from fastrec.engine.base import collector_off
from fastrec.errors import LogError, ShardError, out_of_memory, shown
from fastrec.harnesses.convert import Converter, MetricTotals
from fastrec.harnesses.log import Log, LogPlan, RunInfo
from fastrec.harnesses.registry import harness_named
from fastrec.storage import storage_of

__all__ = ["ConvertTask", "Converted", "PlannedLog", "ShardTask", "convert_slice", "plan_log", "write_shard"]

_BLOCK: Final = 1 << 20
_LEVEL: Final = 3
_ID_DIGITS: Final = 16
_GRADED: Final = b',"graded":"true"}}\n'
_END: Final = len("}}")  # every line ends with it: `metadata` comes last, and is never empty


class PlannedLog(msgspec.Struct):
    """The result of planning a log."""

    stable_id: str = ""
    """Of the content of all its files."""
    plan: LogPlan | None = None
    problem: str = ""
    """Why it cannot be imported."""


class ConvertTask(msgspec.Struct, frozen=True):
    """A slice to convert."""

    log: Log
    run: RunInfo
    piece: Any
    patterns: tuple[str, ...]
    path: str
    """The work file to write."""
    number: int
    """The position of the log among all logs."""

    def __str__(self) -> str:
        return f"reading {shown(self.log.path)}"


class Converted(msgspec.Struct):
    """A converted slice."""

    number: int
    path: str
    samples: int = 0
    records: int = 0
    errors: int = 0
    text_bytes: int = 0
    metrics: dict[str, MetricTotals] = {}
    """In the order in which they came up: the file of metrics has positions in it."""
    left_out: dict[str, int] = {}
    metrics_left_out: dict[str, int] = {}
    problem: str = ""


class ShardTask(msgspec.Struct, frozen=True):
    """The slices of a log to put together."""

    path: str
    slices: Sequence[tuple[str, tuple[str, ...]]]
    """The work file of each slice, and its metrics."""
    graded: frozenset[str]
    threads: int

    def __str__(self) -> str:
        return f"writing {shown(self.path)}"


def plan_log(log: Log) -> PlannedLog:
    """Read what a log says about its run."""
    try:
        plan = harness_named(log.harness).plan(log)
        return PlannedLog(_stable_id(log), plan)
    except (LogError, ShardError, OSError, MemoryError) as exc:
        return PlannedLog(problem=_reason(exc, log))


def _stable_id(log: Log) -> str:
    digest = xxh3_128()
    for file in log.files:
        digest.update(b"%d\n" % file.size)
        with storage_of(file.path).open_reader(file.path) as source:
            while file.size and (block := source.read(_BLOCK)):
                digest.update(block)
    return digest.hexdigest()[:_ID_DIGITS]


def _reason(exc: Exception, log: Log) -> str:
    """Say why a log cannot be imported, and in which of its files, if there are several."""
    if isinstance(exc, MemoryError):
        return str(out_of_memory(log.path))
    if isinstance(exc, OSError):
        exc = LogError(str(exc.filename or log.path), f"cannot be read: {exc.strerror or exc}")
    assert isinstance(exc, LogError | ShardError)
    return exc.reason if exc.path == log.path else str(exc)


@collector_off()
def convert_slice(task: ConvertTask) -> Converted:
    """Turn the samples of a slice into lines of a work file."""
    converter = Converter(task.log.harness, task.run, task.patterns)
    result = Converted(task.number, task.path)
    numbers: dict[str, int] = {}
    metrics = array("I")
    try:
        with storage_of(task.path).create(task.path, for_work=True) as file:
            waiting: list[bytes] = []
            size = 0
            for sample in harness_named(task.log.harness).samples(task.log, task.run, task.piece):
                for metric, line in converter.lines(sample):
                    metrics.append(numbers.setdefault(metric, len(numbers)))
                    waiting.append(line)
                    size += len(line) + 1
                if size >= _BLOCK:
                    file.write(b"\n".join([*waiting, b""]))
                    result.text_bytes += size
                    waiting, size = [], 0
            file.write(b"\n".join([*waiting, b""] if waiting else []))
            result.text_bytes += size
        storage_of(task.path).write_all(_metrics_of(task.path), metrics.tobytes())
    except (LogError, ShardError, OSError, MemoryError) as exc:
        if isinstance(exc, OSError) and exc.filename and str(exc.filename).startswith(task.path):
            raise  # the work file could not be written
        result.problem = _reason(exc, task.log)
        return result
    result.samples, result.records, result.errors = converter.samples, len(metrics), converter.errors
    result.metrics = {name: converter.metrics[name] for name in numbers}
    result.left_out, result.metrics_left_out = converter.left_out, converter.metrics_left_out
    return result


def _metrics_of(path: str) -> str:
    """Return the path of the file that has the metric of each line of a work file."""
    return f"{path}.metrics"


@collector_off()
def write_shard(task: ShardTask) -> Written:
    """Compress the work files of a log into its shard, and remove them."""
    with ShardWriter(task.path, "zst", _LEVEL, threads=task.threads) as writer:
        for path, metrics in task.slices:
            marked = {number for number, metric in enumerate(metrics) if metric in task.graded}
            writer.write(_marked_lines(path, marked) if marked else _blocks(path))
            storage_of(path).remove(path, _metrics_of(path))
        return writer.finish()


def _blocks(path: str) -> Iterator[bytes]:
    with storage_of(path).open_reader(path) as file:
        while block := file.read(_BLOCK):
            yield block


def _marked_lines(path: str, marked: set[int]) -> Iterator[bytes]:
    """Yield the lines of a work file; those of graded metrics say so."""
    numbers = array("I", storage_of(path).read_all(_metrics_of(path)))
    position, rest = 0, b""
    for block in _blocks(path):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line[:-_END] + _GRADED if numbers[position] in marked else line + b"\n"
            position += 1
