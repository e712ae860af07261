"""Jobs of Harbor: a folder per trial with `result.json`, perhaps with a trajectory in ATIF.

    job/result.json                        statistics of all trials
    job/trial/result.json                  one trial: agent, rewards, exception, tokens, times
    job/trial/agent/trajectory.json        what the agent did

A log is one agent with one model on one data set, as in the statistics. A trial without rewards is
an error, which Harbor counts as 0. One with rewards has a score, whatever stopped it. The files do
not have the task, so its name is the question.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastrec.errors import LogError
from fastrec.harnesses.files import read_object
from fastrec.harnesses.log import (
    Aggregate,
    BadLog,
    FoundFile,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    Sample,
    pass_at_k,
    role_by_keys,
    tokens_of,
    with_every_metric,
)
from fastrec.harnesses.transcripts import chat_of, time_between, trial_of, with_chat
from fastrec.harnesses.values import JsonObject, as_object, number_of, objects_in, spell, spelled
from fastrec.storage import parent_of

METADATA = ("agent", "agent_version", "model", "trial", "stop_reason")

_START = re.compile(rb'\s*\{\s*"(?:id"\s*:|schema_version"\s*:\s*"ATIF-v)')
_KEYS = {
    "trajectory": (b'"ATIF-v', b'"steps"'),
    "trial": (b'"task_name"', b'"trial_name"', b'"agent_info"'),
    "job": (b'"n_total_trials"', b'"stats"'),
}
_FAILURE = ("exception_type", "exception_message")


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    return role_by_keys(_KEYS, head) if _START.match(head) else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    grouped = Grouped()
    jobs = {parent_of(file.path): file for file in files if file.role == "job"}
    trajectories: defaultdict[str, list[FoundFile]] = defaultdict(list)
    evals: defaultdict[tuple[str, str], list[FoundFile]] = defaultdict(list)
    for file in files:
        if file.role == "trajectory":  # trial/agent/trajectory.json
            trial = parent_of(parent_of(file.path))
            trajectories[trial].append(file)
    for file in files:
        if file.role == "trial":
            directory = parent_of(file.path)
            try:
                key = "__".join(_names(_document(file)))
            except LogError as exc:
                grouped.bad.append(BadLog(exc.path, exc.reason))
            else:
                job = parent_of(directory)
                evals[job, key] += [file, *trajectories[directory][:1]]
    for (directory, key), needed in evals.items():
        about = [jobs[directory]] if directory in jobs else []
        grouped.logs.append(Log("harbor", directory or needed[0].path, (*needed, *about), key))
    return grouped.with_others(files)


def _document(file: FoundFile) -> JsonObject:
    return read_object(file.path, "result of Harbor")


def _names(trial: Mapping[str, Any]) -> list[str]:
    """The agent, the model if there is one, and the data set."""
    agent = as_object(trial.get("agent_info"))
    model = as_object(agent.get("model_info")).get("name")
    names = (agent.get("name"), model, trial.get("source") or "adhoc")
    return [spell(name) for name in names if name]


def plan(log: Log) -> LogPlan:
    first = _document(log.files[0])
    *system, dataset = _names(first)
    if not system:
        raise LogError(log.path, "does not name the agent (agent_info.name)")
    job = _document(log.files[-1]) if log.files[-1].role == "job" else {}
    stats = as_object(as_object(as_object(job.get("stats")).get("evals")).get(log.task))
    figures = pass_at_k("reward", stats.get("pass_at_k"))
    for stated in objects_in(stats, "metrics"):
        mean = number_of(stated.get("mean"))
        if mean is not None:
            figures.append(Aggregate("reward", "mean", mean))
    names = {
        "agent": system[0],
        "agent_version": as_object(first.get("agent_info")).get("version"),
        "model": "".join(system[1:]),
    }
    return LogPlan(
        run=RunInfo(
            task=dataset,
            model="/".join(system),
            started=spell(job.get("started_at") or first.get("started_at") or ""),
            metadata=spelled(names),
        ),
        aggregates=figures,
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    trials: list[Sample] = []
    for file in log.files:
        if file.role == "trial":
            trials.append(with_chat(_sample_of(_document(file)), None))
        elif file.role == "trajectory":  # follows its trial
            with_chat(trials[-1], list(chat_of(_document(file))))
    yield from with_every_metric(trials)


def _sample_of(trial: Mapping[str, Any]) -> Sample:
    rewards = as_object(as_object(trial.get("verifier_result")).get("rewards"))
    failure = as_object(trial.get("exception_info"))
    used = as_object(trial.get("agent_result"))
    execution = as_object(trial.get("agent_execution"))
    sample = trial_of(trial.get("task_name"), trial.get("trial_name"), rewards or {"reward": 0})
    if failure:
        sample.metadata["stop_reason"] = spell(failure.get("exception_type"))
    if not rewards:
        named = [spell(failure[name]) for name in _FAILURE if failure.get(name)]
        sample.error = ": ".join(named) or "the trial has no rewards"
    sample.performance = time_between(execution.get("started_at"), execution.get("finished_at"))
    sample.token_usage = tokens_of(used.get("n_input_tokens"), used.get("n_output_tokens"))
    sample.fields = {
        "cost": used.get("cost_usd"),
        "cached_tokens": used.get("n_cache_tokens"),
        "task_checksum": trial.get("task_checksum"),
    }
    return sample
