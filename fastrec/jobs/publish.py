"""Publishing: OUT, a corpus or an export of one, appears whole or not at all.

It is made in `.OUT.fastrec-new` beside OUT, on the same file system, and one rename publishes it. With `overwrite` the
old one stays readable until the new one is ready; it steps aside for the moment between two renames. What is replaced
must be of the same kind: each has a file that tells.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from fastrec.errors import UsageError, shown

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
        """Put the new directory in the place of the old one, if there is one."""
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
def workplace(
    output: Path, work_dir: Path | None, inputs: Sequence[str], *, overwrite: bool, what: str, told_by: str
) -> Iterator[Workplace]:
    """Check where the output is to go, and make a place to work in; it is gone afterwards, whatever happens.

    Args:
        output: The directory to publish.
        work_dir: Where temporary files go, if not beside it.
        inputs: Paths that must not lie in the output.
        overwrite: Whether an output of the same kind may be replaced.
        what: The kind of output, in words: a corpus.
        told_by: The name of the file that tells this kind.
    """
    _check_output(output, inputs, overwrite=overwrite, what=what, told_by=told_by)
    place = Workplace(output.resolve(), work_dir)  # behind a link, so that the link stays and shows the new output
    try:
        place.prepare()
        yield place
    finally:
        place.clear()


def _check_output(output: Path, inputs: Sequence[str], *, overwrite: bool, what: str, told_by: str) -> None:
    name = shown(str(output))
    if output.exists() and not overwrite:
        raise UsageError(f"{name} exists: give another output, or --overwrite to replace it")
    if output.exists() and not output.is_dir():
        raise UsageError(f"{name} is not a directory, so it cannot be replaced by {what}")
    if output.exists() and any(output.iterdir()) and not (output / told_by).exists():
        raise UsageError(f"{name} holds something else than {what} (no {told_by}): it is not replaced")
    resolved = output.resolve()
    for given in inputs:
        path = Path(given).resolve()
        if resolved == path or resolved in path.parents:
            raise UsageError(f"the input {shown(given)} lies in the output {name}: give another output")


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
