"""The scores of a sample of lm-eval: one per metric, named by metric and filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET

from fastrec.harnesses.lm_eval.aggregates import metric_id
from fastrec.harnesses.lm_eval.setup import TaskSetup
from fastrec.harnesses.log import Score
from fastrec.harnesses.values import number_of, spell

__all__ = ["ScoreReader"]

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
        fields = [(metric, self._attributes.get(metric, ""), metric_id(metric, name)) for metric in metrics]
        if all(attribute for _, attribute, _ in fields):
            self._fields[name] = list(metrics), fields
        return fields

    def _with_parts(self, row: Any, name: str, fields: Sequence[tuple[str, str, str]]) -> tuple[list[str], list[Score]]:
        """Return the scores of a sample of which one has several parts: each is a score of its own."""
        names, scores = [], []
        for metric, attribute, result_id in fields:
            value = getattr(row, attribute, UNSET)
            parts = (
                {metric_id(f"{metric}:{key}", name): part for key, part in value.items()}
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
