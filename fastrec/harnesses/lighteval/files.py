"""The files of lighteval: details in Parquet, and the results of their run.

All files of a run have the same date in their names, and name the same tasks:

    results/<org>/<model>/results_<date>.json
    details/<org>/<model>/<date>/details_<task>|<shots>_<date>.parquet

Both trees can be elsewhere, and users rename files. So the date decides where both names have one;
then the task, which the rows of details name since 0.11; then which results are nearest in the
tree.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fastrec.errors import LogError, ShardError
from fastrec.harnesses.choices import Rule
from fastrec.harnesses.files import read_document
from fastrec.harnesses.log import OTHER, BadLog, FoundFile, Grouped, Log, role_by_patterns
from fastrec.harnesses.values import JsonObject, as_list, as_object, decoder
from fastrec.sources.formats import PARQUET_MAGIC, parquet_module
from fastrec.storage import base_name

_DETAILS = "details"
_RESULTS = "results"

LAYOUTS = (
    frozenset({"doc", "model_response", "metric"}),
    frozenset({"example", "metrics", "predictions"}),
)
_ROLES = (
    (_RESULTS, rb'\s*\{\s*"config_general"\s*:'),
    (_RESULTS, rb"\s*\{", b'"config_general"', rb'(?s)\A(?!.*"lm_eval_version")'),
)
_DATE = r"\d{4}-\d\d-\d\dT\d\d[-:_]\d\d[-:_]\d\d(?:\.\d+)?"
_NAME_OF_DETAILS = r"(?:details_)?(.*?)(?:_\d{4}-\d\d-\d\dT[\d.:_-]+)?\.parquet"
_NOT_PART = r"[^0-9A-Za-z]+"
_NO_DETAILS = "there are no details of this run: lighteval writes them with --save-details"
_ADVICE = "give the results_<date>.json of its run, too: it names the model"


def role_of(head: bytes, path: str) -> str | None:
    if head.startswith(PARQUET_MAGIC):
        try:
            columns = parquet_module(path).survey(path).columns.keys()
        except ShardError:  # what it was cannot be known, but `logs_of` says why it cannot be read
            return _DETAILS
        if any(layout <= columns for layout in LAYOUTS):
            return _DETAILS
        return OTHER if {"config_general", "results"} <= columns else None
    return role_by_patterns(_ROLES, head)


class Metric(msgspec.Struct, frozen=True):
    name: str
    category: str = ""  # `GENERATIVE` or `LOGPROBS`; other names before 0.11
    aggregation: str = ""  # how the scores are aggregated; empty if the document does not say it
    lower_is_better: bool = False
    rule: Rule | None = None  # how the metric picks a choice; None if the document does not say it


Metrics = dict[str, Metric]  # by name


class _General(msgspec.Struct):
    model_name: Any = None
    model_config: Any = None
    lighteval_sha: Any = None
    start_time: Any = None


class Results(msgspec.Struct):
    config_general: _General
    results: dict[str, JsonObject | None]
    versions: JsonObject | None = None
    config_tasks: JsonObject | None = None
    summary_tasks: JsonObject | None = None

    @property
    def model(self) -> str:
        general = self.config_general
        name = general.model_name or as_object(general.model_config).get("model_name")
        return name if isinstance(name, str) else ""

    @property
    def version(self) -> str:
        """The commit of lighteval, which is all that the document says about its version."""
        sha = self.config_general.lighteval_sha
        return sha if isinstance(sha, str) and sha != "?" else ""

    @property
    def tasks(self) -> list[str]:
        return [task for task in self.results if task != "all" and ":_average|" not in task]

    def config_of(self, task: str) -> JsonObject:
        """The configuration of a task.

        Older versions call it by its name without the number of shots.
        """
        configs = self.config_tasks or {}
        for name in (task, task.rpartition("|")[0]):
            if isinstance(config := configs.get(name), dict):
                return config
        return {}

    def metrics_of(self, task: str) -> Metrics:
        config = self.config_of(task)
        listed = config.get("metrics", config.get("metric"))
        return {metric.name: metric for item in as_list(listed) for metric in _metrics(item)}

    def hash_of(self, task: str) -> str:
        """The hash of all questions of a task; empty if the document does not have it."""
        summary = as_object((self.summary_tasks or {}).get(task))
        value = as_object(summary.get("hashes")).get("hash_examples")
        return value if isinstance(value, str) else ""


_decode = decoder(Results)


def read_results(path: str) -> Results:
    return read_document(path, _decode, "these are no results of lighteval, or they are damaged")


def _metrics(config: Any) -> Iterator[Metric]:
    """Yield the metrics of one entry of a task's configuration: some are computed together."""
    if not isinstance(config, dict):
        return
    rule = rule_of(str(config.get("sample_level_fn", "")))
    for name in as_list(config.get("metric_name")):
        better, aggregation = (
            given.get(name) if isinstance(given, dict) else given
            for given in (config.get("higher_is_better"), config.get("corpus_level_fn"))
        )
        yield Metric(
            name=str(name),
            category=str(config.get("category") or ""),
            aggregation=str(aggregation or ""),
            lower_is_better=better is False,
            rule=rule,
        )


def rule_of(function: str) -> Rule | None:
    """How a metric picks a choice, by the description of its function.

    None if that does not say it.

    >>> rule_of("LoglikelihoodAcc(logprob_normalization=None)")
    'none'
    >>> rule_of("LoglikelihoodAcc(logprob_normalization=LogProbCharNorm(ignore_first_space=True))")
    'no_space'
    """
    if "CharNorm" in function:
        return "no_space" if "ignore_first_space=True" in function else "characters"
    if "TokenNorm" in function:
        return "tokens"
    if "PMINorm" in function:
        return "pmi"
    return "none" if "normalization=None" in function else None


class _Run(msgspec.Struct):
    file: FoundFile
    results: Results
    date: str


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    grouped = Grouped()
    runs = []
    for file in files:
        if file.role == _RESULTS:
            with grouped.collecting_bad():
                runs.append(_Run(file, read_results(file.path), date_of(file.path)))
    for file in files:
        if file.role == _DETAILS:
            with grouped.collecting_bad():
                found = _find(file.path, runs)
                grouped.logs.append(Log("lighteval", file.path, (file, found.file)))
    if not grouped.logs and not grouped.bad:
        grouped.bad = [BadLog(run.file.path, _NO_DETAILS) for run in runs]
    return grouped


def _find(path: str, runs: Sequence[_Run]) -> _Run:
    """Find the results that belong to details.

    LogError if there are none, or the details are damaged.
    """
    task = parquet_module(path).first_task(path)
    date = date_of(path)
    found = [run for run in runs if not date or not run.date or run.date == date]
    if not found:
        other = f"; the results found are of other runs than {date}" if runs else ""
        raise LogError(path, f"there are no results of its run{other}: {_ADVICE}")
    if any(run.date == date for run in found):
        found = [run for run in found if run.date == date]
    found = [run for run in found if _has(run.results, task or named_task(path, run.results.tasks))]
    if not found:
        raise LogError(path, f"no results found here have its task {task}: {_ADVICE}")
    nearest = max(_shared(path, run.file.path) for run in found)
    found = [run for run in found if _shared(path, run.file.path) == nearest]
    if any(run.results != found[0].results for run in found):
        names = " and ".join(base_name(run.file.path) for run in found[:2])
        raise LogError(path, f"{names} could both be its results: import each run by itself")
    return found[0]


def _has(results: Results, task: str) -> bool:
    """Tell whether results have a task; details whose task is not known may be of any."""
    return not task or any(f"|{name}".endswith(f"|{task}") for name in results.results)


def _shared(path: str, other: str) -> int:
    count = 0
    for folder, other_folder in zip(path.split("/")[:-1], other.split("/")[:-1], strict=False):
        if folder != other_folder:
            break
        count += 1
    return count


def date_of(path: str) -> str:
    """The date in the name of a file, which lighteval writes with `-` instead of `:`.

    Empty if there is none.

    >>> date_of("results_2026-08-10T17-22-11.385681.json")
    '2026-08-10T17:22:11.385681'
    """
    found = re.findall(_DATE, base_name(path))
    return f"{found[-1][:13]}:{found[-1][14:16]}:{found[-1][17:]}" if found else ""


def named_task(path: str, tasks: Sequence[str]) -> str:
    """The task that the name of details names, whatever became of its `|` and `:`.

    Empty if none does.
    """
    match = re.fullmatch(_NAME_OF_DETAILS, base_name(path))
    name = _plain(match[1]) if match else ""
    return next((task for task in tasks if _plain(task) == name), "")


def _plain(name: str) -> str:
    return re.sub(_NOT_PART, "_", name).strip("_")
