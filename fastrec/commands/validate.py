"""`validate`: judge every line of some shards and report what is wrong with them; nothing is written but a log.

1. Find the shards and cut them into tasks.
2. Each task judges its lines and gives back counts, and its findings grouped; with a log, it writes the findings of
   each slice to a file of their own.
3. Results are added up in the order of the plan, so that a report does not depend on who was first: first those of a
   shard, with the line numbers of a file that was cut put right, then, if it was read whole, those of all shards.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import lru_cache
from itertools import groupby
from typing import Final

import msgspec

from fastrec.engine import make_engine
from fastrec.engine.jobs import jobs_for
from fastrec.errors import ShardError, UsageError, out_of_memory, shown
from fastrec.judge.findings import too_long
from fastrec.judge.judge import Judge
from fastrec.judge.report import Books, FindingLog, Report, Tally, log_findings
from fastrec.schemas.hashes import HASHES
from fastrec.sources.decompress import MAX_WINDOW
from fastrec.sources.inputs import find_shards
from fastrec.sources.lines import MAX_LINE_BYTES, LongLine, ReadStats
from fastrec.sources.reader import Shard, read_shard
from fastrec.sources.slices import Slice, estimated_text, tasks_of

__all__ = ["validate"]

_CHUNK_BYTES: Final = 1 << 18  # a chunk and its normal form stay in the processor's cache


class _Order(msgspec.Struct, frozen=True):
    """What a worker is told."""

    slices: tuple[Slice, ...]
    max_line_bytes: int
    max_window: int
    max_errors: int | None
    log: str | None
    """What the names of the slices' logs begin with."""
    algorithm: str

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
        UsageError: The paths name nothing that could be read, or another argument makes no sense.
        FastrecError: The log cannot be written.
    """
    started = time.perf_counter()
    _check(jobs, max_errors, algorithm)
    names = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    shards, notices = find_shards([os.fspath(path) for path in names], files_from=files_from)
    report = Report(shards=len(shards), notices=notices)
    books = Books(report)
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="fastrec-"))
        log = stack.enter_context(_open_log(os.fspath(json_log), shards)) if json_log else None
        orders = [
            _Order(slices, max_line_bytes, max_window, max_errors, f"{scratch}/{number}" if log else None, algorithm)
            for number, slices in enumerate(tasks_of(shards))
        ]
        results = stack.enter_context(closing(_in_order(orders, _jobs_for(shards, len(orders), jobs))))
        for shard, tally in _by_shard(_enough(results, max_errors)):
            books.add(shard, tally)
            if log:
                log.gather(tally)
    report.groups = books.groups()
    report.stopped_early = max_errors is not None and report.invalid >= max_errors
    report.seconds = time.perf_counter() - started
    return report


def _check(jobs: int, max_errors: int | None, algorithm: str) -> None:
    if jobs < 1:
        raise UsageError(f"there must be at least one job, not {jobs}")
    if max_errors is not None and max_errors < 1:
        raise UsageError(f"the errors to stop at must be at least one, not {max_errors}")
    if algorithm not in HASHES:
        raise UsageError(f"the hash is one of {', '.join(HASHES)}, not {algorithm!r}")


def _open_log(path: str, shards: Iterable[Shard]) -> FindingLog:
    """Open the log, but not over a shard: that would empty it before it is read."""
    if os.path.exists(path):  # noqa: PTH110 - paths stay the str that was given
        for shard in shards:
            if not shard.stream and os.path.samefile(path, shard.path):  # noqa: PTH121
                raise UsageError(f"the log {shown(path)} is one of the shards: name another file")
    return FindingLog(path)


def _jobs_for(shards: Sequence[Shard], tasks: int, jobs: int) -> int:
    """No more processes than the work is worth: none but this one for streams, which only it can read."""
    return 1 if any(shard.stream for shard in shards) else jobs_for(sum(map(estimated_text, shards)), tasks, jobs)


def _in_order(orders: list[_Order], jobs: int) -> Generator[tuple[Slice, Tally], None, None]:
    """Run the tasks and give what came of each slice in the order of the plan."""
    early: dict[int, list[Tally]] = {}
    turn = 0
    with make_engine(jobs) as engine:
        for number, tallies in engine.run(_validate_task, orders):
            early[number] = tallies
            while turn in early:
                # A task that found enough errors left its last slices alone.
                yield from zip(orders[turn].slices, early.pop(turn), strict=False)
                turn += 1


def _enough(results: Iterable[tuple[Slice, Tally]], max_errors: int | None) -> Iterator[tuple[Slice, Tally]]:
    """Give results until so many lines were invalid."""
    invalid = 0
    for piece, tally in results:
        yield piece, tally
        invalid += tally.invalid
        if max_errors is not None and invalid >= max_errors:
            return


def _by_shard(results: Iterable[tuple[Slice, Tally]]) -> Iterator[tuple[Shard, Tally]]:
    """Add up the slices of each shard."""
    for shard, pieces in groupby(results, key=lambda result: result[0].shard):
        whole = Tally()
        for _, tally in pieces:
            whole += tally
        yield shard, whole


@lru_cache(maxsize=1)
def _judge(algorithm: str) -> Judge:
    return Judge(algorithm=algorithm, warnings=True, fill=False)


def _validate_task(order: _Order) -> list[Tally]:
    """Judge the slices of a task. Runs in a worker."""
    judge = _judge(order.algorithm)
    tallies: list[Tally] = []
    invalid = 0
    for number, piece in enumerate(order.slices):
        tally = _validate_slice(piece, order, judge, f"{order.log}-{number}" if order.log else None)
        tallies.append(tally)
        invalid += tally.invalid
        if order.max_errors is not None and invalid >= order.max_errors:
            break
    return tallies


def _validate_slice(piece: Slice, order: _Order, judge: Judge, log: str | None) -> Tally:
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
                found = [(chunk.line, too_long(chunk.length, order.max_line_bytes))]
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
                tally.logs = [(log, 0)]
                log_findings(log, piece.shard.path, found)
            if order.max_errors is not None and tally.invalid >= order.max_errors:
                break
    except ShardError as exc:
        # Never half-used: what was read of it counts for nothing.
        return Tally(error=str(exc), logs=tally.logs)
    except MemoryError:
        return Tally(error=str(out_of_memory(piece.shard.path)), logs=tally.logs)
    tally.text_bytes, tally.bom = stats.text_bytes, stats.bom
    return tally
