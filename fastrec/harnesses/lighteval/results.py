"""The document `results_<date>.json` of a run: model, tasks, aggregates, and how each metric is computed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from fastrec.harnesses.values import as_list, contradicts, decoder, index_of_greatest, read_document

# @@ choices: Multiple choice: which choice a metric picks, by the log-likelihoods of all choices.
#
# normalization    a choice's value
# none             its log-likelihood
# characters       divided by the number of its characters
# no_space         the same, without a first space
# tokens           divided by the number of its tokens
# pmi              minus its log-likelihood without the question

Normalization = Literal["none", "characters", "no_space", "tokens", "pmi"]

_BY_NAME: Final[tuple[tuple[str, tuple[Normalization, ...]], ...]] = (
    ("norm_token", ("tokens",)),
    ("norm_pmi", ("pmi",)),
    ("norm", ("characters", "no_space")),
)
"""Metrics with such names, like `acc_norm`, normalize this way; the second way is that of some tasks only."""


class Choices(msgspec.Struct, gc=False):
    """The choices of a question, and how likely the model finds each."""

    texts: Sequence[str]
    likelihoods: Sequence[float]
    correct: Sequence[int] = ()
    unconditional: Sequence[float] = ()
    """Log-likelihoods without the question; mostly none."""
    tokens: Sequence[int] = ()
    """The number of tokens of each choice."""


def normalization_of(function: str) -> Normalization | None:
    """Return how a metric normalizes, by the description of its function; None if that does not say it.

    >>> normalization_of("LoglikelihoodAcc(logprob_normalization=None)")
    'none'
    >>> normalization_of("LoglikelihoodAcc(logprob_normalization=LogProbCharNorm(ignore_first_space=True))")
    'no_space'
    """
    if "CharNorm" in function:
        return "no_space" if "ignore_first_space=True" in function else "characters"
    if "TokenNorm" in function:
        return "tokens"
    if "PMINorm" in function:
        return "pmi"
    return "none" if "normalization=None" in function else None


def pick(choices: Choices, metric: str, rule: Normalization | None, score: float | None) -> int | None:
    """Return the index of the choice that a metric picks; None if that cannot be known.

    `rule` is what the log says about the metric. If it says nothing, the metric's name does; of two ways to normalize
    that have the same name, it is the one that the score agrees with. If the score of an accuracy contradicts all of
    them, the metric has a rule that the log does not tell.
    """
    rules: tuple[Normalization, ...] = ("none",) if rule is None else (rule,)
    if rule is None:
        rules = next((rules for end, rules in _BY_NAME if metric.endswith(end)), rules)
    is_accuracy = metric.startswith("acc")
    for one in rules:
        best = _best(choices, one)
        if best is not None and not (is_accuracy and contradicts(score, best, choices.correct)):
            return best
    return None


def _best(choices: Choices, rule: Normalization) -> int | None:
    """Return the index of the choice with the greatest value; None if the log lacks what the rule needs."""
    likelihoods = choices.likelihoods
    count = len(likelihoods)
    if not count or count != len(choices.texts):
        return None
    if rule == "none":
        values = list(likelihoods)
    elif rule == "pmi":
        if len(choices.unconditional) != count:
            return None
        values = [value - base for value, base in zip(likelihoods, choices.unconditional, strict=True)]
    else:
        sizes = choices.tokens if rule == "tokens" else [_size(text, rule) for text in choices.texts]
        if len(sizes) != count or not all(sizes):
            return None
        values = [value / size for value, size in zip(likelihoods, sizes, strict=True)]
    return index_of_greatest(values)


def _size(text: str, rule: Normalization) -> int:
    return len(text) - (rule == "no_space" and text.startswith(" "))


_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d[-:_]\d\d[-:_]\d\d(?:\.\d+)?")
_FIRST_SECOND: Final = 1_000_000_000
"""Start times below are no dates: lighteval writes the time since the machine was started."""


class _General(msgspec.Struct):
    """How the run was made."""

    model_name: Any = None
    model_config: Any = None
    lighteval_sha: Any = None
    start_time: Any = None


class Results(msgspec.Struct):
    """The document, as far as it is needed."""

    config_general: _General
    results: dict[str, dict[str, Any] | None]
    versions: dict[str, Any] | None = None
    config_tasks: dict[str, Any] | None = None
    summary_tasks: dict[str, Any] | None = None

    @property
    def model(self) -> str:
        """The name of the model; empty if the document has none."""
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
        """Return the configuration of a task; older versions call it by its name without the number of shots."""
        configs = self.config_tasks or {}
        for name in (task, task.rpartition("|")[0]):
            if isinstance(config := configs.get(name), dict):
                return config
        return {}

    def version_of(self, task: str) -> str:
        """Return the version of a task; empty if the document does not say it."""
        version = (self.versions or {}).get(task, self.config_of(task).get("version"))
        return str(version) if isinstance(version, int | float | str) else ""

    def metrics_of(self, task: str) -> dict[str, Metric]:
        """Return what the configuration of a task says about its metrics, by name."""
        config = self.config_of(task)
        listed = config.get("metrics", config.get("metric"))
        return {metric.name: metric for item in as_list(listed) for metric in _metrics(item)}

    def hash_of(self, task: str) -> str:
        """Return the hash of all questions of a task; empty if the document does not have it."""
        summary = (self.summary_tasks or {}).get(task)
        hashes = summary.get("hashes") if isinstance(summary, dict) else None
        value = hashes.get("hash_examples") if isinstance(hashes, dict) else None
        return value if isinstance(value, str) else ""


class Metric(msgspec.Struct, frozen=True):
    """What the configuration of a task says about a metric."""

    name: str
    category: str = ""
    """`GENERATIVE` or `LOGPROBS`; other names before 0.11."""
    aggregation: str = ""
    """The function that makes the aggregate of the scores; empty if the document does not say it."""
    lower_is_better: bool = False
    normalization: Normalization | None = None
    """How the metric picks a choice; None if the document does not say it."""


_decode: Final = decoder(Results)


def read_results(path: str) -> Results:
    """Read the results of a run."""
    return read_document(path, _decode, "these are no results of lighteval, or they are damaged")


def date_of(path: str) -> str:
    """Return the date in the name of a file, which lighteval writes with `-` instead of `:`; empty if there is none.

    >>> date_of("results_2026-08-10T17-22-11.385681.json")
    '2026-08-10T17:22:11.385681'
    """
    found = _DATE.findall(os.path.basename(path))  # noqa: PTH119
    return f"{found[-1][:13]}:{found[-1][14:16]}:{found[-1][17:]}" if found else ""


def started(results: Results, paths: Iterable[str]) -> str:
    """Return when the run was started.

    The document has a date only if it was written by another program. lighteval itself puts it into the names of all
    files of a run, and writes the reading of a clock of the machine as `start_time`, which at least tells runs apart.
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


def _metrics(config: Any) -> Iterator[Metric]:
    """Yield the metrics of one entry of a task's configuration: some are computed together."""
    if not isinstance(config, dict):
        return
    rule = normalization_of(str(config.get("sample_level_fn", "")))
    for name in as_list(config.get("metric_name")):
        better, aggregation = config.get("higher_is_better"), config.get("corpus_level_fn")
        better = better.get(name) if isinstance(better, dict) else better
        aggregation = aggregation.get(name) if isinstance(aggregation, dict) else aggregation
        yield Metric(
            name=str(name),
            category=str(config.get("category") or ""),
            aggregation=str(aggregation or ""),
            lower_is_better=better is False,
            normalization=rule,
        )
