"""Filter valid records. The judge applies the filters at two points.

1. As soon as a line is a valid record of some version: by its names and its outcome. A record that is filtered out here
   is not upgraded, hashed or encoded, and its `sample_hash` is not verified.
2. When its `sample_hash` is known, which depends on the target.

Filters do not change the verdict about a line: an invalid line is rejected whatever its fields say.

A record of a later version than the target counts for the choice of the target (`normalize.targets`). So it is filtered
as the record that it would be in the newest version, where its metric may come from an unknown key.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import UNSET

from fastrec.filters import Filters
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.schemas.schema import Schema

__all__ = ["FilteredOut", "RecordFilter"]

_METRIC: Final = "evaluation_result_id"
_MOST_KNOWN: Final = 100_000  # names whose verdicts are remembered


class FilteredOut(NamedTuple):
    """The names of a record that the filters remove."""

    evaluation_name: str
    metric: str
    """Empty if it has none."""
    model_id: str


class RecordFilter:
    """Filters records of all versions, as Structs on the fast path and as dicts on the slow one."""

    def __init__(self, filters: Filters, target: Schema) -> None:
        self._filters = filters
        self._target = target
        self._known: dict[FilteredOut, bool] = {}
        self.chooses_hashes: Final = bool(filters.hash)
        """Whether `filters_out_hash` and `filters_out_normal` can return anything but None."""

    def has_metrics(self, schema: Schema) -> bool:
        """Return whether records of a version may have a metric in the corpus."""
        return not (schema is DEFAULT_SCHEMA and self._target is DEFAULT_SCHEMA)

    def filters_out(self, record: Any, has_metrics: bool) -> FilteredOut | None:
        """Filter a record by names and outcome; None if it stays. `has_metrics` is that of its version."""
        return self._filters_out(
            record.evaluation_name,
            getattr(record, _METRIC, UNSET) if has_metrics else UNSET,
            record.model_id,
            record.sample_id,
            is_correct=record.evaluation.is_correct,
            error=record.error,
        )

    def filters_out_value(self, value: dict[str, Any], schema: Schema) -> FilteredOut | None:
        """Do the same with a valid record of a version, as it was parsed."""
        sample_id = value["sample_id"]
        return self._filters_out(
            value["evaluation_name"],
            value.get(_METRIC) if self.has_metrics(schema) else UNSET,
            value["model_id"],
            int(sample_id) if type(sample_id) is float else sample_id,  # 1.0 is an integer in JSON Schema
            is_correct=value["evaluation"]["is_correct"],
            error=value.get("error", UNSET),
        )

    def _filters_out(
        self, evaluation: str, metric: Any, model: str, sample_id: int | str, *, is_correct: bool, error: Any
    ) -> FilteredOut | None:
        filters, names = self._filters, FilteredOut(evaluation, metric if isinstance(metric, str) else "", model)
        stays = self._known.get(names)
        if stays is None:
            stays = (
                filters.accepts_evaluation(evaluation)
                and filters.accepts_metric(names.metric)
                and filters.accepts_model(model)
            )
            if len(self._known) < _MOST_KNOWN:
                self._known[names] = stays
        if (
            stays
            and filters.accepts_sample_id(sample_id)
            and filters.accepts_outcome(is_correct=is_correct, has_error=error is not UNSET and bool(error))
        ):
            return None
        return names

    def filters_out_hash(self, record: Any) -> FilteredOut | None:
        """Filter a record by its `sample_hash`; None if it stays."""
        if self._filters.accepts_hash(record.sample_hash):
            return None
        metric = getattr(record, _METRIC, UNSET)
        return FilteredOut(record.evaluation_name, metric if isinstance(metric, str) else "", record.model_id)

    def filters_out_normal(self, normal: dict[str, Any]) -> FilteredOut | None:
        """Do the same with a normal form."""
        if self._filters.accepts_hash(normal["sample_hash"]):
            return None
        metric = normal.get(_METRIC)  # in 0.2.0, an unknown key of any type
        return FilteredOut(normal["evaluation_name"], metric if isinstance(metric, str) else "", normal["model_id"])
