"""lighteval: details in Parquet, one file per task, with the results of their run in JSON.

All files of a run have the same date in their names, and name the same tasks:

    results/<org>/<model>/results_<date>.json
    details/<org>/<model>/<date>/details_<task>|<shots>_<date>.parquet

Both trees can be elsewhere, and users rename files. So the date decides where both names have one;
then the task, which the rows of details name since 0.11; then which results are nearest in the
tree.

Plan a log: what its details and results say about the run, and slices of its rows. Then read the
slices.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from os.path import commonprefix

import xxhash
from msgspec import Struct

from fastrec.errors import LogError, ShardError
from fastrec.harnesses.files import read_object
from fastrec.harnesses.lighteval.sample import (
    Metrics,
    columns_of,
    flat_rows,
    metrics_in,
    nested_rows,
    sample_of,
)
from fastrec.harnesses.log import (
    OTHER,
    Aggregate,
    BadLog,
    Figures,
    Files,
    Grouped,
    Log,
    LogPlan,
    Run,
    RunInfo,
    Sample,
    by_role,
    date_in,
    runs_in,
)
from fastrec.harnesses.values import (
    Fields,
    OptionalText,
    Texts,
    as_list,
    number_of,
    spell,
    spelled,
)
from fastrec.sources.formats import PARQUET_MAGIC, parquet_module
from fastrec.storage import base_name

_DETAILS = "details"

LAYOUTS = (
    frozenset({"doc", "model_response", "metric"}),
    frozenset({"example", "metrics", "predictions"}),
)
_NAME_OF_DETAILS = r"(?:details_)?(.*?)(?:_\d{4}-\d\d-\d\dT[\d.:_-]+)?\.parquet"
_NOT_PART = r"[^0-9A-Za-z]+"
_ADVICE = "give the results_<date>.json of its run, too: it names the model"


def role_of(head: bytes, path: str) -> OptionalText:
    if not head.startswith(PARQUET_MAGIC):
        return None
    try:
        columns = parquet_module(path).survey(path).columns.keys()
    except ShardError:  # what it was cannot be known, but `logs_of` says why it cannot be read
        return _DETAILS
    if any(layout <= columns for layout in LAYOUTS):
        return _DETAILS
    return OTHER if {"config_general", "results"} <= columns else None


class Results(Fields):
    """What a document says about a run."""

    @property
    def model(self) -> str:
        return self.text("config_general.model_name", "config_general.model_config.model_name")

    @property
    def version(self) -> str:
        """The commit of lighteval, which is all that the document says about its version."""
        sha = self.text("config_general.lighteval_sha")
        return "" if sha == "?" else sha

    @property
    def figures(self) -> Fields:
        """The figures of each task; names of tasks have dots."""
        return self.object("results")

    @property
    def tasks(self) -> list[str]:
        return [task for task in self.figures if task != "all" and ":_average|" not in task]

    def config_of(self, task: str) -> Fields:
        """The configuration of a task.

        Older versions call it by its name without the number of shots.
        """
        configs = "config_tasks"
        return self.object(configs, task) or self.object(configs, task.rpartition("|")[0])

    def metrics_of(self, task: str) -> Metrics:
        config = self.config_of(task)
        listed = config.get("metrics", config.get("metric"))
        return {metric.name: metric for item in as_list(listed) for metric in metrics_in(item)}


def read_results(path: str) -> Results:
    return Results(read_object(path, "file with results of lighteval"))


def logs_of(files: Files) -> Grouped:
    grouped = Grouped()
    runs = runs_in(files, read_results, grouped)
    for file in by_role(files)[_DETAILS]:
        with grouped.collecting_bad():
            grouped.logs.append(Log("lighteval", file.path, (file, _find(file.path, runs).file)))
    if not grouped.logs and not grouped.bad:
        grouped.bad = [
            BadLog(
                run.file.path,
                "there are no details of this run: lighteval writes them with --save-details",
            )
            for run in runs
        ]
    return grouped


def _find(path: str, runs: Sequence[Run]) -> Run:
    """Find the results that belong to details.

    LogError if there are none, or the details are damaged.
    """
    task = parquet_module(path).first_task(path)
    date = date_in(path)
    candidates = [run for run in runs if not date or not run.date or run.date == date]
    if not candidates:
        other = f"; the results found are of other runs than {date}" if runs else ""
        raise LogError(path, f"there are no results of its run{other}: {_ADVICE}")
    candidates = [
        run for run in candidates if _has(run.results, task or named_task(path, run.results.tasks))
    ]
    if not candidates:
        raise LogError(path, f"no results found here have its task {task}: {_ADVICE}")
    ranks = [(run.date == date, _shared(path, run.file.path)) for run in candidates]
    highest = max(ranks)
    best = [run for run, rank in zip(candidates, ranks, strict=True) if rank == highest]
    if any(run.results != best[0].results for run in best):
        names = " and ".join(base_name(run.file.path) for run in best[:2])
        raise LogError(path, f"{names} could both be its results: import each run by itself")
    return best[0]


def _has(results: Results, task: str) -> bool:
    """Tell whether results have a task; details whose task is not known may be of any."""
    return not task or any(f"|{name}".endswith(f"|{task}") for name in results.figures)


def _shared(path: str, other: str) -> int:
    """The number of folders at the start of both paths."""
    folders = (path.split("/")[:-1], other.split("/")[:-1])
    return len(commonprefix(folders))  # noqa: RUF071 - compares folders, not letters


def named_task(path: str, tasks: Sequence[str]) -> str:
    """The task that the name of details names, whatever became of its `|` and `:`.

    Empty if none does.
    """
    match = re.fullmatch(_NAME_OF_DETAILS, base_name(path))
    name = _plain(match[1]) if match else ""
    return next((task for task in tasks if _plain(task) == name), "")


def _plain(name: str) -> str:
    return re.sub(_NOT_PART, "_", name).strip("_")


# Start times below are no dates: lighteval writes the time since the machine was started.
_FIRST_SECOND = 1_000_000_000


class LogSlice(Struct, frozen=True):
    first: int
    end: int  # the row group after the last one
    before: int  # rows in all row groups before
    is_flat: bool  # whether the layout is that up to 0.10
    task: str  # as the rows name it; empty if they do not
    metrics: Metrics
    columns: list[str]  # columns to read, as `doc.query`
    unread: list[str]  # columns with values that are not read


def plan(log: Log) -> LogPlan:
    details, document = (file.path for file in log.files)
    results = read_results(document)
    if not results.model:
        raise LogError(document, "these results do not name the model")
    started = _started(results, (document, details))
    if not started:
        raise LogError(
            document, "these results have no date, neither in their name nor as start_time"
        )
    parquet = parquet_module(details)
    survey = parquet.survey(details)
    is_flat = "doc" not in survey.columns
    if not survey.rows:
        raise LogError(details, "these details have no rows")
    named = parquet.first_task(details)
    # until 0.12, the results call it by its suite, too
    same = (name for name in results.tasks if f"|{name}".endswith(f"|{named}"))
    task = next(same, named) if named else _flat_task(details, results, is_flat=is_flat)
    metrics = results.metrics_of(task)
    aggregates, not_compared = _aggregates(
        results, task, metrics, survey.columns["metrics" if is_flat else "metric"]
    )
    columns, unread = columns_of(survey.filled)
    return LogPlan(
        run=RunInfo(
            task=task,
            model=results.model,
            started=started,
            version=results.version,
            metadata=_metadata(results, task),
            lower_is_better=frozenset(
                name for name, metric in metrics.items() if metric.lower_is_better
            ),
        ),
        slices=[
            LogSlice(*bounds, is_flat, named, metrics, columns, unread)  # type: ignore[call-arg]
            for bounds in survey.slices
        ],
        aggregates=aggregates,
        not_compared=not_compared,
    )


def _started(results: Results, paths: Iterable[str]) -> str:
    """When the run was started.

    The document has a date only if it was written by another program. lighteval itself puts it into
    the names of all files of a run, and writes the reading of a clock of the machine as
    `start_time`, which at least tells runs apart.
    """
    clock = results["config_general.start_time"]
    if isinstance(clock, str) and clock:
        return clock
    if isinstance(clock, int | float) and _FIRST_SECOND < clock < 10 * _FIRST_SECOND:
        return datetime.fromtimestamp(clock, UTC).isoformat()
    for path in paths:
        if date := date_in(path):
            return date
    return "" if clock is None else str(clock)


def _flat_task(path: str, results: Results, *, is_flat: bool) -> str:
    """Find the task of details by the hash of all questions, or else by the name of the file."""
    column = ("example", "") if is_flat else ("doc", "query")
    hashes = sorted(
        xxhash.xxh64(str(text).encode("utf-8", "surrogatepass")).hexdigest()
        for table in parquet_module(path).tables(path, [".".join(filter(None, column))])
        for text in table.values(*column)
    )
    questions = xxhash.xxh64("".join(hashes).encode()).hexdigest()
    matching = [
        task
        for task in results.tasks
        if results.object("summary_tasks", task)["hashes.hash_examples"] == questions
    ]
    if len(matching) == 1:
        return matching[0]
    if task := named_task(path, matching or results.tasks):
        return task
    raise LogError(
        path,
        "these details do not name their task, and no task of the results has the same questions",
    )


def _metadata(results: Results, task: str) -> Texts:
    config = results.config_of(task)
    version = results.object("versions").get(task, config["version"])
    shots = task.rpartition("|")[2]
    metadata = {
        "split": ",".join(config.texts("evaluation_splits")),
        "task_version": "" if version is None else spell(version),
        "num_fewshot": shots if shots.isdigit() else "",
    }
    return spelled(metadata)


def _aggregates(results: Results, task: str, metrics: Metrics, scored: list[str]) -> Figures:
    aggregates = []
    not_compared = {}
    stated = results.object("results", task)
    for name, value in stated.items():
        metric = metrics.get(name)
        number = None if isinstance(value, str) else number_of(value)
        if name.endswith("_stderr") and name.removesuffix("_stderr") in stated:
            not_compared[name] = "a standard error, not a mean"
        elif number is None:
            not_compared[name] = "not a number"
        elif scored and name not in scored:
            not_compared[name] = "the details have no metric of this name"
        elif metric is not None and metric.aggregation not in ("", "mean", "nanmean"):
            not_compared[name] = f"not a mean but {metric.aggregation}"
        else:
            aggregates.append(Aggregate(name, name, number))
    return aggregates, not_compared


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Iterator[Sample]:
    path = log.path
    parquet = parquet_module(path)
    row = log_slice.before
    rows_of = flat_rows if log_slice.is_flat else nested_rows
    for table in parquet.tables(path, log_slice.columns, (log_slice.first, log_slice.end)):
        for values in rows_of(table):
            task, sample = sample_of(row, values, log_slice.metrics)
            if "," in run.metadata.get("split", ""):  # ids count from 0 in each split
                sample.sample_id = str(row)
            row += 1
            if task != log_slice.task:
                raise LogError(
                    path, f"row {row:,} is of task {task!r}, the first one of {log_slice.task!r}"
                )
            sample.unread = log_slice.unread
            yield sample
