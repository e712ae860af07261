"""The document `results_<date>.json` of a run: model, tasks, aggregates, and how each metric is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from fastrec.harnesses.choices import Rule
from fastrec.harnesses.values import as_list, decoder, read_document


class Metric(msgspec.Struct, frozen=True):
    name: str
    category: str = ""
    """`GENERATIVE` or `LOGPROBS`; other names before 0.11."""
    aggregation: str = ""
    """The function that makes the aggregate of the scores; empty if the document does not say it."""
    lower_is_better: bool = False
    rule: Rule | None = None
    """How the metric picks a choice; None if the document does not say it."""


class LogSlice(msgspec.Struct, frozen=True):
    first: int
    end: int
    """The row group after the last one."""
    before: int
    """Rows in all row groups before."""
    rows: int
    is_flat: bool
    """Whether the layout is that up to 0.10."""
    task: str
    """As the rows name it; empty if they do not."""
    metrics: dict[str, Metric]
    columns: list[str]
    """Columns to read, as `doc.query`."""
    unread: list[str]
    """Columns with values that are not read."""


class _General(msgspec.Struct):
    model_name: Any = None
    model_config: Any = None
    lighteval_sha: Any = None
    start_time: Any = None


class Results(msgspec.Struct):
    config_general: _General
    results: dict[str, dict[str, Any] | None]
    versions: dict[str, Any] | None = None
    config_tasks: dict[str, Any] | None = None
    summary_tasks: dict[str, Any] | None = None

    @property
    def model(self) -> str:
        config = self.config_general.model_config
        name = self.config_general.model_name or (config.get("model_name") if isinstance(config, dict) else None)
        return name if isinstance(name, str) else ""

    @property
    def version(self) -> str:
        """The commit of lighteval, which is all that the document says about its version."""
        sha = self.config_general.lighteval_sha
        return sha if isinstance(sha, str) and sha != "?" else ""

    @property
    def tasks(self) -> list[str]:
        """The tasks of the run, without averages over tasks."""
        return [task for task in self.results if task != "all" and ":_average|" not in task]

    def config_of(self, task: str) -> dict[str, Any]:
        """The configuration of a task; older versions call it by its name without the number of shots."""
        configs = self.config_tasks or {}
        for name in (task, task.rpartition("|")[0]):
            if isinstance(config := configs.get(name), dict):
                return config
        return {}

    def metrics_of(self, task: str) -> dict[str, Metric]:
        """What the configuration of a task says about its metrics, by name."""
        config = self.config_of(task)
        listed = config.get("metrics", config.get("metric"))
        return {metric.name: metric for item in as_list(listed) for metric in _metrics(item)}

    def hash_of(self, task: str) -> str:
        """The hash of all questions of a task; empty if the document does not have it."""
        summary = (self.summary_tasks or {}).get(task)
        hashes = summary.get("hashes") if isinstance(summary, dict) else None
        value = hashes.get("hash_examples") if isinstance(hashes, dict) else None
        return value if isinstance(value, str) else ""


_decode: Final = decoder(Results)


def read_results(path: str) -> Results:
    return read_document(path, _decode, "these are no results of lighteval, or they are damaged")


def _metrics(config: Any) -> Iterator[Metric]:
    """Yield the metrics of one entry of a task's configuration: some are computed together."""
    if not isinstance(config, dict):
        return
    rule = rule_of(str(config.get("sample_level_fn", "")))
    for name in as_list(config.get("metric_name")):
        better, aggregation = config.get("higher_is_better"), config.get("corpus_level_fn")
        better = better.get(name) if isinstance(better, dict) else better
        aggregation = aggregation.get(name) if isinstance(aggregation, dict) else aggregation
        yield Metric(
            name=str(name),
            category=str(config.get("category") or ""),
            aggregation=str(aggregation or ""),
            lower_is_better=better is False,
            rule=rule,
        )


def rule_of(function: str) -> Rule | None:
    """How a metric picks a choice, by the description of its function; None if that does not say it.

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
