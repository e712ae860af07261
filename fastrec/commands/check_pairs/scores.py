"""Compare the score of a result with the mean of its rows.

Which rows count is not standardized. So the mean agrees with the score if it does for one way of counting: rows with an
error count by their score, as 0, or not at all; for a metric like accuracy, `is_correct` counts in place of the score.
A score out of 100 is also compared with 100 times the mean, if the aggregate says that it is one.

They agree if they differ by no more than rounding: half a unit of the last decimal that the aggregate states, and at
least a millionth. A whole number that is not a percentage has no decimals to round to: 1.0 means 1, not 0.96. A score
out of 1 has at least two decimals, since nobody rounds 0.54 to 0.5: it is 0.50, and JSON has no last zeros.

Some metrics are no means over samples: BLEU, perplexity, a correlation, a standard error. Where such a metric differs,
nothing is wrong. Its score is not compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final

from fastrec.commands.check_pairs.aggregate import Metric, Result
from fastrec.commands.check_pairs.rows import Tally
from fastrec.judge.findings import Finding

__all__ = ["NOT_A_MEAN", "NO_ROWS", "compare_score"]

NO_ROWS: Final = "no rows"
NOT_A_MEAN: Final = "not a mean"
_TOO_LARGE: Final = "too large"

_LEAST: Final = 1e-6
_WORDS: Final = re.compile(r"[a-z]+[0-9]*")
_LETTERS: Final = re.compile(r"[a-z]+")
_OF_SEVERAL: Final = re.compile(
    r"(?:pass|maj|cons|best|match|hits?)[@^_ -]*(?:at|of)?[@^_ -]*(?:k|[2-9]|[1-9][0-9]+)(?![a-z0-9])"
)
"""Metrics over several answers to a question, such as pass@5."""

# Words in names of metrics that are computed over all samples at once, or that describe the spread of scores.
_NOT_MEANS: Final = frozenset(
    _WORDS.findall(
        "auc auroc auprc bits bleu bootstrap bpb calibration cer chrf ci compression corpus correlation count "
        "dispersion ece elo f1 fbeta gmean geometric harmonic kappa kendall lc macro matthews max maximum mcc median "
        "micro min minimum overlap pearson percentile perplexity ppl precision quantile r2 rank rating recall rmse roc "
        "rouge rougel rougelsum sacrebleu spearman std stddev stdev stderr sum ter total var variance weighted wer"
    )
)
_LIKE_ACCURACY: Final = frozenset(
    _WORDS.findall("acc accuracy correct correctness em equiv exact match pass resolved solved success")
)


def compare_score(result: Result, number: int, tally: Tally | None) -> Finding | str | None:
    """Return None if the rows reproduce the score of a result, a finding if not, or why they are not compared."""
    if tally is None or not tally.rows + tally.error_rows:
        return NO_ROWS
    score = float(result.score)
    means = list(_means(tally, result.metric))
    if not math.isfinite(score) or not all(map(math.isfinite, means)):
        return _TOO_LARGE
    tolerance = _tolerance(result.score, result.metric)
    factors = (1, 100) if _is_percentage(result.metric) else (1,)
    if any(abs(mean * factor - score) <= tolerance for mean in means for factor in factors):
        return None
    if _may_be_no_mean(result):
        return NOT_A_MEAN
    rows = tally.rows + tally.error_rows
    message = f"expected the mean of {rows:,} {'row' if rows == 1 else 'rows'}, {means[0]:.6g}, found {result.score}"
    if any(abs(mean * 100 - score) <= tolerance for mean in means):
        message += "; it is 100 times the mean, but max_score is not 100"
    return Finding("pair.score", f"$.evaluation_results[{number}].score_details.score", message)


def _means(tally: Tally, metric: Metric) -> Iterator[float]:
    """Yield the mean by each way of counting, the most usual one first."""
    everything = tally.rows + tally.error_rows
    sums: list[tuple[float, float]] = [(tally.score, tally.error_score)]
    names = metric.metric_id, metric.metric_name, metric.metric_kind, metric.evaluation_description
    if metric.score_type == "binary" or _words_of(names) & _LIKE_ACCURACY:
        sums.append((tally.correct, tally.error_correct))
    for without_errors, of_errors in sums:
        if tally.rows:
            yield without_errors / tally.rows
        if tally.error_rows:
            yield (without_errors + of_errors) / everything
            yield without_errors / everything


def _tolerance(written: str, metric: Metric) -> float:
    """Return by how much the mean may differ from a score, by the decimals that are written."""
    value = Decimal(written)
    least = _LEAST * max(1.0, abs(float(value)))
    if value == value.to_integral_value() and not _is_percentage(metric):
        return least
    exponent = value.as_tuple().exponent
    decimals = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    if abs(value) < 1 and not _is_percentage(metric) and not _is_above_one(metric.max_score):
        decimals = max(decimals, 2)
    # A little more, because 0.125 is rounded to 0.12 or 0.13, and both differ by more than half a unit as doubles.
    return max(least, 0.5 * 10.0**-decimals * (1 + 1e-9) + 1e-12)


def _is_above_one(score: float | str | None) -> bool:
    return isinstance(score, float | int) and score > 1


def _is_percentage(metric: Metric) -> bool:
    unit = (metric.metric_unit or "").lower()
    return metric.max_score == 100 or unit.startswith("percent") or unit == "%"


def _may_be_no_mean(result: Result) -> bool:
    """Return whether the name of a metric says that it may be no mean over samples."""
    metric = result.metric
    names = [metric.metric_id, metric.metric_name, metric.metric_kind]
    if not any(names):
        names = (
            [result.id, metric.evaluation_description] if metric.evaluation_description else [result.id, result.name]
        )
    return bool(_words_of(names) & _NOT_MEANS) or any(_OF_SEVERAL.search(name.lower()) for name in names if name)


def _words_of(names: Iterable[str | None]) -> set[str]:
    """Return the words in some names, with and without the digits after them.

    >>> sorted(_words_of(["ROUGE1", None, "exact_match"]))
    ['exact', 'match', 'rouge', 'rouge1']
    """
    texts = [name.lower() for name in names if name]
    return {word for pattern in (_WORDS, _LETTERS) for text in texts for word in pattern.findall(text)}
