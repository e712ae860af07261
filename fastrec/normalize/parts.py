"""Run pass 2: make all parts and count the census.

1. Each range of keys between two cuts is a part.
2. Reuse the parts that an interrupted run has made from the same input. Make the others, and add them to the journal.
3. Count the census. Records of one identity with different hashes may be in different parts. With `--conflicts`, the
   parts that lose some of them are made again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
from xxhash import xxh3_128_hexdigest

from fastrec.errors import utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.pass1_driver import SortedShards
from fastrec.normalize.pass2 import PartTask, make_part
from fastrec.normalize.results import Part
from fastrec.normalize.resume import find_parts
from fastrec.sorting.files import write_blocks
from fastrec.sorting.gather import slice_merged, slice_run
from fastrec.sorting.keys import join_key
from fastrec.sorting.spill import Run
from fastrec.sources.shard import Shard
from fastrec.storage import parent_and_name, storage_of
from fastrec.summary.part_statistics import Census, count_census

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
    if context.options.conflicts != "keep":
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


@dataclass(frozen=True)
class _PartsMaker:
    """Makes the parts of one corpus."""

    _context: RunContext
    _runs: Sequence[Run]
    _ranges: Sequence[tuple[bytes | None, bytes | None]]
    _locations: str
    _made_of: str

    def make(self) -> tuple[list[Part], Census]:
        parts = self._make(dict.fromkeys(range(len(self._ranges)), frozenset()))
        resolves = self._context.options.conflicts != "keep"
        census = self._count_census(parts, across_hashes=resolves)
        if census.across_hashes:
            losers = sorted(self._losers(census))
            touched = {
                number: frozenset(keys)
                for number, (low, high) in enumerate(self._ranges)
                if (keys := losers[_position(losers, low, 0) : _position(losers, high, len(losers))])
            }
            parts |= self._make(touched)
            census.questions = self._count_census(parts, across_hashes=False).questions
        return [part for _, part in sorted(parts.items())], census

    def _count_census(self, parts: Mapping[int, Part], *, across_hashes: bool) -> Census:
        context = self._context
        prefixes = [part.census for _, part in sorted(parts.items())]
        return count_census(prefixes, context.output.work, context.engine, context.limits, across_hashes=across_hashes)

    def _make(self, wanted: Mapping[int, frozenset[bytes]]) -> dict[int, Part]:
        """Make parts, given their numbers and the keys that each one leaves out."""
        context = self._context
        made_of = {
            number: _hash_of((self._made_of, number, *self._ranges[number], sorted(losers)))
            for number, losers in wanted.items()
        }
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

    def _task(self, number: int, made_of: str, losers: frozenset[bytes]) -> PartTask:
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
            losers,
        )

    def _losers(self, census: Census) -> set[bytes]:
        """Return the keys whose records are left out because another key has the same identity."""
        losers, options = set[bytes](), self._context.options
        for conflict in census.across_hashes:
            before, after = conflict.evaluation, (conflict.model, conflict.evaluation_id, conflict.sample_id)
            rivals = sorted(join_key((before, hash_, *after), options.sort_fields) for hash_ in conflict.hashes)
            losers.update(rivals[1:] if options.conflicts == "first" else rivals)
        return losers


def _made_of(context: RunContext, sorted_shards: SortedShards) -> str:
    """Return a hash of everything that determines the corpus: the text of each piece, and the options."""
    pieces = (counts for result in sorted_shards.results for counts in result.pieces)
    texts = sorted((counts.piece.number, counts.read.raw_hash, counts.read.raw_start) for counts in pieces)
    return _hash_of((texts, context.journal.purpose))


def _hash_of(values: Any) -> str:
    return xxh3_128_hexdigest(msgspec.msgpack.encode(values, order="deterministic"))


def _position(keys: list[bytes], key: bytes | None, default: int) -> int:
    return default if key is None else bisect_left(keys, key)
