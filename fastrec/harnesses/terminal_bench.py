"""Runs of Terminal-Bench: `results.json` with a list of trials, perhaps `run_metadata.json`.

    run/results.json               all trials; without it, those below are read
    run/run_metadata.json          agent, model and data set
    run/task/trial/results.json    one trial

Files of the leaderboard often do not name the model: then the name of a folder does, such as
`20250923_droid_claude-4-sonnet`. A trial without a verdict is an error, which the harness counts as
0. A trial with a verdict has a score, whatever stopped it: `stop_reason` tells. Files of the first
versions have neither ids nor times: then a hash tells the runs of an agent apart.
"""

import re
from functools import partial

from fastrec.errors import LogError
from fastrec.harnesses.files import read_object
from fastrec.harnesses.log import (
    Aggregate,
    BadLog,
    Files,
    Grouped,
    Log,
    Reading,
    Sample,
    by_folder,
    pass_at_k,
    plan_of,
    tokens_of,
)
from fastrec.harnesses.transcripts import time_between, trial_of
from fastrec.harnesses.values import Fields, spell
from fastrec.storage import hash_of_file

_FOLDER = r"/\d{8}_([^/_]+)_([^/]+)/"
_ATTEMPT = r"\.(\d+)-of-\d+\."
_NO_FAILURE = (None, "unset", "none")

_document = partial(read_object, what="result of Terminal-Bench")


def logs_of(files: Files) -> Grouped:
    """A log is a run: its file of results, or else its trials, which are two folders below it."""
    grouped = Grouped()
    for directory, roles in by_folder(files, trial=3).items():
        trials = roles["results"] or roles["trial"]
        if len(roles["results"]) > 1 or len(roles["metadata"]) > 1:
            grouped.bad.append(BadLog(directory or ".", "it has several runs: give each a folder"))
        elif trials:
            path = trials[0].path if roles["results"] or not directory else directory
            grouped.logs.append(Log("terminal-bench", path, (*trials, *roles["metadata"])))
    return grouped


def _rows(log: Log) -> list[Fields]:
    rows = []
    for file in log.files:
        if file.role == "results":
            rows += _document(file.path).objects("results")
        elif file.role == "trial":
            rows.append(_document(file.path))
    return rows


def read(log: Log) -> Reading:
    about = _document(log.paths.get("metadata"))
    folders = re.findall(_FOLDER, f"{log.path}/")
    in_path = folders[-1] if folders else (None, None)
    agent = about["agent_name"] or in_path[0]
    model = about["model_name"] or in_path[1]
    if not agent and not model:
        raise LogError(log.path, "does not name the agent or model: give run_metadata.json, too")
    rows = _rows(log)
    times = [row.text("trial_started_at") for row in rows if row["trial_started_at"]]
    started = about.text("start_time") or min(times, default="")
    return plan_of(
        about.text("dataset_name") or "terminal-bench",
        "/".join(spell(name) for name in (agent, model) if name),
        started or hash_of_file(log.files[0].path)[1][:16],
        {"agent": agent, "model": model, "dataset_version": about["dataset_version"]},
        aggregates=_figures(log, len(rows)),
    ), map(_sample_of, rows)


def _figures(log: Log, count: int) -> list[Aggregate]:
    document = _document(log.files[0].path)
    figures = pass_at_k("resolved", document["pass_at_k"])
    accuracy = document.number("accuracy")
    if accuracy is not None:
        figures.append(Aggregate("resolved", "accuracy", accuracy, count))
    return figures


def _sample_of(row: Fields) -> Sample:
    verdict = row["is_resolved"]
    attempt = re.search(_ATTEMPT, spell(row["trial_name"]))
    stopped = row["failure_mode"]
    metadata = {} if stopped in _NO_FAILURE else {"stop_reason": spell(stopped)}
    error = ""
    if not isinstance(verdict, bool):
        reason = metadata.get("stop_reason", "unknown reason")
        error = f"the trial has no verdict: {reason}"
    return trial_of(
        row["task_id"],
        attempt[1] if attempt else 1,
        {"resolved": bool(verdict)},
        row["instruction"] or row["task_description"],
        metadata=metadata,
        error=error,
        performance=time_between(row["agent_started_at"], row["agent_ended_at"]),
        # agents that do not count tokens state 0
        token_usage=tokens_of(row["total_input_tokens"] or None, row["total_output_tokens"]),
        fields={"parser_results": row["parser_results"]},
    )
