"""The account of one log: its slices added up, and compared with the figures that it states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fastrec.commands.import_logs.document import Comparison, ImportedLog, MetricAccount, agrees
from fastrec.commands.import_logs.tasks import Converted, PlannedLog
from fastrec.errors import utf8
from fastrec.harnesses.convert import MetricTotals
from fastrec.harnesses.log import Log, LogPlan

__all__ = ["account_of"]


def account_of(log: Log, planned: PlannedLog, slices: Sequence[Converted]) -> ImportedLog:
    """Add up the slices of a log, in order."""
    plan = planned.plan
    assert plan is not None
    totals: dict[str, MetricTotals] = {}
    left_out, metrics_left_out = Counter(plan.left_out), Counter[str]()
    for one in slices:
        for name, metric in one.metrics.items():
            total = totals.setdefault(name, MetricTotals())
            total += metric
        left_out.update(one.left_out)
        metrics_left_out.update(one.metrics_left_out)
    samples = sum(one.samples for one in slices) + sum(plan.left_out.values())
    return ImportedLog(
        log=utf8(log.path),
        harness=log.harness,
        file=f"{log.harness}-{planned.stable_id}.jsonl.zst",
        evaluation_id=plan.run.evaluation_id,
        evaluation_name=plan.run.task,
        model_id=plan.run.model,
        harness_version=plan.run.version,
        samples=samples,
        records=sum(one.records for one in slices),
        errors=sum(one.errors for one in slices),
        metrics={name: _metric(total) for name, total in sorted(totals.items())},
        left_out=dict(sorted(left_out.items())),
        metrics_left_out=dict(sorted(metrics_left_out.items())),
        comparisons=_compare(plan, totals, samples, metrics_left_out),
        not_compared=dict(sorted(plan.not_compared.items())),
        notes=list(plan.notes),
    )


def _metric(total: MetricTotals) -> MetricAccount:
    mean = total.sum / total.scored if total.scored else None
    return MetricAccount(total.records, total.scored, mean, total.graded)


def _compare(
    plan: LogPlan, totals: Mapping[str, MetricTotals], samples: int, left_out: Mapping[str, int]
) -> list[Comparison]:
    """Compare what a log states with its records; metrics that the user left out are not compared."""
    found = []
    if plan.expected_samples is not None:
        expected = plan.expected_samples
        found.append(Comparison("number of samples", "", expected, samples, agrees=expected == samples))
    for stated in plan.aggregates:
        if stated.metric in left_out:
            continue
        total = totals.get(stated.metric)
        mean = total.sum / total.scored if total and total.scored else None
        is_equal = mean is not None and agrees(stated.value, mean)
        found.append(Comparison(stated.name, stated.metric, stated.value, mean, agrees=is_equal))
        if total and stated.samples is not None:
            name = f"{stated.name}: number of scores"
            found.append(Comparison(name, stated.metric, stated.samples, total.scored, stated.samples == total.scored))
    return found
