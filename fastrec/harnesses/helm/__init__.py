"""HELM: directories of runs, with requests and scores in two long JSON documents.

`plan` scans both documents once. It finds the samples by their key (instance, perturbation, trial), cuts them into
slices of byte ranges, and decides which aggregates the records must reproduce. `samples` reads the ranges of a slice.
"""

from __future__ import annotations

from fastrec.harnesses.helm.aggregates import compare, read_stats, uses_of
from fastrec.harnesses.helm.files import NAME, file_of, logs_of, role_of
from fastrec.harnesses.helm.index import SLICE_BYTES, Piece, cut
from fastrec.harnesses.helm.joined import samples
from fastrec.harnesses.helm.keys import labels_of
from fastrec.harnesses.helm.run import METHOD, run_info
from fastrec.harnesses.helm.scan import scan_run
from fastrec.harnesses.log import Log, LogPlan

__all__ = ["NAME", "logs_of", "plan", "role_of", "samples"]


def plan(log: Log) -> LogPlan:
    """Scan a run."""
    state, scores, stats = (file_of(log, role) for role in ("scenario_state", "per_instance_stats", "stats"))
    assert state is not None
    assert scores is not None
    scan = scan_run(state.path, scores.path)
    labels = labels_of(scan.perturbations)
    uses = uses_of(scan, labels)
    run = run_info(log, scan, uses)
    count = len(scan.samples)
    per_request = run.metadata.get(METHOD) == "language_modeling" and len(scan.requests.starts) > count
    compared = compare(read_stats(stats.path) if stats else [], uses, labels, per_request)
    empty = frozenset(name for name, use in uses.items() if not use.values)
    slices = [
        Piece(requests, entries, labels, empty)
        for requests, entries in cut(count, scan.requests, scan.entries, SLICE_BYTES)
    ]
    return LogPlan(
        run=run,
        slices=slices,
        aggregates=compared.aggregates,
        not_compared=compared.not_compared,
        expected_samples=compared.samples,
        notes=() if stats else ("there is no stats.json: the records are compared with nothing",),
        left_out={"no request has its instance, perturbation and trial": len(scan.strangers)} if scan.strangers else {},
    )
