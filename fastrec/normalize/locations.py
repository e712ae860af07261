"""Locations of pieces of input: what names a line of a piece, and which of several copies of a record is the first.

Tasks of pass 2 know the lines of a record by piece. Its shard may have another name and another place in the order of
the input than when the piece was sorted. So the driver writes the locations of all pieces to a file once pass 1 is
done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec
from xxhash import xxh3_128_hexdigest

from fastrec.errors import utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.pass1_driver import SortedShards
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sources.shard import Shard

__all__ = ["Locations", "names_hash", "read_locations", "write_locations"]

Locations = Mapping[int, tuple[int, str, int]]
"""By number of a piece: its position in the order of all pieces, the name of its source, and the lines before it."""


def write_locations(
    context: RunContext, shards: Sequence[Shard], sorted_shards: SortedShards
) -> tuple[Locations, str, str]:
    """Write the locations of all pieces, if tasks need them; return them, the path of the file, and a fingerprint."""
    if not (context.options.leaves_out or context.options.track_sources):
        return {}, "", ""
    locations = {
        counts.piece.number: (at, utf8(shards[counts.piece.shard].path), base)
        for at, (counts, base) in enumerate(sorted_shards.with_line_bases())
    }
    names = xxh3_128_hexdigest(msgspec.msgpack.encode(sorted(locations.items())))
    path = context.output.working(f"locations-{names}")
    write_blocks(path, [locations])
    return locations, path, names


@lru_cache(maxsize=1)
def read_locations(path: str) -> Locations:
    """Read a file of locations, whose name has a fingerprint of its content. A worker reads it once."""
    found: Locations = next(read_blocks(path))
    return found


def names_hash(locations: Locations, pieces: Iterable[int]) -> str:
    """Return a fingerprint of what some pieces are called, and of their order."""
    found = [(locations[number], number) for number in pieces if number in locations]
    names = [(name, base, number) for (_, name, base), number in sorted(found)]
    return xxh3_128_hexdigest(msgspec.msgpack.encode(names))
