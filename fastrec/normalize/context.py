"""What all steps of a run share: options, output, engine, journal, progress."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fastrec.corpus.output import Output
from fastrec.corpus.writer import SUFFIXES
from fastrec.engine.base import Engine
from fastrec.limits import Limits
from fastrec.normalize.inputs import Streams
from fastrec.normalize.options import Options
from fastrec.normalize.resume import Journal
from fastrec.progress import Progress


class RunContext(msgspec.Struct, frozen=True):
    """Shared context of a run."""

    options: Options
    output: Output
    engine: Engine
    journal: Journal
    progress: Progress
    notice: Callable[[str], None]
    is_auto: bool = False
    """Whether the target follows from the content."""
    target_is_guess: bool = False
    """Whether the target is a guess, which pass 1 may find wrong."""
    streams: Streams = msgspec.field(default_factory=Streams)
    found_at: int = 0
    """When the shards were found, in nanoseconds since 1970."""
    is_first: bool = True
    """Whether this is the first attempt of the run."""

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

    def statistics_prefix(self, fingerprint: str) -> str:
        """Return the path prefix of the statistics of a part, and of what is kept of it, by what it is made of."""
        return self.output.working(f"census-{fingerprint}")
