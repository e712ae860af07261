"""Jobs of Harbor: a folder per trial with `result.json`, perhaps with a trajectory in ATIF.

    job/result.json                        statistics of all trials
    job/trial/result.json                  one trial: agent, rewards, exception, tokens, times
    job/trial/agent/trajectory.json        what the agent did

A log is one agent with one model on one data set, as in the statistics. A trial without rewards is
an error, which Harbor counts as 0. A trial with rewards has a score, whatever stopped it. The files
do not have the task, so its name is the question.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from fastrec.errors import LogError
from fastrec.harnesses.files import read_object
from fastrec.harnesses.log import (
    Aggregate,
    Files,
    FilesByRole,
    Grouped,
    Log,
    Reading,
    Sample,
    by_folder,
    lists_by,
    pass_at_k,
    plan_of,
    tokens_of,
)
from fastrec.harnesses.transcripts import add_chat, chat_of, time_between, trial_of
from fastrec.harnesses.values import Fields, spell
from fastrec.storage import parent_of

_document = partial(read_object, what="result of Harbor")


def logs_of(files: Files) -> Grouped:
    grouped = Grouped()
    for directory, roles in by_folder(files, trial=2, trajectory=3).items():
        # trial/agent/trajectory.json
        trajectories = lists_by(lambda file: parent_of(parent_of(file.path)), roles["trajectory"])
        evals: FilesByRole = defaultdict(list)
        for file in roles["trial"]:
            with grouped.collecting_bad():
                key = "__".join(_names(_document(file.path)))
                evals[key] += [file, *trajectories[parent_of(file.path)][:1]]
        for key, needed in evals.items():
            needed += roles["job"][-1:]
            path = directory or needed[0].path
            grouped.logs.append(Log("harbor", path, tuple(needed), key))
    return grouped


def _names(trial: Fields) -> list[str]:
    """The agent, the model if there is one, and the data set."""
    names = (
        trial["agent_info.name"],
        trial["agent_info.model_info.name"],
        trial["source"] or "adhoc",
    )
    return [spell(name) for name in names if name]


def read(log: Log) -> Reading:
    first = _document(log.files[0].path)
    *system, dataset = _names(first)
    if not system:
        raise LogError(log.path, "does not name the agent (agent_info.name)")
    job = _document(log.paths.get("job"))
    stats = job.object("stats.evals", log.task)
    main = _main_metric(log)
    figures = pass_at_k(main, stats["pass_at_k"])
    for stated in stats.objects("metrics"):
        mean = stated.number("mean")
        if mean is not None:
            figures.append(Aggregate(main, "mean", mean))
    names = {
        "agent": system[0],
        "agent_version": first["agent_info.version"],
        "model": "".join(system[1:]),
    }
    started = job.text("started_at") or first.text("started_at")
    return plan_of(dataset, "/".join(system), started, names, aggregates=figures), _trials(
        log, main
    )


def _main_metric(log: Log) -> str:
    """The metric that the figures are about: `reward`, or whatever name a single one has."""
    for file in log.files:
        if names := [*_document(file.path).object("verifier_result.rewards")]:
            return "reward" if "reward" in names else names[0]
    return "reward"


def _trials(log: Log, main: str) -> Iterator[Sample]:
    trials = []
    for file in log.files:
        if file.role == "trial":
            trials.append(_sample_of(_document(file.path), main))
        elif file.role == "trajectory":  # follows its trial
            add_chat(trials[-1], list(chat_of(_document(file.path))))
    yield from trials


def _sample_of(trial: Fields, main: str) -> Sample:
    rewards = trial.object("verifier_result.rewards")
    failure = trial.object("exception_info")
    used = _used(trial)
    error = ""
    if not rewards:
        named = (failure.text("exception_type"), failure.text("exception_message"))
        error = ": ".join(filter(None, named)) or "the trial has no rewards"
    return trial_of(
        trial["task_name"],
        trial["trial_name"],
        rewards or {main: 0},
        metadata={"stop_reason": spell(failure["exception_type"])} if failure else {},
        error=error,
        performance=time_between(
            trial["agent_execution.started_at"], trial["agent_execution.finished_at"]
        ),
        token_usage=tokens_of(used["n_input_tokens"], used["n_output_tokens"]),
        fields={
            "cost": used["cost_usd"],
            "cached_tokens": used["n_cache_tokens"],
            "task_checksum": trial["task_checksum"],
        },
    )


def _used(trial: Fields) -> Fields:
    """The tokens and the cost of a trial; of a task in several steps, their sums."""
    if whole := trial.object("agent_result"):
        return whole
    totals: dict[str, float] = {}
    for step in trial.objects("step_results"):
        for name in step.object("agent_result"):
            count = step.number(f"agent_result.{name}")
            if count is not None:
                totals[name] = totals.get(name, 0) + count
    return Fields(totals)
