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
from contextlib import ExitStack
from functools import lru_cache
from itertools import accumulate, chain, groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from xxhash import xxh3_128_hexdigest

from fastrec.corpus.columns import ColumnsBuilder, columns_path, listed_columns
from fastrec.corpus.part_records import PartIndex, open_part, read_index
from fastrec.corpus.rejects import RejectedLine, RejectsWriter, rejected_line
from fastrec.corpus.sources import line_begin
from fastrec.corpus.writer import NotACopyError, ShardCopier, ShardWriter
from fastrec.engine.base import collector_off
from fastrec.errors import ShardError
from fastrec.judge.batch import InvalidLine
from fastrec.judge.findings import Finding
from fastrec.normalize.options import Choice, Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.normalize.results import Part, PartSources
from fastrec.sorting.cuts import BorderSizes, write_borders
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.gather import RunSlice, Window, gather
from fastrec.sorting.keys import KeyColumns, column_splitter, key_splitter
from fastrec.sorting.runs import IndexWriter, Origins, Run, by_position, index_of
from fastrec.sources.shard import Shard
from fastrec.storage import FileDigest, digest_of, sha256_of_file, storage_of
from fastrec.summary.part_statistics import (
    LinesByPiece,
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

_BATCH = 20_000  # records added to the tally at a time, because it adds up columns by model
_EXCLUDED_LEVEL = 1  # compression of records that are only kept for the next run
_SOURCES_LEVEL = 1  # numbers of lines are in no order, so a higher level does not save much
_MESSAGES = {
    "conflict": "expected one verdict on this output, found others",
    "repeat": "expected one record of this identity, found others that differ",
}

_piece_of = itemgetter(Column.SOURCE)
_line_of = itemgetter(Column.LINE)
_piece_and_line = itemgetter(Column.SOURCE, Column.LINE)

# By number of a piece: its position in the order of pieces, its source, and the lines before it.
#
# Tasks know the lines of a record by piece. Its shard may have another name and another place in
# the order of the input than when the piece was sorted. So the driver writes the locations of all
# pieces to a file once pass 1 is done.
Locations = Mapping[int, tuple[int, str, int]]


class Superseded(NamedTuple):
    """Records of a part that lose against others, which may be in other parts."""

    runs: Sequence[RunSlice] = ()  # others are equal but for their run
    keys: Sequence[RunSlice] = ()  # other keys of the same identity


class PartTask(msgspec.Struct, frozen=True):
    number: int
    fingerprint: str
    low: bytes | None
    high: bytes | None
    slices: list[RunSlice]
    window_bytes: int  # bytes merged at a time
    path: str
    # Path prefix of the census (`-hash`, `-id`, `-run`), the counts (`-counts`) and records left
    # out (`-left-out`). If work is kept: also of the index (`-index`), the borders (`-borders`) and
    # the excluded records (`-excluded`).
    statistics_prefix: str
    sort_fields: tuple[str, ...]
    schema_label: str  # of the records of the target
    options: Options
    locations: str  # path of the locations of all pieces; empty if they are not needed
    superseded: Superseded
    superseded_hashes: tuple[str, ...]  # fingerprints of both kinds
    sources: str  # path of the sources of the records; empty if they are not tracked
    # Part of a trusted corpus that should have the same text, and the 128-bit xxh3 of its file.
    copied: tuple[Shard, str] | None = None
    # Part of the base that has all records but those of new pieces: only these are tallied.
    grown: Part | None = None
    first_new: int = 0  # the lowest number of a new piece
    # Workers that take turns at making parts, if the page cache cannot hold all runs; else 0.
    turns: int = 0

    @property
    def is_copy(self) -> bool:
        """Whether the text is surely that of `copied`, and nothing else is made of it.

        Then it need not be read.
        """
        listed = self.copied[0].listed if self.copied else None
        if not listed or not listed.columns:
            return False
        options = self.options
        if options.incremental or not options.keeps_all_records or len(self.slices) != 1:
            return False
        [part] = self.slices
        # Records with equal keys may contradict each other, which their texts tell.
        return part.is_part and part.data_end == listed.text_bytes and not part.has_repeats

    def __str__(self) -> str:
        return f"writing part {self.number} of the corpus"


@collector_off()
def make_part(task: PartTask) -> Part:
    release_buffer()
    try:
        return _make_part(task)
    except NotACopyError:
        return _make_part(replace(task, copied=None))
    except _NotGrownError:
        return _make_part(replace(task, grown=None))


class _NotGrownError(Exception):
    """Numbers of pieces do not tell the records of the base from new ones.

    So all have to be tallied.
    """


def _make_part(task: PartTask) -> Part:
    with ExitStack() as files:
        sink = _PartWriter(task, files)
        steps = _steps_of(task, sink, files)
        windows = gather(
            task.slices,
            task.low,
            task.high,
            task.window_bytes,
            with_texts=not task.is_copy,
            turns=task.turns,
            open_part=open_part,
        )
        for window in windows:
            records = _Selection(window)
            for step in steps:
                step.add(records)
        for step in steps:
            step.end()
    part = sink.part()
    for step in steps:
        part = step.complete(part)
    return part


def _steps_of(task: PartTask, sink: _PartWriter, files: ExitStack) -> list[_Step]:
    """The steps that each window of records goes through, in order."""
    steps: list[_Step] = []
    options = task.options
    if options.same_run == "ignore":
        steps.append(_SameRunFilter(task, sink))
    steps.append(_ContradictionFinder(task, sink))
    if options.leaves_out:
        steps.append(_Resolver(task, sink))
    if options.incremental:
        steps.append(_Keeper(task, files))
    steps.append(sink)
    if task.sources:
        steps.append(_SourcesWriter(task.sources, task.locations, sink.lines, files))
    return steps


class _Selection:
    """A window on its way through the steps: all its records, and those that are left."""

    def __init__(self, everything: Window) -> None:
        self.everything = everything
        self.window = everything  # the records that are left
        self.positions: Sequence[int] = range(len(everything.keys))  # of these in `everything`
        self.contradictions: Contradictions = {}

    def keep(self, records: Sequence[int]) -> None:
        """Leave only these of the records that are left, given by position."""
        self.positions = [self.positions[index] for index in records]
        self.window = _select(self.window, records)

    def others(self) -> list[int]:
        """The positions of the records that are not left."""
        return sorted(set(range(len(self.everything.keys))).difference(self.positions))


class _Step:
    """A step of making a part. It gets each window, may leave out records, and adds to the part."""

    def add(self, records: _Selection) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """End after the last window, while files are open."""

    def complete(self, part: Part) -> Part:
        """Add results to the part, after all files were closed."""
        return part


class _PartWriter(_Step):
    """Writes the records that are left, counts them, and makes the part.

    If a part of the base has grown, only records of new pieces are added to its tally. A record
    that old pieces have, too, has the number of one of these.
    """

    def __init__(self, task: PartTask, files: ExitStack) -> None:
        self._task = task
        self._columns = None if task.is_copy else ColumnsBuilder(task.schema_label)
        self._split = column_splitter(task.sort_fields)
        self._new_keys = KeyColumns()  # of records that wait to be tallied
        self._new_rows: list[Any] = []
        self._keys = KeyColumns()
        self._outcomes: list[Outcome] = []
        self._counts = PartCounts()
        self._old = 0  # records of the grown part that are to come
        if task.grown:
            self._counts.tally = read_part_counts([task.grown.statistics_prefix]).tally
            self._old = task.grown.records
        self.lines = self._counts.lines
        self.contradictions: dict[tuple[bytes, ...], list[int | None]] = {}
        self.seen: KeyColumns | None = None  # the keys before contradictions were resolved
        self._first = b""
        self._last = b""
        writer: ShardWriter
        if task.copied:
            writer = ShardCopier(task.path, *task.copied, is_known=task.is_copy, synced=False)
        else:
            options = task.options
            writer = ShardWriter(task.path, options.compression, options.level, synced=False)
        self._writer = files.enter_context(writer)

    def add(self, records: _Selection) -> None:
        window = records.window
        if not window.keys:
            return
        keys = self._split(window.keys)
        rows = window.rows
        self._keys += keys
        self._outcomes += map(outcome_of, rows)
        if self._columns:
            self._columns.add(keys, rows, window.sizes, window.fingerprints)
            self._columns.add_metadata(window.texts)
        if self._task.grown:
            new = [at for at, row in enumerate(rows) if _piece_of(row) >= self._task.first_new]
            self._old -= len(rows) - len(new)
            keys = self._split([window.keys[at] for at in new])
            rows = [rows[at] for at in new]
        self._new_keys += keys
        self._new_rows += rows
        if len(self._new_rows) >= _BATCH:
            self._tally()
        lines = self.lines
        lines.kept.update(map(_piece_of, window.rows))
        for origins in filter(None, window.origins):
            lines.kept[origins[0][0]] -= 1  # which the row has
            lines.shared[tuple((number, count) for number, _, count in origins)] += 1
        self._first = self._first or window.keys[0]
        self._last = window.keys[-1]
        self._writer.write(window.texts)

    def _tally(self) -> None:
        self._counts.tally.add(self._new_keys, self._new_rows)
        self._new_keys = KeyColumns()
        self._new_rows = []

    def end(self) -> None:
        self._tally()
        if self._old:
            raise _NotGrownError
        self._written = self._writer.finish()

    def part(self) -> Part:
        task = self._task
        files = write_statistics(
            task.statistics_prefix,
            self._counts,
            self._keys,
            self._outcomes,
            self.contradictions,
            seen=self.seen,
            compressed=task.options.incremental,
        )
        return Part(
            number=task.number,
            fingerprint=task.fingerprint,
            low=task.low,
            written=self._written,
            records=len(self._outcomes),
            first=self._first,
            last=self._last,
            files=tuple(files),
            path=task.path,
            statistics_prefix=task.statistics_prefix,
            superseded=task.superseded_hashes,
            columns=self._write_columns() if self._outcomes else None,
        )

    def _write_columns(self) -> FileDigest:
        """Write the columns of a part; those of a part that is copied unread are copied, too."""
        path = columns_path(self._task.path)
        if self._columns:
            return FileDigest(path, *self._columns.write(path, self._written.text_xxh3_128))
        assert self._task.copied
        original, listed = listed_columns(self._task.copied[0])
        storage_of(path).copy(original, path)
        if sha256_of_file(path) != (listed.bytes, listed.sha256):
            raise ShardError(
                original,
                "is damaged: `fastrec verify` lists everything that is wrong with a corpus",
            )
        return FileDigest(path, listed.bytes, listed.sha256)


def _with_file(part: Part, file: FileDigest) -> Part:
    return replace(part, files=(*part.files, file))


class _ContradictionFinder(_Step):
    """Finds contradictions in each window, and collects them."""

    def __init__(self, task: PartTask, sink: _PartWriter) -> None:
        self._split = key_splitter(task.sort_fields)
        self._sink = sink

    def add(self, records: _Selection) -> None:
        window = records.window
        records.contradictions = find_contradictions(window.keys, window.texts, window.groups)
        for key, numbers in records.contradictions.items():
            self._sink.contradictions[tuple(self._split(key))] = numbers


def _select(window: Window, records: Sequence[int]) -> Window:
    if len(records) == len(window.keys):
        return window
    selected = Window(*window.pick(records))
    if window.groups:
        ends = accumulate(len(list(group)) for _, group in groupby(selected.keys))
        groups = pairwise([0, *ends])
        selected.groups = [(first, end) for first, end in groups if end - first > 1]
    return selected


def _origins_of(window: Window, index: int) -> Origins:
    row = window.rows[index]
    return window.origins[index] or ((row[Column.SOURCE], row[Column.LINE], 1),)


class _SameRunFilter(_Step):
    """Drops records of a part that are equal to others but for their run and their label."""

    def __init__(self, task: PartTask, sink: _PartWriter) -> None:
        self._task = task
        self._superseded = frozenset(superseded_in(task.superseded.runs, task.low, task.high))
        self._bodies: list[tuple[bytes, bytes]] = []  # the digest of each body, and its key
        self._duplicates = sink.lines.duplicates

    def add(self, records: _Selection) -> None:
        window = records.window
        kept = []
        last = b""
        seen = set[bytes]()
        for index, (key, text) in enumerate(zip(window.keys, window.texts, strict=True)):
            digest = body_digest(text)
            self._bodies.append((digest, key))
            if key != last:
                last = key
                seen = set()
            if digest not in seen and (key, digest) not in self._superseded:
                seen.add(digest)
                kept.append(index)
        records.keep(kept)
        for index in records.others():
            for number, _, count in _origins_of(window, index):
                self._duplicates[number] += count

    def complete(self, part: Part) -> Part:
        prefix = self._task.statistics_prefix
        compressed = self._task.options.incremental
        return _with_file(part, write_bodies(prefix, self._bodies, compressed=compressed))


class _Resolver(_Step):
    """Leaves out contradictions and repeats of a part, and collects them."""

    def __init__(self, task: PartTask, sink: _PartWriter) -> None:
        superseded = superseded_in(task.superseded.keys, task.low, task.high)
        self._task = task
        self._sink = sink
        self._split = column_splitter(task.sort_fields)
        self._seen = KeyColumns()
        self._superseded = frozenset(key for key, _ in superseded)
        self._locations: Locations = {}
        self._left_out: list[RejectedLine] = []
        self._by_piece: Counter[int] = Counter()  # records left out, by piece
        self._duplicates: Counter[int] = Counter()  # copies of these records, by piece

    def add(self, records: _Selection) -> None:
        window = records.window
        self._seen += self._split(window.keys)
        keys = window.keys
        if not window.groups and self._superseded.isdisjoint(keys):
            return
        kept = []
        repeats = self._task.options.repeats
        for key, group in groupby(range(len(keys)), key=keys.__getitem__):
            same_key = list(group)
            if len(same_key) == 1 and key not in self._superseded:
                kept += same_key
                continue
            numbers = records.contradictions.get(key) or [None] * len(same_key)
            units = self._units(same_key, numbers, window)
            if repeats == "keep":
                stay = len(units)
            elif key in self._superseded:
                stay = 0
            else:
                stay = int(repeats == "first" or len(units) == 1)
            kept += sorted(chain.from_iterable(units[:stay]))
            self._leave_out("repeat", repeats, chain.from_iterable(units[stay:]), window)
        records.keep(kept)

    def end(self) -> None:
        lines = self._sink.lines
        lines.left_out = self._by_piece
        lines.duplicates.update(self._duplicates)
        self._sink.seen = self._seen

    def complete(self, part: Part) -> Part:
        self._left_out.sort(key=lambda record: (record.source, record.line))
        path = f"{self._task.statistics_prefix}-left-out"
        with RejectsWriter(path) as file:
            for record in self._left_out:
                file.add(record.to_json())
            file.end_range()
        names = ""
        if self._left_out:
            names = names_hash(self._locations, self._sink.lines.pieces())
        codes = Counter(record.code for record in self._left_out)
        return replace(_with_file(part, digest_of(path)), left_out=codes, names=names)

    def _units(
        self, records: Sequence[int], numbers: Sequence[int | None], window: Window
    ) -> list[list[int]]:
        """Resolve the contradictions of a key, and return what are repeats of each other.

        A record that contradicts no other is a unit. A contradiction is one too, unless it is left
        out.
        """
        units = []
        unit_of = {}
        left_out = []
        conflicts = self._task.options.conflicts
        for index, number in zip(records, numbers, strict=True):
            if number is None:
                units.append([index])
            elif number not in unit_of and conflicts != "reject":
                unit_of[number] = [index]
                units.append(unit_of[number])
            elif conflicts == "keep":
                unit_of[number].append(index)
            else:
                left_out.append(index)
        self._leave_out("conflict", conflicts, left_out, window)
        return units

    def _leave_out(self, kind: str, choice: Choice, records: Iterable[int], window: Window) -> None:
        code = f"{kind}.not_first" if choice == "first" else f"{kind}.rejected"
        for index in records:
            self._locations = self._locations or _read_locations(self._task.locations)
            sources = _origins_of(window, index)
            for number, _, count in sources:
                self._duplicates[number] += count
            number, line, _ = min(sources, key=lambda source: self._locations[source[0]][0])
            self._duplicates[number] -= 1
            self._by_piece[number] += 1
            _, name, base = self._locations[number]
            raw = bytes(window.texts[index]).removesuffix(b"\n")
            finding = Finding(code, "$", _MESSAGES[kind])
            self._left_out.append(
                rejected_line(name, InvalidLine(line + base, None, (finding,), raw))
            )


@lru_cache(maxsize=1)
def _read_locations(path: str) -> Locations:
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


class _SourcesWriter(_Step):
    """Writes the sources of the records of a part that are left."""

    def __init__(self, path: str, locations: str, lines: LinesByPiece, files: ExitStack) -> None:
        self._path = path
        self._locations = _read_locations(locations)
        self._lines = lines
        # by piece: how its lines begin, and the lines before it
        self._begins: dict[int, tuple[bytes, int]] = {}
        self._file = files.enter_context(ShardWriter(path, "zst", _SOURCES_LEVEL, synced=False))

    def add(self, records: _Selection) -> None:
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
    names = names_hash(_read_locations(task.locations), lines.pieces())
    if part.sources and part.sources.names == names:
        return part.sources
    with ExitStack() as files:
        writer = _SourcesWriter(task.path, task.locations, lines, files)
        index = read_index(part.index)
        places = zip(array("I", index.pieces), array("Q", index.lines), strict=True)
        writer.write(list(places), index.origins)
        writer.end()
    return writer.sources


class _Keeper(_Step):
    """Writes what the next run needs to read the part like a run."""

    def __init__(self, task: PartTask, files: ExitStack) -> None:
        self._task = task
        self._borders = BorderSizes(task.sort_fields)
        self._span = b"", b""
        self._files = files
        self._pieces = array("I")
        self._lines = array("Q")
        self._origins: list[tuple[int, Origins]] = []
        self._excluded: tuple[ShardWriter, IndexWriter] | None = None
        self._excluded_bytes = 0

    def add(self, records: _Selection) -> None:
        everything = records.everything
        kept = records.window
        self._borders.add(everything.keys, everything.sizes)
        self._span = self._span[0] or everything.keys[0], everything.keys[-1]
        first = len(self._pieces)
        self._origins += [
            (first + position, origins) for position, origins in by_position(kept.origins)
        ]
        self._pieces.extend(map(_piece_of, kept.rows))
        self._lines.extend(map(_line_of, kept.rows))
        if len(kept.keys) < len(everything.keys):
            self._exclude(_select(everything, records.others()))

    def _exclude(self, excluded: Window) -> None:
        if self._excluded is None:
            path = f"{self._task.statistics_prefix}-excluded"
            self._excluded = (
                self._files.enter_context(ShardWriter(path, "zst", _EXCLUDED_LEVEL)),
                self._files.enter_context(IndexWriter(index_of(path), compressed=True)),
            )
        data, index = self._excluded
        data.write(excluded.texts)
        index.add(
            excluded.keys,
            excluded.sizes,
            excluded.fingerprints,
            excluded.rows,
            excluded.origins,
        )

    def end(self) -> None:
        if self._excluded:
            self._excluded_bytes = self._excluded[0].finish().text_bytes

    def complete(self, part: Part) -> Part:
        index = PartIndex(
            text_hash=part.written.text_xxh3_128,
            sort_fields=self._task.sort_fields,
            schema_label=self._task.schema_label,
            pieces=self._pieces.tobytes(),
            lines=self._lines.tobytes(),
            origins=self._origins,
        )
        written = FileDigest(part.index, *write_blocks(part.index, [index], compressed=True))
        files = [*part.files, written, write_borders(part.borders, self._borders.borders)]
        excluded = None
        if self._excluded:
            path = f"{part.statistics_prefix}-excluded"
            _, others = self._excluded
            index_hash = others.hash()
            excluded = Run(
                path,
                others.records,
                self._excluded_bytes,
                others.size,
                [],
                index_hash=index_hash,
                part=path,
            )
            files += [digest_of(path), *excluded.files]
        return replace(
            part,
            files=tuple(files),
            index_bytes=written.size,
            excluded=excluded,
            span=self._span,
        )
