"""What all steps of a run share: options, output, engine, journal, progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fastrec.corpus.output import Output
from fastrec.corpus.writer import SUFFIXES
from fastrec.engine.base import Engine
from fastrec.limits import Limits
from fastrec.normalize.journal import Journal
from fastrec.normalize.options import Options

__all__ = ["NoProgress", "Progress", "RunContext"]


class Progress(Protocol):
    """Receives the progress of a run."""

    def start(self, stage: str, total_bytes: int) -> None:
        """A stage begins; `total_bytes` is an estimate."""

    def advance(self, size: int, records: int, rejects: int) -> None:
        """Some more bytes, records and rejected lines are done."""

    def finish(self) -> None:
        """The stage is over."""


class NoProgress:
    """Ignores all progress."""

    def start(self, stage: str, total_bytes: int) -> None: ...
    def advance(self, size: int, records: int, rejects: int) -> None: ...
    def finish(self) -> None: ...


@dataclass(frozen=True)
class RunContext:
    """Shared context of a run."""

    options: Options
    output: Output
    engine: Engine
    journal: Journal
    progress: Progress
    notice: Callable[[str], None]

    @property
    def limits(self) -> Limits:
        """The limits of the run."""
        return self.options.limits

    def part_name(self, number: int) -> str:
        """Return the file name of a part."""
        return self.output.named(f"part-{number:05d}", SUFFIXES[self.options.compression])

    def part_path(self, number: int) -> str:
        """Return the path of a part before it is published."""
        return self.output.staged(self.part_name(number))

    def census_path(self, number: int) -> str:
        """Return the path prefix of the census, the counts and the left-out records of a part."""
        return self.output.working(f"census-{number:05d}")
