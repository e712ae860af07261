"""Results of tau2-bench: an object with the run (`info`), the tasks and the simulations.

The simulations of a long run are files of their own, in `simulations/`. A simulation that broke,
such as by a timeout, has an error, and the reward that the log states. Arguments of the models
(`llm_args`) are not read: they may have credentials.
"""

from collections.abc import Sequence
from functools import partial
from itertools import chain

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
    by_role,
    plan_of,
    tokens_of,
)
from fastrec.harnesses.transcripts import time_of, trial_of
from fastrec.harnesses.values import Fields, as_list, spell, spelled
from fastrec.schemas.newest import TokenUsage
from fastrec.storage import join, parent_of

_DEFAULT_AGENT = "llm_agent/"  # others, such as `llm_agent_solo`, are other systems


# The conditions of a run, in which models are not comparable.
_CONDITIONS = ("retrieval_config", "speech_complexity", "text_noise", "text_input_style")

_MOST_TRIALS = 1 << 20  # more make no sense
_BROKEN = (
    "timeout",
    "agent_error",
    "user_error",
    "unexpected_error",
    "infrastructure_error",
    "context_window_exceeded",
)

_document = partial(read_object, what="result of tau2-bench")


def logs_of(files: Files) -> Grouped:
    grouped = Grouped()
    simulations = {folder: roles["simulation"] for folder, roles in by_folder(files).items()}
    for file in by_role(files)["results"]:
        parts = simulations.pop(join(parent_of(file.path), "simulations"), ())
        grouped.logs.append(Log("tau2-bench", file.path, (file, *parts)))
    grouped.bad = [
        BadLog(
            folder, "give the results.json of the run, too: simulations name neither model nor task"
        )
        for folder, parts in simulations.items()
        if parts
    ]
    return grouped


def read(log: Log) -> Reading:
    document = _document(log.path)
    info = document.object("info")
    kind = info["agent_info.implementation"]
    parts = [spell(name) for name in (kind, info["agent_info.llm"]) if name]
    if not parts:
        raise LogError(log.path, "does not name the model (info.agent_info.llm)")
    names = {"agent": kind, "user_model": info["user_info.llm"]}
    names |= {name: info[name] for name in _CONDITIONS}
    domain = info["environment_info.domain_name"]
    repeats = info.count("num_trials") or 0
    plan = plan_of(
        f"tau2_bench_{spell(domain)}" if domain else "tau2_bench",
        "/".join(parts).removeprefix(_DEFAULT_AGENT),
        document.text("timestamp"),
        names,
        info.text("git_commit"),
        aggregates=_figures(document),
        expected_samples=repeats * len(as_list(document["tasks"]))
        if 0 < repeats < _MOST_TRIALS
        else None,
    )
    tasks = {spell(task["id"]): task for task in document.objects("tasks")}
    further = (_document(file.path) for file in log.files[1:])
    rows = chain(document.objects("simulations"), further)
    trials = (_sample_of(row, tasks.get(spell(row["task_id"]), Fields())) for row in rows)
    return plan, trials


def _figures(document: Fields) -> list[Aggregate]:
    """The mean of the rewards in the index of a run whose simulations are files."""
    stated = [entry.number("reward") for entry in document.objects("simulation_index")]
    rewards = [reward for reward in stated if reward is not None]
    if not rewards:
        return []
    return [
        Aggregate("reward", "mean of simulation_index", sum(rewards) / len(rewards), len(rewards))
    ]


def _sample_of(row: Fields, task: Fields) -> Sample:
    rewards = {"reward": row["reward_info.reward"]}
    for name, reward in row.object("reward_info.reward_breakdown").items():
        rewards[f"reward:{name}"] = reward
    asked = task["user_scenario.instructions"]
    if isinstance(asked, dict):
        asked = "\n".join(f"{name}: {text}" for name, text in spelled(asked).items())
    stopped = row.text("termination_reason")
    chat = row.objects("messages")
    return trial_of(
        row["task_id"],
        row["trial"],
        rewards,
        asked,
        task["evaluation_criteria.communicate_info"],
        chat=chat,
        metadata={"stop_reason": stopped},
        error=stopped if stopped in _BROKEN else "",
        fields={
            "actions": task["evaluation_criteria.actions"],
            "nl_assertions": task["evaluation_criteria.nl_assertions"],
            "cost": row["agent_cost"],
            "user_cost": row["user_cost"],
            "seed": row["seed"],
        },
        unread=["ticks"] if row["ticks"] else (),
        performance=time_of(row["duration"]),
        token_usage=_tokens_in(chat),
    )


def _tokens_in(chat: Sequence[Fields]) -> TokenUsage | None:
    """The tokens of the agent; None if no message states them."""
    read_tokens, written = (
        sum(
            message.number(f"usage.{kind}_tokens") or 0
            for message in chat
            if message["role"] == "assistant"
        )
        for kind in ("prompt", "completion")
    )
    return tokens_of(read_tokens, written) if read_tokens or written else None
