"""`rejects`: list the rejected lines of a corpus, or write them to a file to be fixed.

A rejected line is listed under its first error, as in the summary, so the counts add up to all rejected lines.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import BinaryIO

import msgspec

from fastrec.corpus.documents import read_manifest
from fastrec.corpus.rejects import CODES, RejectedLine, decode_rejected, numbered_lines
from fastrec.errors import UsageError
from fastrec.judge.findings import Finding, FindingGroup, FindingGroups, Location
from fastrec.limits import LIMITS, Limits
from fastrec.storage import join

__all__ = ["Extracted", "Rejects", "extract", "rejects"]


class Rejects(msgspec.Struct, kw_only=True):
    """Rejected lines, grouped by the first error of each line."""

    lines: int
    """Rejected lines with the chosen codes."""
    codes: dict[str, int]
    """Lines by code."""
    groups: list[FindingGroup]
    """Lines whose first errors have the same code and path together, the most frequent first."""


class Extracted(msgspec.Struct, kw_only=True):
    """The result of `extract`."""

    lines: int = 0
    truncated: list[Location] = msgspec.field(default_factory=list)
    """Lines that were not extracted because they were too long to be kept; only the shard has them."""


def rejects(corpus: str | os.PathLike[str], *, codes: Collection[str] = (), limits: Limits = LIMITS) -> Rejects:
    """List the rejected lines of a corpus; with `codes`, only those whose first error has one of these codes.

    Raises:
        UsageError: The directory is not a corpus, or a code does not exist.
        CorpusError: The manifest or the rejects file is damaged.
        ShardError: The rejects file cannot be read completely.
    """
    found = FindingGroups(limits.finding_groups)
    for line in _rejected_lines(corpus, codes):
        found.add(Finding(line.code, line.path, line.message), Location(line.source, line.line))
    return Rejects(lines=found.codes.total(), codes=dict(sorted(found.codes.items())), groups=found.in_order())


def extract(corpus: str | os.PathLike[str], into: BinaryIO, *, codes: Collection[str] = ()) -> Extracted:
    """Write the exact bytes of rejected lines, each with a newline, in the order of the rejects file.

    Records that `--conflicts` left out are written in normal form. Raises the same errors as `rejects`.
    """
    done = Extracted()
    for line in _rejected_lines(corpus, codes):
        if line.truncated is True:
            done.truncated.append(Location(line.source, line.line))
        else:
            into.write(line.exact_bytes() + b"\n")
            done.lines += 1
    return done


def _rejected_lines(corpus: str | os.PathLike[str], codes: Collection[str]) -> Iterator[RejectedLine]:
    for code in codes:
        if code not in CODES:
            raise UsageError(f"there is no code {code!r}; the codes are {', '.join(CODES)}")
    directory = os.fspath(corpus)
    listed = read_manifest(directory).rejects
    if listed is None:
        return
    path = join(directory, listed.file)
    for number, data in numbered_lines(path):
        line = decode_rejected(path, number, data)
        if not codes or line.code in codes:
            yield line
