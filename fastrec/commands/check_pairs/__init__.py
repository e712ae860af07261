"""`check-pairs`: check aggregates against the rows of their samples files, and the names of both.

1. Find the pairs (`discover`): files of the same name in one folder.
2. Cut them into pieces and run tasks (`task`): each reads aggregates and judges rows, and returns counts and findings.
3. The driver adds up the pieces of a pair in order, and checks what depends on all rows: their number and their means
   (`scores`), and the names of files that turned out to be part of a pair (`names`).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Final

from fastrec.commands.check_pairs.aggregate import Aggregate
from fastrec.commands.check_pairs.discover import Pair, find_pairs
from fastrec.commands.check_pairs.names import file_findings, folder_findings
from fastrec.commands.check_pairs.result import PairCheck
from fastrec.commands.check_pairs.rows import Rows
from fastrec.commands.check_pairs.scores import compare_score
from fastrec.commands.check_pairs.task import CheckedPiece, CheckTask, Piece, check_task, pieces_of
from fastrec.corpus.scan import run_in_order
from fastrec.engine import check_jobs
from fastrec.errors import UsageError, counted, utf8
from fastrec.judge.findings import Finding, FindingGroups, Location
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress
from fastrec.sources.tasks import gather_tasks, total_text
from fastrec.storage import is_private, parent_and_name

__all__ = ["PairCheck", "check_pairs"]

_STATED: Final = "$.detailed_evaluation_results"


def check_pairs(
    directories: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
) -> PairCheck:
    """Check aggregates and their samples files.

    Args:
        directories: Any directories of a datastore, or of a copy of a part of one.
        jobs: Processes to use; small trees are checked in this process.
        progress: Receives the progress.
        limits: Bounds of the work.

    Raises:
        UsageError: A directory does not exist or has nothing to check, or another argument is wrong.
    """
    started = time.perf_counter()
    check_jobs(jobs)
    given = [directories] if isinstance(directories, (str, os.PathLike)) else directories
    names = [os.fspath(directory) for directory in given]
    if not names:
        raise UsageError("no input: name one or more directories")
    if any(map(is_private, names)):
        jobs = 1
    found = find_pairs(names)
    pieces = [piece for pair in found.pairs for piece in pieces_of(pair, limits)]
    tasks = [CheckTask(some, limits) for some in gather_tasks(pieces, limits.task_bytes)]
    size = total_text(pieces)
    results = run_in_order(check_task, tasks, text_bytes=size, jobs=jobs, limits=limits)
    check = _Check(PairCheck(ignored=found.ignored, bad_files=found.bad_files), limits)
    checked = _with_progress(chain.from_iterable(results), pieces, progress or Progress(), size)
    for _, parts in groupby(checked, key=lambda both: id(both[0].pair)):
        check.add(list(parts))
    return check.finish(time.perf_counter() - started)


def _with_progress(
    checked: Iterable[CheckedPiece], pieces: Sequence[Piece], progress: Progress, size: int
) -> Iterator[tuple[Piece, CheckedPiece]]:
    """Yield each piece with its result, and report it as progress."""
    progress.start("check", size)
    for piece, one in zip(pieces, checked, strict=True):
        rows = one.rows or Rows(FindingGroups(0))
        progress.advance(piece.estimated_text, rows.rows, rows.invalid)
        yield piece, one
    progress.finish()


class _Check:
    """Adds up pairs in order."""

    def __init__(self, report: PairCheck, limits: Limits) -> None:
        self._report = report
        self._limits = limits
        self._groups = FindingGroups(limits.finding_groups)
        self._not_compared: Counter[str] = Counter()
        self._folders: set[str] = set()

    def add(self, parts: Sequence[tuple[Piece, CheckedPiece]]) -> None:
        """Add all pieces of a pair."""
        report, pair, first = self._report, parts[0][0].pair, parts[0][1]
        report.bad_files += dict.fromkeys(one.error for _, one in parts if one.error)
        if first.is_ignored:
            report.ignored += 1
            return
        self._add_names(pair)
        report.samples += len(pair.samples)
        location = Location(utf8(pair.aggregate or pair.samples[0].path), 1)
        for finding in first.findings:
            self._groups.add(finding, location)
        if pair.aggregate is None:
            message = f"expected {utf8(pair.stem)}.json in the same folder, found no such file"
            self._groups.add(Finding("pair.no_aggregate", "$", message), location)
        else:
            report.aggregates += 1
        if len(pair.samples) > 1:
            names = ", ".join(utf8(parent_and_name(shard.path)[1]) for shard in pair.samples)
            self._groups.add(
                Finding("pair.several_samples", "$", f"expected one samples file, found {names}"), location
            )
        if any(one.error for _, one in parts):
            return  # a file counts as a whole or not at all
        rows = Rows(FindingGroups(self._limits.finding_groups))
        for _, one in parts:
            if one.rows:
                rows += one.rows
        self._add_rows(pair, first.aggregate, rows, location)

    def _add_names(self, pair: Pair) -> None:
        """Check the names of the files of a pair, and those of its folder unless another pair in it was checked."""
        paths = [*filter(None, [pair.aggregate]), *(shard.path for shard in pair.samples)]
        if pair.folder not in self._folders:
            self._folders.add(pair.folder)
            for finding in folder_findings(pair.place):
                self._groups.add(finding, Location(utf8(paths[0]), 1))
        for path in paths:
            for finding in file_findings(parent_and_name(path)[1], pair.stem, pair.names, pair.place):
                self._groups.add(finding, Location(utf8(path), 1))

    def _add_rows(self, pair: Pair, aggregate: Aggregate | None, rows: Rows, location: Location) -> None:
        """Check what depends on all rows of a pair."""
        report = self._report
        report.rows += rows.rows
        report.invalid += rows.invalid
        report.text_bytes += rows.text_bytes
        self._groups.merge(rows.groups)
        if not pair.samples:
            return
        if not rows.rows:
            where = Location(utf8(pair.samples[0].path), 1)
            self._groups.add(Finding("pair.no_rows", "$", "expected at least one row, found none"), where)
        if aggregate is None:
            return
        report.pairs += 1
        stated = aggregate.stated
        if stated is not None:
            report.without_checksum += stated.checksum is None
            report.without_total_rows += stated.total_rows is None
            if stated.total_rows not in (None, rows.rows):
                message = f"expected {stated.total_rows:,}, as the aggregate states, found {counted(rows.rows, 'row')}"
                self._groups.add(Finding("pair.total_rows", f"{_STATED}.total_rows", message), location)
        self._compare_scores(aggregate, rows, location)

    def _compare_scores(self, aggregate: Aggregate, rows: Rows, location: Location) -> None:
        report = self._report
        report.results += len(aggregate.results)
        for number, result in enumerate(aggregate.results):
            verdict = "invalid rows" if rows.invalid else compare_score(result, number, rows.tallies.get(number))
            if verdict is None:
                report.reproduced += 1
            elif isinstance(verdict, Finding):
                report.different += 1
                self._groups.add(verdict, location)
            else:
                self._not_compared[verdict] += 1

    def finish(self, seconds: float) -> PairCheck:
        """Return the result."""
        report = self._report
        report.codes, report.groups = dict(self._groups.codes), self._groups.in_order()
        report.not_compared = dict(sorted(self._not_compared.items()))
        report.seconds = seconds
        return report
