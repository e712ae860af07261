"""The census files that parts leave behind: written by each task, merged by the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fastrec.stages.runs import read_blocks, write_block
from fastrec.stages.summary import CONFLICT_EXAMPLES, Conflict, Entry, Samples, count_conflicts, count_samples
from fastrec.storage import open_writer

__all__ = ["Census", "read_census", "write_census"]

_BLOCK: Final = 512  # entries in a block


class Census(msgspec.Struct):
    """What the census says of the whole corpus."""

    samples: dict[bytes, Samples]
    identities: int = 0
    records: int = 0
    examples: list[Conflict] = msgspec.field(default_factory=list)
    across_hashes: list[Conflict] = msgspec.field(default_factory=list)
    """Conflicts whose records have different hashes, and so different keys; only gathered if asked for."""


def write_census(prefix: str, by_hash: Sequence[Entry], by_id: Sequence[Entry]) -> list[str]:
    """Write the two lists of a part; return the names of the files."""
    paths = [f"{prefix}-hash", f"{prefix}-id"]
    for path, entries in zip(paths, (by_hash, by_id), strict=True):
        with open_writer(path) as file:
            for first in range(0, len(entries), _BLOCK):
                write_block(file, entries[first : first + _BLOCK])
    return paths


def read_census(prefixes: Sequence[str], *, gather_across: bool) -> Census:
    """Merge the census files of all parts."""
    census = Census(count_samples([_entries(f"{prefix}-hash") for prefix in prefixes]))
    # An evaluation of which nothing was kept has ids all the same.
    counted = {**census.samples}
    for conflict in count_conflicts([_entries(f"{prefix}-id") for prefix in prefixes], _Defaults(counted)):
        census.identities += 1
        census.records += conflict.records
        if len(census.examples) < CONFLICT_EXAMPLES:
            census.examples.append(conflict)
        if gather_across and len(conflict.hashes) > 1:
            census.across_hashes.append(conflict)
    return census


class _Defaults(dict[bytes, Samples]):
    def __missing__(self, key: bytes) -> Samples:
        return Samples()


def _entries(path: str) -> Iterator[Entry]:
    for block in read_blocks(path):
        yield from block
