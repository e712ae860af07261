"""The report of a validation, the books that it is added up in, and the log of every finding.

Workers give back a `Tally` for each slice, with line numbers that count from the slice's first line. Tallies of one
shard are added up with `+=`, which puts the numbers right; `Books` then takes those of whole shards, in the order of
the plan. A shard that could not be read whole leaves nothing but its error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import msgspec

from fastrec.errors import FastrecError, shown, utf8
from fastrec.judge.findings import Finding
from fastrec.sources.reader import Shard

__all__ = ["Books", "FindingLog", "Group", "LogEntry", "Place", "Report", "Tally", "log_findings"]

_PLACES: Final = 3  # first places that a group remembers
_GROUPS: Final = 1_000  # groups that a report remembers; the findings of further ones are counted by code alone


class Place(msgspec.Struct, frozen=True):
    """A line of a shard."""

    source: str
    """The shard."""
    line: int
    """Number of the line in it, from 1."""


class Group(msgspec.Struct):
    """Equal findings: how many, and where the first ones are."""

    code: str
    """One of the codes."""
    path: str
    """Where in the record, as `$.evaluation.score`."""
    message: str
    """What was expected, and what was found."""
    severity: str
    """`error` or `warning`."""
    count: int
    """How many there are."""
    places: list[Place]
    """Where the first three are."""


class Report(msgspec.Struct):
    """What came of validating: the books, the findings in groups, and what could not be read."""

    lines: int = 0
    """Lines read, blank ones included."""
    valid: int = 0
    """Lines that are valid records."""
    invalid: int = 0
    """Lines that are not."""
    blank: int = 0
    """Lines of white space alone."""
    warnings: int = 0
    """Warnings in all; a line may have several."""
    text_bytes: int = 0
    """Text read, once it was decompressed."""
    shards: int = 0
    """Files that were to be read."""
    seconds: float = 0.0
    """How long it took."""
    stopped_early: bool = False
    """`max_errors` was reached: what came after that was not looked at."""
    codes: dict[str, int] = msgspec.field(default_factory=dict)
    """Findings by code."""
    groups: list[Group] = msgspec.field(default_factory=list)
    """Equal findings together, errors first, the most frequent first; at most 1,000 groups."""
    bad_shards: list[str] = msgspec.field(default_factory=list)
    """Those that could not be read whole, and why; none of their lines count anywhere in here."""
    notices: list[str] = msgspec.field(default_factory=list)
    """What is good to know."""

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
    logs: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Files with every finding, and how many lines stand before the first that each of them numbers."""
    error: str | None = None

    def add(self, finding: Finding, line: int) -> None:
        """Count a finding and remember its place if it is among the first."""
        self.codes[finding.code] = self.codes.get(finding.code, 0) + 1
        key = (finding.code, finding.path, finding.message)
        count, lines = self.groups.get(key, (0, []))
        if count or len(self.groups) < _GROUPS:
            self.groups[key] = (count + 1, lines if count >= _PLACES else [*lines, line])

    def __iadd__(self, other: Tally) -> Self:
        """Add the stretch that follows: its line numbers go on where these end."""
        for code, count in other.codes.items():
            self.codes[code] = self.codes.get(code, 0) + count
        for key, (count, lines) in other.groups.items():
            before, places = self.groups.get(key, (0, []))
            if before or len(self.groups) < _GROUPS:
                more = [self.lines + line for line in lines[: _PLACES - len(places)]]
                self.groups[key] = (before + count, places + more)
        self.logs += [(path, self.lines + base) for path, base in other.logs]
        self.lines += other.lines
        self.invalid += other.invalid
        self.blank += other.blank
        self.warnings += other.warnings
        self.text_bytes += other.text_bytes
        self.bom |= other.bom
        self.error = self.error or other.error
        return self


class Books:
    """Adds up the tallies of whole shards, in the order of the plan."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._groups: dict[tuple[str, str, str], Group] = {}

    def add(self, shard: Shard, tally: Tally) -> None:
        """Add what came of a shard."""
        report = self._report
        if tally.error:
            report.bad_shards.append(tally.error)
            return
        report.lines += tally.lines
        report.blank += tally.blank
        report.invalid += tally.invalid
        report.valid += tally.lines - tally.blank - tally.invalid
        report.warnings += tally.warnings
        report.text_bytes += tally.text_bytes
        if tally.bom:
            report.notices.append(f"{shown(shard.path)} begins with a byte order mark, which was skipped")
        for code, count in tally.codes.items():
            report.codes[code] = report.codes.get(code, 0) + count
        source = utf8(shard.path)
        for key, (count, lines) in tally.groups.items():
            group = self._groups.get(key)
            if group is None:
                if len(self._groups) >= _GROUPS:
                    continue
                group = self._groups[key] = Group(*key, Finding(*key).severity, 0, [])
            group.count += count
            group.places += [Place(source, line) for line in lines[: _PLACES - len(group.places)]]

    def groups(self) -> list[Group]:
        """The groups, errors first, the most frequent first."""
        return sorted(self._groups.values(), key=lambda group: (group.severity, -group.count, group.code, group.path))


class LogEntry(msgspec.Struct):
    """A line of the log: one finding."""

    source: str
    """The shard."""
    line: int
    """Number of the line in it, from 1."""
    severity: str
    """`error` or `warning`."""
    code: str
    """One of the codes."""
    path: str
    """Where in the record, as `$.evaluation.score`."""
    message: str
    """What was expected, and what was found."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LogEntry).decode


def log_findings(path: str, source: str, found: Iterable[tuple[int, Finding]]) -> None:
    """Append findings, each with its line, to the log of a slice."""
    source = utf8(source)
    with Path(path).open("ab") as file:
        for line, finding in found:
            entry = LogEntry(source, line, finding.severity, finding.code, finding.path, finding.message)
            file.write(_encode(entry) + b"\n")


class FindingLog:
    """The log that the user asked for, gathered from those of the slices; FastrecError if it cannot be written."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._writing():
            self._file = Path(path).open("wb")  # noqa: SIM115 - closed on leaving the log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._writing():
            self._file.close()

    def gather(self, tally: Tally) -> None:
        """Append the findings of a shard, with the line numbers of cut files put right, and remove their files."""
        for path, base in tally.logs:
            if not tally.error:
                with Path(path).open("rb") as lines, self._writing():
                    self._file.writelines(_renumbered(lines, base) if base else lines)
            Path(path).unlink()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise FastrecError(f"the log {shown(self._path)} cannot be written: {exc.strerror}") from exc


def _renumbered(lines: Iterable[bytes], base: int) -> Iterator[bytes]:
    for line in lines:
        entry = _decode(line)
        entry.line += base
        yield _encode(entry) + b"\n"
