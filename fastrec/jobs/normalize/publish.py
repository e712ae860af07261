"""Publishing: OUT appears whole or not at all.

The corpus is made in `.OUT.fastrec-new` beside OUT, on the same file system, and one rename publishes it. With
`overwrite` the old corpus stays readable until the new one is ready; it steps aside for the moment between two renames.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from fastrec.errors import UsageError
from fastrec.stages.shards import Shard

__all__ = ["Workplace", "workplace"]


class Workplace:
    """The directories of a run."""

    def __init__(self, output: Path, work_dir: Path | None) -> None:
        self.output = output
        self.staging = output.parent / f".{output.name}.fastrec-new"
        self.work = (work_dir or output.parent) / f".{output.name}.fastrec-work"
        self._aside = output.parent / f".{output.name}.fastrec-old"

    def prepare(self) -> None:
        """Make the directories, empty, for this user alone."""
        for directory in (self.staging, self.work):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True, mode=0o700)

    def publish(self) -> None:
        """Put the new corpus in the place of the old one, if there is one."""
        self.staging.chmod(0o777 & ~_umask())
        _sync(self.staging)
        shutil.rmtree(self._aside, ignore_errors=True)
        if self.output.exists():
            self.output.rename(self._aside)
        self.staging.rename(self.output)
        _sync(self.output.parent)
        shutil.rmtree(self._aside, ignore_errors=True)

    def clear(self) -> None:
        """Remove what is not published."""
        for directory in (self.staging, self.work):
            shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def workplace(output: Path, work_dir: Path | None, shards: Sequence[Shard], *, overwrite: bool) -> Iterator[Workplace]:
    """Check where the corpus is to go, and make a place to work in; it is gone afterwards, whatever happens."""
    _check_output(output, shards, overwrite=overwrite)
    place = Workplace(output.resolve(), work_dir)  # behind a link, so that the link stays and shows the new corpus
    try:
        place.prepare()
        yield place
    finally:
        place.clear()


def _check_output(output: Path, shards: Sequence[Shard], *, overwrite: bool) -> None:
    if output.exists() and not overwrite:
        raise UsageError(f"{output} exists: give another output, or --overwrite to replace it")
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is not a directory, so it cannot be replaced by a corpus")
    if output.exists() and any(output.iterdir()) and not (output / "manifest.json").exists():
        raise UsageError(f"{output} holds something else than a corpus (no manifest.json): it is not replaced")
    resolved = output.resolve()
    for shard in shards:
        if shard.stream:
            continue
        path = Path(shard.path).resolve()
        if resolved == path or resolved in path.parents:
            raise UsageError(f"the input {shard.path} lies in the output {output}: give another output")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
