"""The scores of a sample of lm-eval: one per metric, named by metric and filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET

from fastrec.harnesses.lm_eval.aggregates import metric_id
from fastrec.harnesses.lm_eval.setup import TaskSetup
from fastrec.harnesses.log import Score
from fastrec.harnesses.values import number_of, spell

__all__ = ["Scores"]

_SHOWN: Final = 60  # characters of a value in an error
_NOT_FINITE: Final = frozenset({"nan", "inf", "-inf", "infinity", "-infinity"})


class Scores:
    """Finds the scores of samples.

    Samples name their filter and metrics since November 2024. Before, metrics are all keys that are not known to be
    something else. The filter follows from the order: a document has one sample per filter, and the filters have an
    order.
    """

    def __init__(self, setup: TaskSetup, attributes: Mapping[str, str]) -> None:
        self._setup = setup
        self._attributes = attributes
        self._ids: dict[tuple[str, str], str] = {}
        self._seen: dict[int | str, int] = {}

    def of(self, row: Any) -> tuple[str, list[str], list[Score]]:
        """Return the filter of a sample, empty if it is unknown, and its scores, each with the name of its metric."""
        name = row.filter
        if name is None:
            name = self._filter_by_order(row.doc_id)
        metrics = row.metrics
        if metrics is None:
            metrics = [metric for metric in self._attributes if self._is_metric(row, metric)]
        names, scores = [], []
        for metric in metrics:
            attribute = self._attributes.get(metric)
            value = UNSET if attribute is None else getattr(row, attribute)
            if value.__class__ is dict:
                parts = [Score(metric=self._id(f"{metric}:{key}", name), **_valued(one)) for key, one in value.items()]
                if parts:
                    scores += parts
                    names += [metric] * len(parts)
                    continue
            names.append(metric)
            if value.__class__ is float and value - value == 0:  # the usual case, and finite
                scores.append(Score(metric=self._id(metric, name), value=value))
            else:
                scores.append(Score(metric=self._id(metric, name), **_valued(value)))
        return name, names, scores

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

    def _id(self, metric: str, name: str) -> str:
        found = self._ids.get((metric, name))
        if found is None:
            found = self._ids[metric, name] = metric_id(metric, name)
        return found


def _valued(value: Any) -> dict[str, Any]:
    """Return the value of a score, or why it has none."""
    number = None if value is UNSET else number_of(value)
    return {"value": number} if number is not None else {"value": None, "problem": _problem(value)}


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
