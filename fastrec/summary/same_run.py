r"""Records that are equal but for their run and their label: an evaluation that was scraped or converted again.

A line in normal form begins with the label and the run, so all that follows is what has to be equal:

    {"schema_version":…,"evaluation_id":…,"model_id":…
                                         \_____________ body

An upgrade keeps a label that does not belong to the record's version in `metadata`; it is no part of the body either.

Such records mostly have different keys, and may be in different parts. Each part writes a list of its bodies' digests.
The merged lists have equal bodies next to each other; the one with the lowest key stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Final, Self

import msgspec
from xxhash import xxh3_128_digest

from fastrec.engine.base import Engine
from fastrec.limits import Limits
from fastrec.sorting.keys import key_splitter, split_scope, text_of
from fastrec.sorting.spill import Run
from fastrec.storage.digests import FileDigest
from fastrec.summary.lists import CountTask, count_lists, merge_lists, write_rows
from fastrec.summary.losers import Losers
from fastrec.summary.sums import Sums

__all__ = ["RUN_PAIRS", "RunPair", "SameRunCounts", "body_digest", "find_same_run", "write_bodies"]

RUN_PAIRS: Final = 100

_LIST: Final = "run"
_BODY: Final = b',"model_id":'  # quotes inside a string are escaped, so its first occurrence ends the evaluation_id
_LABEL: Final = b'"schema_version":"'
_TEXT: Final = rb'"(?:[^"\\]|\\.)*+"'
_METADATA: Final = re.compile(rb',"metadata":(\{(?:%b:%b,?)*+\})\}$' % (_TEXT, _TEXT))  # of the root, with texts only

RunPair = tuple[str, str, str, str]
"""evaluation_name, model_id, the evaluation_id of the record that stays, and that of the record that is dropped."""


class SameRunCounts(Sums):
    """Records that were dropped because they are equal to others but for their run."""

    records: int = 0
    pairs: Counter[RunPair] = msgspec.field(default_factory=Counter)
    """Records by runs: only the first hundred pairs in order, whose counts are exact."""
    losers: list[Run] = msgspec.field(default_factory=list)
    """Their keys and the digests of their bodies."""

    def add(self, pair: RunPair) -> None:
        """Add a dropped record."""
        self.records += 1
        self.pairs[pair] += 1
        if len(self.pairs) > 2 * RUN_PAIRS:
            self._shorten()

    def __iadd__(self, other: Self) -> Self:
        super().__iadd__(other)
        self._shorten()
        return self

    def _shorten(self) -> None:
        """Drop all but the first pairs. A pair that is among the first of all was among the first at any time."""
        self.pairs = Counter({pair: self.pairs[pair] for pair in nsmallest(RUN_PAIRS, self.pairs)})


class _Rule(msgspec.Struct, frozen=True):
    sort_fields: tuple[str, ...]
    path: str


def body_digest(text: bytes | memoryview) -> bytes:
    """Return a digest of everything in a line in normal form but its label and its run."""
    line = bytes(text)
    start = line.index(_BODY)
    if line.find(_LABEL, start) >= 0:  # rare
        line = _without_kept_label(line)
    return xxh3_128_digest(memoryview(line)[start:])


def _without_kept_label(line: bytes) -> bytes:
    """Return the line without a `schema_version` in its `metadata`, and without `metadata` if nothing else is in it."""
    end = line.rfind(b',"metadata":{')
    found = _METADATA.match(line, end) if end >= 0 else None
    if found is None:
        return line
    metadata = msgspec.json.decode(found[1], type=dict[str, str])
    if metadata.pop("schema_version", None) is None:
        return line
    rest = b',"metadata":' + msgspec.json.encode(metadata) if metadata else b""
    return line[:end] + rest + line[found.end(1) :]


def write_bodies(prefix: str, bodies: Iterable[tuple[bytes, bytes]], *, compressed: bool = False) -> FileDigest:
    """Write the list of a part, given the digest of each record's body, and its key."""
    rows = sorted((digest, b"", key) for digest, key in bodies)
    return write_rows(f"{prefix}-{_LIST}", rows, compressed=compressed)


def find_same_run(
    prefixes: Sequence[str],
    path: str,
    sort_fields: tuple[str, ...],
    *,
    directory: str,
    engine: Engine,
    limits: Limits,
) -> SameRunCounts:
    """Find equal bodies in all parts, and write those that lose to files that begin with `path`."""
    total, rule = SameRunCounts(), _Rule(sort_fields, path)
    for found in count_lists(_count, rule, prefixes, (_LIST,), directory=directory, engine=engine, limits=limits):
        total += found
    return total


def _count(task: CountTask) -> SameRunCounts:
    """Count some lists. Runs in a worker if there are many."""
    rule: _Rule = task.rule
    split, losers, found = key_splitter(rule.sort_fields), Losers(rule.path), SameRunCounts()
    last = kept = b""
    for digest, _, key in merge_lists(task.prefixes, _LIST):
        if digest != last:
            last, kept = digest, key
            continue
        found.add(_run_pair(split(kept), split(key)))
        if key != kept:  # a part drops records of equal keys by itself
            losers.add(key, digest)
    found.losers = losers.finish()
    return found


def _run_pair(kept: Sequence[bytes], dropped: Sequence[bytes]) -> RunPair:
    """Return the runs of two records that differ in nothing else, given their key fields."""
    scope, _, model, kept_id, _ = kept
    return split_scope(scope)[0], text_of(model), text_of(kept_id), text_of(dropped[3])
