"""Problems of a published corpus: the table of kinds, and the problems of one file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from fastrec.judge.findings import describe, json_path

__all__ = ["KINDS", "MOST_PROBLEMS", "Problem", "Problems", "Statement"]

MOST_PROBLEMS: Final = 20
"""Problems that are listed per file; further ones are only counted."""

_ABSENT: Final = object()

KINDS: Final = {
    "manifest.unreadable": "the manifest is damaged, or its format is unknown to this version of fastrec",
    "manifest.options": "the options or the schema in the manifest are invalid",
    "manifest.files": "the part names in the manifest are not unique, not ascending, or outside the corpus",
    "manifest.total": "a total in the manifest is not the sum over its parts",
    "manifest.line_counts": "the line counts of an input do not add up",
    "manifest.sources": "a part lists its sources although the corpus does not track them, or the other way round",
    "file.missing": "a file that the manifest lists is missing",
    "file.stray": "a file or directory is not listed in the manifest",
    "file.unreadable": "a file cannot be read completely",
    "file.bytes": "the size of a file is not the one in the manifest",
    "file.sha256": "the checksum of a file is not the one in the manifest",
    "part.records": "the number of records in a part is not the one in the manifest",
    "part.text_bytes": "the size of the text of a part is not the one in the manifest",
    "part.text_xxh3_128": "the checksum of the text of a part is not the one in the manifest",
    "part.text_sha256": "the same, of a corpus that an earlier version has written",
    "part.first": "the first key of a part is not the one in the manifest",
    "part.last": "the last key of a part is not the one in the manifest",
    "part.order": "the first key of a part is not greater than the last key of the previous part",
    "line.invalid": "a line is not a valid record",
    "line.blank": "a line is blank",
    "line.form": "a record is not in normal form",
    "line.order": "a record belongs before the previous one",
    "line.duplicate": "a record is an exact copy of the previous one",
    "corpus.conflict": "an identity has several records, although the options of the corpus allow only one",
    "summary.unreadable": "the summary is damaged",
    "summary.line_counts": "the line counts in the summary do not add up, or differ from those of the inputs",
    "summary.statistics": "a value in the summary differs from the value computed from the records",
    "sources.entry": "a line of a file of sources is not the source of a record",
    "sources.records": "a file of sources has more or fewer lines than its part has records",
    "sources.shard": "a source names a shard that is not an input of the corpus",
    "sources.line": "a source names a line that its shard does not have",
    "sources.kept": "the number of records that come from an input is not the one in its line counts",
    "rejects.entry": "a line of the rejects file is not a rejected line",
    "rejects.order": "the rejects file is not sorted by source and line",
    "rejects.count": "the number of rejected lines, in total, of a code or of an input, is wrong",
    "more": "further problems of a file that are not listed",
}
"""What each kind of problem means. Kinds are part of the interface, like the codes of rejected lines."""


class Problem(msgspec.Struct, frozen=True):
    """A problem: its file and line, its kind, and what is wrong."""

    file: str
    """The name of the file in the corpus."""
    line: int | None
    """The number of the line, from 1; null if the problem concerns the whole file."""
    kind: str
    """The kind of problem."""
    message: str
    """Which file says what, and what was found instead."""


class Statement(NamedTuple):
    """A value, and who says so: a file and a verb."""

    by: str
    value: Any

    def __str__(self) -> str:
        return f"{self.by} {_describe(self.value)}"


class Problems(msgspec.Struct):
    """The problems of one file, in bounded memory."""

    file: str
    count: int = 0
    listed: list[Problem] = msgspec.field(default_factory=list)

    def add(self, kind: str, message: str, line: int | None = None) -> None:
        """Add a problem."""
        self.count += 1
        if len(self.listed) < MOST_PROBLEMS:
            self.listed.append(Problem(self.file, line, kind, message))

    def compare(self, kind: str, what: str, claim: Statement, other: Statement) -> None:
        """Add a problem if two statements about the same thing differ: `what` it is, and who says which value."""
        if claim.value != other.value:
            self.add(kind, f"{what}: {claim}, {other}")

    def compare_documents(
        self, kind: str, what: str, claim: Statement, other: Statement, steps: tuple[str | int, ...] = ()
    ) -> None:
        """Add a problem for each difference between two documents of plain values, with its path."""
        said, found = claim.value, other.value
        pairs: Iterator[tuple[str | int, Any, Any]]
        if isinstance(said, dict) and isinstance(found, dict):
            keys = dict.fromkeys((*said, *found))
            pairs = ((key, said.get(key, _ABSENT), found.get(key, _ABSENT)) for key in keys)
        elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
            pairs = ((index, *both) for index, both in enumerate(zip(said, found, strict=True)))
        else:
            self.compare(kind, what + json_path(steps), claim, other)
            return
        for step, ours, theirs in pairs:
            one, two = Statement(claim.by, ours), Statement(other.by, theirs)
            self.compare_documents(kind, what, one, two, (*steps, step))

    def __iter__(self) -> Iterator[Problem]:
        yield from sorted(self.listed, key=lambda problem: problem.line or 0)
        hidden = self.count - len(self.listed)
        if hidden:
            yield Problem(self.file, None, "more", f"{hidden:,} more problems in this file")


def _describe(value: Any) -> str:
    if isinstance(value, str) and len(value) <= 64:
        return value  # a checksum is short enough to be shown
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 64:
        return f"{value:,}"
    return "nothing" if value is _ABSENT else describe(value)
