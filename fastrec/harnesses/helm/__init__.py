"""HELM: directories of runs. Tell their files, group them by directory, and plan a run.

file                       role                  what it has
run_spec.json              run_spec              the task and the model
scenario.json              scenario              the name of the scenario
scenario_state.json        scenario_state        requests and completions
per_instance_stats.json    per_instance_stats    scores
stats.json                 stats                 aggregates
instances.json, display_*  other                 nothing that the others do not have

`plan` scans both long documents once, cuts the samples into slices, and decides which aggregates to
compare.

    scenario_state.json        r0 r1 r2 r3 …                 one or more requests per sample
    per_instance_stats.json    e0 e1 e2 … e0' e1' e2' …      an entry per sample and metric object

    slice 0:  requests r0…r1, entries e0…e1 and e0'…e1'      byte ranges of whole items
    slice 1:  requests r2…r3, …

Both files have the samples in the same order, as a rule. Then a slice has one range of requests,
and one range of entries per metric object. Any other order works, too: it only gives more ranges.

HELM adds up the values of all instances of a trial, and takes the mean of each trial, then the mean
of the trials. That is the mean over all records if every instance has the same number of values,
and every trial the same number of instances. Aggregates of `stats.json` of another kind are not
compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from fastrec.errors import LogError, counted
from fastrec.harnesses.files import open_plain, read_document
from fastrec.harnesses.helm.sample import (
    FOREIGN,
    LANGUAGE_MODELING,
    METHOD,
    Entry,
    LogSlice,
    MetricName,
    Perturbation,
    Ranges,
    Stat,
    canonical,
    key_of_entry,
    key_of_request,
    known_metric_id,
    mean_of,
    metric_id,
    samples,
)
from fastrec.harnesses.json_array import JsonArray
from fastrec.harnesses.log import (
    OTHER,
    Aggregate,
    BadLog,
    Files,
    FilesByRole,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    by_folder,
)
from fastrec.harnesses.values import (
    JsonObject,
    LogObject,
    OptionalInt,
    Texts,
    as_object,
    decoder,
    explaining,
    number_of,
    spell,
    spelled,
)
from fastrec.schemas.view import NO_COUNTS, empty_by_key

__all__ = ["logs_of", "plan", "samples"]


_ORDER = ("run_spec", "scenario", "scenario_state", "per_instance_stats", "stats")
_NEEDED = {
    "scenario_state": "scenario_state.json with the requests and completions",
    "per_instance_stats": "per_instance_stats.json with the scores",
}


def logs_of(files: Files) -> Grouped:
    grouped = Grouped()
    needed = [file for file in files if file.role != OTHER]
    for directory, roles in by_folder(needed).items():
        name = directory or "."
        if reason := _problem(roles):
            grouped.bad.append(BadLog(name, reason))
        else:
            its_files = tuple(roles[role][0] for role in _ORDER if role in roles)
            grouped.logs.append(Log("helm", name, its_files))
    return grouped


def _problem(roles: FilesByRole) -> str:
    for role, files in roles.items():
        if len(files) > 1:
            return (
                f"it has {counted(files, 'file')} of the kind {role}: which of them belong "
                "together is unknown"
            )
    missing = [text for role, text in _NEEDED.items() if role not in roles]
    if missing:
        return f"it is a run of HELM without {' and without '.join(missing)}"
    if "run_spec" not in roles and "scenario" not in roles:
        return "it is a run of HELM without run_spec.json and scenario.json: its task is unknown"
    return ""


class _KeyInstance(LogObject):
    id: str | int | None = None
    perturbation: Perturbation | None = None


class _KeyResult(LogObject):
    request_datetime: int | float | None = None


class RequestKey(LogObject):
    """Of a request state: what it is joined by, and when it was sent."""

    instance: _KeyInstance
    train_trial_index: int = 0
    result: _KeyResult | None = None


class AggregateName(MetricName, frozen=True):
    perturbation: Perturbation | None = None


class AggregateStat(Stat):
    name: AggregateName


class RunSpec(LogObject):
    """A run, a scenario, which has only a name, or `scenario_state.json` without its requests."""

    name: str = ""
    adapter_spec: JsonObject | None = None


def labels_of(perturbations: Iterable[str]) -> Texts:
    """Name each perturbation, given the canonical descriptions of all of a run.

    The name alone is enough, unless the run has several of that name: then what tells them apart is
    added, as in `typos(prob=0.1)`.
    """
    by_name = defaultdict[str, dict[str, set[str]]](dict)
    for text in perturbations:
        fields = json.loads(text)
        name = spell(fields.pop("name", "unnamed"))
        by_name[name][text] = {f"{field}={spell(value)}" for field, value in fields.items()}
    labels = {}
    for name, same in by_name.items():
        shared = set.intersection(*same.values())
        for text, marks in same.items():
            labels[text] = f"{name}({','.join(sorted(marks - shared))})" if len(same) > 1 else name
    return labels


def plan(log: Log) -> LogPlan:
    scan = Scan()
    _scan_requests(log, scan)
    labels = labels_of(scan.perturbations)
    uses = _scan_entries(log.paths["per_instance_stats"], scan, labels)
    run = _run_of(log, scan)
    per_request = run.metadata.get(METHOD) == LANGUAGE_MODELING and scan.count > len(scan.slice_of)
    stats = _read(log, "stats", _decode_stats)
    aggregates, not_compared, expected = _compare(stats or (), uses, labels, per_request)
    empty = frozenset(name for name, use in uses.items() if not use.by_trial)
    return LogPlan(
        run=run,
        slices=[
            LogSlice(ranges, scan.entries.ranges[number], labels, empty)
            for number, ranges in scan.requests.ranges.items()
        ],
        aggregates=aggregates,
        not_compared=not_compared,
        expected_samples=expected,
        notes=("there is no stats.json: the records are compared with nothing",)
        if stats is None
        else (),
        left_out={"no request has its instance, perturbation and trial": len(scan.unmatched)},
    )


_SLICE_BYTES = 8 << 20  # of both files
_NO_SLICE = -1  # of scores without a request


class SliceRanges(Struct):
    """The byte ranges of each slice in a file; items that follow one another share one."""

    ranges: defaultdict[int, Ranges] = empty_by_key(list)
    last: OptionalInt = None  # the slice of the last item

    def add(self, start: int, size: int, number: int) -> None:
        ranges = self.ranges[number]
        first = ranges.pop()[0] if number == self.last else start
        ranges.append((first, start + size))
        self.last = number


_LATEST = 1 << 40  # seconds since 1970

_decode_request = decoder(RequestKey)
_decode_entry = decoder(Entry)
_decode_spec = decoder(RunSpec)
_decode_stats = decoder(list[AggregateStat])


class Scan(Struct):
    requests: SliceRanges = msgspec.field(default_factory=SliceRanges)
    entries: SliceRanges = msgspec.field(default_factory=SliceRanges)
    count: int = 0  # of requests
    adapter: JsonObject | None = None  # how instances became requests
    slice_of: dict[int, int] = {}  # slices of samples, by the hash of their key
    unmatched: set[int] = set()  # hashes of keys of scores that no request has
    started: float = _LATEST  # when the earliest request was sent
    perturbations: set[str] = set()


def _scan_requests(log: Log, scan: Scan) -> None:
    """Cut the samples into slices, in the order of their first request.

    A slice has the share of its bytes that this file has of both.
    """
    path = log.paths["scenario_state"]
    sizes = {file.role: file.size for file in log.files}
    most = _SLICE_BYTES * sizes["scenario_state"]
    both = sizes["scenario_state"] + sizes["per_instance_stats"]
    number = 0
    held = 0
    with open_plain(path) as source:
        states = JsonArray(path, source.read, "request_states", _decode_request)
        for start, size, request in states.items():
            key = key_of_request(path, request)
            if key.perturbation:
                scan.perturbations.add(key.perturbation)
            if held and (held + size) * both > most and hash(key) not in scan.slice_of:
                number += 1
                held = 0
            held += size
            scan.count += 1
            scan.requests.add(start, size, scan.slice_of.setdefault(hash(key), number))
            sent = request.result.request_datetime if request.result else None
            if sent and sent > 0:
                scan.started = min(scan.started, sent)
    with explaining(path, FOREIGN):
        scan.adapter = _decode_spec(states.envelope).adapter_spec


def _scan_entries(path: str, scan: Scan, labels: Texts) -> dict[str, MetricUse]:
    """Count how each metric occurs."""
    uses = defaultdict[str, MetricUse](MetricUse)
    with open_plain(path) as source:
        for start, size, entry in JsonArray(path, source.read, None, _decode_entry).items():
            key = key_of_entry(path, entry)
            number = scan.slice_of.get(hash(key), _NO_SLICE)
            scan.entries.add(start, size, number)
            if number == _NO_SLICE:
                scan.unmatched.add(hash(key))
                continue
            label = labels.get(key.perturbation, key.perturbation)
            for stat in entry.stats or ():
                use = uses[known_metric_id(stat.name, label)]
                if stat.count:
                    use.by_trial[key.trial] += 1
                    use.weights.add(stat.count)
                else:
                    use.empty += 1
    return uses


_MODEL = r"(?<=[:,])model(?:_deployment)?=([^,]*)(?:,|$)"


def _run_of(log: Log, scan: Scan) -> RunInfo:
    spec = _read(log, "run_spec", _decode_spec) or RunSpec()
    scenario = _read(log, "scenario", _decode_spec) or RunSpec()
    adapter = as_object(scan.adapter or spec.adapter_spec)
    task = re.sub(_MODEL, "", spec.name).rstrip(":,") or scenario.name
    in_name = re.search(_MODEL, spec.name)
    deployment = adapter.text("model_deployment")
    model = adapter.text("model") or deployment or (in_name[1] if in_name else "")
    for what, value in (("task", task), ("model", model)):
        if not value:
            raise LogError(log.path, f"does not say its {what}")
    metadata = {
        "scenario": scenario.name,
        METHOD: adapter["method"],
        "model_deployment": deployment,
    }
    return RunInfo(
        task=task,
        model=model,
        started=str(int(scan.started)) if scan.started < _LATEST else "",
        metadata=spelled(metadata),
    )


def _read(log: Log, role: str, decode: Callable[[bytes], Any]) -> Any:
    path = log.paths.get(role)
    return None if path is None else read_document(path, decode, FOREIGN)


_PERTURBED = "perturbed"
_MANY = 1 << 53
_KINDS = {
    "worst": "it is the mean of the lowest score that each instance has under these perturbations",
    "original": "it is the mean over the unperturbed versions of the instances that are perturbed",
}


class MetricUse(Struct):
    empty: int = 0
    # how many entries have values, by trial
    by_trial: Counter[int] = NO_COUNTS
    weights: set[int | float] = set()  # numbers of values that entries have

    @property
    def obstacle(self) -> str:
        """Why the mean of a run is not the mean over its records, if so."""
        if not self.by_trial:
            return (
                f"HELM has no value of it in any of {counted(self.empty, 'instance')}: they "
                "have no record of it"
            )
        if len(self.weights) > 1:
            return "it is a weighted mean: instances have different numbers of values"
        if len(set(self.by_trial.values())) > 1:
            return "it is a mean over trials that have different numbers of instances"
        return ""


def _compare(
    stats: Sequence[AggregateStat],
    uses: Mapping[str, MetricUse],
    labels: Texts,
    per_request: bool,
) -> tuple[list[Aggregate], Texts, OptionalInt]:
    """Tell which aggregates are means over records, and count the instances of all trials.

    Others are not compared, each for a reason.

    `per_request`: whether the run has means over requests instead. The count is None if the run
    does not have it.
    """
    aggregates = []
    not_compared = {name: use.obstacle for name, use in uses.items() if not use.by_trial}
    instances = {}
    for stat in stats:
        perturbation = stat.name.perturbation or {}
        kind = str(perturbation.get("computed_on") or _PERTURBED)
        label = ""
        if perturbation:  # HELM makes up `robustness` and `fairness`, which no instance has
            label = labels.get(canonical(perturbation), str(perturbation.get("name")))
        name = metric_id(stat.name, label)
        if kind != _PERTURBED:
            not_compared[f"{name} ({kind})"] = _KINDS.get(
                kind, "it is not the mean over the instances"
            )
            continue
        value = mean_of(stat)
        total = number_of(stat.sum)
        use = uses.get(name)
        if stat.name.name == "num_instances" and use is None and total is not None:
            instances[name] = total
        elif value is None:
            reason = "it has no value" if stat.mean is None else "its value is not a number"
            not_compared.setdefault(name, reason)
        elif use is None:
            not_compared[name] = (
                "it is computed over all instances together: no instance has a score"
            )
        elif reason := (
            "it is a mean over requests, not over instances" if per_request else use.obstacle
        ):
            not_compared[name] = reason
        else:
            aggregates.append(Aggregate(name, name, value))
    count = sum(instances.values())
    return aggregates, not_compared, round(count) if instances and 0 <= count < _MANY else None
