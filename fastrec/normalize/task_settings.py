"""What the tasks of both passes need of the options: `Options` makes these settings."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from fastrec.judge.version_rules import JudgeSettings
from fastrec.normalize.corrections import GivenFile, NameRule
from fastrec.parameters import Names
from fastrec.schemas.registry import TARGETS
from fastrec.schemas.schema import Schema
from fastrec.sources.lines import Chunk, LongLine, ReadStats
from fastrec.sources.shard import Shard

# Which of several records to keep: all, the first in the sort order, or none.
Choice = Literal["keep", "first", "reject"]


class LineSettings(Struct, frozen=True):
    """What pass 1 needs of the options to turn lines into records with keys."""

    judge: JudgeSettings
    sort_fields: Names
    max_line_bytes: int
    max_window: int
    judges_all_lines: bool
    map: tuple[NameRule, ...]
    keep_names: bool
    labels: GivenFile | None
    fixes: GivenFile | None

    @property
    def target(self) -> Schema:
        assert self.judge.target
        return TARGETS[self.judge.target]

    def read(
        self, shard: Shard, chunk_bytes: int, stats: ReadStats | None = None, **more: int
    ) -> Iterator[Chunk | LongLine]:
        """Read the chunks of a shard, within the limits of lines and windows."""
        limits = {"max_line_bytes": self.max_line_bytes, "max_window": self.max_window}
        return shard.read(chunk_bytes=chunk_bytes, stats=stats, **limits | more)


class PartSettings(Struct, frozen=True):
    """What pass 2 needs of the options to make parts of runs."""

    same_run: Literal["keep", "ignore"]
    conflicts: Choice
    repeats: Choice
    compression: str
    level: int
    incremental: bool

    @property
    def leaves_out(self) -> bool:
        return (self.conflicts, self.repeats) != ("keep", "keep")

    @property
    def keeps_all_records(self) -> bool:
        """Whether only records that are equal in all bytes are duplicates."""
        return self.same_run == "keep" and not self.leaves_out
