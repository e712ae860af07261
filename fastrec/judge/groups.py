"""Groups of equal findings: how many there are and where the first ones are, in bounded memory."""

from __future__ import annotations

from typing import Final

import msgspec

from fastrec.judge.findings import Finding

__all__ = ["FindingGroup", "FindingGroups", "Location"]

_LOCATIONS: Final = 3  # that a group remembers


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
    """Findings by code, path and message. Findings beyond `limit` groups are not remembered here."""

    limit: int
    groups: dict[tuple[str, str, str], FindingGroup] = msgspec.field(default_factory=dict)

    def add(self, finding: Finding, location: Location) -> None:
        """Count a finding, and remember its location if it is among the first."""
        group = self._group(finding)
        if group is not None:
            group.count += 1
            if group.count <= _LOCATIONS:
                group.locations.append(location)

    def merge(self, other: FindingGroups, line_base: int = 0) -> None:
        """Add the groups of lines that come later, with `line_base` added to their line numbers."""
        for theirs in other.groups.values():
            group = self._group(Finding(theirs.code, theirs.path, theirs.message))
            if group is not None:
                group.count += theirs.count
                room = _LOCATIONS - len(group.locations)
                group.locations += [Location(one.source, line_base + one.line) for one in theirs.locations[:room]]

    def _group(self, finding: Finding) -> FindingGroup | None:
        key = (finding.code, finding.path, finding.message)
        group = self.groups.get(key)
        if group is None and len(self.groups) < self.limit:
            group = self.groups[key] = FindingGroup(*key, finding.severity, 0, [])
        return group

    def in_order(self) -> list[FindingGroup]:
        """List the groups, errors first, then the most frequent first."""
        return sorted(self.groups.values(), key=lambda group: (group.severity, -group.count, group.code, group.path))
