"""The result of a validation, and the findings of a slice that it is made from.

A worker returns `SliceFindings` for each slice, with line numbers that count from the slice's first line. The driver
adds up the slices of a shard with `+=`, which corrects the line numbers, and then adds whole shards to the
`Validation` in the order of the inputs. A shard that cannot be read whole adds nothing but its error.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Self

import msgspec

from fastrec.errors import shown
from fastrec.judge.findings import Finding
from fastrec.judge.groups import FindingGroup, FindingGroups, Location

__all__ = ["SliceFindings", "Validation"]

_COUNTS: Final = ("lines", "invalid", "blank", "warnings", "text_bytes")


class Validation(msgspec.Struct):
    """The result of a validation: line counts, groups of findings, and shards that could not be read."""

    lines: int = 0
    """Lines read, blank ones included."""
    valid: int = 0
    """Lines that are valid records."""
    invalid: int = 0
    """Lines that are not valid records."""
    blank: int = 0
    """Lines of white space only."""
    warnings: int = 0
    """Number of warnings; a line may have several."""
    text_bytes: int = 0
    """Size of the text read, after decompression."""
    shards: int = 0
    """Number of input files."""
    seconds: float = 0.0
    """How long it took."""
    stopped_early: bool = False
    """`max_errors` was reached, so the rest of the input was not checked."""
    codes: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of findings by code."""
    groups: list[FindingGroup] = msgspec.field(default_factory=list)
    """Equal findings together, errors first, the most frequent first; at most 1,000 groups."""
    bad_shards: list[str] = msgspec.field(default_factory=list)
    """Shards that could not be read whole, and why; none of their lines count."""
    notices: list[str] = msgspec.field(default_factory=list)
    """Remarks about the input."""

    @property
    def ok(self) -> bool:
        """Whether every shard was read whole and every line is valid."""
        return not self.invalid and not self.bad_shards

    def add(self, path: str, found: SliceFindings) -> None:
        """Add the findings of a whole shard, except its groups."""
        if found.error:
            self.bad_shards.append(found.error)
            return
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(found, name))
        self.valid += found.lines - found.blank - found.invalid
        if found.bom:
            self.notices.append(f"{shown(path)} begins with a byte order mark, which was skipped")
        for code, count in found.codes.items():
            self.codes[code] = self.codes.get(code, 0) + count


class SliceFindings(msgspec.Struct):
    """Line counts and findings of one slice, or of several slices of a shard in order."""

    groups: FindingGroups
    lines: int = 0
    invalid: int = 0
    blank: int = 0
    warnings: int = 0
    text_bytes: int = 0
    bom: bool = False
    codes: Counter[str] = msgspec.field(default_factory=Counter)
    logs: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Files with every finding, and the number to add to the line numbers in each."""
    error: str | None = None
    """Why the shard could not be read whole."""

    def add(self, finding: Finding, location: Location) -> None:
        """Count a finding."""
        self.codes[finding.code] += 1
        self.groups.add(finding, location)

    def __iadd__(self, other: SliceFindings) -> Self:
        """Add the slice that follows: its line numbers continue after the last line of this one."""
        self.codes += other.codes
        self.groups.merge(other.groups, self.lines)
        self.logs += [(path, self.lines + base) for path, base in other.logs]
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.bom |= other.bom
        self.error = self.error or other.error
        return self
