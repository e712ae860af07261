"""Results of tau-bench: an array of trials, in which an agent talks with a simulated user.

The file names neither the model nor the domain: its name has the model, and the policy in the
first message the domain. A trial that crashed has an error, and the reward that the log states: 0.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from fastrec.harnesses.files import read_rows
from fastrec.harnesses.log import (
    FoundFile,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    Sample,
    with_every_metric,
)
from fastrec.harnesses.transcripts import trial_of, with_chat
from fastrec.harnesses.values import JsonObject, as_list, as_object, spell
from fastrec.storage import base_name, hash_of_file

METADATA = ("trial",)

_START = re.compile(rb'\s*\[\s*\{\s*"task_id"\s*:')
# What tau-bench calls its files, and what its published files are called.
_NAME = re.compile(
    r"(?:(?:tool-calling|act|react|few-shot)-(?=.*_range_))?(.+?)"
    r"(?:-[\d.]+_range_.*|-airline|-retail)?\.json(?:\.\w+)?"
)
_POLICY = re.compile(r"# (\w+) agent policy", re.IGNORECASE)


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    is_log = _START.match(head) and b'"reward"' in head and b'"traj"' in head
    return "trials" if is_log else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    return Grouped(logs=[Log("tau-bench", file.path, (file,)) for file in files])


def _rows(log: Log) -> list[JsonObject]:
    return read_rows(log.path, "a trial of tau-bench")


def plan(log: Log) -> LogPlan:
    chats = [as_list(row.get("traj")) for row in _rows(log)]
    first = next((as_object(chat[0]) for chat in chats if chat), {})
    domain = _POLICY.match(spell(first.get("content")))
    name = base_name(log.path)
    named = _NAME.fullmatch(name)
    return LogPlan(
        run=RunInfo(
            task=f"tau_bench_{domain[1].lower()}" if domain else "tau_bench",
            model=named[1] if named else name,
            started=hash_of_file(log.path)[1][:16],
        )
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    rows = _rows(log)
    tasks = {}  # a trial that crashed does not have its task
    for row in rows:
        task = as_object(as_object(row.get("info")).get("task"))
        if task:
            tasks[spell(row.get("task_id"))] = task
    trials = [_sample_of(row, tasks.get(spell(row.get("task_id")), {})) for row in rows]
    yield from with_every_metric(trials)


def _sample_of(row: JsonObject, task: JsonObject) -> Sample:
    info = as_object(row.get("info"))
    judged = as_object(as_object(info.get("reward_info")).get("info"))
    rewards = {
        "reward": row.get("reward"),
        "reward:actions": judged.get("r_actions"),
        "reward:outputs": judged.get("r_outputs"),
    }
    sample = trial_of(
        row.get("task_id"),
        row.get("trial"),
        rewards,
        task.get("instruction"),
        task.get("outputs"),
    )
    sample.error = spell(info.get("error") or "")
    sample.fields = {"actions": task.get("actions"), "user_cost": info.get("user_cost")}
    if info.get("traceback"):
        sample.unread = ["traceback"]
    return with_chat(sample, row.get("traj"))
