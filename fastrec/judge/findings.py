"""Findings: errors and warnings about lines, each with a stable code, a JSON path and a message.

Codes are part of the interface: scripts match them, and summaries count by them. A code is never
renamed or reused; a new reason gets a new row. The findings of a line are sorted by the order of
the rows, so the first error of a line, which the summary counts it by, is always the most
fundamental one.

A line lists its first hundred errors, and counts the others by code: a hostile line has a million.
Findings with the same code and path are counted in groups, which remember the first message and
location, in bounded memory.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import msgspec
from msgspec import UNSET, Struct

from fastrec.build import package
from fastrec.errors import FastrecError, counted, shown
from fastrec.limits import current_limits
from fastrec.schemas.registry import SCHEMAS
from fastrec.schemas.schema import LABELS, Schema
from fastrec.schemas.view import NO_COUNTS

# Codes with their meanings, most of them from `codes.json`.

_Meanings = dict[str, str]  # by code
_TABLES = msgspec.json.decode(package().joinpath("judge", "codes.json").read_bytes())

ERRORS: _Meanings = {
    **_TABLES["line_errors"],
    # The conditional rules of every schema version; versions may share a rule.
    **{rule.code: rule.message for schema in SCHEMAS.values() for rule in schema.rules},
    **_TABLES["record_errors"],
}
WARNINGS: _Meanings = _TABLES["warnings"]
REPAIRS: _Meanings = _TABLES["repairs"]  # what `--repair` does to records
# What upgrades do that loses or may confuse something.
UPGRADES: _Meanings = _TABLES["upgrades"]
# Changes to valid records. They are no mistakes that are left, but the record differs from its
# line.
NOTES = UPGRADES | REPAIRS
# What `check-pairs` finds: about pairs, and about names of files and folders.
PAIRS: _Meanings = _TABLES["pairs"]
PAIR_WARNINGS: list[str] = _TABLES["pair_warnings"]
CODES = ERRORS | WARNINGS | NOTES | PAIRS  # The meanings of all codes.


def severity_of(code: str) -> str:
    if code in WARNINGS or code in PAIR_WARNINGS:
        return "warning"
    return "note" if code in NOTES else "error"


_RANK = {code: rank for rank, code in enumerate(CODES)}


MOST_ERRORS = 100  # errors of one line that are listed; more are counted by code

NO_VALUE = object()  # the value of an error that is not about a value

# An error as it is found: code, steps to the value, text, and the value, which is described only
# if it is listed.
Report = tuple[str, Sequence[str | int], str, Any]

_LONGEST_VALUE = 60
_LONGEST_PATH = 240
_LOCATIONS = 3  # that a group remembers
_MOST_COMMON = 1_000
_INDEX = re.compile(r"\[\d+\]")


class Finding(Struct, frozen=True):
    """One error or warning."""

    #: The code.
    code: str
    #: The JSON path in the record, such as `$.evaluation.score`.
    path: str
    #: What was expected, and what was found.
    message: str

    @property
    def severity(self) -> str:
        """`error`, `warning` or `note`."""
        return severity_of(self.code)


Findings = tuple[Finding, ...]


class Errors(NamedTuple):
    """Why a line is not a valid record."""

    findings: Findings  # The first errors, the most fundamental one first.
    unlisted: dict[str, int]  # By code, the number of further errors; usually empty.
    # The schema version whose errors these are: the one that the line comes closest to; None if it
    # has no value.
    version: str | None = None


class InvalidRecordError(FastrecError, ValueError):
    """A line is not a valid record.

    `findings` holds the errors, `unlisted` the number of further ones by code, `source` and `line`
    the location, if known, and `version` the schema version whose errors these are, if the line has
    a value.
    """

    exit_code = 1
    findings: Findings
    source: str | None = None
    line: int | None = None
    unlisted: dict[str, int] = {}
    version: str | None = None

    def __str__(self) -> str:
        location = "" if self.source is None else f"{shown(self.source)}, line {self.line}: "
        errors = [
            f"{finding.path}: {finding.message} [{finding.code}]" for finding in self.findings
        ]
        errors += [f"and {count:,} more [{code}]" for code, count in self.unlisted.items()]
        return (
            location + "; ".join(errors) + (f" (judged as {self.version})" if self.version else "")
        )


# Equal findings of many lines are one object: ten findings are larger than a short line.
_shared_finding = lru_cache(_MOST_COMMON)(Finding)


def first_errors(reports: Iterable[Report], most: int = MOST_ERRORS) -> Errors:
    """List the errors of a line in the order of the table of codes, then by path.

    Count those beyond `most`.

    Of each code the first ones are kept, so the first error of a line is always the most
    fundamental one.
    """
    counts = Counter[str]()
    kept = set()
    for code, steps, text, value in reports:
        counts[code] += 1
        if counts[code] <= most:
            message = text if value is NO_VALUE else f"{text}, found {describe(value)}"
            kept.add(_shared_finding(code, json_path(steps), message))
    findings = sorted(
        kept, key=lambda finding: (_RANK[finding.code], finding.path, finding.message)
    )
    unlisted = Counter({code: count - most for code, count in counts.items() if count > most})
    unlisted.update(finding.code for finding in findings[most:])
    in_order = {code: unlisted[code] for code in sorted(unlisted, key=_RANK.__getitem__)}
    return Errors(tuple(findings[:most]), in_order)


def json_path(steps: Iterable[str | int], *, whole: bool = False) -> str:
    """Spell the JSON path of a value; very long keys and paths are shortened unless `whole`.

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

    >>> describe({"a": 1}), describe(None), describe(1.5)
    ('an object with 1 key', 'null', 'the number 1.5')
    >>> describe("x" * 100_000)
    'the string "xxxxxxxxxxxxxxxxxxxx…" of 100,000 characters'
    """
    if isinstance(value, dict):
        return f"an object with {counted(value, 'key')}"
    if isinstance(value, list):
        return f"an array of {counted(value, 'item')}"
    if isinstance(value, str):
        spelled = json.dumps(_shorten(value), ensure_ascii=False)
        return f"the string {spelled}" + (
            f" of {len(value):,} characters" if len(value) > _LONGEST_VALUE else ""
        )
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int) and value.bit_length() > 200:
        return f"the integer of about {int(value.bit_length() * 0.30103) + 1:,} digits"
    return f"the {'integer' if isinstance(value, int) else 'number'} {value!r}"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[:20] + "…"


# Warnings: likely mistakes in valid records. They never change a verdict.


def warnings_of(
    record: Any, schema: Schema, label: str, source: Schema, *, wrong_hash: bool
) -> Iterator[Finding]:
    """Yield the warnings about a valid record of a version.

    Its line had this label, and was of the version `source`.

    `wrong_hash` says that no recipe gives its `sample_hash`. This is one pass without calls,
    because most records give no reason for a warning: a function for each code takes three times as
    long.
    """
    unanswered = []  # turns with the id of no earlier tool call
    field = schema.turns_field
    last = 0
    if record.interaction_type != "single_turn":
        turns = getattr(record, field)
        path = "$.evaluation.num_turns"
        given = record.evaluation.num_turns
        size = len(turns)
        call_count = 0
        ids = set()
        gap = -1
        if given is UNSET or given is None:
            yield Finding(
                "warn.num_turns_missing", path, f"missing; the number of turns is {size:,}"
            )
        elif given != size:
            message = f"expected the number of turns, {size:,}, found {describe(given)}"
            yield Finding("warn.num_turns", path, message)
        for index, turn in enumerate(turns):
            if turn.turn_idx != index and gap < 0:
                gap = index  # it shifts all later turns
            if calls := turn.tool_calls:
                call_count += len(calls)
                for call in calls:
                    ids.add(call.id)
            answered = turn.tool_call_id
            if (
                answered not in ids
                if type(answered) is str
                else answered and not ids.issuperset(answered)
            ):
                unanswered.append(index)  # one warning per turn: an array may have a million ids
        given = record.evaluation.tool_calls_count
        last = max(size - 1, 0)
        if given is not UNSET and given is not None and given != call_count:
            message = f"expected the number of tool calls, {call_count:,}, found {describe(given)}"
            yield Finding("warn.tool_calls_count", "$.evaluation.tool_calls_count", message)
        if gap >= 0:
            message = f"expected {gap}, found {describe(turns[gap].turn_idx)}"
            yield Finding("warn.turn_idx", f"$.{field}[{gap}].turn_idx", message)
    for index, attribution in enumerate(record.answer_attribution):
        if attribution.turn_idx > last:
            path = f"$.answer_attribution[{index}].turn_idx"
            message = (
                f"expected at most the last turn, {last}, found {describe(attribution.turn_idx)}"
            )
            yield Finding("warn.attribution_turn", path, message)
    for index in unanswered:
        path = f"$.{field}[{index}].tool_call_id"
        yield Finding("warn.tool_call_id", path, "not the id of an earlier tool call")
    usage = record.token_usage
    if usage and usage.total_tokens != usage.input_tokens + usage.output_tokens:
        message = "not the sum of input_tokens and output_tokens"
        yield Finding("warn.total_tokens", "$.token_usage.total_tokens", message)
    if wrong_hash:
        yield Finding(
            "warn.sample_hash", "$.sample_hash", "not a hash of input.raw and input.reference"
        )
    if label not in source.labels:
        code = label_code(label)
        problem = (
            "not a known version"
            if code == "version.unknown"
            else "the record follows another version"
        )
        expected = f"expected {' or '.join(sorted(source.labels))}, found {describe(label)}"
        yield Finding(code, "$.schema_version", f"{problem}: {expected}")


# The warning about a valid record that has the turns of another version, too; only the slow path
# sees them.
OTHER_TURNS = Finding(
    "version.other_turns", "$.messages", "an unknown key beside the turns in `interactions`"
)


def label_code(label: str) -> str:
    """The code of a `schema_version` that is not one of the version that the record follows."""
    return "version.mismatch" if label in LABELS else "version.unknown"


class Location(Struct, frozen=True):
    """A line of a shard."""

    #: The shard.
    source: str
    #: Number of the line in the shard, from 1.
    line: int


class FindingGroup(Struct):
    """Findings with the same code, path and version, whatever the indices in the path."""

    #: The code.
    code: str
    #: The JSON path of the first, such as `$.evaluation.score`.
    path: str
    #: What was expected and found in the first.
    message: str
    #: `error`, `warning` or `note`.
    severity: str
    #: How many there are.
    count: int
    #: The first three lines.
    locations: list[Location]
    #: The schema version of the errors; null for warnings, notes, and lines without a value.
    version: str | None = None


class FindingGroups(Struct):
    """Counts of findings by code, and by code, path and version.

    Further groups than `limit` are not remembered.
    """

    limit: int = msgspec.field(default_factory=lambda: current_limits().finding_groups)
    codes: Counter[str] = NO_COUNTS
    groups: dict[tuple[str, str, str | None], FindingGroup] = {}

    def add(
        self, finding: Finding, source: str, line: int, version: str | None = None
    ) -> FindingGroup | None:
        """Count a finding, and remember its location if it is among the first.

        Return its group, if there is one.
        """
        self.codes[finding.code] += 1
        return self._add(finding, 1, [Location(source, line)], version)

    def merge(self, other: FindingGroups, line_base: int = 0) -> None:
        """Add the groups of lines that come later, with `line_base` added to their line numbers."""
        self.codes += other.codes
        for group in other.groups.values():
            first = Finding(group.code, group.path, group.message)
            locations = [Location(at.source, line_base + at.line) for at in group.locations]
            self._add(first, group.count, locations, group.version)

    def _add(
        self, finding: Finding, count: int, locations: list[Location], version: str | None
    ) -> FindingGroup | None:
        kind = finding.code, _INDEX.sub("[]", finding.path), version
        group = self.groups.get(kind)
        if not group:
            if len(self.groups) >= self.limit:
                return None
            group = FindingGroup(
                finding.code, finding.path, finding.message, finding.severity, 0, [], version
            )
            self.groups[kind] = group
        group.count += count
        if len(group.locations) < _LOCATIONS:
            new = [location for location in locations if location not in group.locations]
            group.locations += new[: _LOCATIONS - len(group.locations)]
        return group

    def in_order(self) -> list[FindingGroup]:
        """List the groups, errors first, then the most frequent first."""
        return sorted(
            self.groups.values(),
            key=lambda group: (
                group.severity,
                -group.count,
                group.code,
                group.path,
                group.version or "",
            ),
        )


class SliceFindings(Struct):
    """Counts and findings of one slice, or of several slices of a shard in order."""

    groups: FindingGroups = msgspec.field(default_factory=FindingGroups)
    counts: Counter[str] = NO_COUNTS

    def __iadd__(self, other: Self) -> Self:
        """Add the slice that follows: its line numbers continue after the last line of this one."""
        self.groups.merge(other.groups, self.counts["lines"])
        self.counts += other.counts
        return self
