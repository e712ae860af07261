"""Small runs of HELM that the tests write, and what becomes of them.

The aggregates are computed as HELM computes them: values are added up by trial, and the means of
the trials averaged.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fastrec
from fastrec.commands.import_logs.discover import logs_among
from fastrec.harnesses import helm
from fastrec.harnesses.convert import Converter
from fastrec.harnesses.log import FoundFile, Grouped, Log, LogPlan
from fastrec.harnesses.recognise import head_of
from fastrec.harnesses.registry import HARNESSES
from tests.harnesses.converting import lines_of

TYPOS = {
    "name": "typos",
    "robustness": True,
    "fairness": False,
    "computed_on": "perturbed",
    "prob": 0.1,
}
DIALECT = {
    "name": "dialect",
    "robustness": True,
    "fairness": True,
    "computed_on": "perturbed",
    "prob": 1.0,
}


class Imported(NamedTuple):
    """A run, and the records that it became."""

    plan: LogPlan
    records: list[dict[str, Any]]
    converter: Converter

    def scores(self, metric: str) -> dict[tuple[str, str, str], float]:
        """The scores of a metric by sample, perturbation and trial."""
        found = [one for one in self.records if one["evaluation_result_id"] == metric]
        keys = [
            (one["sample_id"], one["metadata"].get("perturbation", ""), one["metadata"]["trial"])
            for one in found
        ]
        assert len(set(keys)) == len(keys)
        return dict(zip(keys, (one["evaluation"]["score"] for one in found), strict=True))

    def of(self, metric: str) -> dict[str, Any]:
        """The only record of a metric."""
        (found,) = [one for one in self.records if one.get("evaluation_result_id") == metric]
        return found

    def check_aggregates(self) -> None:
        """Every aggregate that is compared is the mean of its records."""
        for stated in self.plan.aggregates:
            total = self.converter.result.metrics[stated.metric]
            assert abs(total.sum / total.scored - stated.value) < 1e-9, stated


def grouped(directory: Path) -> Grouped:
    """Group the files of a directory, told by their content."""
    paths = [str(path) for path in sorted(directory.rglob("*")) if path.is_file()]
    roles = {path: HARNESSES["helm"].role_in(head_of(path)) for path in paths}
    files = [
        FoundFile(path, Path(path).stat().st_size, role) for path, role in roles.items() if role
    ]
    return logs_among("helm", files)


def log_in(directory: Path) -> Log:
    """The run in a directory."""
    found = grouped(directory)
    assert not found.bad
    (log,) = found.logs
    return log


def imported(directory: Path) -> Imported:
    """Import a run; every record has to be valid."""
    log = log_in(directory)
    plan = helm.plan(log)
    converter = Converter("helm", plan.run)
    records = []
    for piece in pickle.loads(pickle.dumps(plan.slices)):
        for sample in helm.samples(log, plan.run, piece):
            for _, line in lines_of(converter, sample):
                verdict = fastrec.judge(line)
                assert verdict.valid, verdict
                assert not verdict.warnings, verdict.warnings
                records.append(json.loads(line))
    return Imported(plan, records, converter)


def without_nones(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nones(one) for key, one in value.items() if one is not None}
    return [without_nones(one) for one in value] if isinstance(value, list) else value


def instance(number: int | str = 1, **others: Any) -> dict[str, Any]:
    """An instance with two wrong and one right reference."""
    references = [("Lyon", False), ("Paris", True), ("Nice", False)]
    return {
        "input": {"text": f"What is the capital of France, no. {number}?"},
        "references": [
            {"output": {"text": text}, "tags": ["correct"] * right} for text, right in references
        ],
        "split": "test",
        "id": f"id{number}" if isinstance(number, int) else number,
    } | others


def completion(text: str = " Paris", **others: Any) -> dict[str, Any]:
    tokens = [{"text": part, "logprob": -0.5} for part in text.split(" ")]
    return {
        "text": text,
        "logprob": -0.5,
        "tokens": tokens,
        "finish_reason": {"reason": "stop"},
    } | others


def state(
    of: dict[str, Any], *completions: dict[str, Any], trial: int = 0, **others: Any
) -> dict[str, Any]:
    """A request state; `request` and `result` add to what is there."""
    text = of["input"] if isinstance(of["input"], str) else of["input"].get("text")
    request = {
        "model": "acme/tiny",
        "prompt": f"Question: {text}\nAnswer:",
        "max_tokens": 5,
    } | others.pop("request", {})
    result = {
        "success": True,
        "embedding": [],
        "completions": list(completions) or [completion()],
        "cached": False,
        "request_time": 0.25,
        "request_datetime": 1_700_000_000 + trial,
    }
    if "result" in others:
        changed = others.pop("result")
        result = changed if changed is None else result | changed
    found = {
        "instance": of,
        "train_trial_index": trial,
        "request": request,
        "result": result,
        "num_train_instances": 0,
        "prompt_truncated": False,
    }
    return without_nones(found | others)


def stat(name: str | dict[str, Any], *values: float | None) -> dict[str, Any]:
    """A statistic as HELM writes it."""
    numbers = [value for value in values if value is not None]
    found = {
        "name": {"name": name} if isinstance(name, str) else name,
        "count": len(numbers),
        "sum": sum(numbers),
        "sum_squared": sum(number * number for number in numbers),
    }
    if not numbers:
        return found
    mean = sum(numbers) / len(numbers)
    return found | {
        "min": min(numbers),
        "max": max(numbers),
        "mean": mean,
        "variance": 0.0,
        "stddev": 0.0,
    }


def entry(of: dict[str, Any], trial: int = 0, **values: Any) -> dict[str, Any]:
    """The scores of an instance: a number, None, or several numbers of each metric."""
    context = {key: of.get(key) for key in ("split", "sub_split", "perturbation")}
    stats = []
    for name, value in values.items():
        numbers = value if isinstance(value, list) else [value]
        stats.append(stat(without_nones({"name": name} | context), *numbers))
    found = {
        "instance_id": of["id"],
        "perturbation": of.get("perturbation"),
        "train_trial_index": trial,
        "stats": stats,
    }
    return without_nones(found)


def aggregate(entries: Iterable[dict[str, Any]], trials: int = 1) -> list[dict[str, Any]]:
    """Aggregate scores as HELM does."""
    means: dict[str, list[float]] = {}
    names: dict[str, dict[str, Any]] = {}
    entries = list(entries)
    for trial in range(trials):
        sums: dict[str, list[float]] = {}
        for one in entries:
            for found in one["stats"] if one["train_trial_index"] == trial else ():
                key = json.dumps(found["name"], sort_keys=True)
                names[key] = found["name"]
                total = sums.setdefault(key, [0.0, 0])
                total[0] += found["sum"]
                total[1] += found["count"]
        for key, (total_sum, count) in sums.items():
            means.setdefault(key, []).extend([total_sum / count] if count else [])
    found = [stat(names[key], *values) for key, values in means.items()]
    for name in list(names.values()):
        for made_up in ("robustness", "fairness"):
            worst = {"name": made_up, "robustness": made_up == "robustness", "computed_on": "worst"}
            found.append(stat(name | {"perturbation": worst}, 0.0))
    return found


def counts(states: Sequence[dict[str, Any]], trials: int = 1) -> list[dict[str, Any]]:
    """The numbers of instances that HELM adds to the aggregates."""
    by_context: dict[str, list[int]] = {}
    for trial in range(trials):
        ids: dict[str, set[str]] = {}
        for one in states:
            if one["train_trial_index"] == trial:
                of = one["instance"]
                context = {key: of.get(key) for key in ("split", "sub_split", "perturbation")}
                ids.setdefault(json.dumps(without_nones(context)), set()).add(str(of["id"]))
        for context_key, some in ids.items():
            by_context.setdefault(context_key, []).append(len(some))
    return [
        stat({"name": "num_instances"} | json.loads(key), *some) for key, some in by_context.items()
    ]


def write_run(
    directory: Path,
    states: Sequence[dict[str, Any]],
    entries: Sequence[dict[str, Any]],
    *,
    stats: Sequence[dict[str, Any]] | None = None,
    method: str = "generation",
    trials: int = 1,
    indent: int | None = 2,
    name: str = "capitals:region=europe,model=acme_tiny",
) -> Path:
    """Write a run; its aggregates are right unless they are given."""
    adapter = {
        "method": method,
        "model": "acme/tiny",
        "model_deployment": "acme/tiny",
        "num_train_trials": trials,
    }
    spec = {
        "name": name,
        "scenario_spec": {"class_name": "helm.Capitals", "args": {}},
        "adapter_spec": adapter,
    }
    scenario = {
        "name": "capitals",
        "description": "…",
        "tags": [],
        "definition_path": "https://github.com/…",
    }
    if stats is None:
        stats = [*aggregate(entries, trials), *counts(states, trials)]
    files = {
        "run_spec": spec | {"metric_specs": [], "groups": ["capitals"]},
        "scenario": scenario,
        "scenario_state": {
            "adapter_spec": adapter,
            "request_states": list(states),
            "annotator_specs": [],
        },
        "per_instance_stats": list(entries),
        "stats": list(stats),
    }
    directory.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (directory / f"{file}.json").write_text(json.dumps(content, indent=indent))
    return directory
