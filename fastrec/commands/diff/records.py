"""The records of a range: their columns, as codes common to both corpora.

Rows are numbers of records: first those of OLD, then those of NEW, each in the order of the lines.

    field        OLD            NEW
    model_id     0 0 1 1 2 2    0 0 2 2 3        one code for each value
    bytes        …              …                the sizes of lines tell whether they may be equal
"""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fastrec.answers.codes import Array, Distinct, Values, distinct_of
from fastrec.answers.selection import Selection
from fastrec.commands.diff.document import RecordName
from fastrec.commands.diff.fields import PartLines
from fastrec.corpus.part_records import KEY_COLUMNS
from fastrec.sorting.keys import METRIC
from fastrec.summary.document import json_safe


class Records:
    """Some records of both corpora, given by number."""

    def __init__(self, old: Selection, new: Selection, numbers: Sequence[Array]) -> None:
        self._corpora = old, new
        self._numbers = numbers
        self._old_rows, new_rows = map(len, numbers)
        self.is_new = np.repeat([False, True], [self._old_rows, new_rows])
        self._values: dict[str, list[Any]] = {}
        self.codes: dict[str, Array] = {}
        for field, column in KEY_COLUMNS.items():
            values = Values()
            of_corpora = [side.codes(column, own) for side, own in self._sides()]
            self.codes[field] = np.concatenate(
                [values.add(known)[codes] for codes, known in of_corpora]
            )
            self._values[field] = values.list()
        self.error = self._gather("error") > 0
        self.is_right = (self._gather("correct") > 0) & ~self.error
        self.score = self._gather("score")
        self.bytes = self._gather("bytes")
        self.fingerprint = self._gather("fingerprint")
        # By row, the scores that a double cannot hold.
        self.exact_scores = old.exact("score", numbers[0])
        for place, score in new.exact("score", numbers[1]).items():
            self.exact_scores[self._old_rows + place] = score
        for row, score in self.exact_scores.items():
            if abs(score) > sys.float_info.max:
                self.score[row] *= math.inf

    def _sides(self) -> Iterator[tuple[Selection, Array]]:
        return zip(self._corpora, self._numbers, strict=True)

    def _gather(self, column: str) -> Array:
        return np.concatenate([side.gather(column, own) for side, own in self._sides()])

    def clusters(self, rows: Array) -> Array:
        """The clusters of the questions of some records of OLD; 0 if questions have none."""
        clusters = self._corpora[0].clusters
        return np.zeros_like(rows) if clusters is None else clusters[self._numbers[0][rows]]

    def number(self, *fields: str) -> Distinct:
        """Number the distinct values of some fields from 0 on."""
        return distinct_of(*(self.codes[field] for field in fields))

    def names(self, rows: Array, fields: Sequence[str]) -> list[Any]:
        """The values of some fields in some records."""
        columns = (
            [self._values[field][code] for code in self.codes[field][rows].tolist()]
            for field in fields
        )
        return list(zip(*columns, strict=True))

    def name(self, row: int) -> RecordName:
        key = {field: values[self.codes[field][row]] for field, values in self._values.items()}
        key["sample_id"] = json_safe(key["sample_id"])
        return RecordName(metric=key.pop(METRIC), **key)

    def lines(self, corpus: int, rows: Array) -> list[PartLines]:
        """Where to read the lines of some records of OLD (0) or NEW (1), which are in order."""
        selection = self._corpora[corpus]
        numbers = self._numbers[corpus][rows - corpus * self._old_rows]
        return [
            PartLines(selection.parts[part], positions)
            for part, positions in selection.by_part(numbers)
        ]
