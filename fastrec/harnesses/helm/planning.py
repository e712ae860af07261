"""The aggregates of a run (`stats.json`), and which of them its records must reproduce.

HELM adds up the values of all instances of a trial, and takes the mean of each trial, then the mean of the trials. That
is the mean over all records if every instance has the same number of values, and every trial the same number of
instances. Aggregates of another kind are not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fastrec.errors import counted
from fastrec.harnesses.helm.files import file_of
from fastrec.harnesses.helm.sample import mean_of
from fastrec.harnesses.helm.scan import LANGUAGE_MODELING, METHOD, SLICE_BYTES, LogSlice, Scan, cut, run_of, scan_run
from fastrec.harnesses.helm.structs import FOREIGN, MetricName, Stat, canonical, labels_of, metric_id
from fastrec.harnesses.log import Aggregate, Log, LogPlan
from fastrec.harnesses.values import decoder, number_of, read_document

_PERTURBED: Final = "perturbed"
_MANY: Final = 1 << 53
_NUM_INSTANCES: Final = "num_instances"
_KINDS: Final = {
    "worst": "it is the mean of the lowest score that each instance has under these perturbations",
    "original": "it is the mean over the unperturbed versions of the instances that are perturbed",
}

_decode = decoder(list[Stat])


class MetricUse(msgspec.Struct):
    """How a metric occurs in the scores of a run."""

    values: int = 0
    """Entries that have a value."""
    empty: int = 0
    """Entries without."""
    by_trial: dict[int, int] = {}
    weights: set[int | float] = set()
    """Numbers of values that entries have."""

    @property
    def obstacle(self) -> str:
        """Why the mean of a run is not the mean over its records, if so."""
        if not self.values:
            return f"HELM has no value of it in any of {counted(self.empty, 'instance')}: they have no record of it"
        if len(self.weights) > 1:
            return "it is a weighted mean: instances have different numbers of values"
        if len(set(self.by_trial.values())) > 1:
            return "it is a mean over trials that have different numbers of instances"
        return ""


class Compared(msgspec.Struct):
    """What `stats.json` says."""

    aggregates: list[Aggregate] = []
    not_compared: dict[str, str] = {}
    samples: int | None = None
    """The number of instances in all trials, if the run counted them."""


def _uses_of(scan: Scan, labels: Mapping[str, str]) -> dict[str, MetricUse]:
    """Add up how each metric occurs, by `evaluation_result_id`."""
    uses: defaultdict[str, MetricUse] = defaultdict(MetricUse)
    for (metric, trial, count), number in scan.tally.items():
        name = MetricName(metric.name, metric.split, metric.sub_split)
        use = uses[metric_id(name, metric.perturbation, labels)]
        if count:
            use.values += number
            use.by_trial[trial] = use.by_trial.get(trial, 0) + number
            use.weights.add(count)
        else:
            use.empty += number
    return dict(uses)


def _read_stats(path: str) -> list[Stat]:
    """Read `stats.json`."""
    return read_document(path, _decode, FOREIGN)


def compare(
    stats: Sequence[Stat], uses: Mapping[str, MetricUse], labels: Mapping[str, str], per_request: bool
) -> Compared:
    """Tell which aggregates are means over records. `per_request`: whether the run has means over requests instead."""
    found = Compared(not_compared={name: use.obstacle for name, use in uses.items() if not use.values})
    instances: dict[str, float] = {}
    for stat in stats:
        perturbation = stat.name.perturbation
        kind = str(perturbation.get("computed_on") or _PERTURBED) if perturbation else _PERTURBED
        name = metric_id(stat.name, canonical(perturbation) if perturbation else "", _with_names(labels, perturbation))
        if kind != _PERTURBED:
            found.not_compared[f"{name} ({kind})"] = _KINDS.get(kind, "it is not the mean over the instances")
            continue
        value, total = mean_of(stat), number_of(stat.sum)
        use = uses.get(name)
        if stat.name.name == _NUM_INSTANCES and use is None and total is not None:
            instances[name] = total
        elif value is None:
            reason = "it has no value" if stat.mean is None else "its value is not a number"
            found.not_compared.setdefault(name, reason)
        elif use is None:
            found.not_compared[name] = "it is computed over all instances together: no instance has a score"
        elif reason := ("it is a mean over requests, not over instances" if per_request else use.obstacle):
            found.not_compared[name] = reason
        else:
            found.aggregates.append(Aggregate(metric=name, name=name, value=value))
    if instances and 0 <= (count := sum(instances.values())) < _MANY:
        found.samples = round(count)
    return found


def _with_names(labels: Mapping[str, str], perturbation: dict[str, object] | None) -> Mapping[str, str]:
    """Add the name of a perturbation that no instance has: HELM makes up `robustness` and `fairness`."""
    if not perturbation or canonical(perturbation) in labels:
        return labels
    return {**labels, canonical(perturbation): str(perturbation.get("name"))}


# @@ planning: Plan a run: scan both long documents once, cut the samples into slices, and read the aggregates.


def plan(log: Log) -> LogPlan:
    """Scan a run."""
    state, scores, stats = (file_of(log, role) for role in ("scenario_state", "per_instance_stats", "stats"))
    assert state is not None
    assert scores is not None
    scan = scan_run(state.path, scores.path)
    labels = labels_of(scan.perturbations)
    uses = _uses_of(scan, labels)
    run = run_of(log, scan, uses)
    count = len(scan.samples)
    per_request = run.metadata.get(METHOD) == LANGUAGE_MODELING and len(scan.requests.starts) > count
    compared = compare(_read_stats(stats.path) if stats else [], uses, labels, per_request)
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
