"""The second pass as a whole: which parts there are, what of them an earlier run has made, and who wins a conflict.

1. Each range of keys between two cuts is a part (`pass2` makes one).
2. Take what an earlier run has made of the same texts, make the rest, and note each in the journal.
3. Merge what the parts left into the census. If records of one identity have different hashes, they may stand in
   different parts: with `--conflicts` the parts that lose some are made again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
from xxhash import xxh3_128_hexdigest

from fastrec.corpus.manifest import PartEntry, key_entry
from fastrec.corpus.writer import SUFFIXES
from fastrec.normalize.context import RunContext
from fastrec.normalize.journal import PartDone
from fastrec.normalize.pass1 import SortResult
from fastrec.normalize.pass2 import Part, PartTask, PieceLocation, make_part, write_locations
from fastrec.normalize.resume import find_parts
from fastrec.sorting.gather import slice_merged, slice_run
from fastrec.sorting.keys import join_key
from fastrec.sorting.spill import Run
from fastrec.storage import storage_of
from fastrec.storage.paths import parent_and_name
from fastrec.summary.census_files import Census, count_census

__all__ = ["Parts"]


class Parts:
    """Makes the parts of a corpus."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._runs: Sequence[Run] = ()
        self._ranges: list[tuple[bytes | None, bytes | None]] = []
        self._places = ""
        self._made_of = ""

    def earlier_files(self) -> set[str]:
        """Name the parts that an earlier run has made, and what it left beside them; who needs them checks them."""
        parts = [entry.part for entry in self._context.journal.entries if isinstance(entry, PartDone)]
        return {self._part_path(part.number) for part in parts} | {file.path for part in parts for file in part.kept}

    def _part_path(self, number: int) -> str:
        return self._context.output.staged(self._part_name(number))

    def _part_name(self, number: int) -> str:
        return self._context.output.named(f"part-{number:05d}", SUFFIXES[self._context.options.compression])

    def census_path(self, number: int) -> str:
        """Where the census of a part goes; what was left out of it stands beside, with `-conflicts` added."""
        return self._context.output.working(f"census-{number:05d}")

    def make(
        self,
        results: Sequence[SortResult],
        runs: Sequence[Run],
        cuts: Sequence[bytes],
        places: dict[int, PieceLocation],
    ) -> tuple[list[Part], Census]:
        """Make the parts, and take the census.

        Args:
            results: What was sorted.
            runs: Where it is.
            cuts: The first keys of all parts but the first.
            places: Where each piece stands; only needed if conflicts are settled.
        """
        self._runs = runs
        self._ranges = list(pairwise([None, *cuts, None])) if runs else []
        self._places = ""
        if places:
            self._places = self._context.output.working("places")
            write_locations(self._places, places)
        self._made_of = _made_of(results, self._context.journal.purpose)
        self._context.progress.start("merge", sum(run.data_bytes for run in runs))
        parts = self._make(dict.fromkeys(range(len(self._ranges)), frozenset()))
        prefixes = list(map(self.census_path, parts))
        census = self._count_census(prefixes, gather_across=self._context.options.conflicts != "keep")
        if census.across_hashes:
            losers = sorted(self._losers(census))
            touched = {
                number: frozenset(keys)
                for number, (low, high) in enumerate(self._ranges)
                if (keys := losers[_place(losers, low, 0) : _place(losers, high, len(losers))])
            }
            parts |= self._make(touched)
            census.questions = self._count_census(prefixes, gather_across=False).questions
        self._context.progress.finish()
        return [part for _, part in sorted(parts.items())], census

    def _count_census(self, prefixes: Sequence[str], *, gather_across: bool) -> Census:
        context = self._context
        return count_census(
            prefixes, str(context.output.work), context.engine, context.options.limits, across_hashes=gather_across
        )

    def _order(self, number: int, leave_out: frozenset[bytes]) -> PartTask:
        low, high = self._ranges[number]
        found = [slice_merged(run, number) if run.bounds else slice_run(run, low, high) for run in self._runs]
        slices = [piece for piece in found if piece]
        merged = any(run.bounds for run in self._runs)
        return PartTask(
            number,
            low,
            high,
            slices,
            self._context.options.wide_window_bytes if merged else self._context.options.window_for(len(slices)),
            self._part_path(number),
            self.census_path(number),
            self._context.options,
            self._places,
            leave_out,
        )

    def _make(self, wanted: dict[int, frozenset[bytes]]) -> dict[int, Part]:
        """Make parts, given by number with what is left out of each. Orders are made when somebody takes them."""
        made_of = {number: self._fingerprint(number, leave_out) for number, leave_out in wanted.items()}
        paths = {made_of[number]: self._part_path(number) for number in wanted}
        found = find_parts(self._context.journal.entries, paths, self._context.engine)
        if found:
            self._context.notice(f"{len(found):,} of {len(wanted):,} parts were finished by an earlier run")
        made = {number: found[made_of[number]] for number in wanted if made_of[number] in found}
        for part in made.values():
            self._context.progress.advance(part.written.text_bytes, part.records, 0)
        orders = (self._order(number, leave_out) for number, leave_out in wanted.items() if number not in made)
        for _, part in self._context.engine.run(make_part, orders):
            self._context.journal.add(PartDone(made_of[part.number], part))
            part.kept = []
            self._context.progress.advance(part.written.text_bytes, part.records, 0)
            made[part.number] = part
        return made

    def _fingerprint(self, number: int, leave_out: frozenset[bytes]) -> str:
        """Give what a part is made of: all that was sorted, the range, and what is left out of it."""
        low, high = self._ranges[number]
        return xxh3_128_hexdigest(msgspec.msgpack.encode((self._made_of, number, low, high, sorted(leave_out))))

    def number(self, parts: list[Part]) -> list[Part]:
        """Close the gaps that parts of which nothing was kept leave behind, and remove what dead workers left."""
        wanted = {self._part_path(part.number) for part in parts}
        for path in self._context.output.staged_files():
            if parent_and_name(path)[1].startswith("part-") and path not in wanted:
                storage_of(path).remove(path)
        for number, part in enumerate(parts):
            if number != part.number:
                self._context.output.rename(self._part_name(part.number), self._part_name(number))
                part.number = number
        return parts

    def _losers(self, census: Census) -> frozenset[bytes]:
        """Name the keys whose records are left out because another key has the same identity."""
        keys: set[bytes] = set()
        for conflict in census.across_hashes:
            rivals = sorted(
                join_key(
                    (conflict.evaluation, sample, conflict.model, conflict.evaluation_id, conflict.sample_id),
                    self._context.options.sort_fields,
                )
                for sample in conflict.hashes
            )
            keys.update(rivals[1:] if self._context.options.conflicts == "first" else rivals)
        return frozenset(keys)

    def entry_of(self, part: Part) -> PartEntry:
        """Make the entry of a part in the manifest."""
        return PartEntry(
            file=self._part_name(part.number),
            records=part.records,
            bytes=part.written.bytes,
            sha256=part.written.sha256,
            text_bytes=part.written.text_bytes,
            text_sha256=part.written.text_sha256,
            first=key_entry(part.first, self._context.options.sort_fields),
            last=key_entry(part.last, self._context.options.sort_fields),
        )


def _made_of(results: Iterable[SortResult], purpose: dict[str, Any]) -> str:
    """Give a hash of all that the corpus is made of: the texts by piece, and the options."""
    texts = sorted((books.number, books.raw_hash, books.raw_start) for result in results for books in result.pieces)
    return xxh3_128_hexdigest(msgspec.msgpack.encode((texts, purpose), order="deterministic"))


def _place(keys: list[bytes], key: bytes | None, without: int) -> int:
    return without if key is None else bisect_left(keys, key)
