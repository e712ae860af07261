"""Findings: errors and warnings about lines, each with a stable code, a JSON path and a message.

Equal findings are counted in groups, which remember where the first ones are, in bounded memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fastrec.errors import FastrecError, shown
from fastrec.judge.codes import CODES, RANK

__all__ = [
    "Finding",
    "FindingGroup",
    "FindingGroups",
    "InvalidRecordError",
    "Location",
    "describe",
    "in_order",
    "json_path",
]

_LONGEST_VALUE: Final = 60
_LOCATIONS: Final = 3  # that a group remembers


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


class InvalidRecordError(FastrecError, ValueError):
    """A line is not a valid record; `findings` holds every reason, `source` and `line` the location, if known."""

    exit_code = 1

    def __init__(self, findings: tuple[Finding, ...], source: str | None = None, line: int | None = None) -> None:
        super().__init__(findings, source, line)
        self.findings = findings
        self.source = source
        self.line = line

    def __str__(self) -> str:
        location = "" if self.source is None else f"{shown(self.source)}, line {self.line}: "
        return location + "; ".join(f"{finding.path}: {finding.message} [{finding.code}]" for finding in self.findings)


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


class Location(msgspec.Struct, frozen=True):
    """A line of a shard."""

    source: str
    """The shard."""
    line: int
    """Number of the line in the shard, from 1."""


class FindingGroup(msgspec.Struct):
    """Equal findings."""

    code: str
    """The code."""
    path: str
    """The JSON path in the record, such as `$.evaluation.score`."""
    message: str
    """What was expected, and what was found."""
    severity: str
    """`error` or `warning`."""
    count: int
    """How many there are."""
    locations: list[Location]
    """Where the first three are."""


class FindingGroups(msgspec.Struct):
    """Counts of findings by code, and groups of equal findings. Further groups than `limit` are not remembered."""

    limit: int
    codes: Counter[str] = msgspec.field(default_factory=Counter)
    groups: dict[Finding, FindingGroup] = msgspec.field(default_factory=dict)

    def add(self, finding: Finding, location: Location) -> None:
        """Count a finding, and remember its location if it is among the first."""
        self.codes[finding.code] += 1
        self._add(finding, 1, [location])

    def merge(self, other: FindingGroups, line_base: int = 0) -> None:
        """Add the groups of lines that come later, with `line_base` added to their line numbers."""
        self.codes += other.codes
        for finding, group in other.groups.items():
            self._add(finding, group.count, [Location(one.source, line_base + one.line) for one in group.locations])

    def _add(self, finding: Finding, count: int, locations: list[Location]) -> None:
        group = self.groups.get(finding)
        if group is None:
            if len(self.groups) >= self.limit:
                return
            group = FindingGroup(finding.code, finding.path, finding.message, finding.severity, 0, [])
            self.groups[finding] = group
        group.count += count
        group.locations += locations[: _LOCATIONS - len(group.locations)]

    def in_order(self) -> list[FindingGroup]:
        """List the groups, errors first, then the most frequent first."""
        return sorted(self.groups.values(), key=lambda group: (group.severity, -group.count, group.code, group.path))
