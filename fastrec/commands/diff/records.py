"""The records of a range: their columns, as codes common to both corpora, and their lines.

Rows are numbers of records: first those of OLD, then those of NEW, each in the order of the lines.

    field        OLD            NEW
    model_id     0 0 1 1 2 2    0 0 2 2 3        one code for each value
    bytes        …              …                the sizes of lines tell where they are
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from fastrec.answers.codes import Array, Values
from fastrec.commands.diff.document import RecordName
from fastrec.corpus.columns import PartColumns
from fastrec.corpus.manifest import KeyEntry
from fastrec.corpus.part_records import KEY_COLUMNS
from fastrec.corpus.reader import lines_of, open_columns
from fastrec.corpus.scan import PartFile, Position, SplitHashes, position_maker
from fastrec.errors import CorpusError, shown
from fastrec.summary.document import filled, json_safe

# The positions of a range: the first, and the first after it; None is no bound.
Bounds = tuple[Position | None, Position | None]

_NUMBERS = ("correct", "error", "bytes", "fingerprint")


Scope = tuple[
    str, str | None
]  # an evaluation_name and one of its metrics; None for records that name no metric

ModelName = tuple[str, str | None, str]  # an evaluation_name, a metric and a model_id


class ChosenPart(PartFile, frozen=True):
    """A part, and which of its records match the filters."""

    chosen: Array | None  # whether each record does; None if all match
    clusters: Array | None  # of the question of each record, if questions have clusters


class CompareTask(msgspec.Struct, frozen=True, kw_only=True):
    """What to compare: all records of two corpora, or those of a range."""

    old: Sequence[ChosenPart]
    new: Sequence[ChosenPart]
    fields: tuple[str, ...]  # that identify a question of a model, beside its metric
    by: tuple[str, ...]
    scored: frozenset[
        Scope
    ]  # what is compared by score; all else is compared by the share of right answers
    errors_as_wrong: bool
    split: SplitHashes  # hashes of which each `sample_id` is a question
    examples: int
    bounds: Bounds = (None, None)
    bound_fields: tuple[str, ...] = ()  # of the positions in bounds

    def __str__(self) -> str:
        return f"comparing {', '.join(shown(part.path) for part in (*self.old, *self.new))}"


class Records:
    """The records of both corpora whose positions by some sort fields are in a range.

    Raises:
        CorpusError: A file of columns is damaged or missing, or a line is not the one that the
            columns describe.
    """

    def __init__(self, task: CompareTask) -> None:
        self._parts = [*task.old, *task.new]
        self._numbers = {field: Values() for field in KEY_COLUMNS}
        self.exact_scores: dict[int, int] = {}  # by row, those that a double cannot hold
        self._ends = [0]
        self._position_of = position_maker(task.bound_fields)
        parts = [self._read(part, task.bounds) for part in self._parts]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        self._values = {field: numbers.list() for field, numbers in self._numbers.items()}
        self.codes: dict[str, Array] = {field: columns[field] for field in KEY_COLUMNS}
        self.is_new = np.arange(self._ends[-1]) >= self._ends[len(task.old)]
        self.correct = columns["correct"].astype(bool)
        self.error = columns["error"].astype(bool)
        self.score = columns["score"]
        self.cluster = columns["cluster"]
        self.bytes = columns["bytes"]
        self.fingerprint = columns["fingerprint"]
        self._positions = columns["position"]

    def _read(self, part: ChosenPart, bounds: Bounds) -> dict[str, Array]:
        """Read the columns of a part, as far as it is in the range."""
        columns = open_columns(part)
        try:
            return self._columns(part, columns, bounds)
        except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as exc:
            path = part.beside(part.entry.columns.file)
            raise CorpusError(path, f"is damaged: {exc!r}. Normalize again") from exc

    def _columns(self, part: ChosenPart, columns: PartColumns, bounds: Bounds) -> dict[str, Array]:
        values = {field: columns.values(name) for field, name in KEY_COLUMNS.items()}
        codes = {field: columns.numbers(name) for field, name in KEY_COLUMNS.items()}

        def row_at(position: Position | None) -> int | None:
            if position is None:
                return None
            return bisect_left(
                range(columns.records),
                position,
                key=lambda row: self._position_of(_key(values, codes, row)),
            )

        begin, end = map(row_at, bounds)
        rows = np.arange(columns.records)[begin:end]
        if part.chosen is not None:
            rows = rows[part.chosen[rows]]
        read = {name: columns.numbers(name)[rows] for name in _NUMBERS}
        read["score"] = columns.doubles("score")[rows]
        read["position"] = rows
        read["cluster"] = np.zeros_like(rows) if part.clusters is None else part.clusters[rows]
        for field, numbers in self._numbers.items():
            read[field] = numbers.add(values[field])[codes[field][rows]]
        exact_scores = columns.exact("score")
        for row, position in enumerate(rows.tolist() if exact_scores else (), self._ends[-1]):
            if position in exact_scores:
                self.exact_scores[row] = exact_scores[position]
        self._ends.append(self._ends[-1] + len(rows))
        return read

    def names(self, ids: Array, fields: Sequence[str]) -> list[Any]:
        """The values of some fields that the records of each id have in common."""
        rows = np.zeros(int(ids.max(initial=-1)) + 1, dtype=np.int64)
        rows[ids] = np.arange(len(ids))
        columns = [
            [self._values[field][code] for code in self.codes[field][rows].tolist()]
            for field in fields
        ]
        return list(zip(*columns, strict=True))

    def name(self, row: int, fields: list[str] | msgspec.UnsetType = msgspec.UNSET) -> RecordName:
        key = _key(self._values, self.codes, row)
        metric = key.evaluation_result_id
        return filled(
            RecordName, key, metric=metric, sample_id=json_safe(key.sample_id), fields=fields
        )

    def lines(self, rows: Array) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of some rows, which must be sorted, each after its row."""
        cuts = np.searchsorted(rows, self._ends)
        for part, begin, end in zip(self._parts, cuts, cuts[1:], strict=False):
            if begin < end:
                of_part = rows[begin:end]
                columns = open_columns(part)
                lines = lines_of(part, columns, self._positions[of_part].tolist())
                yield from zip(of_part.tolist(), lines, strict=True)


def _key(values: Mapping[str, list[Any]], codes: Mapping[str, Array], row: int) -> KeyEntry:
    return KeyEntry(**{field: found[codes[field][row]] for field, found in values.items()})
