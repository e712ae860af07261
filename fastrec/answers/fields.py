"""The values of a field in the records of a part, without reading its text: a column has them.

A condition or a group is evaluated once for each distinct value. A field without a column, and one whose spelling
matters but is not in the column (`1` or `1.0`), is read from the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import numpy as np

from fastrec.corpus.columns import METADATA, PartColumns
from fastrec.judge.parse import LongInteger
from fastrec.where import Condition, GroupBy, values_of

Array = np.ndarray[Any, Any]

_NAMES: Final = {
    "evaluation_name": "evaluation",
    "evaluation_result_id": "metric",
    "model_id": "model",
    "evaluation_id": "run",
    "sample_hash": "hash",
    "sample_id": "sample_id",
    "interaction_type": "interaction_type",
    "schema_version": "schema_version",
}
"""Columns with codes, by field."""
_COUNTS: Final[dict[tuple[str, ...], str]] = {
    ("turns",): "turns",
    ("tool_calls",): "tool_calls",
    ("response", "characters"): "response_characters",
    ("token_usage", "input_tokens"): "input_tokens",
    ("token_usage", "output_tokens"): "output_tokens",
    ("token_usage", "total_tokens"): "total_tokens",
}
_MEASURES: Final[dict[tuple[str, ...], str]] = {
    ("evaluation", "score"): "score",
    ("performance", "latency_ms"): "latency_ms",
}
"""Columns that do not have the spelling of a number."""


class Field(NamedTuple):
    """The values of a field in some records."""

    codes: Array  # of each record
    values: list[list[Any]]  # by code: what `where.values_of` finds in the record

    def matches(self, condition: Condition) -> Array:
        """Whether each record fulfils a condition."""
        by_code = [any(map(condition.holds, found)) is not condition.negated for found in self.values]
        return np.array(by_code, dtype=np.bool_)[self.codes]


def sample_ids(columns: PartColumns) -> list[int | str]:
    """The `sample_id` of each code."""
    return list(map(_sample_id, columns.values("sample_id")))


def _sample_id(value: int | str | Mapping[str, str]) -> int | str:
    return _long_integer(int(value["integer"], 16)) if isinstance(value, Mapping) else value


def _long_integer(value: int) -> int:
    if -(1 << 63) <= value < 1 << 64:
        return value
    integer = LongInteger(value)
    integer.text = f"{Decimal(value):f}"
    return integer


def field_for_condition(columns: PartColumns, condition: Condition) -> Field | None:
    """The values of the field of a condition; None if the text has to be read."""
    path = condition.path
    if path == ("error",) and condition.operator != "?":
        return None
    if path in _MEASURES and not (condition.by_number or condition.operator == "?"):
        return None
    return _field(columns, path)


def field_for_group(columns: PartColumns, group: GroupBy) -> Field | None:
    """The values of the field of a group; None if the text has to be read."""
    if group.path == ("error",) or (group.path in _MEASURES and not group.bins):
        return None
    return _field(columns, group.path)


def _field(columns: PartColumns, path: tuple[str, ...]) -> Field | None:
    if len(path) == 1 and path[0] in _NAMES:
        name = _NAMES[path[0]]
        values: list[Any] = sample_ids(columns) if name == "sample_id" else columns.values(name)
        return Field(columns.numbers(name), [[] if one is None else [one] for one in values])
    if path == ("error",):
        return Field(columns.numbers("error"), [[], ["error"]])
    if path == ("evaluation", "is_correct"):
        return Field(columns.numbers("correct"), [[False], [True]])
    if path in _COUNTS or path in _MEASURES:
        return _numbers(columns, {**_COUNTS, **_MEASURES}[path])
    if len(path) > 1 and path[0] == "metadata" and METADATA + path[1] in columns.frames:
        name = METADATA + path[1]
        records = [{} if one is None else {"metadata": {path[1]: one}} for one in columns.values(name)]
        records[0] = {}  # the records without this key
        return Field(columns.numbers(name), [list(values_of(one, path)) for one in records])
    if len(path) > 1 and path[0] == "metadata" and columns.lacks(path[1]):
        return Field(np.zeros(columns.records, dtype=np.uint8), [[]])
    return None


def _numbers(columns: PartColumns, name: str) -> Field:
    numbers = columns.numbers(name)
    distinct, codes = np.unique(numbers, return_inverse=True)
    values: list[list[Any]] = [[number] for number in distinct.tolist()]
    absent: Array | None = None
    if name.endswith("_tokens"):
        absent = columns.numbers("has_tokens") == 0
    elif name == "latency_ms":
        absent = np.isnan(numbers)
    if absent is not None:
        codes[absent] = len(values)
        values.append([])
    for position, exact in columns.exact(name).items():
        codes[position] = len(values)
        values.append([_long_integer(exact)])
    return Field(codes, values)
