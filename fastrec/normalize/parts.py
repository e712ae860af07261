"""Run pass 2: make all parts and count the census.

1. Parts of the base whose range did not change stay as they are.
2. Reuse the parts that an interrupted run has made from the same slices. Make the others, and add
   them to the journal.
3. With `--same-run ignore`, find records that are equal but for their run. Make the parts that lose
   others of them than before again.
4. Count the census. Records of one identity with different hashes may be in different parts. With
   `--repeats`, make the parts that lose others of them than before again.
5. With `--track-sources`, bring the sources of the parts of the base up to date: their records
   stay, but shards may have other names or another order.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace
from xxhash import xxh3_128, xxh3_128_hexdigest

from fastrec.corpus.columns import columns_path
from fastrec.corpus.sources import sources_path
from fastrec.errors import utf8
from fastrec.normalize.context import RunContext
from fastrec.normalize.part_sources import Locations, SourcesTask, names_hash, update_sources
from fastrec.normalize.part_steps import PartTask, Superseded
from fastrec.normalize.pass1_driver import SortedShards
from fastrec.normalize.pass2 import make_part
from fastrec.normalize.plan import Plan
from fastrec.normalize.results import Part, PartsByNumber
from fastrec.normalize.resume import find_parts
from fastrec.parameters import Names
from fastrec.sorting.files import write_blocks
from fastrec.sorting.keys import field_end
from fastrec.sorting.slices import Bound, RunSlice
from fastrec.sources.shard import Shard, Shards
from fastrec.storage import base_name, storage_of
from fastrec.summary.part_statistics import (
    Census,
    RepeatsRule,
    count_census,
    kept_census,
    read_lines_by_piece,
    write_census,
)
from fastrec.summary.same_run import SameRunCounts, find_same_run, slices_of, superseded_in


def make_parts(
    context: RunContext,
    shards: Shards,
    sorted_shards: SortedShards,
    plan: Plan,
) -> tuple[list[Part], Census]:
    """Make all parts that are planned, and count the census.

    If all shards are those of the last run, all parts are, and the census is not needed.
    """
    locations, path = _write_locations(context, shards, sorted_shards)
    copies = _find_copies(context, shards, sorted_shards, plan)
    context.progress.start("merge", sum(run.data_bytes for run in plan.runs))
    if plan.base.is_same:
        parts, census = plan.unchanged, Census()
    else:
        parts, census = _PartsMaker(context, plan, path, locations, copies).make()
    with_sources = _complete_sources(context, parts, plan.base.parts, path)
    context.progress.finish()
    return with_sources, census


def _write_locations(
    context: RunContext, shards: Shards, sorted_shards: SortedShards
) -> tuple[Locations, str]:
    """Write the locations of all pieces, if tasks need them.

    Return them, and the path of the file, whose name has a fingerprint of them.
    """
    options = context.options
    if not (options.part_settings.leaves_out or options.track_sources):
        return {}, ""
    locations = {
        counts.piece.number: (at, utf8(shards[counts.piece.shard].path), base)
        for at, (counts, base) in enumerate(sorted_shards.with_line_bases())
    }
    names = xxh3_128_hexdigest(msgspec.msgpack.encode(sorted(locations.items())))
    path = context.output.working(f"locations-{names}")
    write_blocks(path, [locations])
    return locations, path


def _find_copies(
    context: RunContext, shards: Shards, sorted_shards: SortedShards, plan: Plan
) -> dict[int, tuple[Shard, str]]:
    """By number of a part, the part of a trusted corpus with exactly its records, and its hash.

    So its file can be copied. It is compressed as this part would be, and no other shard has keys
    in this range.
    """
    settings = context.options
    wanted = f"{settings.compression} {settings.level}"
    if plan.base.parts or not any(shard.compression == wanted for shard in shards):
        return {}
    pieces = [counts for counts in sorted_shards.pieces() if counts.first]
    copies = {}
    for number, (low, high) in enumerate(plan.ranges):
        inside = [
            counts
            for counts in pieces
            if (not high or counts.first < high) and (not low or counts.last >= low)
        ]
        if len(inside) == 1 and not inside[0].filtered:
            [only] = inside  # a part of a trusted corpus is one piece
            shard = shards[only.piece.shard]
            is_whole = (not low or low <= only.first) and (not high or only.last < high)
            if shard.compression == wanted and is_whole:
                copies[number] = shard, only.read.raw_hash
    return copies


def _complete_sources(
    context: RunContext, parts: Mapping[int, Part], base: Sequence[Part], locations: str
) -> list[Part]:
    """All parts in order, each with its sources as they are now.

    Without, if they are not tracked.
    """
    if not context.options.track_sources:
        return [replace(part, sources=None) for part in parts.values()]
    # Parts that this run has made have their sources already.
    known = {part.fingerprint for part in base}
    done = list(parts.values())
    stale = [
        number for number, part in enumerate(done) if part.fingerprint in known and part.records
    ]
    tasks = (
        SourcesTask(done[number], sources_path(context.part_path(number)), locations)
        for number in stale
    )
    for at, sources in context.engine.run(update_sources, tasks):
        context.output.check()
        number = stale[at]
        if sources != done[number].sources:
            context.output.sync(sources.path)
            done[number] = replace(done[number], sources=sources)
    return done


def number_parts(context: RunContext, parts: Sequence[Part]) -> list[Part]:
    """Number the parts that have records from 0 on, and put them in place.

    Remove all other files of parts.
    """
    parts = [part for part in parts if part.records]
    storage = storage_of(context.output.staged(""))
    staged = {path for path in context.output.staged_files() if base_name(path).startswith("part-")}
    wanted = {file.path for part in parts for file in part.made}
    for path in staged - wanted:
        context.output.check()
        storage.remove(path)

    def put(path: str, name: str) -> str:
        if path not in staged:
            return context.output.reuse(path, name)
        if path != context.output.staged(name):
            context.output.rename(base_name(path), name)
        return context.output.staged(name)

    numbered = []
    for number, part in enumerate(parts):
        name = context.part_name(number)
        names = (name, columns_path(name), sources_path(name))
        paths = [put(file.path, new) for file, new in zip(part.made, names, strict=False)]
        numbered.append(replace(part.at(*paths), number=number))
    return numbered


_MANY = 32  # parts per worker


class _PartsMaker(msgspec.Struct, frozen=True):
    _context: RunContext
    _plan: Plan
    _locations_path: str
    _locations: Locations
    # by number of a part, a file that probably has the same text, and its hash
    _copies: dict[int, tuple[Shard, str]]

    def make(self) -> tuple[PartsByNumber, Census]:
        context = self._context
        options = context.options
        ranges = self._plan.ranges
        superseded = dict.fromkeys(range(len(ranges)), Superseded())
        parts = self._make(superseded, self._unchanged(), known=0)
        same_run = SameRunCounts()
        if options.same_run == "ignore":
            same_run = find_same_run(
                [part.statistics_prefix for part in parts.values()],
                context.output.working("same-run"),
                context.sort_fields,
                directory=context.output.work,
                engine=context.engine,
            )
            superseded = {
                number: Superseded(slices_of(same_run.superseded, *ranges[number]))
                for number in superseded
            }
            parts = self._make(superseded, parts, known=1)
        rule = None
        if options.repeats != "keep":
            path = context.output.working("repeats")
            rejects_conflicts = options.conflicts == "reject"
            rule = RepeatsRule(context.sort_fields, options.repeats, rejects_conflicts, path)
        parts, census = self._count_census(parts, rule)
        if rule:
            superseded = {
                number: Superseded(others.runs, slices_of(census.superseded, *ranges[number]))
                for number, others in superseded.items()
            }
            again = self._make(superseded, parts, known=2)
            if again != parts:
                again, counted = self._count_census(again, None)
                census.questions = counted.questions
            parts = again
        census.same_run = same_run
        return parts, census

    def _count_census(
        self, parts: Mapping[int, Part], rule: RepeatsRule | None
    ) -> tuple[PartsByNumber, Census]:
        """Count the census of all parts, and keep that of each group with its first part.

        A group that the base has, too, is not counted again, so a change reads the lists of few
        parts.
        """
        context = self._context
        total = Census()
        groups = {
            xxh3_128_hexdigest(_encode([parts[number].fingerprint for number in group])): group
            for group in self._groups(parts)
        }
        known = {
            part.census.path: part.census
            for part in self._plan.base.parts
            if part.census and not rule
        }
        paths = {key: context.output.working(f"group-{key}") for key in groups}
        files = {key: known[path] for key, path in paths.items() if path in known}
        new = [key for key in groups if key not in files]
        prefixes = [[parts[number].statistics_prefix for number in groups[key]] for key in new]
        counted = count_census(prefixes, context.output.work, context.engine, rule)
        for census in (*counted, *(kept_census(file.path) for file in files.values())):
            total += census
        if context.options.incremental and not rule:
            files |= {
                key: write_census(paths[key], census)
                for key, census in zip(new, counted, strict=True)
            }
        of_first = {group[0]: files.get(key) for key, group in groups.items()}
        return {
            number: replace(part, census=of_first.get(number)) for number, part in parts.items()
        }, total

    def _groups(self, parts: Mapping[int, Part]) -> list[list[int]]:
        """The numbers of all parts in groups which have no evaluation in common."""
        field = self._context.sort_fields[0]
        groups: list[list[int]] = []
        last = None
        for number, part in parts.items():
            first = end = None
            # Which evaluations records have that were left out is not known.
            if field == "evaluation_name" and part.records and not part.left_out:
                first, end = (key[: field_end(key, 0, field)] for key in (part.first, part.last))
            if groups and (first is None or last is None or first == last):
                groups[-1].append(number)
            else:
                groups.append([number])
            last = end
        return groups

    def _unchanged(self) -> PartsByNumber:
        """The parts of the base that stay as they are, unless they leave out others than before."""
        unchanged = {}
        for number, part in self._plan.unchanged.items():
            # The records that a part leaves out are named by shard and line.
            if not part.names or part.names == names_hash(
                self._locations, read_lines_by_piece(part.statistics_prefix).pieces()
            ):
                unchanged[number] = replace(part, number=number, low=self._plan.ranges[number][0])
        return unchanged

    def _make(
        self, superseded: Mapping[int, Superseded], parts: Mapping[int, Part], known: int
    ) -> PartsByNumber:
        """Make the parts that are missing, or leave out other superseded records than before.

        `known` is how many kinds of superseded records are known by now.
        """
        context = self._context
        ranges = self._plan.ranges
        hashes = {
            number: tuple(_hash_of_superseded(slices, *ranges[number]) for slices in others)
            for number, others in superseded.items()
        }
        done = {
            number: part
            for number, part in parts.items()
            if part.superseded[:known] == hashes[number][:known]
        }
        wanted = [number for number in superseded if number not in done]
        reused = self._reuse(wanted, hashes)
        done |= reused
        left = [number for number in wanted if number not in done]
        # The largest parts come first, so that all workers end at about the same time. With many
        # parts, they do anyway, and runs are read from front to back. Those of large inputs are
        # read ahead in that order.
        if len(left) < _MANY * context.engine.jobs and not self._plan.is_large:
            left.sort(key=self._text_of, reverse=True)
        # Tasks are made when workers take them: those of all parts with slices of all runs would
        # take gigabytes.
        tasks = (self._task(number, superseded[number], hashes[number]) for number in left)
        text = sum(part.written.text_bytes for part in reused.values())
        count = len(reused)
        for _, part in context.engine.run(make_part, tasks):
            context.output.check()
            self._sync(part)  # meanwhile, workers make other parts
            context.journal.add(part)
            done[part.number] = self._held(part)
            text += part.written.text_bytes
            count += 1
            # Runs still have duplicates; parts are alike.
            context.progress.expect(text * len(wanted) // count)
            context.progress.advance(part.written.text_bytes, part.records, 0)
        return dict(sorted(done.items()))

    def _reuse(self, wanted: Sequence[int], hashes: Mapping[int, Names]) -> PartsByNumber:
        """The parts that an interrupted run has made, by number."""
        context = self._context
        if not context.journal.entries:
            return {}  # fingerprints take long with many runs
        fingerprints = {
            self._fingerprint(number, self._plan.slices(number), hashes[number]): number
            for number in wanted
        }
        paths = {key: context.part_path(number) for key, number in fingerprints.items()}
        known_parts = find_parts(context.journal.entries, paths, context.engine)
        reused = {}
        for key, part in known_parts.items():
            number = fingerprints[key]
            self._sync(part)
            context.journal.add(part)  # another run may have made it
            reused[number] = self._held(replace(part, number=number))
        if reused:
            context.notice(
                f"{len(reused):,} of {len(wanted):,} parts are reused from an interrupted run"
            )
            context.progress.reuse(sum(part.written.text_bytes for part in reused.values()))
        return reused

    def _text_of(self, number: int) -> int:
        """Text of all slices that a part is made from."""
        return sum(piece.data_end - piece.data_start for piece in self._plan.slices(number))

    def _sync(self, part: Part) -> None:
        for file in part.made:
            self._context.output.sync(file.path)

    def _held(self, part: Part) -> Part:
        return part if self._context.options.incremental else replace(part, files=())

    def _fingerprint(self, number: int, slices: Sequence[RunSlice], hashes: Names) -> str:
        options = self._context.options
        content = (
            self._context.journal.settings,
            *self._plan.ranges[number],
            hashes,
            base_name(self._locations_path),
            options.incremental,
            options.track_sources,
            slices,
        )
        try:
            return xxh3_128_hexdigest(_encode(content))
        except UnicodeEncodeError:  # a path is not UTF-8
            return xxh3_128_hexdigest(repr(content).encode(errors="backslashreplace"))

    def _task(self, number: int, superseded: Superseded, hashes: Names) -> PartTask:
        context = self._context
        options = context.options
        settings = options.part_settings
        low, high = self._plan.ranges[number]
        slices = self._plan.slices(number)
        fingerprint = self._fingerprint(number, slices, hashes)
        path = context.part_path(number)
        return PartTask(
            number=number,
            fingerprint=fingerprint,
            low=low,
            high=high,
            slices=slices,
            window_bytes=options.window_for(len(slices)),
            path=path,
            statistics_prefix=context.output.working(f"census-{fingerprint}"),
            sort_fields=context.sort_fields,
            schema_label=context.target.label,
            settings=settings,
            locations=self._locations_path,
            superseded=superseded,
            superseded_hashes=hashes,
            sources=sources_path(path) if options.track_sources else "",
            copied=self._copies.get(number),
            grown=self._plan.grown(number) if settings.keeps_all_records else None,
            first_new=self._plan.base.next_piece,
            turns=context.engine.jobs if self._plan.is_large else 0,
        )


def _hash_of_superseded(slices: Sequence[RunSlice], low: Bound, high: Bound) -> str:
    """A fingerprint of the superseded records of a part; empty if there are none."""
    digest = xxh3_128()
    for record in superseded_in(slices, low, high):
        digest.update(_encode(record))
    return digest.hexdigest() if slices else ""


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
