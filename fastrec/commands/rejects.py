"""`rejects`: list what a corpus has in quarantine, or write the lines back out to be mended.

An entry of the rejects file stands for one line. It is listed under its first reason, the one that the summary counts
it by, so that the counts here add up to the lines that were rejected.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from itertools import groupby
from typing import BinaryIO

import msgspec

from fastrec.corpus.documents import read_manifest
from fastrec.corpus.rejects import CODES, Entry, decode_entry, numbered_lines, raw_of
from fastrec.errors import UsageError
from fastrec.judge.findings import Finding
from fastrec.judge.report import Books, Group, Place, Report, Tally
from fastrec.sources.reader import Shard
from fastrec.storage.paths import join

__all__ = ["Extracted", "Rejects", "extract", "rejects"]


class Rejects(msgspec.Struct, kw_only=True):
    """What was rejected, grouped by the first reason of each line."""

    lines: int
    """Rejected lines, of the codes asked for."""
    codes: dict[str, int]
    """Lines by code."""
    groups: list[Group]
    """Lines with equal first reasons together, the most frequent first."""


class Extracted(msgspec.Struct, kw_only=True):
    """What was written back out."""

    lines: int = 0
    truncated: list[Place] = msgspec.field(default_factory=list)
    """Lines that were too long to be kept whole, so that only their source has them."""


def rejects(corpus: str | os.PathLike[str], *, codes: Collection[str] = ()) -> Rejects:
    """List the rejects of a corpus.

    Args:
        corpus: The directory that `normalize` published.
        codes: Only lines whose first reason has one of these codes; all if there are none.

    Raises:
        UsageError: The directory is no corpus, or a code does not exist.
        CorpusError: The manifest or the rejects file is damaged.
        ShardError: The rejects file could not be read whole.
    """
    report = Report()
    books = Books(report)
    for source, entries in groupby(_entries(corpus, codes), key=lambda entry: entry.source):
        tally = Tally()
        for entry in entries:
            tally.add(Finding(entry.code, entry.path, entry.message), entry.line)
            tally.lines += 1
        books.add(Shard(source, 0, None), tally)
    return Rejects(lines=report.lines, codes=dict(sorted(report.codes.items())), groups=books.groups())


def extract(corpus: str | os.PathLike[str], into: BinaryIO, *, codes: Collection[str] = ()) -> Extracted:
    """Write the exact bytes of rejected lines, each with a newline, in the order of the rejects file.

    What `--conflicts` left out is written in normal form, as it was kept. Raises what `rejects` raises.
    """
    done = Extracted()
    for entry in _entries(corpus, codes):
        if entry.truncated is True:
            done.truncated.append(Place(entry.source, entry.line))
        else:
            into.write(raw_of(entry) + b"\n")
            done.lines += 1
    return done


def _entries(corpus: str | os.PathLike[str], codes: Collection[str]) -> Iterator[Entry]:
    for code in codes:
        if code not in CODES:
            raise UsageError(f"there is no code {code!r}; the codes are {', '.join(CODES)}")
    directory = os.fspath(corpus)
    listed = read_manifest(directory).rejects
    if listed is None:
        return
    path = join(directory, listed.file)
    for number, line in numbered_lines(path):
        entry = decode_entry(path, number, line)
        if not codes or entry.code in codes:
            yield entry
