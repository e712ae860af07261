"""Shared context of an attempt to run: options, output, engine, journal, progress."""

from msgspec import Struct

from fastrec.corpus.output import Output
from fastrec.corpus.writer import SUFFIXES
from fastrec.engine.base import Engine
from fastrec.limits import current_limits
from fastrec.normalize.inputs import Streams
from fastrec.normalize.options import Options
from fastrec.normalize.resume import Journal
from fastrec.parameters import Notice
from fastrec.progress import Progress
from fastrec.schemas.schema import Schema
from fastrec.storage import is_url


class RunContext(Struct, frozen=True):
    options: Options
    target: Schema
    output: Output
    engine: Engine
    journal: Journal
    progress: Progress
    notice: Notice
    streams: Streams
    started_at: int  # when the run began to read shards, in nanoseconds since 1970
    is_first: bool  # whether this is the first attempt
    # Whether an earlier attempt has read everything, so that the target is no guess any more.
    is_settled: bool

    @property
    def workers(self) -> int:
        """Processes besides the driver; 0 if it does all the work itself."""
        jobs = self.options.jobs
        return 0 if jobs == 1 and self.options.engine == "pool" else jobs

    @property
    def sort_fields(self) -> tuple[str, ...]:
        return self.options.sort_fields_of(self.target)

    @property
    def unmerged_runs(self) -> int:
        """More runs than this are merged before pass 2."""
        limits = current_limits()
        most = limits.unmerged_runs
        return min(most, limits.unmerged_store_runs) if is_url(self.output.work) else most

    def part_name(self, number: int) -> str:
        return self.output.named(f"part-{number:05d}", SUFFIXES[self.options.compression])

    def part_path(self, number: int) -> str:
        return self.output.staged(self.part_name(number))
