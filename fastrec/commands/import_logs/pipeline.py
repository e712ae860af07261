"""The steps of an import: plan all logs, convert their slices, write a shard for each log that is intact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from fastrec.commands.import_logs.account import account_of
from fastrec.commands.import_logs.document import BadLog, Import
from fastrec.commands.import_logs.output import ImportOutput
from fastrec.commands.import_logs.tasks import (
    Converted,
    ConvertTask,
    PlannedLog,
    ShardTask,
    convert_slice,
    plan_log,
    write_shard,
)
from fastrec.engine.base import Engine
from fastrec.errors import utf8
from fastrec.harnesses.log import Log
from fastrec.progress import Progress

__all__ = ["Pipeline"]


class Pipeline(msgspec.Struct, frozen=True):
    """Imports logs into an output."""

    engine: Engine
    output: ImportOutput
    patterns: tuple[str, ...]
    progress: Progress

    def run(self, logs: Sequence[Log], result: Import) -> None:
        """Import all logs, and add their accounts to the result."""
        self.progress.start("import", sum(log.size for log in logs))
        planned = [plan for _, plan in sorted(self.engine.run(plan_log, logs))]
        wanted = _distinct(logs, planned, result)
        converted = self._convert(wanted, planned)
        self.progress.finish()
        tasks = []
        threads = max(self.engine.jobs // max(len(wanted), 1), 1)
        for number, log in wanted.items():
            slices = converted[number]
            if problem := next((one.problem for one in slices if one.problem), ""):
                result.bad_logs.append(BadLog(utf8(log.path), problem))
                continue
            account = account_of(log, planned[number], slices)
            result.logs.append(account)
            graded = frozenset(name for name, metric in account.metrics.items() if metric.graded)
            files = [(one.path, one.head, tuple(one.metrics)) for one in slices]
            tasks.append(ShardTask(self.output.shard_path(account.file), files, graded, threads))
        for _ in self.engine.run(write_shard, tasks):
            pass

    def _convert(self, wanted: Mapping[int, Log], planned: Sequence[PlannedLog]) -> dict[int, list[Converted]]:
        """Convert all slices of the wanted logs; return the results of each log in order."""
        converted: dict[int, list[Converted]] = {number: [] for number in wanted}
        for _, one in self.engine.run(convert_slice, self._tasks(wanted, planned)):
            converted[one.number].append(one)
            plan = planned[one.number].plan
            assert plan is not None
            self.progress.advance(wanted[one.number].size // len(plan.slices), one.records, 0)
        for slices in converted.values():
            slices.sort(key=lambda one: one.path)
        return converted

    def _tasks(self, wanted: Mapping[int, Log], planned: Sequence[PlannedLog]) -> Iterator[ConvertTask]:
        for number, log in wanted.items():
            plan = planned[number].plan
            assert plan is not None
            for position, log_slice in enumerate(plan.slices):
                path = f"{self.output.work}/{number:06d}-{position:06d}"
                yield ConvertTask(log, plan.run, log_slice, self.patterns, path, number)


def _distinct(logs: Sequence[Log], planned: Sequence[PlannedLog], result: Import) -> dict[int, Log]:
    """Return the logs to import, by position: intact, and each content once."""
    first: dict[tuple[str, str], int] = {}
    for number, (log, plan) in enumerate(zip(logs, planned, strict=True)):
        if plan.problem:
            result.bad_logs.append(BadLog(utf8(log.path), plan.problem))
        elif (same := first.setdefault((log.harness, plan.stable_id), number)) != number:
            result.same_logs[utf8(log.path)] = utf8(logs[same].path)
    return {number: logs[number] for number in first.values()}
