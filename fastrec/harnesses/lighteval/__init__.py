"""lighteval: details in Parquet, one file per task, with the results of their run in JSON.

Plan a log: what its details and results say about the run, and slices of its rows. Then read the
slices.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import xxhash

from fastrec.errors import LogError
from fastrec.harnesses.lighteval.files import (
    LAYOUTS,
    Metrics,
    Results,
    date_of,
    logs_of,
    named_task,
    read_results,
    role_of,
)
from fastrec.harnesses.lighteval.sample import columns_of, samples_in
from fastrec.harnesses.log import Aggregate, Figures, Log, LogPlan, RunInfo, Sample
from fastrec.harnesses.values import Texts, number_of
from fastrec.sources.formats import parquet_module

__all__ = ["LAYOUTS", "METADATA", "logs_of", "plan", "role_of", "samples"]

METADATA = ("log_likelihood", "log_likelihoods", "split", "task_version", "num_fewshot")

# Start times below are no dates: lighteval writes the time since the machine was started.
_FIRST_SECOND = 1_000_000_000


class LogSlice(msgspec.Struct, frozen=True):
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
    task = next(same, named) if named else _flat_task(details, results, parquet, is_flat=is_flat)
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
    clock = results.config_general.start_time
    if isinstance(clock, str) and clock:
        return clock
    if isinstance(clock, int | float) and _FIRST_SECOND < clock < 10 * _FIRST_SECOND:
        return datetime.fromtimestamp(clock, UTC).isoformat()
    for path in paths:
        if date := date_of(path):
            return date
    return "" if clock is None else str(clock)


def _flat_task(path: str, results: Results, parquet: Any, *, is_flat: bool) -> str:
    """Find the task of details by the hash of all questions, or else by the name of the file."""
    column = ("example", "") if is_flat else ("doc", "query")
    hashes = sorted(
        xxhash.xxh64(str(text).encode("utf-8", "surrogatepass")).hexdigest()
        for table in parquet.tables(path, [".".join(filter(None, column))])
        for text in table.values(*column)
    )
    questions = xxhash.xxh64("".join(hashes).encode()).hexdigest()
    found = [task for task in results.tasks if results.hash_of(task) == questions]
    if len(found) == 1:
        return found[0]
    if task := named_task(path, found or results.tasks):
        return task
    raise LogError(
        path,
        "these details do not name their task, and no task of the results has the same questions",
    )


def _metadata(results: Results, task: str) -> Texts:
    metadata = {}
    splits = results.config_of(task).get("evaluation_splits")
    if isinstance(splits, list) and splits and all(isinstance(split, str) for split in splits):
        metadata["split"] = ",".join(splits)
    version = (results.versions or {}).get(task, results.config_of(task).get("version"))
    if isinstance(version, int | float | str) and str(version):
        metadata["task_version"] = str(version)
    shots = task.rpartition("|")[2]
    if shots.isdigit():
        metadata["num_fewshot"] = shots
    return metadata


def _aggregates(results: Results, task: str, metrics: Metrics, scored: list[str]) -> Figures:
    aggregates = []
    not_compared = {}
    stated = results.results.get(task) or {}
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


def samples(log: Log, run: RunInfo, log_slice: LogSlice) -> Iterator[Sample]:  # noqa: ARG001 - the slice has all it needs
    path = log.files[0].path
    parquet = parquet_module(path)
    row = log_slice.before
    for table in parquet.tables(path, log_slice.columns, (log_slice.first, log_slice.end)):
        for task, sample in samples_in(table, row, log_slice.metrics, is_flat=log_slice.is_flat):
            row += 1
            if task != log_slice.task:
                raise LogError(
                    path, f"row {row:,} is of task {task!r}, the first one of {log_slice.task!r}"
                )
            sample.unread = log_slice.unread
            yield sample
