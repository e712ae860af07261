"""Merging some runs into one: a task of the rounds between the passes."""

from __future__ import annotations

import secrets

import msgspec

from fastrec.engine.collector import collector_off
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.sorting.files import read_blocks
from fastrec.sorting.gather import RunSlice
from fastrec.sorting.merge import merge_runs
from fastrec.sorting.spill import Run, index_of
from fastrec.storage.digests import FileDigest
from fastrec.storage.paths import join

__all__ = ["MergeTask", "Merged", "merge_some"]


class MergeTask(msgspec.Struct, frozen=True):
    """What a worker is told."""

    number: int
    slices: list[RunSlice]
    directory: str
    cuts: str | None
    """The file that holds the first keys of the parts; None if the run will be merged again."""
    options: Options

    def __str__(self) -> str:
        return f"merging {len(self.slices):,} runs"


class Merged(msgspec.Struct, frozen=True):
    """A run that was merged of others."""

    run: Run
    """What it says was dropped, was dropped by it or by runs that were merged before."""
    covers: list[str]
    """The paths of the runs of pass 1 that it is made of."""
    numbers: dict[int, list[int]]
    """By the orders that those came from: the numbers of their pieces, as they stand in the index."""
    cuts_hash: str
    """Of the cuts that its bounds are for; empty if it has none."""

    @property
    def kept(self) -> list[FileDigest]:
        """Its files."""
        run = self.run
        return [
            FileDigest(run.path, run.data_bytes, run.data_hash),
            FileDigest(index_of(run.path), run.index_bytes, run.index_hash),
        ]


@collector_off()
def merge_some(order: MergeTask) -> Run:
    """Merge some runs. Runs in a worker."""
    release_buffer()
    cuts = None if order.cuts is None else next(read_blocks(order.cuts))
    # Under a name of its own: a worker that was taken for dead may still be writing.
    path = join(order.directory, f"merged-{order.number:06d}-{secrets.token_hex(4)}")
    return merge_runs(path, order.slices, order.options.wide_window_bytes, cuts)
