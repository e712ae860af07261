"""Merge several runs into one: a task between the passes."""

from __future__ import annotations

import secrets

import msgspec

from fastrec.engine.base import collector_off
from fastrec.normalize.options import Options
from fastrec.normalize.pass1 import release_buffer
from fastrec.sorting.files import read_blocks
from fastrec.sorting.gather import RunSlice
from fastrec.sorting.merge import merge_runs
from fastrec.sorting.spill import Run
from fastrec.storage import join

__all__ = ["MergeTask", "MergedRun", "merge_some"]


class MergeTask(msgspec.Struct, frozen=True):
    """A task that merges runs."""

    number: int
    slices: list[RunSlice]
    directory: str
    cuts: str | None
    """Path of a file with the first key of each part but the first; None if the run will be merged again."""
    options: Options

    def __str__(self) -> str:
        return f"merging {len(self.slices):,} runs"


class MergedRun(msgspec.Struct, frozen=True):
    """A run that replaces several runs of pass 1."""

    run: Run
    """Its dropped duplicates include those of all merges that led to it."""
    covers: list[str]
    """Paths of the runs of pass 1 that it replaces."""
    pieces: dict[int, list[int]]
    """By task of pass 1: the numbers of its pieces, as in the index."""
    cuts_hash: str
    """Hash of the cuts that its bounds belong to; empty if it has no bounds."""


@collector_off()
def merge_some(task: MergeTask) -> Run:
    """Merge some runs. Runs in a worker."""
    release_buffer()
    cuts = None if task.cuts is None else next(read_blocks(task.cuts))
    # The random suffix keeps two workers apart if one was wrongly taken for dead.
    path = join(task.directory, f"merged-{task.number:06d}-{secrets.token_hex(4)}")
    return merge_runs(path, task.slices, task.options.wide_window_bytes, cuts)
