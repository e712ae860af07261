"""Pass 2: make the parts of the corpus from runs, and from parts of the last run.

    gather a range of keys from all runs · merge · drop duplicates ──▶ leave out ──▶ count ──▶
    compress · checksum

One task makes one part. It writes the counts of the part, its census and the records that options
left out to files, so what the driver holds of a part does not grow with the part.

`--same-run`, `--conflicts` and `--repeats` leave out records of a part, in this order:

    records of a window ──▶ equal but for the run: duplicates ──▶ contradictions ──▶ repeats ──▶
    kept

Records with equal keys are adjacent, so a part resolves them by itself. What depends on other keys,
which may be in other parts, is known only after all parts were counted. Then the parts with
superseded records are made again (`parts`).

If the next run is to build on this one, the task also writes the index of the part, its borders,
and the records that options left out. So the part can be read like a run.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Any, Final

import msgspec
from xxhash import xxh3_128_hexdigest

from fastrec.corpus.columns import ColumnsBuilder, columns_path, listed_columns
from fastrec.corpus.part_records import PartIndex, open_part, read_index
from fastrec.corpus.rejects import RejectedLine, RejectsWriter, rejected_line
from fastrec.corpus.sources import line_begin
from fastrec.corpus.writer import NotACopyError, ShardCopier, ShardWriter, Written
from fastrec.engine.base import collector_off
from fastrec.errors import ShardError
from fastrec.judge.batch import InvalidLine
from fastrec.judge.findings import Finding
from fastrec.normalize.options import Choice, Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.normalize.results import Excluded, Part, PartSources, SideFile
from fastrec.sorting.cuts import BorderSizes, write_borders
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.gather import RunSlice, Window, gather
from fastrec.sorting.keys import KeyColumns, column_splitter, key_splitter
from fastrec.sorting.runs import IndexWriter, Origins, OriginsByPosition, index_of
from fastrec.sources.shard import Shard
from fastrec.storage import FileDigest, digest_of, sha256_of_file, storage_of
from fastrec.summary.part_statistics import (
    PartCounts,
    read_lines_by_piece,
    read_part_counts,
    write_statistics,
)
from fastrec.summary.rows import Column, outcome_of
from fastrec.summary.same_run import (
    Contradictions,
    body_digest,
    find_contradictions,
    superseded_in,
    write_bodies,
)
from fastrec.summary.tally import Outcome

_BATCH: Final = 20_000  # records added to the tally at a time, because it adds up columns by model
_EXCLUDED_LEVEL: Final = 1  # compression of records that are only kept for the next run
_SOURCES_LEVEL: Final = 1  # numbers of lines are in no order, so a higher level does not save much
_MESSAGES: Final = {
    "conflict": "expected one verdict on this output, found others",
    "repeat": "expected one record of this identity, found others that differ",
}

_piece_of: Final = itemgetter(Column.SOURCE)
_line_of: Final = itemgetter(Column.LINE)
_piece_and_line: Final = itemgetter(Column.SOURCE, Column.LINE)

Locations = Mapping[int, tuple[int, str, int]]
"""By number of a piece: its position in the order of all pieces, the name of its source, and the lines before it.

Tasks know the lines of a record by piece. Its shard may have another name and another place in the order of the input
than when the piece was sorted. So the driver writes the locations of all pieces to a file once pass 1 is done.
"""


class PartTask(msgspec.Struct, frozen=True):
    number: int
    fingerprint: str
    low: bytes | None
    high: bytes | None
    slices: list[RunSlice]
    window_bytes: int  # bytes merged at a time
    path: str
    statistics_prefix: str
    """Path prefix of the census (`-hash`, `-id`, `-run`), the counts (`-counts`) and records left out (`-left-out`). If
    work is kept: also of the index (`-index`), the borders (`-borders`) and the excluded records
    (`-excluded`)."""
    sort_fields: tuple[str, ...]
    schema_label: str  # of the records of the target
    options: Options
    locations: str  # path of the locations of all pieces; empty if they are not needed
    superseded_runs: Sequence[
        RunSlice
    ] = ()  # records superseded by others that are equal but for their run
    superseded: Sequence[RunSlice] = ()  # keys superseded by other keys of the same identity
    superseded_hashes: tuple[str, str] = ("", "")  # fingerprints of both
    sources: str = ""  # path of the sources of the records; empty if they are not tracked
    copied: tuple[Shard, str] | None = None
    """Part of a trusted corpus that should have the same text, and the 128-bit xxh3 of its file."""
    grown: Part | None = (
        # part of the base that has all records but those of new pieces: only these are tallied
        None
    )
    first_new: int = 0  # the lowest number of a new piece
    turns: int = (
        0  # workers that take turns at making parts, if the page cache cannot hold all runs; else 0
    )

    @property
    def is_copy(self) -> bool:
        """Whether the text is surely that of `copied`, and nothing else is made of it: it need not be read."""
        options = self.options
        listed = self.copied[0].listed if self.copied else None
        if not listed or not listed.columns:
            return False
        if options.incremental or options.leaves_out or options.same_run == "ignore":
            return False
        if len(self.slices) != 1:
            return False
        [part] = self.slices
        # Records with equal keys may contradict each other, which their texts tell.
        return part.is_input and part.data_end == listed.text_bytes and not part.has_repeats

    def __str__(self) -> str:
        return f"writing part {self.number} of the corpus"


@collector_off()
def make_part(task: PartTask) -> Part:
    release_buffer()
    try:
        return _make_part(task)
    except NotACopyError:
        return _make_part(msgspec.structs.replace(task, copied=None))
    except _NotGrownError:
        return _make_part(msgspec.structs.replace(task, grown=None))


class _NotGrownError(Exception):
    """Numbers of pieces do not tell the records of the base from new ones: all have to be tallied."""


def _make_part(task: PartTask) -> Part:
    options = task.options
    split = key_splitter(task.sort_fields)
    same_run = resolver = None
    if options.same_run == "ignore":
        same_run = _SameRunFilter(superseded_in(task.superseded_runs, task.low, task.high))
    if options.leaves_out:
        superseded = [key for key, _ in superseded_in(task.superseded, task.low, task.high)]
        resolver = _Resolver(options.conflicts, options.repeats, superseded, task.locations)
    columns = None if task.is_copy else ColumnsBuilder(task.schema_label)
    kept = _Records(task.sort_fields, columns=columns, grown=task.grown, first_new=task.first_new)
    seen = _Records(task.sort_fields, with_counts=False)
    lines = kept.counts.lines
    contradictions: dict[tuple[bytes, ...], list[int | None]] = {}
    first = last = b""
    keeper = _Keeper(task) if options.incremental else None
    sources = _SourcesWriter(task.sources, task.locations) if task.sources else None
    with (
        keeper.files if keeper else nullcontext(),
        sources.file if sources else nullcontext(),
        _writer(task) as writer,
    ):
        windows = gather(
            task.slices,
            task.low,
            task.high,
            task.window_bytes,
            with_texts=not task.is_copy,
            turns=task.turns,
            open_part=open_part,
        )
        for everything in windows:
            window = everything
            left: Sequence[int] = range(len(everything.keys))
            if same_run:
                left = same_run.filter(everything)
                for index in set(range(len(everything.keys))).difference(left):
                    for number, _, count in _origins_of(everything, index):
                        lines.duplicates[number] += count
                window = _select(everything, left)
            found = find_contradictions(window.keys, window.texts, window.groups)
            contradictions |= {tuple(split(key)): numbers for key, numbers in found.items()}
            if resolver:
                seen.add(window)
                stay = resolver.resolve(window, found)
                left = [left[index] for index in stay]
                window = _select(window, stay)
            if keeper:
                keeper.add(everything, left, window)
            if window.keys:
                kept.add(window)
                lines.kept.update(map(_piece_of, window.rows))
                for index, origins in window.origins.items():
                    lines.kept[window.rows[index][Column.SOURCE]] -= 1
                    lines.shared[tuple((number, count) for number, _, count in origins)] += 1
                first = first or window.keys[0]
                last = window.keys[-1]
                writer.write(window.texts)
                if sources:
                    sources.write(window.rows, window.origins)
        if resolver:
            lines.left_out = resolver.by_piece
            lines.duplicates.update(resolver.duplicates)
        written = writer.finish()
        tracked = sources.finish(lines.pieces()) if sources else None
        if keeper:
            keeper.end()
    keys = kept.keys()
    files = write_statistics(
        task.statistics_prefix,
        kept.counts,
        keys,
        kept.outcomes,
        contradictions,
        seen=seen.keys() if resolver else None,
        compressed=options.incremental,
    )
    if same_run:
        files.append(
            write_bodies(task.statistics_prefix, same_run.bodies, compressed=options.incremental)
        )
    if resolver:
        files.append(resolver.write(f"{task.statistics_prefix}-left-out"))
    part = Part(
        number=task.number,
        fingerprint=task.fingerprint,
        low=task.low,
        written=written,
        records=len(kept.outcomes),
        first=first,
        last=last,
        left_out=resolver.by_code if resolver else {},
        files=tuple(files),
        path=task.path,
        statistics_prefix=task.statistics_prefix,
        superseded=task.superseded_hashes,
        names=resolver.names_hash(lines.pieces()) if resolver else "",
        columns=_write_columns(task, columns, written) if kept.outcomes else None,
        sources=tracked,
    )
    return keeper.finish(part) if keeper else part


def _writer(task: PartTask) -> ShardWriter:
    if task.copied:
        return ShardCopier(task.path, *task.copied, is_known=task.is_copy, synced=False)
    return ShardWriter(task.path, task.options.compression, task.options.level, synced=False)


def _write_columns(task: PartTask, columns: ColumnsBuilder | None, written: Written) -> SideFile:
    """Write the columns of a part; those of a part that is copied unread are copied, too."""
    path = columns_path(task.path)
    if columns:
        return SideFile(path, *columns.write(path, written.text_xxh3_128))
    assert task.copied
    original, listed = listed_columns(task.copied[0])
    storage_of(path).copy(original, path)
    if sha256_of_file(path) != (listed.bytes, listed.sha256):
        raise ShardError(
            original, "is damaged: `fastrec verify` lists everything that is wrong with a corpus"
        )
    return SideFile(path, listed.bytes, listed.sha256)


class _Records:
    """What statistics need of the records of a part.

    Many at a time are split and tallied, which is faster.
    """

    def __init__(
        self,
        sort_fields: tuple[str, ...],
        *,
        with_counts: bool = True,
        columns: ColumnsBuilder | None = None,
        grown: Part | None = None,
        first_new: int = 0,
    ) -> None:
        """If a part has `grown`, only records of pieces from `first_new` on are added to its tally.

        A record that old pieces have, too, has the number of one of these.
        """
        self._with_counts = with_counts
        self._columns = columns
        self._split = column_splitter(sort_fields)
        self._waiting_keys: list[bytes] = []
        self._waiting_rows: list[Any] = []
        self._waiting_sizes: list[int] = []
        self._waiting_fingerprints: list[int] = []
        self._keys = KeyColumns()
        self.counts = (
            PartCounts(read_part_counts([grown.statistics_prefix]).tally) if grown else PartCounts()
        )
        self._grown = grown
        self._first_new = first_new
        self._old = grown.records if grown else 0  # records of the grown part that are to come
        self.outcomes: list[Outcome] = []

    def add(self, window: Window) -> None:
        self._waiting_keys += window.keys
        if self._with_counts:
            self.outcomes += map(outcome_of, window.rows)
            self._waiting_rows += window.rows
        if self._columns:
            self._columns.add_metadata(window.texts)
            self._waiting_sizes += map(len, window.texts)
            self._waiting_fingerprints += window.fingerprints
        if len(self._waiting_keys) >= _BATCH:
            self._add_waiting()

    def keys(self) -> KeyColumns:
        self._add_waiting()
        if self._old:
            raise _NotGrownError
        return self._keys

    def _add_waiting(self) -> None:
        fields = self._split(self._waiting_keys)
        if self._columns:
            self._columns.add(
                fields, self._waiting_rows, self._waiting_sizes, self._waiting_fingerprints
            )
        if self._with_counts:
            self._count(fields)
        self._keys += fields
        self._waiting_keys = []
        self._waiting_rows = []
        self._waiting_sizes = []
        self._waiting_fingerprints = []

    def _count(self, fields: KeyColumns) -> None:
        """Add the waiting records to the tally; if a part of the base has grown, only the new ones."""
        rows = self._waiting_rows
        if self._grown:
            new = [at for at, row in enumerate(rows) if row[Column.SOURCE] >= self._first_new]
            self._old -= len(rows) - len(new)
            fields = self._split([self._waiting_keys[at] for at in new])
            rows = [rows[at] for at in new]
        self.counts.tally.add(fields, rows)


def _select(window: Window, records: Sequence[int]) -> Window:
    if len(records) == len(window.keys):
        return window
    keys = [window.keys[index] for index in records]
    origins = window.origins
    groups: list[tuple[int, int]] = []
    if window.groups:
        ends = [*accumulate(len(list(group)) for _, group in groupby(keys))]
        groups = [(first, end) for first, end in pairwise([0, *ends]) if end - first > 1]
    return Window(
        keys=keys,
        rows=[window.rows[index] for index in records],
        texts=[window.texts[index] for index in records],
        fingerprints=[window.fingerprints[index] for index in records],
        origins={new: origins[index] for new, index in enumerate(records) if index in origins}
        if origins
        else {},
        groups=groups,
    )


def _origins_of(window: Window, index: int) -> Origins:
    row = window.rows[index]
    return window.origins.get(index) or ((row[Column.SOURCE], row[Column.LINE], 1),)


class _SameRunFilter:
    """Drops records of a part that are equal to others but for their run and their label."""

    def __init__(self, superseded: Iterable[tuple[bytes, bytes]]) -> None:
        self._superseded = frozenset(superseded)
        self.bodies: list[tuple[bytes, bytes]] = []  # the digest of each record's body, and its key

    def filter(self, window: Window) -> list[int]:
        """The positions of the records of a window that stay; the others are duplicates."""
        kept: list[int] = []
        last = b""
        seen = set[bytes]()
        for index, (key, text) in enumerate(zip(window.keys, window.texts, strict=True)):
            digest = body_digest(text)
            self.bodies.append((digest, key))
            if key != last:
                last = key
                seen = set()
            if digest not in seen and (key, digest) not in self._superseded:
                seen.add(digest)
                kept.append(index)
        return kept


class _Resolver:
    """Leaves out contradictions and repeats of a part, and collects them."""

    def __init__(
        self, conflicts: Choice, repeats: Choice, superseded: Iterable[bytes], locations: str
    ) -> None:
        self._conflicts = conflicts
        self._repeats = repeats
        self._superseded = frozenset(superseded)
        self._locations_path = locations
        self._locations: Locations = {}
        self._left_out: list[RejectedLine] = []
        self.by_piece: Counter[int] = Counter()  # records left out, by piece
        self.duplicates: Counter[int] = Counter()  # copies of these records, by piece

    @property
    def by_code(self) -> Counter[str]:
        return Counter(record.code for record in self._left_out)

    def resolve(self, window: Window, contradictions: Contradictions) -> list[int]:
        keys = window.keys
        kept: list[int] = []
        if not window.groups and self._superseded.isdisjoint(keys):
            return list(range(len(keys)))
        for key, group in groupby(range(len(keys)), key=keys.__getitem__):
            records = list(group)
            if len(records) == 1 and key not in self._superseded:
                kept += records
                continue
            numbers = contradictions.get(key) or [None] * len(records)
            units = self._units(records, numbers, window)
            if self._repeats == "keep":
                stay = len(units)
            elif key in self._superseded:
                stay = 0
            else:
                stay = int(self._repeats == "first" or len(units) == 1)
            kept += sorted(index for unit in units[:stay] for index in unit)
            self._leave_out(
                "repeat", self._repeats, [index for unit in units[stay:] for index in unit], window
            )
        return kept

    def _units(
        self, records: Sequence[int], numbers: Sequence[int | None], window: Window
    ) -> list[list[int]]:
        """Resolve the contradictions of a key, and return what are repeats of each other.

        A record that contradicts no other is a unit. A contradiction is one too, unless it is left
        out.
        """
        units: list[list[int]] = []
        unit_of: dict[int, list[int]] = {}
        left_out = []
        for index, number in zip(records, numbers, strict=True):
            if number is None:
                units.append([index])
            elif number not in unit_of and self._conflicts != "reject":
                unit_of[number] = [index]
                units.append(unit_of[number])
            elif self._conflicts == "keep":
                unit_of[number].append(index)
            else:
                left_out.append(index)
        self._leave_out("conflict", self._conflicts, left_out, window)
        return units

    def _leave_out(self, kind: str, choice: Choice, records: Iterable[int], window: Window) -> None:
        code = f"{kind}.not_first" if choice == "first" else f"{kind}.rejected"
        for index in records:
            self._locations = self._locations or _read_locations(self._locations_path)
            sources = _origins_of(window, index)
            for number, _, count in sources:
                self.duplicates[number] += count
            number, line, _ = min(sources, key=lambda source: self._locations[source[0]][0])
            self.duplicates[number] -= 1
            self.by_piece[number] += 1
            _, name, base = self._locations[number]
            raw = bytes(window.texts[index]).removesuffix(b"\n")
            finding = Finding(code, "$", _MESSAGES[kind])
            self._left_out.append(
                rejected_line(name, InvalidLine(line + base, None, (finding,), raw))
            )

    def names_hash(self, pieces: Iterable[int]) -> str:
        """A fingerprint of where the pieces of the part are, if records were left out."""
        return names_hash(self._locations, pieces) if self._left_out else ""

    def write(self, path: str) -> FileDigest:
        self._left_out.sort(key=lambda record: (record.source, record.line))
        with RejectsWriter(path) as file:
            for record in self._left_out:
                file.write(record.to_json())
            file.end_range()
        return digest_of(path)


@lru_cache(maxsize=1)
def _read_locations(path: str) -> Locations:
    """Read a file of locations, whose name has a fingerprint of its content.

    A worker reads it once.
    """
    found: Locations = next(read_blocks(path))
    return found


def names_hash(locations: Locations, pieces: Iterable[int]) -> str:
    """A fingerprint of what some pieces are called, and of their order."""
    found = [(locations[number], number) for number in pieces if number in locations]
    names = [(name, base, number) for (_, name, base), number in sorted(found)]
    return xxh3_128_hexdigest(msgspec.msgpack.encode(names))


class _SourcesWriter:
    """Writes the sources of the records of a part to `file`."""

    def __init__(self, path: str, locations: str) -> None:
        self._path = path
        self._locations = _read_locations(locations)
        self._begins: dict[
            int, tuple[bytes, int]
        ] = {}  # by piece: how its lines begin, and the lines before it
        self.file = ShardWriter(path, "zst", _SOURCES_LEVEL, synced=False)

    def write(self, rows: Sequence[Any], origins: OriginsByPosition) -> None:
        """Append the sources of records, given their rows and the sources of those with several copies."""
        places = list(map(_piece_and_line, rows))
        for index, sources in origins.items():
            places[index] = min(sources, key=lambda source: self._locations[source[0]][0])[:2]
        begins = self._begins
        for piece in {piece for piece, _ in places}.difference(begins):
            _, name, base = self._locations[piece]
            begins[piece] = line_begin(name), base
        lines = [b"%b%d}\n" % (begins[piece][0], line + begins[piece][1]) for piece, line in places]
        self.file.write([b"".join(lines)])

    def finish(self, pieces: Iterable[int]) -> PartSources:
        """End the file of a part that has records of these pieces."""
        written = self.file.finish()
        return PartSources(
            self._path, written.bytes, written.sha256, names_hash(self._locations, pieces)
        )


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
    pieces = read_lines_by_piece(part.statistics_prefix).pieces()
    if part.sources and part.sources.names == names_hash(_read_locations(task.locations), pieces):
        return part.sources
    writer = _SourcesWriter(task.path, task.locations)
    with writer.file:
        index = read_index(part.index)
        places = zip(array("I", index.pieces), array("Q", index.lines), strict=True)
        writer.write(list(places), dict(index.origins))
        return writer.finish(pieces)


class _Keeper:
    """Writes what the next run needs to read the part like a run, to `files`: complete once their context is left."""

    def __init__(self, task: PartTask) -> None:
        self._task = task
        self._borders = BorderSizes(task.sort_fields)
        self.files = ExitStack()
        self._pieces = array("I")
        self._lines = array("Q")
        self._origins: list[tuple[int, Origins]] = []
        self._excluded: tuple[ShardWriter, IndexWriter] | None = None
        self._excluded_bytes = 0

    def end(self) -> None:
        if self._excluded:
            self._excluded_bytes = self._excluded[0].finish().text_bytes

    def add(self, window: Window, left: Sequence[int], kept: Window) -> None:
        """Add a window: all records, the positions of those that were kept, and these records."""
        self._borders.add(window.keys, list(map(len, window.texts)))
        self._origins += [
            (len(self._pieces) + position, each) for position, each in sorted(kept.origins.items())
        ]
        self._pieces.extend(map(_piece_of, kept.rows))
        self._lines.extend(map(_line_of, kept.rows))
        if len(left) < len(window.keys):
            excluded = _select(window, sorted(set(range(len(window.keys))).difference(left)))
            if self._excluded is None:
                path = f"{self._task.statistics_prefix}-excluded"
                data = ShardWriter(path, "zst", _EXCLUDED_LEVEL)
                index = IndexWriter(index_of(path), fenced=False, compressed=True)
                self._excluded = self.files.enter_context(data), self.files.enter_context(index)
            self._excluded[0].write(excluded.texts)
            sizes = list(map(len, excluded.texts))
            self._excluded[1].add(
                excluded.keys, sizes, excluded.fingerprints, excluded.rows, excluded.origins
            )

    def finish(self, part: Part) -> Part:
        """The part with all files, which are complete by now."""
        borders = self._borders.borders
        index = PartIndex(
            text_hash=part.written.text_xxh3_128,
            sort_fields=self._task.sort_fields,
            schema_label=self._task.schema_label,
            pieces=self._pieces.tobytes(),
            lines=self._lines.tobytes(),
            origins=self._origins,
        )
        written = FileDigest(part.index, *write_blocks(part.index, [index], compressed=True))
        files = [*part.files, written, write_borders(part.borders, borders)]
        excluded: Excluded | None = None
        if self._excluded:
            path = f"{part.statistics_prefix}-excluded"
            (_, others) = self._excluded
            files += [digest_of(path), FileDigest(index_of(path), others.size, others.hash())]
            excluded = Excluded(path, self._excluded_bytes, others.size)
        return msgspec.structs.replace(
            part,
            files=tuple(files),
            index_bytes=written.size,
            excluded=excluded,
            border=borders[0][0] if borders else b"",
        )
