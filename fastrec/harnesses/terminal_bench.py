"""Runs of Terminal-Bench: `results.json` with a list of trials, perhaps `run_metadata.json`.

    run/results.json               all trials; without it, those below are read
    run/run_metadata.json          agent, model and data set
    run/task/trial/results.json    one trial

Files of the leaderboard often do not name the model: then the name of a folder does, such as
`20250923_droid_claude-4-sonnet`. A trial without a verdict is an error, which the harness counts as
0. One with a verdict has a score, whatever stopped it: `stop_reason` tells. Files of the first
versions have neither ids nor times: then a hash tells the runs of an agent apart.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from fastrec.errors import LogError
from fastrec.harnesses.files import read_object
from fastrec.harnesses.log import (
    Aggregate,
    FoundFile,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    Sample,
    pass_at_k,
    role_by_keys,
    tokens_of,
)
from fastrec.harnesses.transcripts import time_between, trial_of, with_chat
from fastrec.harnesses.values import JsonObject, number_of, objects_in, spell, spelled
from fastrec.storage import hash_of_file, parent_of

METADATA = ("agent", "model", "dataset_version", "trial", "stop_reason")

_KEYS = {
    "metadata": (b'"run_id"', b'"agent_name"', b'"dataset_name"'),
    "results": (b'"results"', b'"trial_name"', b'"is_resolved"'),
    "trial": (b'"trial_name"', b'"task_id"', b'"is_resolved"'),
}
_START = re.compile(rb'\s*\{\s*"(?:id|run_id|results|trial_name)"\s*:')
_FOLDER = re.compile(r"/\d{8}_([^/_]+)_([^/]+)/")
_ATTEMPT = re.compile(r"\.(\d+)-of-\d+\.")
_NO_FAILURE = (None, "unset", "none")


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    return role_by_keys(_KEYS, head) if _START.match(head) else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    """A log is a run: its file of results, or else its trials, which are two folders below it."""
    runs: dict[str, dict[str, list[FoundFile]]] = {}
    for file in files:
        directory = parent_of(file.path)
        if file.role == "trial":
            directory = parent_of(parent_of(directory))
        runs.setdefault(directory, {}).setdefault(file.role, []).append(file)
    grouped = Grouped()
    for directory, roles in runs.items():
        trials = roles.get("results") or roles.get("trial")
        if trials:
            about = roles.get("metadata", ())
            path = trials[0].path if "results" in roles or not directory else directory
            grouped.logs.append(Log("terminal-bench", path, (*trials, *about)))
    return grouped.with_others(files)


def _document(file: FoundFile) -> JsonObject:
    return read_object(file.path, "result of Terminal-Bench")


def _rows(log: Log) -> list[JsonObject]:
    rows = []
    for file in log.files:
        if file.role == "results":
            rows += objects_in(_document(file), "results")
        elif file.role == "trial":
            rows.append(_document(file))
    return rows


def _about(log: Log) -> JsonObject:
    """The metadata of the run; agent and model perhaps by the name of a folder."""
    last = log.files[-1]
    about = _document(last) if last.role == "metadata" else {}
    folders = _FOLDER.findall(f"{log.path}/")
    agent, model = folders[-1] if folders else (None, None)
    about["agent_name"] = about.get("agent_name") or agent
    about["model_name"] = about.get("model_name") or model
    return about


def plan(log: Log) -> LogPlan:
    about = _about(log)
    agent = about["agent_name"]
    model = about["model_name"]
    if not agent and not model:
        raise LogError(log.path, "does not name the agent or model: give run_metadata.json, too")
    rows = _rows(log)
    times = [spell(row["trial_started_at"]) for row in rows if row.get("trial_started_at")]
    started = about.get("start_time") or min(times, default="")
    version = about.get("dataset_version")
    return LogPlan(
        run=RunInfo(
            task=spell(about.get("dataset_name") or "terminal-bench"),
            model="/".join(spell(name) for name in (agent, model) if name),
            started=spell(started) or hash_of_file(log.files[0].path)[1][:16],
            metadata=spelled({"agent": agent, "model": model, "dataset_version": version}),
        ),
        aggregates=_figures(log, len(rows)),
    )


def _figures(log: Log, count: int) -> list[Aggregate]:
    document = _document(log.files[0])
    figures = pass_at_k("resolved", document.get("pass_at_k"))
    accuracy = number_of(document.get("accuracy"))
    if accuracy is not None:
        figures.append(Aggregate("resolved", "accuracy", accuracy, count))
    return figures


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    for row in _rows(log):
        verdict = row.get("is_resolved")
        attempt = _ATTEMPT.search(spell(row.get("trial_name")))
        stopped = row.get("failure_mode")
        sample = trial_of(
            row.get("task_id"),
            attempt[1] if attempt else 1,
            {"resolved": bool(verdict)},
            row.get("instruction") or row.get("task_description"),
        )
        if stopped not in _NO_FAILURE:
            sample.metadata["stop_reason"] = spell(stopped)
        if not isinstance(verdict, bool):
            reason = sample.metadata.get("stop_reason", "unknown reason")
            sample.error = f"the trial has no verdict: {reason}"
        sample.performance = time_between(row.get("agent_started_at"), row.get("agent_ended_at"))
        # agents that do not count tokens state 0
        read = row.get("total_input_tokens") or None
        sample.token_usage = tokens_of(read, row.get("total_output_tokens"))
        sample.fields = {"parser_results": row.get("parser_results")}
        yield with_chat(sample, None)
