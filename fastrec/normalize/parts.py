"""Run pass 2: make all parts and count the census.

1. Parts of the base whose range did not change stay as they are.
2. Reuse the parts that an interrupted run has made from the same slices. Make the others, and add them to the journal.
3. With `--same-run ignore`, find records that are equal but for their run. Make the parts that lose others of them than
   before again.
4. Count the census. Records of one identity with different hashes may be in different parts. With `--repeats`, make the
   parts that lose others of them than before again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
from xxhash import xxh3_128, xxh3_128_hexdigest

from fastrec.corpus.sources import sources_path
from fastrec.errors import utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.pass1_driver import SortedShards
from fastrec.normalize.pass2 import PartTask, make_part
from fastrec.normalize.plan import Plan
from fastrec.normalize.results import Part
from fastrec.normalize.resume import find_parts
from fastrec.normalize.sources import Locations, complete_sources, names_hash, write_locations
from fastrec.sorting.gather import RunSlice
from fastrec.sorting.runs import Run
from fastrec.sources.shard import Shard
from fastrec.storage import parent_and_name, storage_of
from fastrec.summary.part_statistics import Census, RepeatsRule, count_census, read_lines_by_piece
from fastrec.summary.same_run import SameRunCounts, find_same_run, slices_of, superseded_in


def make_parts(
    context: RunContext,
    shards: Sequence[Shard],
    sorted_shards: SortedShards,
    plan: Plan,
    *,
    has_same_input: bool = False,
) -> tuple[list[Part], Census]:
    """Make all parts that are planned, and count the census.

    If input and parts are the same as in the last run, its summary is still true, and the census is not needed.
    """
    locations, path, names = write_locations(context, shards, sorted_shards)
    context.progress.start("merge", sum(run.data_bytes for run in plan.runs))
    parts, census = _PartsMaker(context, plan, path, locations, names, has_same_input).make()
    with_sources = complete_sources(context, parts, plan.base.parts, path)
    context.progress.finish()
    return with_sources, census


def number_parts(context: RunContext, parts: Sequence[Part]) -> list[Part]:
    """Number the parts that have records from 0 on, put them in place, and remove all other files of parts."""
    parts = [part for part in parts if part.records]
    storage = storage_of(context.output.staged(""))
    staged = {path for path in context.output.staged_files() if parent_and_name(path)[1].startswith("part-")}
    wanted = {part.path for part in parts} | {part.sources.path for part in parts if part.sources}
    for path in staged - wanted:
        context.output.check()
        storage.remove(path)

    def put(path: str, name: str) -> str:
        if path not in staged:
            return context.output.reuse(path, name)
        if path != context.output.staged(name):
            context.output.rename(parent_and_name(path)[1], name)
        return context.output.staged(name)

    numbered: list[Part] = []
    for number, part in enumerate(parts):
        name, sources = context.part_name(number), part.sources
        path = put(part.path, name)
        if sources:
            sources = msgspec.structs.replace(sources, path=put(sources.path, sources_path(name)))
        numbered.append(msgspec.structs.replace(part, number=number, path=path, sources=sources))
    return numbered


class _Step(IntEnum):
    """Why parts are made."""

    ALL = 0
    SAME_RUN = 1
    REPEATS = 2


class _Superseded(NamedTuple):
    """Records that a part leaves out because of other parts."""

    same_run: Sequence[RunSlice] = ()
    repeats: Sequence[RunSlice] = ()


class _PartsMaker(msgspec.Struct, frozen=True):
    """Makes the parts of one corpus."""

    _context: RunContext
    _plan: Plan
    _locations_path: str
    _locations: Locations
    _names: str  # fingerprint of all locations
    _has_same_input: bool

    def make(self) -> tuple[dict[int, Part], Census]:
        options = self._context.options
        superseded = {number: _Superseded() for number in range(len(self._plan.ranges))}
        parts = self._make(_Step.ALL, superseded, self._unchanged())
        same_run = SameRunCounts()
        if options.same_run == "ignore":
            same_run = self._find_same_run(parts)
            superseded = {number: _Superseded(self._slices(same_run.superseded, number)) for number in parts}
            parts = self._make(_Step.SAME_RUN, superseded, parts)
        rule = None
        if options.repeats != "keep":
            path = self._context.output.working("repeats")
            rule = RepeatsRule(options.sort_fields, options.repeats, options.conflicts == "reject", path)
        unchanged = {part.fingerprint for part in self._plan.base.parts}
        is_same = self._has_same_input and all(part.fingerprint in unchanged for part in parts.values())
        census = Census() if is_same and not rule else self._count_census(parts, rule)
        census.same_run = same_run
        if rule:
            superseded = {
                number: self._with_repeats(some, census.superseded, number) for number, some in superseded.items()
            }
            made = self._make(_Step.REPEATS, superseded, parts)
            if made != parts:
                census.questions = self._count_census(made, None).questions
            parts = made
        return parts, census

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

    def _with_repeats(self, superseded: _Superseded, runs: Sequence[Run], number: int) -> _Superseded:
        return superseded._replace(repeats=self._slices(runs, number))

    def _slices(self, runs: Sequence[Run], number: int) -> list[RunSlice]:
        """Return the superseded records of a part."""
        return slices_of(runs, *self._plan.ranges[number])

    def _unchanged(self) -> dict[int, Part]:
        """Return the parts of the base that stay as they are, unless they leave out others than before."""
        unchanged: dict[int, Part] = {}
        for number, part in self._plan.unchanged.items():
            # The records that a part leaves out are named by shard and line.
            if not part.names or part.names == names_hash(
                self._locations, read_lines_by_piece(part.statistics_prefix).pieces()
            ):
                unchanged[number] = msgspec.structs.replace(part, number=number, low=self._plan.ranges[number][0])
        return unchanged

    def _make(self, step: _Step, superseded: Mapping[int, _Superseded], parts: Mapping[int, Part]) -> dict[int, Part]:
        """Make the parts that are missing, or leave out other superseded records; return all of them by number."""
        context = self._context
        hashes = {number: self._superseded_hashes(number, some) for number, some in superseded.items()}
        made = {number: part for number, part in parts.items() if part.superseded[:step] == hashes[number][:step]}
        wanted = [number for number in superseded if number not in made]
        fingerprint = {number: self._fingerprint(number, hashes[number]) for number in wanted}
        found = find_parts(
            context.journal.entries,
            {key: context.part_path(number) for number, key in fingerprint.items()},
            context.engine,
        )
        if found:
            context.notice(f"{len(found):,} of {len(wanted):,} parts are reused from an interrupted run")
        for number in wanted:
            if part := found.get(fingerprint[number]):
                self._sync(part)
                context.journal.add(part)  # another run may have made it
                made[number] = self._held(msgspec.structs.replace(part, number=number))
        text = sum(part.written.text_bytes for part in found.values())
        if found:
            context.progress.reuse(text)
        count = len(found)
        # The largest parts come first, so that all workers end at about the same time.
        left = sorted(
            (number for number in wanted if fingerprint[number] not in found),
            key=self._plan.estimated_text,
            reverse=True,
        )
        # Tasks are made when workers take them: those of all parts with slices of all runs would take gigabytes.
        tasks = (self._task(number, fingerprint[number], superseded[number], hashes[number]) for number in left)
        for _, part in context.engine.run(make_part, tasks):
            context.output.check()
            self._sync(part)  # meanwhile, workers make other parts
            context.journal.add(part)
            made[part.number] = self._held(part)
            text += part.written.text_bytes
            count += 1
            context.progress.expect(text * len(wanted) // count)  # runs still have duplicates; parts are alike
            context.progress.advance(part.written.text_bytes, part.records, 0)
        return dict(sorted(made.items()))

    def _sync(self, part: Part) -> None:
        self._context.output.sync(part.path)
        if part.sources:
            self._context.output.sync(part.sources.path)

    def _held(self, part: Part) -> Part:
        """Return what later steps need of a part."""
        return part if self._context.options.incremental else msgspec.structs.replace(part, files=())

    def _fingerprint(self, number: int, hashes: tuple[str, str]) -> str:
        """Return a fingerprint of everything that determines the content of a part."""
        settings, options = self._context.journal.settings, self._context.options
        extras = (options.incremental, options.track_sources)
        slices = self._plan.slices(number)
        named = [msgspec.structs.replace(one, path=utf8(one.path), index=utf8(one.index)) for one in slices]
        return _hash_of((settings, *self._plan.ranges[number], named, hashes, self._names, *extras))

    def _task(self, number: int, fingerprint: str, superseded: _Superseded, hashes: tuple[str, str]) -> PartTask:
        context, options = self._context, self._context.options
        low, high = self._plan.ranges[number]
        slices = self._plan.slices(number)
        merged = any(run.bounds for run in self._plan.runs)
        return PartTask(
            number=number,
            fingerprint=fingerprint,
            low=low,
            high=high,
            slices=slices,
            window_bytes=options.wide_window_bytes if merged else options.window_for(len(slices)),
            path=context.part_path(number),
            statistics_prefix=context.statistics_prefix(fingerprint),
            options=options,
            locations=self._locations_path,
            same_run_losers=superseded.same_run,
            superseded=superseded.repeats,
            superseded_hashes=hashes,
            sources=sources_path(context.part_path(number)) if options.track_sources else "",
        )

    def _superseded_hashes(self, number: int, superseded: _Superseded) -> tuple[str, str]:
        """Return fingerprints of the superseded records of a part; empty if there are none."""
        low, high = self._plan.ranges[number]
        return _losers_hash(superseded.same_run, low, high), _losers_hash(superseded.repeats, low, high)


def _losers_hash(slices: Sequence[RunSlice], low: bytes | None, high: bytes | None) -> str:
    digest = xxh3_128()
    for loser in superseded_in(slices, low, high):
        digest.update(_encode(loser))
    return digest.hexdigest() if slices else ""


def _prefixes(parts: Mapping[int, Part]) -> list[str]:
    return [part.statistics_prefix for _, part in sorted(parts.items())]


def _hash_of(values: Any) -> str:
    return xxh3_128_hexdigest(_encode(values))


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
