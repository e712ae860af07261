"""`validate`: judge every line of some shards and report what is wrong with them; nothing is written but a log.

1. Find the shards and cut them into tasks.
2. Each task judges its lines and gives back counts, and its findings grouped; with a log, it writes every finding to a
   file of its own.
3. Results are added up in the order of the plan, so that a report does not depend on who was first, and the line
   numbers of a file that was cut are put right.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from fastrec.engine import make_engine
from fastrec.errors import ShardError
from fastrec.jobs.plan import Slice, tasks_of
from fastrec.jobs.report import Books, Report, Tally, utf8
from fastrec.stages.judge import Finding, Judge
from fastrec.stages.shards import MAX_LINE_BYTES, MAX_WINDOW, LongLine, ReadStats, Shard, find_shards, read_shard

__all__ = ["validate"]

_CHUNK_BYTES: Final = 1 << 18  # a chunk and its normal form stay in the processor's cache
_SMALL: Final = 8 << 20  # text that is judged before a pool would have started

_encode = msgspec.json.Encoder().encode


class _Order(msgspec.Struct, frozen=True):
    """What a worker is told."""

    slices: tuple[Slice, ...]
    max_line_bytes: int
    max_window: int
    log: str | None
    algorithm: str


def validate(
    paths: Sequence[str | os.PathLike[str]],
    *,
    jobs: int = 1,
    files_from: str | None = None,
    max_errors: int | None = None,
    json_log: str | os.PathLike[str] | None = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_window: int = MAX_WINDOW,
    algorithm: str = "sha256",
) -> Report:
    """Judge every line of some shards.

    Args:
        paths: Files, directories, globs, or `-` for standard input.
        jobs: Processes to use; small inputs are judged in this one anyway.
        files_from: A file with further paths, one a line.
        max_errors: Stop once so many invalid lines were found.
        json_log: A file for every finding, one JSON object a line.
        max_line_bytes: A longer line is invalid, and never held in memory.
        max_window: The largest zstd window to accept.
        algorithm: The hash that `sample_hash` is compared with.

    Raises:
        UsageError: The paths name nothing that could be read.
    """
    started = time.perf_counter()
    shards, notices = find_shards([os.fspath(path) for path in paths], files_from=files_from)
    report = Report(shards=len(shards), notices=notices)
    with tempfile.TemporaryDirectory(prefix="fastrec-") as scratch:
        orders = [
            _Order(slices, max_line_bytes, max_window, f"{scratch}/{n}" if json_log else None, algorithm)
            for n, slices in enumerate(tasks_of(shards))
        ]
        books = Books(report)
        log = Path(json_log).open("wb") if json_log else None  # noqa: SIM115 - closed below, and None is no context
        try:
            for order, tallies in _in_order(orders, _jobs_for(shards, jobs)):
                if log and order.log:
                    _copy_log(order, books, log)
                books.add(order.slices, tallies)
                if max_errors is not None and report.invalid >= max_errors:
                    report.stopped_early = True
                    break
        finally:
            if log:
                log.close()
    report.groups = books.groups()
    report.seconds = time.perf_counter() - started
    return report


def _jobs_for(shards: Iterable[Shard], jobs: int) -> int:
    """No more processes than the work is worth: none but this one for streams, which only it can read, and trifles."""
    if any(shard.stream for shard in shards):
        return 1
    return 1 if sum(shard.size for shard in shards) < _SMALL // 4 else jobs


def _in_order(orders: list[_Order], jobs: int) -> Iterator[tuple[_Order, list[Tally]]]:
    """Run the tasks and give their results in the order of the plan."""
    early: dict[int, list[Tally]] = {}
    turn = 0
    with make_engine(min(jobs, len(orders))) as engine:
        for number, tallies in engine.run(_validate_task, orders):
            early[number] = tallies
            while turn in early:
                yield orders[turn], early.pop(turn)
                turn += 1


@lru_cache(maxsize=1)
def _judge(algorithm: str) -> Judge:
    return Judge(algorithm=algorithm, warnings=True)


def _validate_task(order: _Order) -> list[Tally]:
    """Judge the slices of a task. Runs in a worker."""
    judge = _judge(order.algorithm)
    log: Any = Path(order.log).open("wb") if order.log else None  # noqa: SIM115
    try:
        return [_validate_slice(piece, order, judge, log) for piece in order.slices]
    finally:
        if log:
            log.close()


def _validate_slice(piece: Slice, order: _Order, judge: Judge, log: Any) -> Tally:
    tally, stats = Tally(), ReadStats()
    out = bytearray()
    try:
        for chunk in read_shard(
            piece.shard,
            start=piece.start,
            end=piece.end,
            chunk_bytes=_CHUNK_BYTES,
            max_line_bytes=order.max_line_bytes,
            max_window=order.max_window,
            stats=stats,
        ):
            if isinstance(chunk, LongLine):
                found = [(chunk.line, too_long(chunk, order.max_line_bytes))]
                tally.invalid += 1
                tally.lines += 1
            else:
                out.clear()
                batch = judge.judge_chunk(chunk.data, out, line=chunk.line, offset=chunk.offset)
                tally.lines += batch.lines
                tally.blank += batch.blank
                tally.invalid += len(batch.rejects)
                tally.warnings += len(batch.warnings)
                if not batch.rejects and not batch.warnings:
                    continue
                found = [(reject.line, finding) for reject in batch.rejects for finding in reject.findings]
                found += [(warned.line, warned.finding) for warned in batch.warnings]
                found.sort(key=lambda place: place[0])
            for line, finding in found:
                tally.add(finding, line)
            if log:
                log.writelines(_log_line(piece.shard.path, line, finding) for line, finding in found)
    except ShardError as exc:
        tally.error = str(exc)
    tally.text_bytes, tally.bom = stats.text_bytes, stats.bom
    return tally


def too_long(line: LongLine, limit: int) -> Finding:
    """Say that a line is over the limit."""
    return Finding("line.too_long", "$", f"expected at most {limit:,} bytes in a line, found {line.length:,}")


def _log_line(source: str, line: int, finding: Finding) -> bytes:
    return _encode(_Entry(utf8(source), line, finding.severity, finding.code, finding.path, finding.message)) + b"\n"


class _Entry(msgspec.Struct):
    """A line of the log."""

    source: str
    line: int
    severity: str
    code: str
    path: str
    message: str


def _copy_log(order: _Order, books: Books, log: Any) -> None:
    """Append a task's findings to the log, with the line numbers of cut files put right."""
    assert order.log is not None
    path = Path(order.log)
    base = books.lines_before(order.slices[0])
    if base == 0:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                log.write(block)
    else:  # a later slice of a cut file: the first slice of its task, and perhaps the only one
        first = utf8(order.slices[0].shard.path)
        decode = msgspec.json.Decoder(_Entry).decode
        with path.open("rb") as file:
            for line in file:
                entry = decode(line)
                if entry.source == first:
                    entry.line += base
                log.write(_encode(entry) + b"\n")
    path.unlink()
