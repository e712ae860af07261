"""What the metrics of the four harnesses are: judgements, costs or bookkeeping, and which are better if lower.

A judgement says how good an answer is. A cost is what the answer took: tokens, time, money. Bookkeeping says neither.
The table goes by name, because logs of HELM and Inspect do not say it. A metric that no row matches is a judgement.
lm-eval and lighteval say by themselves which of their metrics are better if lower (`RunInfo.lower_is_better`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

Kind = Literal["judgement", "cost", "bookkeeping"]


class _Row(NamedTuple):
    harness: str
    kind: Kind
    lower: bool
    """Whether lower is better."""
    patterns: tuple[str, ...]


# The first row that matches counts.
METRICS: Final = (
    _Row("helm", "cost", True, (
        "inference_*", "training_*", "estimated_num_tokens_cost", "num_prompt_tokens", "num_completion_tokens",
        "num_output_tokens",
    )),
    _Row("helm", "bookkeeping", False, (
        "num_*", "max_num_*", "finish_reason_*", "prompt_truncated", "predicted_index", "max_prob", "batch_size",
        "logprob", "summarization_compression", "platt_coef", "platt_intercept",
    )),
    _Row("helm", "judgement", True, (
        "perplexity", "bits_per_byte", "absolute_value_difference", "distance", "toxic_frac", "*toxicity*", "bias_*",
        "stereotypical_associations:*", "demographic_representation:*", "edit_distance", "edit_similarity",
        "longest_common_prefix_length*", "ter_score", "mer_score", "cer_score", "wer_score", "ece_*", "platt_ece*",
    )),
    _Row("inspect", "judgement", True, (
        "*perplexity*", "bits_per_byte", "brier*", "wer", "cer", "ter", "mer", "*error_rate*", "*_loss", "mae", "mse",
        "rmse", "ece", "edit_distance",
    )),
    _Row("inspect", "cost", True, ("*latency*", "*_tokens", "cost", "*_cost", "*_seconds")),
    _Row("lm-eval", "bookkeeping", False, ("bypass",)),
)  # fmt: skip
"""All that is known by name; `docs/leaderboard.md` has the same table."""


def row_of(harness: str, metric: str) -> _Row | None:
    """The row of a metric: by its id (`exact_match:valid`), or by a piece of it."""
    names = {metric, *metric.replace("@", ":").split(":")}
    for row in METRICS:
        if row.harness == harness and any(fnmatchcase(name, pattern) for name in names for pattern in row.patterns):
            return row
    return None


def notes_on(harness: str, metrics: Sequence[str], lower: Collection[str]) -> dict[str, dict[str, str]]:
    """What the metadata of records say about their metrics, given all metrics of a log in the harness's own order.

    The first judgement is the primary metric.
    """
    notes: dict[str, dict[str, str]] = {}
    primary = True
    for metric in metrics:
        row = row_of(harness, metric)
        kind = row.kind if row else "judgement"
        notes[metric] = {"metric_kind": kind}
        if metric in lower or (row and row.lower):
            notes[metric]["lower_is_better"] = "true"
        if kind == "judgement" and primary:
            notes[metric]["primary_metric"] = "true"
            primary = False
    return notes
