"""The harnesses that fastrec knows: the only list of them.

To add one, write a module like `alpaca_eval`, named as here with underscores for hyphens, and add a
row here. `log` says which functions the module has. `METADATA` lists the names of metadata that it
writes itself.

Harnesses whose logs are large or come in many versions are folders, with these modules besides
their own:

    __init__.py    `plan`: what a log says about its run, and its slices
    files.py       `role_of`: tells what a file is; `logs_of`: groups files into logs
    sample.py      makes a `Sample` with its scores of a sample of the log
"""

from importlib import import_module
from typing import Any, NamedTuple

_PACKED = r"(?:\.(?:gz|zst|bz2|xz))?"


class Harness(NamedTuple):
    name: str  # as in `--from` and in the metadata of records
    title: str  # as in texts for people
    reads: str
    # A pattern of paths that only its logs have: such a file with another content is damaged.
    log_name: str = ""


# In the order in which files are offered to them.
HARNESSES = (
    Harness(
        "lm-eval",
        "lm-eval",
        "samples_*.jsonl with the results_*.json of their run",
        r"(?:^|/)samples_[^/]*_\d{4}-\d\d-\d\dT[^/]*\.jsonl(?:\.\w+)?$",
    ),
    Harness("inspect", "Inspect", "*.eval, or logs as *.json", rf"\.eval{_PACKED}$"),
    Harness(
        "helm",
        "HELM",
        "directories of runs with scenario_state.json and per_instance_stats.json",
        rf"(?:^|/)(?:scenario_state|per_instance_stats)\.json{_PACKED}$",
    ),
    Harness(
        "lighteval",
        "lighteval",
        "details_*.parquet with the results_*.json of their run",
        r"(?:^|/)details_[^/]*_\d{4}-\d\d-\d\dT[^/]*\.parquet$",
    ),
    Harness("alpaca-eval", "AlpacaEval", "annotations.json, perhaps with leaderboard.csv"),
    # before MT-Bench, whose answers look like those of LiveBench
    Harness(
        "livebench",
        "LiveBench",
        "ground_truth_judgment.jsonl with question.jsonl and model_answer/",
    ),
    Harness(
        "mt-bench", "MT-Bench", "judgements of single answers with question.jsonl and model_answer/"
    ),
    Harness("openai-evals", "OpenAI evals", "the *.jsonl of a run"),
    Harness("promptfoo", "promptfoo", "results of `promptfoo eval -o results.json`"),
    Harness("tau-bench", "tau-bench", "arrays of trials as *.json"),
    Harness("tau2-bench", "tau2-bench", "results as *.json, perhaps with simulations/"),
    Harness(
        "terminal-bench",
        "Terminal-Bench",
        "results.json of a run or of its trials, perhaps with run_metadata.json",
    ),
    Harness("harbor", "Harbor", "jobs with the result.json of trials, perhaps with trajectories"),
    Harness(
        "evalplus",
        "EvalPlus",
        "*_eval_results.json of EvalPlus or BigCodeBench, perhaps with *_pass_at_k.json",
    ),
)
HARNESS_NAMES = tuple(harness.name for harness in HARNESSES)


def harness_named(name: str) -> Any:
    """The module of a harness, or of tables (`table`)."""
    return import_module(f"fastrec.harnesses.{name.replace('-', '_')}")
