"""Results of tau2-bench: an object with the run (`info`), the tasks and the simulations.

The simulations of a long run are files of their own, in `simulations/`. A simulation that broke,
such as by a timeout, has an error, and the reward that the log states. Arguments of the models
(`llm_args`) are not read: they may have credentials.
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
    role_by_keys,
    tokens_of,
    with_every_metric,
)
from fastrec.harnesses.transcripts import time_of, trial_of, with_chat
from fastrec.harnesses.values import (
    JsonObject,
    as_list,
    as_object,
    number_of,
    objects_in,
    spell,
    spelled,
)
from fastrec.schemas.newest import TokenUsage
from fastrec.storage import join, parent_of

_DEFAULT_AGENT = "llm_agent/"  # others, such as `llm_agent_solo`, are other systems

METADATA = ("trial", "stop_reason", "agent", "user_model")

_START = re.compile(rb'\s*\{\s*"(?:timestamp|info|id)"\s*:')
_KEYS = {
    "results": (b'"agent_info"', b'"environment_info"', b'"num_trials"'),
    "simulation": (b'"termination_reason"', b'"task_id"', b'"duration"'),
}
_MOST_TRIALS = 1 << 20  # more make no sense
_ALONE = "give the results.json of the run, too: simulations name neither model nor task"
_BROKEN = (
    "timeout",
    "agent_error",
    "user_error",
    "unexpected_error",
    "infrastructure_error",
    "context_window_exceeded",
)


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    return role_by_keys(_KEYS, head) if _START.match(head) else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    grouped = Grouped()
    simulations: defaultdict[str, list[FoundFile]] = defaultdict(list)
    for file in files:
        if file.role == "simulation":
            simulations[parent_of(file.path)].append(file)
    for file in files:
        if file.role == "results":
            parts = simulations.pop(join(parent_of(file.path), "simulations"), ())
            grouped.logs.append(Log("tau2-bench", file.path, (file, *parts)))
    grouped.bad = [BadLog(directory, _ALONE) for directory in simulations]
    return grouped


def _document(file: FoundFile) -> JsonObject:
    return read_object(file.path, "result of tau2-bench")


def plan(log: Log) -> LogPlan:
    document = _document(log.files[0])
    info = as_object(document.get("info"))
    agent = as_object(info.get("agent_info"))
    kind = agent.get("implementation")
    parts = [spell(name) for name in (kind, agent.get("llm")) if name]
    if not parts:
        raise LogError(log.path, "does not name the model (info.agent_info.llm)")
    names = {
        "agent": kind,
        "user_model": as_object(info.get("user_info")).get("llm"),
    }
    domain = as_object(info.get("environment_info")).get("domain_name")
    trials: Any = info.get("num_trials")
    is_known = isinstance(trials, int) and 0 < trials < _MOST_TRIALS
    return LogPlan(
        run=RunInfo(
            task=f"tau2_bench_{spell(domain)}" if domain else "tau2_bench",
            model="/".join(parts).removeprefix(_DEFAULT_AGENT),
            started=spell(document.get("timestamp") or ""),
            version=spell(info.get("git_commit") or ""),
            metadata=spelled(names),
        ),
        aggregates=_figures(document),
        expected_samples=trials * len(as_list(document.get("tasks"))) if is_known else None,
    )


def _figures(document: Mapping[str, Any]) -> list[Aggregate]:
    """The mean of the rewards in the index of a run whose simulations are files."""
    stated = [number_of(entry.get("reward")) for entry in objects_in(document, "simulation_index")]
    rewards = [reward for reward in stated if reward is not None]
    if not rewards:
        return []
    mean = sum(rewards) / len(rewards)
    return [Aggregate("reward", "mean of simulation_index", mean, len(rewards))]


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    document = _document(log.files[0])
    rows = [*objects_in(document, "simulations"), *map(_document, log.files[1:])]
    tasks = {spell(task.get("id")): task for task in objects_in(document, "tasks")}
    yield from with_every_metric(
        _sample_of(row, tasks.get(spell(row.get("task_id")), {})) for row in rows
    )


def _sample_of(row: JsonObject, task: JsonObject) -> Sample:
    criteria = as_object(task.get("evaluation_criteria"))
    judged = as_object(row.get("reward_info"))
    rewards = {"reward": judged.get("reward")}
    for name, reward in as_object(judged.get("reward_breakdown")).items():
        rewards[f"reward:{name}"] = reward
    asked = as_object(task.get("user_scenario")).get("instructions")
    if isinstance(asked, dict):
        asked = "\n".join(f"{name}: {text}" for name, text in spelled(asked).items())
    expected = criteria.get("communicate_info")
    sample = trial_of(row.get("task_id"), row.get("trial"), rewards, asked, expected)
    stopped = spell(row.get("termination_reason") or "")
    sample.metadata["stop_reason"] = stopped
    if stopped in _BROKEN:
        sample.error = stopped
    sample.fields = {
        "actions": criteria.get("actions"),
        "nl_assertions": criteria.get("nl_assertions"),
        "cost": row.get("agent_cost"),
        "user_cost": row.get("user_cost"),
        "seed": row.get("seed"),
    }
    if row.get("ticks"):
        sample.unread = ["ticks"]
    chat = objects_in(row, "messages")
    sample.performance = time_of(row.get("duration"))
    sample.token_usage = _tokens_in(chat)
    return with_chat(sample, chat)


def _tokens_in(chat: Sequence[JsonObject]) -> TokenUsage | None:
    """The tokens of the agent; None if no message states them."""
    read = written = 0.0
    for message in chat:
        usage = as_object(message.get("usage"))
        if message.get("role") == "assistant":
            read += number_of(usage.get("prompt_tokens")) or 0
            written += number_of(usage.get("completion_tokens")) or 0
    return tokens_of(read, written) if read or written else None
