"""The slow path: what the fast path refused is parsed strictly and judged by the arbiter, whose word is final."""

from __future__ import annotations

from typing import Any

from fastrec.judge.arbiter import errors_of, is_valid
from fastrec.judge.findings import Finding, in_order
from fastrec.judge.parse import parse
from fastrec.schemas.schema import Schema

__all__ = ["judge_slowly"]

_NO_VALUE = frozenset({"json.utf8", "json.depth", "json.syntax", "json.surrogate"})


def judge_slowly(line: bytes, schema: Schema) -> dict[str, Any] | tuple[Finding, ...]:
    """Judge one line: the record as a dict, or every reason why it is not valid."""
    value, flaws = parse(line)
    if flaws:
        # The schema is asked too where there is a value to ask about: a line should not have to be mended twice.
        askable = not any(flaw.code in _NO_VALUE for flaw in flaws)
        return in_order([*flaws, *errors_of(value, schema)] if askable else flaws)
    if not is_valid(value, schema):
        return errors_of(value, schema)
    record: dict[str, Any] = value
    return record
