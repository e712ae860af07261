"""Run pass 2: make all parts and count the census.

1. Each range of keys between two cuts is a part.
2. Reuse the parts that an interrupted run has made from the same input. Make the others, and add them to the journal.
3. With `--same-run ignore`, find records that are equal but for their run. Make the parts that lose some of them again.
4. Count the census. Records of one identity with different hashes may be in different parts. With `--repeats`, make the
   parts that lose some of them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from xxhash import xxh3_128_hexdigest

from fastrec.errors import utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.pass1_driver import SortedShards
from fastrec.normalize.pass2 import PartTask, make_part
from fastrec.normalize.results import Part
from fastrec.normalize.resume import find_parts
from fastrec.sorting.files import write_blocks
from fastrec.sorting.gather import RunSlice, slice_merged, slice_run
from fastrec.sorting.spill import Run
from fastrec.sources.shard import Shard
from fastrec.storage import parent_and_name, storage_of
from fastrec.summary.losers import slices_of
from fastrec.summary.part_statistics import Census, RepeatsRule, count_census
from fastrec.summary.same_run import SameRunCounts, find_same_run

__all__ = ["close_gaps", "make_parts"]


def make_parts(
    context: RunContext,
    shards: Sequence[Shard],
    sorted_shards: SortedShards,
    runs: Sequence[Run],
    cuts: Sequence[bytes],
) -> tuple[list[Part], Census]:
    """Make all parts from runs, and count the census; `cuts` are the first keys of all parts but the first."""
    locations = ""
    if context.options.leaves_out:
        locations = context.output.working("locations")
        bases = sorted_shards.with_line_bases()
        names = {counts.piece.number: (utf8(shards[counts.piece.shard].path), base) for counts, base in bases}
        write_blocks(locations, [names])
    context.progress.start("merge", sum(run.data_bytes for run in runs))
    ranges = list(pairwise([None, *cuts, None])) if runs else []
    result = _PartsMaker(context, runs, ranges, locations, _made_of(context, sorted_shards)).make()
    context.progress.finish()
    return result


def close_gaps(context: RunContext, parts: Sequence[Part]) -> list[Part]:
    """Number parts that have records from 0 on, and remove all other files of parts."""
    parts = [part for part in parts if part.records]
    wanted = {context.part_path(part.number) for part in parts}
    for path in context.output.staged_files():
        if parent_and_name(path)[1].startswith("part-") and path not in wanted:
            context.output.check()
            storage_of(path).remove(path)
    for number, part in enumerate(parts):
        if number != part.number:
            context.output.rename(context.part_name(part.number), context.part_name(number))
    return [
        msgspec.structs.replace(part, number=number, path=context.part_path(number))
        for number, part in enumerate(parts)
    ]


class _Step(IntEnum):
    """Why parts are made."""

    ALL = 0
    SAME_RUN = 1
    REPEATS = 2


class _Losers(NamedTuple):
    """Records that a part leaves out because of other parts."""

    same_run: Sequence[RunSlice] = ()
    repeats: Sequence[RunSlice] = ()


@dataclass(frozen=True)
class _PartsMaker:
    """Makes the parts of one corpus."""

    _context: RunContext
    _runs: Sequence[Run]
    _ranges: Sequence[tuple[bytes | None, bytes | None]]
    _locations: str
    _made_of: str

    def make(self) -> tuple[list[Part], Census]:
        options = self._context.options
        nothing: dict[int, _Losers] = {number: _Losers() for number in range(len(self._ranges))}
        parts = self._make(_Step.ALL, nothing)
        same_run, losers = SameRunCounts(), nothing
        if options.same_run == "ignore":
            same_run = self._find_same_run(parts)
            losers = {number: _Losers(self._slices(same_run.losers, number)) for number in parts}
            parts |= self._make(_Step.SAME_RUN, {number: some for number, some in losers.items() if some.same_run})
        rule = None
        if options.repeats != "keep":
            path = self._context.output.working("repeats")
            rule = RepeatsRule(options.sort_fields, options.repeats, options.conflicts == "reject", path)
        census = self._count_census(parts, rule)
        census.same_run = same_run
        if census.losers:
            losers = {number: self._with_repeats(some, census.losers, number) for number, some in losers.items()}
            parts |= self._make(_Step.REPEATS, {number: some for number, some in losers.items() if some.repeats})
            census.questions = self._count_census(parts, None).questions
        return [part for _, part in sorted(parts.items())], census

    def _find_same_run(self, parts: Mapping[int, Part]) -> SameRunCounts:
        context = self._context
        output, sort_fields = context.output, context.options.sort_fields
        prefixes = _prefixes(parts)
        path = output.working("same-run")
        return find_same_run(
            prefixes, path, sort_fields, directory=output.work, engine=context.engine, limits=context.limits
        )

    def _count_census(self, parts: Mapping[int, Part], rule: RepeatsRule | None) -> Census:
        context = self._context
        return count_census(_prefixes(parts), context.output.work, context.engine, context.limits, rule)

    def _with_repeats(self, losers: _Losers, runs: Sequence[Run], number: int) -> _Losers:
        return losers._replace(repeats=self._slices(runs, number))

    def _slices(self, runs: Sequence[Run], number: int) -> list[RunSlice]:
        """Return the losers of a part."""
        return slices_of(runs, *self._ranges[number])

    def _make(self, step: _Step, wanted: Mapping[int, _Losers]) -> dict[int, Part]:
        """Make parts, given their numbers and the losers that each one leaves out."""
        context = self._context
        # The losers of a part follow from the input and the options.
        made_of = {number: _hash_of((self._made_of, number, *self._ranges[number], step)) for number in wanted}
        paths = {made_of[number]: context.part_path(number) for number in wanted}
        found = find_parts(context.journal.entries, paths, context.engine)
        if found:
            context.notice(f"{len(found):,} of {len(wanted):,} parts are reused from an interrupted run")
        made = {number: found[made_of[number]] for number in wanted if made_of[number] in found}
        for part in made.values():
            context.journal.add(part)  # another run may have made it
        text = sum(part.written.text_bytes for part in made.values())
        if made:
            context.progress.reuse(text)
        tasks = (self._task(number, made_of[number], losers) for number, losers in wanted.items() if number not in made)
        for _, part in context.engine.run(make_part, tasks):
            context.output.check()
            context.journal.add(part)
            made[part.number] = msgspec.structs.replace(part, files=())
            text += part.written.text_bytes
            context.progress.expect(text * len(wanted) // len(made))  # runs still have duplicates; parts are alike
            context.progress.advance(part.written.text_bytes, part.records, 0)
        return made

    def _task(self, number: int, made_of: str, losers: _Losers) -> PartTask:
        context, options = self._context, self._context.options
        low, high = self._ranges[number]
        found = [slice_merged(run, number) if run.bounds else slice_run(run, low, high) for run in self._runs]
        slices = [piece for piece in found if piece]
        merged = any(run.bounds for run in self._runs)
        return PartTask(
            number,
            made_of,
            low,
            high,
            slices,
            options.wide_window_bytes if merged else options.window_for(len(slices)),
            context.part_path(number),
            context.census_path(number),
            options,
            self._locations,
            losers.same_run,
            losers.repeats,
        )


def _prefixes(parts: Mapping[int, Part]) -> list[str]:
    return [part.census for _, part in sorted(parts.items())]


def _made_of(context: RunContext, sorted_shards: SortedShards) -> str:
    """Return a hash of everything that determines the corpus: the text of each piece, and the options."""
    pieces = (counts for result in sorted_shards.results for counts in result.pieces)
    texts = sorted((counts.piece.number, counts.read.raw_hash, counts.read.raw_start) for counts in pieces)
    return _hash_of((texts, context.journal.purpose))


def _hash_of(values: Any) -> str:
    return xxh3_128_hexdigest(msgspec.msgpack.encode(values, order="deterministic"))
