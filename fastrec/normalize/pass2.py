"""Pass 2: make the parts of the corpus from runs, and from parts of the last run.

    gather a range of keys from all runs · merge · drop duplicates ──▶ leave out ──▶ count ──▶
    compress · checksum

`part_steps` has the task of a part and what its steps share, `leaving_out` and `part_sources` have
steps; those that write the part, and what the next run needs, are here.

One task makes one part. It writes the counts of the part, its census and the records that options
left out to files, so what the driver holds of a part does not grow with the part.

If the next run is to build on this one, the task also writes the index of the part, its borders,
and the records that options left out. So the part can be read like a run.
"""

from __future__ import annotations

from array import array
from contextlib import ExitStack
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from fastrec.corpus.columns import ColumnsBuilder, columns_path, listed_columns
from fastrec.corpus.part_records import PartIndex, open_part
from fastrec.corpus.writer import NotACopyError, ShardCopier, ShardWriter
from fastrec.engine.base import collector_off
from fastrec.errors import ShardError
from fastrec.normalize.leaving_out import ContradictionFinder, Resolver, SameRunFilter
from fastrec.normalize.part_sources import SourcesWriter
from fastrec.normalize.part_steps import PartFacts, PartTask, Selection, Step, select
from fastrec.normalize.pass1 import release_buffer
from fastrec.normalize.results import Part
from fastrec.sorting.cuts import BorderSizes, write_borders
from fastrec.sorting.files import write_blocks
from fastrec.sorting.gather import Window, gather
from fastrec.sorting.keys import KeyColumns, column_splitter
from fastrec.sorting.runs import IndexWriter, OriginsByPosition, Run, by_position, index_of
from fastrec.storage import FileDigest, digest_of, sha256_of_file, storage_of
from fastrec.summary.part_statistics import (
    PartCounts,
    read_part_counts,
    write_statistics,
)
from fastrec.summary.rows import Column, outcome_of
from fastrec.summary.tally import Outcome

_BATCH = 20_000  # records added to the tally at a time, because it adds up columns by model
_EXCLUDED_LEVEL = 1  # compression of records that are only kept for the next run
_piece_of = itemgetter(Column.SOURCE)
_line_of = itemgetter(Column.LINE)


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
            records = Selection(window)
            for step in steps:
                step.add(records)
        for step in steps:
            step.end()
    part = sink.part()
    for step in steps:
        part = step.complete(part)
    return part


def _steps_of(task: PartTask, sink: _PartWriter, files: ExitStack) -> list[Step]:
    """The steps that each window of records goes through, in order."""
    steps: list[Step] = []
    settings = task.settings
    if settings.same_run == "ignore":
        steps.append(SameRunFilter(task, sink.facts))
    steps.append(ContradictionFinder(task, sink.facts))
    if settings.leaves_out:
        steps.append(Resolver(task, sink.facts))
    if settings.incremental:
        steps.append(_Keeper(task, files))
    steps.append(sink)
    if task.sources:
        steps.append(SourcesWriter(task.sources, task.locations, sink.facts.lines, files))
    return steps


class _PartWriter(Step):
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
        self.facts = PartFacts(self._counts.lines)
        self._first = b""
        self._last = b""
        writer: ShardWriter
        if task.copied:
            writer = ShardCopier(task.path, *task.copied, is_known=task.is_copy, synced=False)
        else:
            settings = task.settings
            writer = ShardWriter(task.path, settings.compression, settings.level, synced=False)
        self._writer = files.enter_context(writer)

    def add(self, records: Selection) -> None:
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
        lines = self.facts.lines
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
            self.facts.contradictions,
            seen=self.facts.seen,
            compressed=task.settings.incremental,
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
        storage_of(path).write_all(path, storage_of(original).read_all(original))
        if sha256_of_file(path) != (listed.bytes, listed.sha256):
            raise ShardError(
                original,
                "is damaged: `fastrec verify` lists everything that is wrong with a corpus",
            )
        return FileDigest(path, listed.bytes, listed.sha256)


class _Keeper(Step):
    """Writes what the next run needs to read the part like a run."""

    def __init__(self, task: PartTask, files: ExitStack) -> None:
        self._task = task
        self._borders = BorderSizes(task.sort_fields)
        self._span = b"", b""
        self._files = files
        self._pieces = array("I")
        self._lines = array("Q")
        self._origins: OriginsByPosition = []
        self._excluded: tuple[ShardWriter, IndexWriter] | None = None
        self._excluded_bytes = 0

    def add(self, records: Selection) -> None:
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
            self._exclude(select(everything, records.others()))

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
