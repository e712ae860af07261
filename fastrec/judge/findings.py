"""Findings about a line: errors and warnings, each with a stable code, a JSON path and a message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from fastrec.judge.codes import CODES, RANK

__all__ = ["Finding", "InvalidLine", "describe", "in_order", "json_path", "too_long"]

_LONGEST_VALUE = 60


class Finding(msgspec.Struct, frozen=True):
    """One error or warning."""

    code: str
    """The code."""
    path: str
    """The JSON path in the record, such as `$.evaluation.score`."""
    message: str
    """What was expected, and what was found."""

    @property
    def severity(self) -> str:
        """`error` or `warning`."""
        return CODES[self.code].severity


class InvalidLine(msgspec.Struct, frozen=True):
    """A line that is not a valid record, with every reason."""

    line: int
    """Number of the line, counted as the chunk's first line is."""
    offset: int
    """Offset of the line's first byte in the shard's text."""
    findings: tuple[Finding, ...]
    """Every error, the most fundamental one first."""
    raw: bytes
    """The line's exact bytes, without its newline."""
    truncated: bool = False
    """The line was too long to be held: `raw` is only its head."""


def too_long(length: int, limit: int) -> Finding:
    """Make the finding of a line that is longer than the limit."""
    return Finding("line.too_long", "$", f"expected at most {limit:,} bytes in a line, found {length:,}")


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by the order of the table of codes, then by path, and drop equal ones."""
    return tuple(sorted(set(findings), key=lambda finding: (RANK[finding.code], finding.path, finding.message)))


def json_path(steps: Iterable[str | int], *, whole: bool = False) -> str:
    """Return the JSON path of a value; very long keys are shortened unless `whole`.

    >>> json_path(["interactions", 0, "tool_calls", 2, "my key"])
    '$.interactions[0].tool_calls[2]["my key"]'
    """
    path = ["$"]
    for step in steps:
        if isinstance(step, int):
            path.append(f"[{step}]")
        elif step.isidentifier():
            path.append(f".{step}")
        else:
            path.append(f"[{json.dumps(step if whole else _shorten(step), ensure_ascii=False)}]")
    return "".join(path)


def describe(value: Any) -> str:
    """Describe a JSON value in a few words, however long it is.

    >>> describe({"a": 1}), describe("x" * 100_000), describe(None), describe(1.5)
    ('an object with 1 key', 'the string "xxxxxxxxxxxxxxxxxxxx…" of 100,000 characters', 'null', 'the number 1.5')
    """
    if isinstance(value, dict):
        return f"an object with {len(value):,} {'key' if len(value) == 1 else 'keys'}"
    if isinstance(value, list):
        return f"an array of {len(value):,} {'item' if len(value) == 1 else 'items'}"
    if isinstance(value, str):
        spelled = json.dumps(_shorten(value), ensure_ascii=False)
        return f"the string {spelled}" + (f" of {len(value):,} characters" if len(value) > _LONGEST_VALUE else "")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > 200:
        return f"the integer of about {int(value.bit_length() * 0.30103) + 1:,} digits"
    return f"the {'integer' if isinstance(value, int) else 'number'} {value!r}"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[:20] + "…"
