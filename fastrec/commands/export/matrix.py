"""The matrix of models × questions as CSV, for item response theory.

1. The cells of each evaluation and metric are written to a scratch file: the score of the first
   answer of a model to a question, and whether it is right. Cells without an answer take no space
   there. If records name a metric, each question has a column for each metric, so that no column
   mixes metrics. So has each sample_id of a split hash (`keys.is_split`).
2. The matrix is written row by row. `correct.csv` lacks columns of graded metrics, whose
   `is_correct` says little.

Memory holds the names of questions and models, one row, and the records that `RecordsOfScopes`
loads at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Raw

from fastrec.answers.codes import Array, ranks_of
from fastrec.answers.counts import count_evaluations
from fastrec.answers.records import ANSWERS, RIGHT, RecordsOfScopes, ScopeRecords
from fastrec.answers.selection import Selection
from fastrec.commands.export.table import double_of, has_metrics, write_csv
from fastrec.errors import counted
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.upgrade import free_name
from fastrec.schemas.view import view, view_decoder
from fastrec.sorting.keys import METRIC
from fastrec.where import text_of

# An integer of this size may be spelled in another way than the double.
_LEAST_UNCLEAR = 2.0**53
_NO_ANSWER = 0
_WRONG = 1
_RIGHT = 2
_CORRECT = {_NO_ANSWER: "", _WRONG: "0", _RIGHT: "1"}
_CELL = np.dtype([("score", np.float64), ("verdict", np.uint8)])
_AT_ONCE = 1 << 16


class _Block(NamedTuple):
    """The questions of an evaluation and metric, in order, and where their cells are."""

    evaluation: str
    metric: str | None
    is_graded: bool
    start: int  # its first cell
    rows: dict[str, int]  # by model
    # The names of columns, and of each the hash and the `sample_id` of its first record.
    columns: list[str]
    identities: list[tuple[str, str]]

    @property
    def size(self) -> int:
        """The number of its cells."""
        return len(self.rows) * len(self.columns)


class _Matrix:
    """Collects blocks, and yields the rows of the matrix."""

    def __init__(self, selection: Selection, scratch: Path) -> None:
        self._selection = selection
        self._path = scratch / "cells"
        self._path.write_bytes(bytes(_CELL.itemsize))  # an empty file cannot be mapped
        # By cell: scores whose spelling does not follow from the double.
        self._spelled: dict[int, str] = {}
        self._cells = 0
        self._names = set[str]()  # of columns
        self.blocks: list[_Block] = []
        self.failed = 0  # records with an error
        self.repeated = 0  # answers of a model to a question that it has answered before

    def add(self, table: ScopeRecords, *, is_graded: bool) -> None:
        in_order = sorted(zip(table.hashes, table.names, count(), strict=False))
        hashes, names, order = map(list, zip(*in_order, strict=True))
        evaluation, metric = table.name
        scope = evaluation if metric is None else f"{evaluation}/{metric}"
        ids = map(table.sample_ids.value, table.first[order])
        rows = {model: row for row, model in enumerate(table.models)}
        block = _Block(
            evaluation,
            metric,
            is_graded,
            self._cells,
            rows,
            columns=[self._new_name(f"{scope}/{name}") for name in names],
            identities=list(zip(hashes, map(text_of, ids), strict=True)),
        )
        columns = ranks_of(order)
        answers = np.flatnonzero(table.flag & ANSWERS)
        places = table.model[answers] * table.questions + columns[table.question[answers]]
        cells, first = np.unique(places, return_index=True)
        first = answers[first]
        scores = table.score[first]
        # A full disk kills whoever writes to a hole of a mapped file.
        with self._path.open("ab") as file:
            for left in range(block.size, 0, -_AT_ONCE):
                file.write(bytes(min(left, _AT_ONCE) * _CELL.itemsize))
        mapped = np.memmap(self._path, _CELL, "r+", block.start * _CELL.itemsize, block.size)
        mapped["score"][cells] = scores
        mapped["verdict"][cells] = np.where(table.flag[first] == RIGHT, _RIGHT, _WRONG)
        is_unclear = np.abs(scores) >= _LEAST_UNCLEAR
        spelled = self._selection.read(table.number[first[is_unclear]], _spelled_score)
        self._spelled |= zip((cells[is_unclear] + block.start).tolist(), spelled, strict=True)
        self.failed += len(table.flag) - len(answers)
        self.repeated += len(answers) - len(cells)
        self._cells += block.size
        self.blocks.append(block)

    def _new_name(self, name: str) -> str:
        """Number a column with the name of an earlier one.

        The evaluation `a` with the metric `b` has the columns of the evaluation `a/b` without one.
        """
        new_name = free_name(name, self._names)
        self._names.add(new_name)
        return new_name

    def spell_scores(self, start: int, cells: Array) -> list[str]:
        spelled = [text_of(score) if verdict else "" for score, verdict in cells.tolist()]
        for cell in self._spelled.keys() & range(start, start + len(cells)):
            spelled[cell - start] = self._spelled[cell]
        return spelled

    def rows(
        self, blocks: Sequence[_Block], spell_cells: Callable[[int, Array], list[str]]
    ) -> Iterator[list[str]]:
        """Yield the rows of some blocks, below their names."""
        cells = np.memmap(self._path, _CELL, "r")
        yield ["model_id", *(name for block in blocks for name in block.columns)]
        for model in sorted({model for block in self.blocks for model in block.rows}):
            row = [model]
            for block in blocks:
                width = len(block.columns)
                if model in block.rows:
                    start = block.start + block.rows[model] * width
                    row += spell_cells(start, cells[start : start + width])
                else:
                    row += [""] * width
            yield row


def _spell_verdicts(_start: int, cells: Array) -> list[str]:
    return [_CORRECT[verdict] for _, verdict in cells.tolist()]


_decode = view_decoder(evaluation=view(score=Raw))


def _spelled_score(line: bytes) -> str:
    """The score of a record, as it is spelled."""
    spelled, _ = double_of(_decode(line).evaluation.score)
    return spelled


def write_matrix(
    selection: Selection, scratch: Path, output: Path, *, raw_cells: bool
) -> list[str]:
    """Write the matrix, and return notices of what it lacks."""
    names_metrics = has_metrics(CORPUS_LABELS[selection.manifest.schema])
    write = partial(write_csv, raw_cells=raw_cells)
    records = RecordsOfScopes(selection)
    evaluations = count_evaluations(selection, records)
    matrix = _Matrix(selection, scratch)
    for number, evaluation in enumerate(evaluations):
        matrix.add(records.of(number), is_graded=names_metrics and evaluation.graded)
    judged = [block for block in matrix.blocks if not block.is_graded]
    write(output / "scores.csv", matrix.rows(matrix.blocks, matrix.spell_scores))
    write(output / "correct.csv", matrix.rows(judged, _spell_verdicts))
    write(output / "samples.csv", _samples(matrix.blocks, names_metrics=names_metrics))
    notices = []
    if matrix.failed:
        notices.append(
            f"{counted(matrix.failed, 'record')} with an error left out: their cells are empty"
        )
    if matrix.repeated:
        reason = "only a model's first answer to a question is in the matrix"
        notices.append(f"{counted(matrix.repeated, 'answer')} left out: {reason}")
    if columns := sum(len(block.columns) for block in matrix.blocks if block.is_graded):
        reason = "their scores are no verdicts"
        notices.append(
            f"correct.csv lacks {counted(columns, 'column')} of graded metrics: {reason}"
        )
    return notices


def _samples(blocks: Iterable[_Block], *, names_metrics: bool) -> Iterator[list[str]]:
    """Yield the table of columns; those of records that name a metric have two more fields."""
    more = [METRIC, "graded"] if names_metrics else []
    yield ["sample", "evaluation_name", *more, "sample_hash", "sample_id"]
    for block in blocks:
        if names_metrics:
            more = [block.metric or "", "true" if block.is_graded else "false"]
        for column, identity in zip(block.columns, block.identities, strict=True):
            yield [column, block.evaluation, *more, *identity]
