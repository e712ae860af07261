"""Statistics of parts: each writes its counts and its census, and the driver adds them up.

The counts name every model and every piece of input in the part, so the driver holds only their
sum. The census is two lists of rows, which are merged and counted (`census.count_lists`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any, Literal

from msgspec import Struct, field

from fastrec.engine.base import Engine
from fastrec.errors import TooManyResultsError
from fastrec.limits import current_limits, in_batches
from fastrec.schemas.view import NO_COUNTS, empty_by_key, encode_json, json_decoder
from fastrec.sorting.files import read_blocks, write_blocks
from fastrec.sorting.keys import KeyColumns, join_key, split_scope, text_of
from fastrec.sorting.runs import Run
from fastrec.storage import FileDigest
from fastrec.summary.census import (
    IDENTITY_EXAMPLES,
    CountTask,
    Identity,
    NumbersByKey,
    QuestionCounts,
    QuestionsByScope,
    SeveralRecords,
    census_of_part,
    count_lists,
    count_questions,
    find_several,
    merge_lists,
    write_rows,
)
from fastrec.summary.rows import Sums
from fastrec.summary.same_run import SameRunCounts, write_superseded
from fastrec.summary.tally import NO_OUTCOME, Outcome, Tally

_LISTS = ("hash", "id")

# Where identical records come from: numbers of pieces of input, and how many copies each of them
# has.
_CopyCounts = tuple[tuple[int, int], ...]


class LinesByPiece(Sums):
    """What became of the records of each piece of input, by the number of the piece."""

    kept: Counter[int] = NO_COUNTS  # records that no other piece has
    # Records with copies. The first piece in the order of the input keeps the record; all other
    # copies are duplicates. The order may change from run to run, so it is applied when parts are
    # added up.
    shared: Counter[_CopyCounts] = NO_COUNTS
    duplicates: Counter[int] = NO_COUNTS  # certain duplicates
    left_out: Counter[int] = NO_COUNTS  # records left out by options

    def resolve(self, order: Mapping[int, int]) -> None:
        """Decide which piece keeps a record with copies: the first in the given order."""
        for copies, times in self.shared.items():
            for number, count in copies:
                self.duplicates[number] += count * times
            first = min((number for number, _ in copies), key=order.__getitem__)
            self.duplicates[first] -= times
            self.kept[first] += times
        self.shared.clear()

    def pieces(self) -> set[int]:
        shared = {number for copies in self.shared for number, _ in copies}
        return shared.union(self.kept, self.duplicates, self.left_out)

    def packed(self) -> list[Any]:
        # A list of pairs: as a key of a map, msgspec reads no array of more than 16 arrays.
        return [self.kept, list(self.shared.items()), self.duplicates, self.left_out]

    @classmethod
    def unpacked(cls, packed: Sequence[Any]) -> LinesByPiece:
        kept, shared, duplicates, left_out = packed
        copies = Counter({tuple(map(tuple, copies)): count for copies, count in shared})
        return cls(Counter(kept), copies, Counter(duplicates), Counter(left_out))


class PartCounts(Sums):
    tally: Tally = field(default_factory=Tally)
    lines: LinesByPiece = field(default_factory=LinesByPiece)


class IdentityCounts(Sums):
    """Identities with several records that are repeats, or with contradictions."""

    identities: int = 0
    records: int = 0
    examples: list[Identity] = []

    def add(self, identity: Identity) -> None:
        """Add an identity, if it has records of this kind. Identities come in order."""
        if identity.records:
            self.identities += 1
            self.records += identity.records
            if len(self.examples) < IDENTITY_EXAMPLES:
                self.examples.append(identity)

    def _shorten(self) -> None:
        self.examples = nsmallest(IDENTITY_EXAMPLES, self.examples)


class Census(Sums):
    questions: QuestionsByScope = empty_by_key(QuestionCounts)
    repeats: IdentityCounts = field(default_factory=IdentityCounts)
    contradictions: IdentityCounts = field(default_factory=IdentityCounts)
    # With `--repeats`: keys that are superseded by another key of their identity.
    superseded: list[Run] = []
    same_run: SameRunCounts = field(default_factory=SameRunCounts)


_decode_census = json_decoder(tuple[QuestionsByScope, IdentityCounts, IdentityCounts])


class RepeatsRule(Struct, frozen=True):
    """Which keys of an identity with several keys are superseded, and where to write them."""

    sort_fields: tuple[str, ...]
    mode: Literal["first", "reject"]
    without_contradictions: bool  # whether contradictions are left out before
    path: str

    def superseded_of(self, several: SeveralRecords) -> list[bytes]:
        """All keys of the identity but the first one; with `reject`, that one too."""
        fields = several.key_fields(without_contradictions=self.without_contradictions)
        if len(fields) < 2:
            return []
        keys = sorted(join_key(key_fields, self.sort_fields) for key_fields in fields)
        return keys[1:] if self.mode == "first" else keys


def count_census(
    groups: Sequence[Sequence[str]], directory: str, engine: Engine, rule: RepeatsRule | None = None
) -> list[Census]:
    """Count the census of each group of parts.

    With a rule, also write the keys that are superseded.
    """
    counted = [Census() for _ in groups]
    lists = count_lists(_count, rule, groups, _LISTS, directory=directory, engine=engine)
    for number, census in lists:
        counted[number] += census
    return counted


def _count(task: CountTask) -> Census:
    return read_census(task.prefixes, task.rule)


def write_census(path: str, census: Census) -> FileDigest:
    """Write a census for the next run. Its sums are integers of any size, which JSON can hold."""
    content = encode_json((census.questions, census.repeats, census.contradictions))
    return FileDigest(path, *write_blocks(path, [content], compressed=True))


def kept_census(path: str) -> Census:
    return Census(*_decode_census(next(read_blocks(path))))


def read_census(prefixes: Sequence[str], rule: RepeatsRule | None = None) -> Census:
    """Count the census of some parts."""
    census = Census()
    # The second list has ids of evaluations that the first may lack: nothing of them was kept, or
    # another partition has their hashes.
    by_hash, by_id = (merge_lists(prefixes, name) for name in _LISTS)
    census.questions = count_questions(by_hash)
    superseded = _superseded(find_several(by_id, census.questions), census, rule)
    census.superseded = write_superseded(rule.path if rule else "", superseded)
    return census


def _superseded(
    identities: Iterable[SeveralRecords], census: Census, rule: RepeatsRule | None
) -> Iterator[tuple[bytes, bytes]]:
    """Count identities with several records, and yield the keys that a rule supersedes."""
    for several in identities:
        census.repeats.add(several.identity(contradicting=False))
        census.contradictions.add(several.identity(contradicting=True))
        for key in rule.superseded_of(several) if rule else ():
            yield key, b""


def write_statistics(
    prefix: str,
    counts: PartCounts,
    kept: KeyColumns,
    outcomes: list[Outcome],
    contradictions: NumbersByKey,
    *,
    seen: KeyColumns | None = None,
    compressed: bool = False,
) -> list[FileDigest]:
    """Write the census and the counts of a part.

    The key fields and outcomes of the records that are `kept` determine its questions; the key
    fields of all records that were `seen`, including records left out, determine its repeats and,
    with `contradictions`, which of them contradict each other.
    """
    by_hash, by_id = census_of_part(kept, outcomes, contradictions if seen is None else None)
    if seen is not None:
        _, by_id = census_of_part(seen, [NO_OUTCOME] * len(seen), contradictions)
    lists = zip(_LISTS, (by_hash, by_id), strict=True)
    files = [write_rows(f"{prefix}-{name}", rows, compressed=compressed) for name, rows in lists]
    path = f"{prefix}-counts"
    blocks = (counts.lines.packed(), counts.tally.packed())
    return [*files, FileDigest(path, *write_blocks(path, blocks, compressed=compressed))]


_FEWEST = 16  # parts whose counts a task adds up: fewer take less time than a task


class _CountsTask(Struct, frozen=True):
    prefixes: Sequence[str]
    order: str  # path of the order of pieces

    def __str__(self) -> str:
        return f"adding up the counts of {len(self.prefixes):,} parts"


def add_part_counts(
    prefixes: Sequence[str], order: Mapping[int, int], path: str, engine: Engine
) -> PartCounts:
    """Add up the counts of all parts, given the position of each piece in the input."""
    at_once = min(
        max(-(-len(prefixes) // engine.jobs), _FEWEST), current_limits().part_counts_per_task
    )
    if len(prefixes) <= at_once:
        return read_part_counts(prefixes, order)
    write_blocks(path, [order])
    total = PartCounts()
    tasks = (_CountsTask(batch, path) for batch in in_batches(prefixes, at_once))
    for _, counts in engine.run(_add_batch, tasks):
        total += counts
        _check_results(total.tally)
    return total


def _check_results(tally: Tally) -> None:
    most = current_limits().most_results
    if len(tally.models) > most:
        scope, model = next(reversed(tally.models))
        raise TooManyResultsError(most, split_scope(scope)[0], text_of(model))


def _add_batch(task: _CountsTask) -> PartCounts:
    return read_part_counts(task.prefixes, next(read_blocks(task.order)))


def read_part_counts(prefixes: Sequence[str], order: Mapping[int, int] | None = None) -> PartCounts:
    """Add up the counts of some parts.

    With an order of pieces, decide which of them keep records with copies.
    """
    total = PartCounts()
    for prefix in prefixes:
        lines, tally = read_blocks(f"{prefix}-counts")
        of_part = LinesByPiece.unpacked(lines)
        if (
            order is not None
        ):  # part by part: there may be as many different sets of pieces as records
            of_part.resolve(order)
        total.lines += of_part
        total.tally.add_packed(tally)
        _check_results(total.tally)
    return total


def read_lines_by_piece(prefix: str) -> LinesByPiece:
    return LinesByPiece.unpacked(next(read_blocks(f"{prefix}-counts")))
