"""Checking the sources of a corpus: one line per record, each with an input of the corpus and one of its lines.

The task that checks a part reads its sources, and returns what it found of each shard. This is then compared with the
inputs in the manifest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from fastrec.commands.verify.problems import Problem, Problems, Statement
from fastrec.corpus.documents import MANIFEST
from fastrec.corpus.manifest import Manifest, PartEntry
from fastrec.corpus.sources import Source, decode_source, has_sources, source_lines
from fastrec.errors import CorpusError, ShardError
from fastrec.storage.digests import sha256_of_file

__all__ = ["CheckedSources", "check_inputs", "check_listed", "check_sources"]


class ShardSources(msgspec.Struct):
    """The sources of a file that name one shard."""

    records: int
    lowest: tuple[int, int]
    """The lowest line number, and the number of the source that has it."""
    highest: tuple[int, int]


class CheckedSources(msgspec.Struct):
    """The result of checking the sources of a part."""

    problems: Problems
    shards: dict[str, ShardSources]
    valid: bool
    """Whether the file was read to its end, and all lines are sources."""


def check_listed(manifest: Manifest) -> Iterator[Problem]:
    """Check that either all parts have sources, or none of them, as the options say."""
    tracked = has_sources(manifest)
    for part in manifest.parts:
        if bool(part.sources) is not tracked:
            expected, found = ("sources", "none") if tracked else ("no sources, by its options", "some")
            yield Problem(MANIFEST, None, "manifest.sources", f"{part.file}: expected {expected}, found {found}")


def check_sources(path: str, part: PartEntry) -> CheckedSources:
    """Check the sources of one part. Runs in a worker."""
    assert part.sources
    problems, shards = Problems(part.sources.file), dict[str, ShardSources]()
    checked = CheckedSources(problems, shards, valid=False)
    try:
        size, digest = sha256_of_file(path)
        says, has = partial(Statement, f"{MANIFEST} says"), partial(Statement, "the file has")
        problems.compare("file.bytes", "size", says(part.sources.bytes), has(size))
        problems.compare("file.sha256", "SHA-256", says(part.sources.sha256), has(digest))
        checked.valid, records = True, 0
        for records, line in enumerate(source_lines(path), 1):
            try:
                _add(shards, decode_source(path, records, line), records)
            except CorpusError as exc:
                checked.valid = False
                problems.add("sources.entry", exc.reason, records)
        problems.compare("sources.records", "records", says(part.records), has(records))
    except ShardError as exc:
        checked.valid = False
        problems.add("file.unreadable", str(ShardError("", exc.reason, exc.offset)).removeprefix(": "))
    except OSError as exc:
        problems.add("file.unreadable", f"cannot be read: {exc.strerror}")
    return checked


def _add(shards: dict[str, ShardSources], source: Source, number: int) -> None:
    here = (source.line, number)
    if known := shards.get(source.shard):
        known.records += 1
        known.lowest = min(known.lowest, here)
        known.highest = max(known.highest, here)
    else:
        shards[source.shard] = ShardSources(1, here, here)


def check_inputs(checked: Sequence[CheckedSources], manifest: Manifest) -> Iterator[Problem]:
    """Compare the sources of parts with the inputs in the manifest."""
    lines: Counter[str] = Counter()  # names that are not UTF-8 may be the same
    kept: Counter[str] = Counter()
    for entry in manifest.inputs:
        lines[entry.path] += entry.lines + entry.filtered
        kept[entry.path] += entry.kept
    found: Counter[str] = Counter()
    for sources in checked:
        for shard, counts in sources.shards.items():
            found[shard] += counts.records
            _compare(sources.problems, shard, counts, lines)
        yield from sources.problems
    if len(checked) == len(manifest.parts) and all(sources.valid for sources in checked):
        problems = Problems(MANIFEST)
        for path, count in kept.items():
            claim, other = Statement(f"{MANIFEST} says", count), Statement("the sources have", found[path])
            problems.compare("sources.kept", f"{path}: records", claim, other)
        yield from problems


def _compare(problems: Problems, shard: str, counts: ShardSources, lines: Mapping[str, int]) -> None:
    if shard not in lines:
        problems.add("sources.shard", f"expected an input of the corpus, found {shard!r}", counts.lowest[1])
        return
    for line, number in {counts.lowest, counts.highest}:
        if not 1 <= line <= lines[shard]:
            message = f"expected a line of {shard}, which has {lines[shard]:,}, found line {line:,}"
            problems.add("sources.line", message, number)
