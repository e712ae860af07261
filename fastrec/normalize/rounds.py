"""The rounds between the passes: runs are merged until there are few enough for every part to look into all of them.

Each part reads a stretch of each run. For few runs, their fences tell where. For thousands of runs and thousands of
parts that would be millions of small reads, and fences by the gigabyte. So runs are merged, in as many rounds as it
takes, and those of the last round know where each part begins.

A merged run is noted in the journal. Then it stands for the runs that it is made of, which are removed: the work takes
no more room than before but for what is being merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
from xxhash import xxh3_128_hexdigest

from fastrec.normalize.context import RunContext
from fastrec.normalize.journal import MergeDone
from fastrec.normalize.merging import Merged, MergeTask, merge_some
from fastrec.normalize.pass1 import SortResult, SortTask
from fastrec.sorting.files import write_blocks
from fastrec.sorting.gather import whole_run
from fastrec.sorting.spill import Run, index_of
from fastrec.storage import storage_of
from fastrec.storage.paths import join

__all__ = ["FAN_IN", "LEAST_FAN_IN", "MERGED_RUNS", "MOST_RUNS", "Rounds", "live_runs"]

MOST_RUNS: Final = 512
"""So many runs are left as they are: to merge them would cost more than it saves."""
MERGED_RUNS: Final = 256
"""So many are left, if they are merged. With as many, a part of 64 MiB reads 256 KiB of each."""
FAN_IN: Final = 256
"""So many are merged at a time at most, or fewer if there is little memory."""
LEAST_FAN_IN: Final = 8
"""And so many at least, for the effort to pay."""


def live_runs(results: Iterable[SortResult], merged: Iterable[Merged]) -> list[Run]:
    """Give the runs that are there: those of pass 1 that were not merged, and those that were made of the others."""
    merged = list(merged)
    covered = {path for one in merged for path in one.covers}
    return [run for result in results for run in result.runs if run.path not in covered] + [one.run for one in merged]


class Rounds:
    """Merges the runs of one corpus."""

    def __init__(self, context: RunContext, lasting: Callable[[int], bool]) -> None:
        self._context = context
        self._lasting = lasting
        self._made = 0

    def run(
        self,
        results: Sequence[SortResult],
        orders: Mapping[int, SortTask],
        earlier: Sequence[Merged],
        cuts: Sequence[bytes],
    ) -> list[Merged]:
        """Merge runs, if there are too many of them; give those that were merged, now or before.

        Args:
            results: What was sorted.
            orders: By number: what it was ordered by.
            earlier: What an earlier run has merged.
            cuts: The first keys of all parts but the first.
        """
        cuts_hash = xxh3_128_hexdigest(msgspec.msgpack.encode(cuts))
        ready = [one for one in earlier if one.cuts_hash == cuts_hash]
        loose = self._loose(results, orders, [one for one in earlier if one.cuts_hash != cuts_hash], ready)
        if all(one.run.fences for one in loose) and len(loose) + len(ready) <= MOST_RUNS:
            return ready
        fan_in = min(FAN_IN, self._context.options.fan_in)
        groups = max(min(MERGED_RUNS - len(ready), -(-len(loose) // LEAST_FAN_IN)), 1)
        self._context.progress.start("round", sum(one.run.data_bytes for one in loose))
        while len(loose) > groups * fan_in:
            loose = self._round(loose, -(-len(loose) // fan_in), orders, None, "")
        path = join(self._context.output.work, f"cuts-{cuts_hash}")
        write_blocks(path, [cuts])
        ready += self._round(loose, groups, orders, path, cuts_hash)
        self._context.progress.finish()
        return ready

    def _loose(
        self,
        results: Sequence[SortResult],
        orders: Mapping[int, SortTask],
        earlier: Sequence[Merged],
        ready: Sequence[Merged],
    ) -> list[Merged]:
        """Give all runs that have no place in the last round yet, those that the journal knows first."""
        covered = {path for one in (*earlier, *ready) for path in one.covers}
        found = sorted(results, key=lambda result: (not self._lasting(result.order), result.order))
        alone = [
            Merged(msgspec.structs.replace(run, dropped={}), [run.path], _numbers_of(orders, [result.order]), "")
            for result in found
            for run in result.runs
            if run.path not in covered
        ]
        return [*earlier, *alone]

    def _round(
        self, runs: list[Merged], groups: int, orders: Mapping[int, SortTask], cuts: str | None, cuts_hash: str
    ) -> list[Merged]:
        """Merge runs into so many."""
        bounds = [len(runs) * number // groups for number in range(groups + 1)]
        parcels = [runs[start:end] for start, end in pairwise(bounds) if start < end]
        self._made += len(parcels)
        first = self._made - len(parcels)
        work = (
            MergeTask(
                first + number,
                [whole_run(one.run) for one in parcel],
                self._context.output.work,
                cuts,
                self._context.options,
            )
            for number, parcel in enumerate(parcels)
        )
        done: dict[int, Merged] = {}
        for number, run in self._context.engine.run(merge_some, work):
            done[number] = self._note(run, parcels[number], orders, cuts_hash)
            self._context.progress.advance(run.data_bytes, run.records, 0)
        return [merged for _, merged in sorted(done.items())]

    def _note(self, run: Run, parcel: list[Merged], orders: Mapping[int, SortTask], cuts_hash: str) -> Merged:
        """Note what was merged; once the journal has it, what it was made of can go."""
        dropped = Counter(run.dropped)
        for one in parcel:
            dropped.update(one.run.dropped)
        numbers = {order for one in parcel for order in one.numbers}
        merged = Merged(
            msgspec.structs.replace(run, dropped=dict(dropped)),
            [path for one in parcel for path in one.covers],
            _numbers_of(orders, sorted(numbers)),
            cuts_hash,
        )
        if all(map(self._lasting, numbers)) and self._context.journal.add(MergeDone(merged)):
            for one in parcel:
                storage_of(one.run.path).remove(one.run.path, index_of(one.run.path))
        return merged


def _numbers_of(orders: Mapping[int, SortTask], numbers: Iterable[int]) -> dict[int, list[int]]:
    return {number: [piece.number for piece in orders[number].pieces] for number in numbers}
