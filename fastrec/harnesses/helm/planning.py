"""Plan a run: scan both long documents once, cut the samples into slices, and read the aggregates."""

from __future__ import annotations

from fastrec.harnesses.helm.aggregates import compare, read_stats, uses_of
from fastrec.harnesses.helm.grouping import file_of
from fastrec.harnesses.helm.index import SLICE_BYTES, LogSlice, cut
from fastrec.harnesses.helm.keys import labels_of
from fastrec.harnesses.helm.run import LANGUAGE_MODELING, METHOD, run_of
from fastrec.harnesses.helm.scan import scan_run
from fastrec.harnesses.log import Log, LogPlan

__all__ = ["plan"]


def plan(log: Log) -> LogPlan:
    """Scan a run."""
    state, scores, stats = (file_of(log, role) for role in ("scenario_state", "per_instance_stats", "stats"))
    assert state is not None
    assert scores is not None
    scan = scan_run(state.path, scores.path)
    labels = labels_of(scan.perturbations)
    uses = uses_of(scan, labels)
    run = run_of(log, scan, uses)
    count = len(scan.samples)
    per_request = run.metadata.get(METHOD) == LANGUAGE_MODELING and len(scan.requests.starts) > count
    compared = compare(read_stats(stats.path) if stats else [], uses, labels, per_request)
    empty = frozenset(name for name, use in uses.items() if not use.values)
    slices = [
        LogSlice(requests, entries, labels, empty)
        for requests, entries in cut(count, scan.requests, scan.entries, SLICE_BYTES)
    ]
    return LogPlan(
        run=run,
        slices=slices,
        aggregates=compared.aggregates,
        not_compared=compared.not_compared,
        expected_samples=compared.samples,
        notes=() if stats else ("there is no stats.json: the records are compared with nothing",),
        left_out={"no request has its instance, perturbation and trial": len(scan.unmatched)} if scan.unmatched else {},
    )
