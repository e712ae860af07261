"""Rows: what the statistics need to know of a record, small enough to travel with its key.

A row is a plain tuple, made where the record is decoded and added up where it is known to stay; so no record is decoded
twice, and nothing has to be subtracted for copies.
"""

from __future__ import annotations

import math
from typing import Any, Final

from msgspec import UNSET

from fastrec.schemas.registry import DEFAULT_SCHEMA
from fastrec.schemas.v0_2_0 import Record

__all__ = ["Column", "bucket_of", "bucket_value", "number_of", "row_of", "spelled"]

_SCHEMA_NAME: Final = DEFAULT_SCHEMA.name
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_MANTISSA: Final = 64
"""Buckets per power of two: a latency is known to within 1/64, and reported to within 1/128 of itself."""


class Column:
    """The places in a row."""

    SOURCE = 0
    LINE = 1
    INTERACTION_TYPE = 2
    SCHEMA_VERSION = 3
    CORRECT = 4
    SCORE = 5
    ERROR = 6
    TURNS = 7
    TOOL_CALLS = 8
    INPUT_TOKENS = 9
    OUTPUT_TOKENS = 10
    TOTAL_TOKENS = 11
    LATENCY = 12


def row_of(record: Record, source: int, line: int) -> tuple[Any, ...]:
    """Make the row of a record that stands at a line of a source."""
    turns = record.interactions
    evaluation, usage, times = record.evaluation, record.token_usage, record.performance
    score = evaluation.score
    latency = times.latency_ms if times else UNSET
    return (
        source,
        line,
        record.interaction_type,
        None if record.schema_version == _SCHEMA_NAME else record.schema_version,
        evaluation.is_correct,
        score if score.__class__ is float or score.__class__ is bool else spelled(score),  # type: ignore[arg-type]
        bool(record.error),
        len(turns) if turns.__class__ is list else 1,
        sum([len(turn.tool_calls) for turn in turns if turn.tool_calls]) if turns else 0,
        spelled(usage.input_tokens) if usage else None,
        spelled(usage.output_tokens) if usage else None,
        spelled(usage.total_tokens) if usage else None,
        bucket_of(latency) if latency else (0 if latency == 0 else None),
    )


def spelled(number: int) -> int | str:
    """Spell integers beyond 64 bits as text, in which rows can carry them; the parser's long integers become plain."""
    return int(number) if _SMALLEST <= number <= _LARGEST else hex(number)


def number_of(value: int | str) -> int:
    """Return the integer that a row carries."""
    return int(value, 16) if isinstance(value, str) else value


def bucket_of(value: float) -> int:
    """Return the bucket of a positive number: its power of two, and the top six bits of its mantissa."""
    try:
        mantissa, exponent = math.frexp(value)
    except OverflowError:  # an integer beyond a double
        mantissa, exponent = 0.5, 1024
    # 0 is the bucket of zero itself; exponents go down to -1073.
    return (exponent + 1_100) * _MANTISSA + int((mantissa - 0.5) * 2 * _MANTISSA)


def bucket_value(bucket: int) -> float:
    """Return the value of a bucket that is as far from its lowest as from its highest number, relatively."""
    if bucket == 0:
        return 0.0
    exponent, step = divmod(bucket, _MANTISSA)
    low, high = (0.5 + end / (2 * _MANTISSA) for end in (step, step + 1))
    return math.ldexp(2 * low * high / (low + high), exponent - 1_100)
