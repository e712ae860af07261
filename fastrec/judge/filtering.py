"""Which valid records the filters leave out: the judge asks twice.

1. As soon as a line is a valid record of some version: by its names and its outcome. A record that is left out here is
   not upgraded, hashed or encoded, and its `sample_hash` is not verified.
2. When its `sample_hash` is known, which depends on the target.

A filter does not change the verdict about other lines: an invalid line is rejected whatever its fields say.

A record of a later version than the target counts for the choice of the target (`normalize.targets`), so it is asked
about as what it would be in the newest version. There, its metric may come from an unknown key.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec import UNSET

from fastrec.filters import Filters
from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.schemas.schema import Schema

__all__ = ["LeftOut", "RecordFilter"]

_METRIC: Final = "evaluation_result_id"
_MOST_KNOWN: Final = 100_000  # names whose verdicts are remembered


class LeftOut(NamedTuple):
    """The names of a record that the filters leave out."""

    evaluation_name: str
    metric: str
    """Empty if it has none."""
    model_id: str


class RecordFilter:
    """Filters records of all versions, as Structs on the fast path and as dicts on the slow one."""

    def __init__(self, filters: Filters, target: Schema) -> None:
        self._filters = filters
        self._target = target
        self._known: dict[LeftOut, bool] = {}
        self.chooses_hashes: Final = bool(filters.hash)
        """Whether the second question matters."""

    def has_metrics(self, schema: Schema) -> bool:
        """Return whether records of a version may have a metric in the corpus."""
        return not (schema is DEFAULT_SCHEMA and self._target is DEFAULT_SCHEMA)

    def leaves_out(self, record: Any, has_metrics: bool) -> LeftOut | None:
        """Ask the first question; None if the record stays. `has_metrics` is that of its version."""
        return self._leaves_out(
            record.evaluation_name,
            getattr(record, _METRIC, UNSET) if has_metrics else UNSET,
            record.model_id,
            record.sample_id,
            is_correct=record.evaluation.is_correct,
            error=record.error,
        )

    def leaves_out_value(self, value: dict[str, Any], schema: Schema) -> LeftOut | None:
        """Ask the first question about a valid record of a version, as it was parsed."""
        sample_id = value["sample_id"]
        return self._leaves_out(
            value["evaluation_name"],
            value.get(_METRIC) if self.has_metrics(schema) else UNSET,
            value["model_id"],
            int(sample_id) if type(sample_id) is float else sample_id,  # 1.0 is an integer in JSON Schema
            is_correct=value["evaluation"]["is_correct"],
            error=value.get("error", UNSET),
        )

    def _leaves_out(
        self, evaluation: str, metric: Any, model: str, sample_id: int | str, *, is_correct: bool, error: Any
    ) -> LeftOut | None:
        filters, names = self._filters, LeftOut(evaluation, metric if isinstance(metric, str) else "", model)
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

    def leaves_out_hash(self, record: Any) -> LeftOut | None:
        """Ask the second question; None if the record stays."""
        if self._filters.accepts_hash(record.sample_hash):
            return None
        metric = getattr(record, _METRIC, UNSET)
        return LeftOut(record.evaluation_name, metric if isinstance(metric, str) else "", record.model_id)

    def leaves_out_normal(self, normal: dict[str, Any]) -> LeftOut | None:
        """Ask the second question about a normal form."""
        if self._filters.accepts_hash(normal["sample_hash"]):
            return None
        metric = normal.get(_METRIC)  # in 0.2.0, an unknown key of any type
        return LeftOut(normal["evaluation_name"], metric if isinstance(metric, str) else "", normal["model_id"])
