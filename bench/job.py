"""A benchmark job, the interface of the contenders that do it, and how shards become tasks of a pool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

__all__ = ["Command", "Contender", "Job", "batches"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The shards to read, the directory to write to, and how."""

    inputs: tuple[str, ...]
    """A directory of shards, or some of its shards."""
    output: str
    scratch: str
    """A directory for temporary files."""
    jobs: int
    level: int
    options: tuple[str, ...] = ()
    """Further command-line options for fastrec."""

    def shards(self) -> list[str]:
        """The paths of all shards."""
        paths = map(Path, self.inputs)
        return [
            str(shard)
            for path in paths
            for shard in (sorted(path.rglob("*.jsonl*")) if path.is_dir() else [path])
        ]


class Contender(Protocol):
    """A tool that does a job, or a part of it."""

    label: str
    leaves_out: str
    """The parts of the job that it does not do."""

    def run(self, job: Job) -> Any:
        """Do the job in this process and its children."""


@runtime_checkable
class Command(Protocol):
    """A contender with its own command line.

    It is measured without any Python of ours around it.
    """

    def command(self, job: Job) -> list[str]:
        """The command line that does the job."""


def batches(job: Job) -> Iterator[list[str]]:
    """Group shards into tasks for a pool: several tasks per process, and many tiny shards per task."""
    shards = job.shards()
    sizes = [Path(shard).stat().st_size for shard in shards]
    most = min(sum(sizes) / (8 * job.jobs), 8 << 20)
    batch = []
    size = 0
    for shard, shard_size in zip(shards, sizes, strict=True):
        batch.append(shard)
        size += shard_size
        if size >= most:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch
