"""The slow path: parse a line strictly and let the arbiter decide. It judges the lines that the fast path refuses."""

from __future__ import annotations

from typing import Any

from fastrec.judge.arbiter import errors_of, is_valid
from fastrec.judge.findings import Finding, in_order
from fastrec.judge.parse import parse
from fastrec.schemas.schema import Schema

__all__ = ["judge_slowly"]

_NO_VALUE = frozenset({"json.utf8", "json.depth", "json.syntax", "json.surrogate"})


def judge_slowly(line: bytes, schema: Schema) -> dict[str, Any] | tuple[Finding, ...]:
    """Judge one line: return the record as a dict, or every reason why the line is not valid."""
    value, flaws = parse(line)
    if flaws:
        # If there is a value, list its schema errors too, so that nobody has to fix the line twice.
        has_value = not any(flaw.code in _NO_VALUE for flaw in flaws)
        return in_order([*flaws, *errors_of(value, schema)] if has_value else flaws)
    if not is_valid(value, schema):
        return errors_of(value, schema)
    record: dict[str, Any] = value
    return record
