"""What can be wrong with a published corpus: the table of kinds, and problems gathered file by file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

__all__ = ["KINDS", "MOST_PROBLEMS", "Problem", "Problems"]

MOST_PROBLEMS: Final = 20
"""Problems of one file that are listed; further ones are counted."""

KINDS: Final = {
    "manifest.unreadable": "the manifest is not what fastrec writes, or of a format that this version does not know",
    "manifest.options": "the manifest names options or a schema under which no corpus can be checked",
    "manifest.files": "the manifest does not name parts in order, each once, all beside it",
    "manifest.total": "a total of the manifest is not that of the parts it lists",
    "manifest.line_counts": "the lines of an input do not add up",
    "file.missing": "a file that the manifest names is not there",
    "file.stray": "something is there that the manifest does not name",
    "file.unreadable": "a file could not be read whole",
    "file.bytes": "a file is not of the size that the manifest says",
    "file.sha256": "a file has not the checksum that the manifest says",
    "part.records": "a part has not as many records as the manifest says",
    "part.text_bytes": "a part has not as much text as the manifest says",
    "part.text_sha256": "the text of a part has not the checksum that the manifest says",
    "part.first": "the first key of a part is not that of the manifest",
    "part.last": "the last key of a part is not that of the manifest",
    "part.order": "a part begins before the end of the part above it, or at the same key",
    "line.invalid": "a line is not a valid record",
    "line.blank": "a line is blank",
    "line.form": "a record is not in normal form",
    "line.order": "a record belongs before the one above it",
    "line.duplicate": "a record is an exact copy of the one above it",
    "corpus.conflict": "an identity has several records, though the options of the corpus allow one",
    "summary.unreadable": "the summary is not what fastrec writes",
    "summary.line_counts": "the lines of the summary do not add up, or not to those of the inputs",
    "summary.statistics": "a number of the summary is not that of the records",
    "rejects.entry": "a line of the rejects file is not an entry",
    "rejects.order": "rejects are not sorted by source and line",
    "rejects.count": "there are not as many rejects, of a code or of an input, as the books say",
    "more": "problems of a file that are not listed",
}
"""By kind: what it means. Kinds are part of the interface, as the codes of rejects are."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong: in which file and line, of what kind, and what was expected and found."""

    file: str
    """Its name in the corpus."""
    line: int | None
    """Number of the line, from 1; null if it is about the file."""
    kind: str
    """One of the kinds."""
    message: str
    """What was expected, and what was found."""


class Problems(msgspec.Struct):
    """What is wrong with one file; small, whatever happened to it."""

    file: str
    count: int = 0
    listed: list[Problem] = msgspec.field(default_factory=list)

    def add(self, kind: str, message: str, line: int | None = None) -> None:
        """Note a problem."""
        self.count += 1
        if len(self.listed) < MOST_PROBLEMS:
            self.listed.append(Problem(self.file, line, kind, message))

    def __iter__(self) -> Iterator[Problem]:
        yield from sorted(self.listed, key=lambda problem: problem.line or 0)
        hidden = self.count - len(self.listed)
        if hidden:
            yield Problem(self.file, None, "more", f"{hidden:,} problems more in this file")
