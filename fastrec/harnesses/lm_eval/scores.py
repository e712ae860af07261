"""The scores of a sample of lm-eval: one per metric, named by metric and filter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from fastrec.harnesses.lm_eval.files import metric_keys
from fastrec.harnesses.log import Aggregate, Score
from fastrec.harnesses.values import number_of, spell
from fastrec.sources.shard import Slice

# @@ setup: What the samples of a task are read with: settings of the task, and the parts of the file that workers read.


class TaskSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a task that decide what its records look like."""

    question: str = ""
    """`doc_to_text`: a key of the document or a template; empty if it is a function."""
    target: str = ""
    """`doc_to_target`, likewise."""
    delimiter: str = " "
    """What comes between the context and a choice."""
    output_type: str = ""
    """`multiple_choice`, `loglikelihood`, `loglikelihood_rolling` or `generate_until`; empty if unknown."""
    metrics: tuple[str, ...] = ()
    """Names of the metrics in the results."""
    filters: tuple[str, ...] = ()
    """Names of the filters, in the order in which they were applied."""


class LogSlice(msgspec.Struct, frozen=True):
    """A slice of the samples; small and picklable."""

    piece: Slice
    is_array: bool
    """Whether the file is one JSON array instead of lines."""
    setup: TaskSetup


# @@ aggregates: The figures that lm-eval states for a task: which of them are means of scores, and can be recomputed.

_MEANS: Final = frozenset({"mean", "nanmean"})
_OF_THE_TASK: Final = "it is aggregated by a function of the task, not as a mean"
_UNKNOWN: Final = "the log does not say how it is aggregated"

# How lm-eval aggregates its own metrics, unless a task says otherwise: lm_eval/api/metrics.py.
_REGISTRY: Final = {
    **dict.fromkeys(("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "exact_match_mc"), "mean"),
    **dict.fromkeys(("mae", "anls", "bpb", "logprob", "choice_logprob", "choice_prob_norm"), "mean"),
    "choice_logprob_norm": "mean",
    "acc_all": "acc_all",
    "brier_score": "brier_score",
    "perplexity": "perplexity",
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
    "bypass": "bypass",
    "mcc": "matthews_corrcoef",
    "f1": "f1",
    "bleu": "bleu",
    "chrf": "chrf",
    "ter": "ter",
}
_LOWER: Final = frozenset({"brier_score", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"})
_FUNCTION: Final = re.compile(r"\s*(?:@.*\n\s*)*def (\w+)\(")


def _metric_id(metric: str, name: str) -> str:
    """Return the `evaluation_result_id` of a metric under a filter.

    >>> metric_id("acc", "none"), metric_id("exact_match", "strict-match")
    ('acc', 'exact_match:strict-match')
    """
    return metric if name in ("none", "") else f"{metric}:{name}"


def aggregates_of(figures: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[list[Aggregate], dict[str, str]]:
    """Return the figures of a task that are means, and the others, each with the reason why it is not compared."""
    means, others = [], {}
    for metric, name in metric_keys(figures):
        key = f"{metric},{name}"
        value = number_of(figures[key])
        if reason := _not_a_mean(metric, settings):
            others[key] = reason
        elif value is not None:
            means.append(Aggregate(_metric_id(metric, name), key, value))
        elif figures[key] != "N/A":
            others[key] = f"its value is {figures[key]}"
    return means, others


def _not_a_mean(metric: str, settings: Mapping[str, Any]) -> str:
    """Return why the figure of a metric is not a mean; empty if it is one."""
    listed = _metric_list(settings)
    if metric in listed:
        how = listed[metric].get("aggregation") or _REGISTRY.get(metric)
    elif metric in _REGISTRY:
        how = _REGISTRY[metric]
    else:  # lm-eval takes the mean of what a task returns besides the metrics that it lists
        how = "mean" if listed else None
    if not isinstance(how, str):
        return _OF_THE_TASK if how else _UNKNOWN
    if how in _MEANS:
        return ""
    if how in _REGISTRY.values() or how == "median":
        return f"lm-eval aggregates it as {how}, not as a mean"
    return _OF_THE_TASK


def _metric_list(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the metrics that a task lists, by name; a function has its name in its source."""
    found = {}
    listed = settings.get("metric_list")
    for entry in listed if isinstance(listed, list) else []:
        name = entry.get("metric") if isinstance(entry, dict) else None
        if isinstance(name, str):
            source = _FUNCTION.match(name)
            found[source[1] if source else name] = entry
    return found


def lower_is_better(figures: Mapping[str, Any], settings: Mapping[str, Any], higher: Any) -> frozenset[str]:
    """Return the ids of the metrics of which lower scores are better."""
    listed = _metric_list(settings)
    better = {metric: metric not in _LOWER for metric, _ in metric_keys(figures)}
    better |= {name: entry["higher_is_better"] for name, entry in listed.items() if "higher_is_better" in entry}
    better |= higher if isinstance(higher, dict) else {}
    found = {_metric_id(metric, name) for metric, name in metric_keys(figures) if better.get(metric) is False}
    return frozenset(found | {metric for metric, value in better.items() if value is False})


_SHOWN: Final = 60  # characters of a value in an error
_NOT_FINITE: Final = frozenset({"nan", "inf", "-inf", "infinity", "-infinity"})


class ScoreReader:
    """Reads the scores of samples.

    Samples name their filter and metrics since November 2024. Before, metrics are all keys that are not known to be
    something else. The filter follows from the order: a document has one sample per filter, and the filters have an
    order.
    """

    def __init__(self, setup: TaskSetup, attributes: Mapping[str, str]) -> None:
        self._setup = setup
        self._attributes = attributes
        self._fields: dict[str, tuple[list[str], list[tuple[str, str, str]]]] = {}
        """By filter, the metrics of the last sample, and the name, the attribute and the id of each."""
        self._seen: dict[int | str, int] = {}

    def read(self, row: Any) -> tuple[str, list[str], list[Score]]:
        """Return the filter of a sample, empty if it is unknown, and its scores, each with the name of its metric."""
        name, metrics = row.filter, row.metrics
        if name is None:
            name = self._filter_by_order(row.doc_id)
        if metrics is None:
            metrics = [metric for metric in self._attributes if self._is_metric(row, metric)]
        last = self._fields.get(name)
        fields = last[1] if last is not None and last[0] == metrics else self._fields_of(name, metrics)
        scores = []
        for _, attribute, result_id in fields:
            value = getattr(row, attribute, UNSET)
            if value.__class__ is float and value - value == 0:  # the usual case: a finite number
                scores.append(Score(metric=result_id, value=value))
            elif value.__class__ is dict and value:
                return name, *self._with_parts(row, name, fields)
            else:
                scores.append(_score(result_id, value))
        return name, metrics, scores

    def _fields_of(self, name: str, metrics: Sequence[str]) -> list[tuple[str, str, str]]:
        """Return the name, the attribute and the id of each metric; the attribute is empty if the log lacks it."""
        fields = [(metric, self._attributes.get(metric, ""), _metric_id(metric, name)) for metric in metrics]
        if all(attribute for _, attribute, _ in fields):
            self._fields[name] = list(metrics), fields
        return fields

    def _with_parts(self, row: Any, name: str, fields: Sequence[tuple[str, str, str]]) -> tuple[list[str], list[Score]]:
        """Return the scores of a sample of which one has several parts: each is a score of its own."""
        names, scores = [], []
        for metric, attribute, result_id in fields:
            value = getattr(row, attribute, UNSET)
            parts = (
                {_metric_id(f"{metric}:{key}", name): part for key, part in value.items()}
                if value.__class__ is dict
                else {}
            )
            for part_id, part in (parts or {result_id: value}).items():
                names.append(metric)
                scores.append(_score(part_id, part))
        return names, scores

    def _filter_by_order(self, doc_id: int | str) -> str:
        filters = self._setup.filters
        if len(filters) <= 1:
            return filters[0] if filters else ""
        number = self._seen.get(doc_id, 0)
        self._seen[doc_id] = number + 1
        return filters[number] if number < len(filters) else ""

    def _is_metric(self, row: Any, name: str) -> bool:
        value = getattr(row, self._attributes[name])
        return value is not UNSET and (value.__class__ is not str or name in self._setup.metrics)


def _score(result_id: str, value: Any) -> Score:
    """Return the score with a value of any kind; one without a number says why."""
    number = None if value is UNSET else number_of(value)
    if number is not None:
        return Score(metric=result_id, value=number)
    return Score(metric=result_id, value=None, problem=_problem(value))


def _problem(value: Any) -> str:
    if value is UNSET:
        return "the log names this metric, but has no value of it for this sample"
    if value is None:
        return "the score is null: lm-eval did not compute it"
    text = spell(value)
    if isinstance(value, str) and text.lower() in _NOT_FINITE:
        return f"the score is {text}"
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    if isinstance(value, list):
        return f"the score is a list, which lm-eval only aggregates over all samples: {shown}"
    return f"the score is not a number: {shown or 'an empty text'}"
