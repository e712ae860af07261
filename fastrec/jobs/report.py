"""The report of a validation, and the books that it is added up in.

Workers give back a `Tally` for each slice, with line numbers that count from the slice's first line; `Books` adds
tallies up in the order of the plan and puts the numbers right.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import msgspec

from fastrec.jobs.plan import Slice
from fastrec.stages.judge import Finding
from fastrec.stages.shards import Shard

__all__ = ["Books", "Group", "Place", "Report", "Tally", "utf8"]

_PLACES: Final = 3  # first places that a group remembers
_GROUPS: Final = 1_000  # groups that a report remembers; the findings of further ones are counted by code alone


def utf8(path: str) -> str:
    """Spell a path so that it can be written as UTF-8, whatever bytes it is made of."""
    return os.fsencode(path).decode(errors="backslashreplace")


class Place(msgspec.Struct, frozen=True):
    """A line of a shard."""

    source: str
    line: int


class Group(msgspec.Struct):
    """Equal findings: how many, and where the first ones are."""

    code: str
    path: str
    message: str
    severity: str
    count: int
    places: list[Place]


class Report(msgspec.Struct):
    """What came of validating: the books, the findings in groups, and what could not be read."""

    lines: int = 0
    valid: int = 0
    invalid: int = 0
    blank: int = 0
    warnings: int = 0
    """Warnings in all; a line may have several."""
    text_bytes: int = 0
    shards: int = 0
    seconds: float = 0.0
    stopped_early: bool = False
    """`max_errors` was reached before the end of the input."""
    codes: dict[str, int] = msgspec.field(default_factory=dict)
    """Findings by code."""
    groups: list[Group] = msgspec.field(default_factory=list)
    bad_shards: list[str] = msgspec.field(default_factory=list)
    notices: list[str] = msgspec.field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every shard was read whole and every line is valid."""
        return not self.invalid and not self.bad_shards


class Tally(msgspec.Struct):
    """What a worker gives back of one slice; line numbers count from the slice's first line."""

    lines: int = 0
    invalid: int = 0
    blank: int = 0
    warnings: int = 0
    text_bytes: int = 0
    bom: bool = False
    codes: dict[str, int] = msgspec.field(default_factory=dict)
    groups: dict[tuple[str, str, str], tuple[int, list[int]]] = msgspec.field(default_factory=dict)
    error: str | None = None

    def add(self, finding: Finding, line: int) -> None:
        """Count a finding and remember its place if it is among the first."""
        self.codes[finding.code] = self.codes.get(finding.code, 0) + 1
        key = (finding.code, finding.path, finding.message)
        count, lines = self.groups.get(key, (0, []))
        if count or len(self.groups) < _GROUPS:
            self.groups[key] = (count + 1, lines if count >= _PLACES else [*lines, line])


class Books:
    """Adds tallies up in the order of the plan."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._groups: dict[tuple[str, str, str], Group] = {}
        self._shard: Shard | None = None
        self._lines = 0

    def lines_before(self, piece: Slice) -> int:
        """How many lines of its shard stand before a slice; known once all earlier slices are added."""
        return self._lines if piece.shard == self._shard else 0

    def add(self, slices: Iterable[Slice], tallies: Iterable[Tally]) -> None:
        """Add what came of a task."""
        for piece, tally in zip(slices, tallies, strict=True):
            self._add(piece, tally)

    def _add(self, piece: Slice, tally: Tally) -> None:
        report, base = self._report, self.lines_before(piece)
        self._shard, self._lines = piece.shard, base + tally.lines
        report.lines += tally.lines
        report.blank += tally.blank
        report.invalid += tally.invalid
        report.valid += tally.lines - tally.blank - tally.invalid
        report.warnings += tally.warnings
        report.text_bytes += tally.text_bytes
        source = utf8(piece.shard.path)
        if tally.error:
            report.bad_shards.append(tally.error)
        if tally.bom:
            report.notices.append(f"{source} begins with a byte order mark, which was skipped")
        for code, count in tally.codes.items():
            report.codes[code] = report.codes.get(code, 0) + count
        for key, (count, lines) in tally.groups.items():
            group = self._groups.get(key)
            if group is None:
                if len(self._groups) >= _GROUPS:
                    continue
                group = self._groups[key] = Group(*key, Finding(*key).severity, 0, [])
            group.count += count
            group.places += [Place(source, base + line) for line in lines[: _PLACES - len(group.places)]]

    def groups(self) -> list[Group]:
        """The groups, errors first, the most frequent first."""
        return sorted(self._groups.values(), key=lambda group: (group.severity, -group.count, group.code, group.path))
