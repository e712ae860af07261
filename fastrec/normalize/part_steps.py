"""What the steps of making a part share: their task, the records on their way, and what they find.

A step gets each window of records. It may leave out some of them, which the next steps do not see,
and adds its results to the part.
"""

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fastrec.normalize.results import Part
from fastrec.normalize.task_settings import PartSettings
from fastrec.parameters import Names
from fastrec.sorting.gather import Window
from fastrec.sorting.keys import KeyColumns
from fastrec.sorting.slices import Bound, RunSlice
from fastrec.sources.shard import Shard
from fastrec.storage import FileDigest
from fastrec.summary.part_statistics import LinesByPiece
from fastrec.summary.same_run import Contradictions, ContradictionsByFields


class Superseded(NamedTuple):
    """Records of a part that lose against others, which may be in other parts."""

    runs: Sequence[RunSlice] = ()  # others are equal but for their run
    keys: Sequence[RunSlice] = ()  # other keys of the same identity


class PartTask(Struct, frozen=True):
    number: int
    fingerprint: str
    low: Bound
    high: Bound
    slices: list[RunSlice]
    window_bytes: int  # bytes merged at a time
    path: str
    # Path prefix of the census (`-hash`, `-id`, `-run`), the counts (`-counts`) and records left
    # out (`-left-out`). If work is kept: also of the index (`-index`), the borders (`-borders`) and
    # the excluded records (`-excluded`).
    statistics_prefix: str
    sort_fields: Names
    schema_label: str  # of the records of the target
    settings: PartSettings
    locations: str  # path of the locations of all pieces; empty if they are not needed
    superseded: Superseded
    superseded_hashes: Names  # fingerprints of both kinds
    sources: str  # path of the sources of the records; empty if they are not tracked
    # Part of a trusted corpus that should have the same text, and the 128-bit xxh3 of its file.
    copied: tuple[Shard, str] | None = None
    # Part of the base that has all records but those of new pieces: only these are tallied.
    grown: Part | None = None
    first_new: int = 0  # the lowest number of a new piece
    # Workers that take turns at making parts, if the page cache cannot hold all runs; else 0.
    turns: int = 0

    @property
    def is_copy(self) -> bool:
        """Whether the text is surely that of `copied`, and nothing else is made of it.

        Then it need not be read.
        """
        listed = self.copied[0].listed if self.copied else None
        if not listed or not listed.columns:
            return False
        settings = self.settings
        if settings.incremental or not settings.keeps_all_records or len(self.slices) != 1:
            return False
        [part] = self.slices
        # Records with equal keys may contradict each other, which their texts tell.
        return part.is_part and part.data_end == listed.text_bytes and not part.has_repeats

    def __str__(self) -> str:
        return f"writing part {self.number} of the corpus"


class PartFacts(Struct):
    """What steps find out about a part, for those after them."""

    lines: LinesByPiece
    contradictions: ContradictionsByFields = {}
    seen: KeyColumns | None = None  # the keys before contradictions were resolved


class Selection:
    """A window on its way through the steps: all its records, and those that are left."""

    def __init__(self, everything: Window) -> None:
        self.everything = everything
        self.window = everything  # the records that are left
        self.positions: Sequence[int] = range(len(everything.keys))  # of these in `everything`
        self.contradictions: Contradictions = {}

    def keep(self, records: Sequence[int]) -> None:
        """Leave only these of the records that are left, given by position."""
        self.positions = [self.positions[index] for index in records]
        self.window = select(self.window, records)

    def others(self) -> list[int]:
        """The positions of the records that are not left."""
        return sorted(set(range(len(self.everything.keys))).difference(self.positions))


class Step:
    """A step of making a part. It gets each window, may leave out records, and adds to the part."""

    def add(self, records: Selection) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """End after the last window, while files are open."""

    def complete(self, part: Part) -> Part:
        """Add results to the part, after all files were closed."""
        return part


def select(window: Window, records: Sequence[int]) -> Window:
    if len(records) == len(window.keys):
        return window
    selected = Window(*window.pick(records))
    if window.groups:
        ends = accumulate(len(list(group)) for _, group in groupby(selected.keys))
        groups = pairwise([0, *ends])
        selected.groups = [(first, end) for first, end in groups if end - first > 1]
    return selected


def with_file(part: Part, file: FileDigest) -> Part:
    return replace(part, files=(*part.files, file))
