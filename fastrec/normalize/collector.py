"""What the driver takes in of the runs of pass 1: a sample of their keys, and fences as long as they are few.

Everything else stays on disk. For both, the orders say what is still of use, so that workers do not send more.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fastrec.engine.base import Engine
from fastrec.normalize import rounds
from fastrec.normalize.pass1 import SortResult, SortTask
from fastrec.sorting.key_sample import KeySample, SampledKey, sample_again
from fastrec.sorting.spill import Run, index_of

__all__ = ["RunCollector"]


class RunCollector:
    """Takes results of pass 1 and keeps what will be needed of their runs."""

    def __init__(self) -> None:
        self.sample = KeySample()
        self._runs = 0
        self._fenced: list[SortResult] = []

    def asking(self, order: SortTask) -> SortTask:
        """Give an order that asks for what is of use by now."""
        return msgspec.structs.replace(order, one_in=self.sample.one_in, fenced=self._runs <= rounds.MOST_RUNS)

    def take_sample(self, result: SortResult) -> None:
        """Take what was sampled out of a result."""
        if not any(books.error for books in result.pieces):  # else it is done again, if at all
            for run in result.runs:
                self.sample.add(run.sample)
        result.runs = [msgspec.structs.replace(run, sample=[]) for run in result.runs]

    def slim(self, result: SortResult) -> None:
        """Leave out of a result what only the journal needs, and fences if there are too many runs to use them."""
        result.kept = []
        self._runs += len(result.runs)
        self._fenced.append(result)
        if self._runs > rounds.MOST_RUNS:
            for fenced in self._fenced:
                fenced.runs = [msgspec.structs.replace(run, fences=[]) for run in fenced.runs]
            self._fenced = []

    def sample_again(self, runs: Iterable[Run], engine: Engine) -> None:
        """Sample runs that are on disk."""
        wanted = ((index_of(run.path), run.index_bytes, self.sample.one_in) for run in runs)
        for _, sampled in engine.run(_sample_again, wanted):
            self.sample.add(sampled)


def _sample_again(wanted: tuple[str, int, int]) -> list[SampledKey]:
    """Read the index of a run. Runs in a worker."""
    return sample_again(*wanted)
