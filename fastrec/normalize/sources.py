"""The sources of the records of parts, with `--track-sources`: the shard and the line of each record, beside its part.

    pass 2            a task that makes a part writes its sources, too
    parts of the base their records stay, but shards may have other names or another order: their sources are written
                      again from the index that is kept of the part, if anything of that changed

Of several copies of a record, the first one in the order of the input is the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from xxhash import xxh3_128_hexdigest

from fastrec.corpus.sources import line_begin, sources_path
from fastrec.corpus.writer import ShardWriter, Written
from fastrec.errors import utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.pass1_driver import SortedShards
from fastrec.normalize.results import Part, PartSources
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.runs import OriginsByPosition, decode_rows, index_reader
from fastrec.sources.shard import Shard
from fastrec.summary.part_statistics import read_lines_by_piece
from fastrec.summary.rows import Column

# @@ locations: Locations of pieces of input: what names a line of a piece, and which of several copies of a record is the first.
#
# Tasks of pass 2 know the lines of a record by piece. Its shard may have another name and another place in the order of
# the input than when the piece was sorted. So the driver writes the locations of all pieces to a file once pass 1 is
# done.

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


_LEVEL: Final = 1  # numbers of lines are in no order, so a higher level does not save much
_INDEX_BYTES: Final = 1 << 20  # of an index read at a time

_piece_and_line: Final = itemgetter(Column.SOURCE, Column.LINE)


class SourcesWriter:
    """Writes the sources of the records of a part. The file is complete once the context is left."""

    def __init__(self, path: str, locations: str) -> None:
        self._path = path
        self._locations = read_locations(locations)
        self._begins: dict[int, tuple[bytes, int]] = {}  # by piece: how its lines begin, and the lines before it
        self._file = ShardWriter(path, "zst", _LEVEL, synced=False)
        self._written: Written | None = None

    def write(self, rows: Sequence[Any], origins: OriginsByPosition) -> None:
        """Append the sources of records, given their rows and the sources of those with several copies."""
        places = list(map(_piece_and_line, rows))
        for index, sources in origins.items():
            places[index] = min(sources, key=self._position)[:2]
        begins = self._begins
        for piece in {piece for piece, _ in places}.difference(begins):
            _, name, base = self._locations[piece]
            begins[piece] = line_begin(name), base
        lines = [b"%b%d}\n" % (begins[piece][0], line + begins[piece][1]) for piece, line in places]
        self._file.write([b"".join(lines)])

    def _position(self, source: tuple[int, int, int]) -> int:
        return self._locations[source[0]][0]

    def result(self, pieces: Iterable[int]) -> PartSources:
        """Return the file, which is complete by now, of a part with records of these pieces."""
        assert self._written
        names = names_hash(self._locations, pieces)
        return PartSources(self._path, self._written.bytes, self._written.sha256, names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if kind is None:
                self._written = self._file.finish()


class SourcesTask(msgspec.Struct, frozen=True):
    """A task that brings the sources of a part of the base up to date."""

    part: Part
    path: str  # of new sources
    locations: str

    def __str__(self) -> str:
        return f"writing the sources of part {self.part.number} of the corpus"


def _update_sources(task: SourcesTask) -> PartSources:
    """Return the sources of a part, which are written again if shards have other names or another order.

    Runs in a worker.
    """
    part = task.part
    pieces = read_lines_by_piece(part.statistics_prefix).pieces()
    if part.sources and part.sources.names == names_hash(read_locations(task.locations), pieces):
        return part.sources
    with SourcesWriter(task.path, task.locations) as writer:
        reader = index_reader(part.index, 0, part.index_bytes, _INDEX_BYTES)
        while not reader.at_end:
            for _, _, _, rows, origins in reader.read():
                writer.write(decode_rows(rows), dict(origins))
    return writer.result(pieces)


def complete_sources(
    context: RunContext, parts: Mapping[int, Part], base: Sequence[Part], locations: str
) -> list[Part]:
    """Return all parts in order, each with its sources as they are now; without, if they are not tracked.

    Parts that this run has made have them already. `locations` is the path of the locations of all pieces.
    """
    if not context.options.track_sources:
        return [msgspec.structs.replace(part, sources=None) for _, part in sorted(parts.items())]
    known = {part.fingerprint for part in base}
    done = dict(parts)
    stale = [number for number, part in sorted(parts.items()) if part.fingerprint in known and part.records]
    tasks = (SourcesTask(parts[number], sources_path(context.part_path(number)), locations) for number in stale)
    for at, sources in context.engine.run(_update_sources, tasks):
        context.output.check()
        number = stale[at]
        if sources != parts[number].sources:
            context.output.sync(sources.path)
            done[number] = msgspec.structs.replace(parts[number], sources=sources)
    return [part for _, part in sorted(done.items())]
