"""Where the records of a part come from: the places of pieces, and the file of sources."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace
from xxhash import xxh3_128_hexdigest

from fastrec.corpus.part_records import read_index
from fastrec.corpus.sources import line_begin
from fastrec.corpus.writer import ShardWriter
from fastrec.normalize.part_steps import Selection, Step
from fastrec.normalize.results import Part, PartSources
from fastrec.sorting.files import read_blocks
from fastrec.sorting.runs import Origins, by_position
from fastrec.summary.part_statistics import LinesByPiece, read_lines_by_piece
from fastrec.summary.rows import Column

_LEVEL = 1  # numbers of lines are in no order, so a higher level does not save much

_piece_and_line = itemgetter(Column.SOURCE, Column.LINE)

# By number of a piece: its position in the order of pieces, its source, and the lines before it.
#
# Tasks know the lines of a record by piece. Its shard may have another name and another place in
# the order of the input than when the piece was sorted. So the driver writes the locations of all
# pieces to a file once pass 1 is done.
Locations = Mapping[int, tuple[int, str, int]]


@lru_cache(maxsize=1)
def read_locations(path: str) -> Locations:
    """Read a file of locations, whose name has a fingerprint of its content.

    A worker reads it once.
    """
    locations: Locations = next(read_blocks(path))
    return locations


def names_hash(locations: Locations, pieces: Iterable[int]) -> str:
    """A fingerprint of what some pieces are called, and of their order."""
    located = [(locations[number], number) for number in pieces if number in locations]
    names = [(name, base, number) for (_, name, base), number in sorted(located)]
    return xxh3_128_hexdigest(msgspec.msgpack.encode(names))


class SourcesWriter(Step):
    """Writes the sources of the records of a part that are left."""

    def __init__(self, path: str, locations: str, lines: LinesByPiece, files: ExitStack) -> None:
        self._path = path
        self._locations = read_locations(locations)
        self._lines = lines
        # by piece: how its lines begin, and the lines before it
        self._begins: dict[int, tuple[bytes, int]] = {}
        self._file = files.enter_context(ShardWriter(path, "zst", _LEVEL, synced=False))

    def add(self, records: Selection) -> None:
        if records.window.keys:
            self.write(records.window.rows, by_position(records.window.origins))

    def write(self, rows: Sequence[Any], origins: Iterable[tuple[int, Origins]]) -> None:
        """Append the sources of records, given their rows and the origins of those with copies."""
        places = list(map(_piece_and_line, rows))
        for index, sources in origins:
            places[index] = min(sources, key=lambda source: self._locations[source[0]][0])[:2]
        begins = self._begins
        for piece in {piece for piece, _ in places}.difference(begins):
            _, name, base = self._locations[piece]
            begins[piece] = line_begin(name), base
        lines = [b"%b%d}\n" % (begins[piece][0], line + begins[piece][1]) for piece, line in places]
        self._file.write([b"".join(lines)])

    def end(self) -> None:
        written = self._file.finish()
        names = names_hash(self._locations, self._lines.pieces())
        self.sources = PartSources(self._path, written.bytes, written.sha256, names)

    def complete(self, part: Part) -> Part:
        return replace(part, sources=self.sources)


class SourcesTask(msgspec.Struct, frozen=True):
    """A task that brings the sources of a part of the base up to date."""

    part: Part
    path: str  # of new sources
    locations: str

    def __str__(self) -> str:
        return f"writing the sources of part {self.part.number} of the corpus"


def update_sources(task: SourcesTask) -> PartSources:
    """The sources of a part, which are written again if shards have other names or another order.

    Runs in a worker.
    """
    part = task.part
    lines = read_lines_by_piece(part.statistics_prefix)
    names = names_hash(read_locations(task.locations), lines.pieces())
    if part.sources and part.sources.names == names:
        return part.sources
    with ExitStack() as files:
        writer = SourcesWriter(task.path, task.locations, lines, files)
        index = read_index(part.index)
        places = zip(array("I", index.pieces), array("Q", index.lines), strict=True)
        writer.write(list(places), index.origins)
        writer.end()
    return writer.sources
