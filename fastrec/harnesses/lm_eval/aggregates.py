"""The figures that lm-eval states for a task: which of them are means of scores, and can be recomputed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fastrec.harnesses.lm_eval.results import metric_keys
from fastrec.harnesses.log import Aggregate
from fastrec.harnesses.values import number_of

__all__ = ["aggregates_of", "lower_is_better", "metric_id"]

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


def metric_id(metric: str, name: str) -> str:
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
            means.append(Aggregate(metric_id(metric, name), key, value))
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
    found = {metric_id(metric, name) for metric, name in metric_keys(figures) if better.get(metric) is False}
    return frozenset(found | {metric for metric, value in better.items() if value is False})
