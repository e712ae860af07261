"""The steps of an import: plan all logs, convert their slices, write a shard for each log that is intact.

Shards are written while slices of other logs are converted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from fastrec.commands.import_logs.account import account_of
from fastrec.commands.import_logs.document import BadLog, Import, ImportedLog
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
from fastrec.harnesses.log import Log, LogPlan
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
        plans = {number: plan for number in wanted if (plan := planned[number].plan)}
        converted: dict[int, list[Converted]] = {number: [] for number in wanted}
        accounts: dict[int, ImportedLog] = {}
        shards: list[ShardTask] = []  # of logs whose slices are all converted

        def end(number: int) -> None:
            """Account for a log whose slices are all converted; its shard can be written."""
            slices = sorted(converted.pop(number), key=lambda one: one.path)
            if problem := next((one.problem for one in slices if one.problem), ""):
                result.bad_logs.append(BadLog(utf8(wanted[number].path), problem))
                return
            accounts[number] = account_of(wanted[number], planned[number], slices)
            shards.append(self._shard(accounts[number], slices))

        for number in [number for number, plan in plans.items() if not plan.slices]:
            end(number)
        for _, one in self.engine.run(_do, self._tasks(wanted, plans, shards)):
            if one is None:
                continue
            converted[one.number].append(one)
            count = len(plans[one.number].slices)
            self.progress.advance(wanted[one.number].size // count, one.records, 0)
            if len(converted[one.number]) == count:
                end(one.number)
        threads = max(self.engine.jobs // max(len(shards), 1), 1)  # all cores are busy, even with one large shard
        for _ in self.engine.run(_do, [msgspec.structs.replace(shard, threads=threads) for shard in shards]):
            pass
        self.progress.finish()
        result.logs += [account for _, account in sorted(accounts.items())]

    def _tasks(
        self, wanted: Mapping[int, Log], plans: Mapping[int, LogPlan], shards: list[ShardTask]
    ) -> Iterator[ConvertTask | ShardTask]:
        """Yield the slices of all logs; meanwhile, write shards, so that no worker waits for the largest log."""
        for number, plan in plans.items():
            for position, log_slice in enumerate(plan.slices):
                path = f"{self.output.work}/{number:06d}-{position:06d}"
                yield ConvertTask(wanted[number], plan.run, log_slice, self.patterns, path, number)
                while shards:
                    yield shards.pop()

    def _shard(self, account: ImportedLog, slices: Sequence[Converted]) -> ShardTask:
        graded = frozenset(name for name, metric in account.metrics.items() if metric.graded)
        files = [(one.path, one.head, tuple(one.metrics)) for one in slices]
        return ShardTask(self.output.shard_path(account.file), files, graded)


def _do(task: ConvertTask | ShardTask) -> Converted | None:
    if isinstance(task, ConvertTask):
        return convert_slice(task)
    write_shard(task)
    return None


def _distinct(logs: Sequence[Log], planned: Sequence[PlannedLog], result: Import) -> dict[int, Log]:
    """Return the logs to import, by position: intact, and each content once."""
    first: dict[tuple[str, str], int] = {}
    for number, (log, plan) in enumerate(zip(logs, planned, strict=True)):
        if plan.problem:
            result.bad_logs.append(BadLog(utf8(log.path), plan.problem))
        elif (same := first.setdefault((log.harness, plan.stable_id), number)) != number:
            result.same_logs[utf8(log.path)] = utf8(logs[same].path)
    return {number: logs[number] for number in first.values()}
