"""The scores of a row of details: one per metric, or one per key of a metric that has several values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastrec.harnesses.lighteval.choices import Choices, pick
from fastrec.harnesses.lighteval.results import Metric
from fastrec.harnesses.log import Score
from fastrec.harnesses.values import number_of, spell
from fastrec.schemas.newest import Output

__all__ = ["scores_of"]

_CORPUS_INPUTS: Final = ({"golds", "preds"}, {"logprobs", "weights"}, {"source", "hyp", "ref"})
"""What lighteval keeps of a sample for a metric that has no scores, only a value for all samples together."""


def scores_of(name: str, value: Any, choices: Choices | None, metrics: Mapping[str, Metric]) -> Iterator[Score]:
    """Yield the scores of a metric: one, or one per key of a dict."""
    metric = metrics.get(name)
    if value is None and metric is not None and not _applies(metric, choices):
        return  # a column that only rows with the other kind of request fill
    if isinstance(value, dict):
        if any(keys <= value.keys() for keys in _CORPUS_INPUTS):
            yield Score(metric=name, value=None, problem=f"{name} has a value for all samples only, not for each")
            return
        parts = {key: part for key, part in value.items() if part is not None}
        if any(number_of(part) is not None for part in parts.values()):
            for key, part in parts.items():
                yield _score(f"{name}:{key}", part, choices, metric)
            return
    yield _score(name, value, choices, metric)


def _score(name: str, value: Any, choices: Choices | None, metric: Metric | None) -> Score:
    number = number_of(value)
    score = Score(metric=name, value=number)
    if number is None:
        shown = spell(value)
        score.problem = (
            f"the log has no value of {name}"
            if value is None
            else f"the value of {name} is not a number: {shown if len(shown) <= 80 else shown[:79] + '…'}"
        )
    if choices is not None:
        picked = pick(choices, name, None if metric is None else metric.normalization, number)
        if picked is not None:
            score.output = Output(raw=[choices.texts[picked]])
            score.metadata = {"choice_index": str(picked)}
    return score


def _applies(metric: Metric, choices: Choices | None) -> bool:
    """Return whether a metric is computed for rows of a kind: of a request for text, or for log-probabilities."""
    if not metric.category:
        return True
    return metric.category.startswith("GENERATIVE") == (choices is None)
