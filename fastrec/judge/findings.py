"""Findings: errors and warnings about lines, each with a stable code, a JSON path and a message.

A line lists its first hundred errors, and counts the others by code: a hostile line has a million. Findings with the
same code and path are counted in groups, which remember the first message and location, in bounded memory.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from fastrec.errors import FastrecError, shown
from fastrec.judge.codes import CODES, RANK

__all__ = [
    "MOST_ERRORS",
    "NO_VALUE",
    "Errors",
    "Finding",
    "FindingGroup",
    "FindingGroups",
    "InvalidRecordError",
    "Location",
    "Report",
    "describe",
    "first_errors",
    "json_path",
]

MOST_ERRORS: Final = 100
"""Errors of one line that are listed; more are counted by code."""

NO_VALUE: Final = object()
"""The value of an error that is not about a value."""

Report = tuple[str, Sequence[str | int], str, Any]
"""An error as it is found: code, steps to the value, text, and the value, which is described only if it is listed."""

_LONGEST_VALUE: Final = 60
_LONGEST_PATH: Final = 240
_LOCATIONS: Final = 3  # that a group remembers
_MOST_COMMON: Final = 1_000
_INDEX: Final = re.compile(r"\[\d+\]")

_common: dict[Finding, Finding] = {}


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
        """`error`, `warning` or `note`."""
        return CODES[self.code].severity


class Errors(NamedTuple):
    """Why a line is not a valid record."""

    findings: tuple[Finding, ...]
    """The first errors, the most fundamental one first."""
    unlisted: dict[str, int]
    """By code, the number of further errors; usually empty."""
    version: str | None = None
    """The schema version whose errors these are: the one that the line comes closest to; None if it has no value."""


class InvalidRecordError(FastrecError, ValueError):
    """A line is not a valid record.

    `findings` holds the errors, `unlisted` the number of further ones by code, `source` and `line` the location, if
    known, and `version` the schema version whose errors these are, if the line has a value.
    """

    exit_code = 1

    def __init__(
        self,
        findings: tuple[Finding, ...],
        source: str | None = None,
        line: int | None = None,
        unlisted: dict[str, int] | None = None,
        version: str | None = None,
    ) -> None:
        super().__init__(findings, source, line, unlisted, version)
        self.findings = findings
        self.source = source
        self.line = line
        self.unlisted = unlisted or {}
        self.version = version

    def __str__(self) -> str:
        location = "" if self.source is None else f"{shown(self.source)}, line {self.line}: "
        errors = [f"{finding.path}: {finding.message} [{finding.code}]" for finding in self.findings]
        errors += [f"and {count:,} more [{code}]" for code, count in self.unlisted.items()]
        return location + "; ".join(errors) + (f" (judged as {self.version})" if self.version else "")


def first_errors(reports: Iterable[Report], most: int = MOST_ERRORS) -> Errors:
    """List the errors of a line in the order of the table of codes, then by path; count those beyond `most`.

    Of each code the first ones are kept, so the first error of a line is always the most fundamental one.
    """
    counts: dict[str, int] = {}
    kept: set[Finding] = set()
    for code, steps, text, value in reports:
        count = counts[code] = counts.get(code, 0) + 1
        if count <= most:
            message = text if value is NO_VALUE else f"{text}, found {describe(value)}"
            kept.add(_shared(Finding(code, json_path(steps), message)))
    found = sorted(kept, key=_rank)
    unlisted = {code: count - most for code, count in counts.items() if count > most}
    for finding in found[most:]:
        unlisted[finding.code] = unlisted.get(finding.code, 0) + 1
    return Errors(tuple(found[:most]), dict(sorted(unlisted.items(), key=lambda item: RANK[item[0]])))


def _rank(finding: Finding) -> tuple[int, str, str]:
    return RANK[finding.code], finding.path, finding.message


def _shared(finding: Finding) -> Finding:
    """Return an equal finding of an earlier line, if there is one: ten findings are larger than a short line."""
    if len(_common) >= _MOST_COMMON:
        _common.clear()
    return _common.setdefault(finding, finding)


def json_path(steps: Iterable[str | int], *, whole: bool = False) -> str:
    """Return the JSON path of a value; very long keys and paths are shortened unless `whole`.

    >>> json_path(["interactions", 0, "tool_calls", 2, "my key"])
    '$.interactions[0].tool_calls[2]["my key"]'
    """
    path = ["$"]
    for step in steps:
        if isinstance(step, int):
            path.append(f"[{step}]")
            continue
        key = step if whole else _shorten(step)
        path.append(f".{key}" if key.isidentifier() else f"[{json.dumps(key, ensure_ascii=False)}]")
    text = "".join(path)
    if whole or len(text) <= _LONGEST_PATH:
        return text
    return f"{text[: _LONGEST_PATH // 2]}…{text[-_LONGEST_PATH // 2 :]}"


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
    """Findings with the same code, path and version, whatever the indices in the path."""

    code: str
    """The code."""
    path: str
    """The JSON path of the first one, such as `$.evaluation.score`."""
    message: str
    """The message of the first one: what was expected, and what was found."""
    severity: str
    """`error`, `warning` or `note`."""
    count: int
    """How many there are."""
    locations: list[Location]
    """The first three lines with one."""
    version: str | None = None
    """The schema version whose errors these are; null for warnings and notes, and for lines without a value."""


class FindingGroups(msgspec.Struct):
    """Counts of findings by code, and by code, path and version. Further groups than `limit` are not remembered."""

    limit: int
    codes: Counter[str] = msgspec.field(default_factory=Counter)
    groups: dict[tuple[str, str, str | None], FindingGroup] = msgspec.field(default_factory=dict)

    def add(self, finding: Finding, location: Location, version: str | None = None) -> FindingGroup | None:
        """Count a finding, and remember its location if it is among the first; return its group, if there is one."""
        self.codes[finding.code] += 1
        return self._add(finding, 1, [location], version)

    def merge(self, other: FindingGroups, line_base: int = 0) -> None:
        """Add the groups of lines that come later, with `line_base` added to their line numbers."""
        self.codes += other.codes
        for group in other.groups.values():
            first = Finding(group.code, group.path, group.message)
            locations = [Location(one.source, line_base + one.line) for one in group.locations]
            self._add(first, group.count, locations, group.version)

    def _add(self, finding: Finding, count: int, locations: list[Location], version: str | None) -> FindingGroup | None:
        kind = finding.code, _INDEX.sub("[]", finding.path), version
        group = self.groups.get(kind)
        if group is None:
            if len(self.groups) >= self.limit:
                return None
            group = FindingGroup(finding.code, finding.path, finding.message, finding.severity, 0, [], version)
            self.groups[kind] = group
        group.count += count
        if len(group.locations) < _LOCATIONS:
            new = [location for location in locations if location not in group.locations]
            group.locations += new[: _LOCATIONS - len(group.locations)]
        return group

    def in_order(self) -> list[FindingGroup]:
        """List the groups, errors first, then the most frequent first."""
        return sorted(self.groups.values(), key=_group_rank)


def _group_rank(group: FindingGroup) -> tuple[str, int, str, str, str]:
    return group.severity, -group.count, group.code, group.path, group.version or ""
