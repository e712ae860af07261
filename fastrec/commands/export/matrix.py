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

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path

import numpy as np
from msgspec import Raw

from fastrec.answers.counts import count_evaluations
from fastrec.answers.records import ANSWERS, RIGHT, RecordsOfScopes, ScopeRecords
from fastrec.answers.selection import Selection
from fastrec.commands.export.table import double_of, has_metrics, id_text
from fastrec.csv_writer import CsvWriter
from fastrec.errors import counted, naming
from fastrec.judge.parse import spell
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.view import view, view_decoder
from fastrec.sorting.keys import METRIC

# An integer of this size may be spelled in another way than the double.
_LEAST_UNCLEAR = 2.0**53
_NO_ANSWER = 0
_WRONG = 1
_RIGHT = 2
_CORRECT = {_NO_ANSWER: "", _WRONG: "0", _RIGHT: "1"}
_CELL = np.dtype([("score", np.float64), ("verdict", np.uint8)])


class _Block:
    """The questions of an evaluation and metric, in order, and where their cells are."""

    def __init__(self, table: ScopeRecords, start: int, *, is_graded: bool) -> None:
        self.evaluation, self.metric = table.name
        self.is_graded = is_graded
        self.start = start  # its first cell
        self.rows = {model: row for row, model in enumerate(table.models)}
        in_order = sorted(zip(table.hashes, table.names, count(), strict=False))
        self.order = [number for _, _, number in in_order]
        self.hashes = [sample_hash for sample_hash, _, _ in in_order]
        self.sample_ids = [_sample_id(table, number) for number in self.order]
        scope = self.evaluation if self.metric is None else f"{self.evaluation}/{self.metric}"
        self.columns = [f"{scope}/{name}" for _, name, _ in in_order]

    @property
    def size(self) -> int:
        """The number of its cells."""
        return len(self.rows) * len(self.columns)


class _Matrix:
    """Collects blocks, and writes the matrix."""

    def __init__(self, selection: Selection, scratch: Path) -> None:
        self._selection = selection
        self._path = scratch / "cells"
        self._path.write_bytes(bytes(_CELL.itemsize))  # an empty file cannot be mapped
        # By cell: scores whose spelling does not follow from the double.
        self._spelled: dict[int, str] = {}
        self._cells = 0
        self.blocks: list[_Block] = []
        self.failed = 0  # records with an error
        self.repeated = 0  # answers of a model to a question that it has answered before

    def add(self, table: ScopeRecords, *, is_graded: bool) -> None:
        block = _Block(table, self._cells, is_graded=is_graded)
        columns = np.empty(table.questions, dtype=np.int64)
        columns[block.order] = np.arange(table.questions)
        answers = np.flatnonzero(table.flag & ANSWERS)
        places = table.model[answers] * table.questions + columns[table.question[answers]]
        cells, first = np.unique(places, return_index=True)
        first = answers[first]
        scores = table.score[first]
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

    def write(self, output: Path, *, raw_cells: bool) -> None:
        """Write the scores, and whether answers are right."""
        cells = np.memmap(self._path, _CELL, "r")

        def spell_scores(start: int, end: int) -> list[str]:
            spelled = [
                spell(score).decode() if verdict else ""
                for score, verdict in cells[start:end].tolist()
            ]
            for cell in self._spelled.keys() & range(start, end) if self._spelled else ():
                spelled[cell - start] = self._spelled[cell]
            return spelled

        def spell_verdicts(start: int, end: int) -> list[str]:
            return [_CORRECT[verdict] for _, verdict in cells[start:end].tolist()]

        self._write(output / "scores.csv", self.blocks, spell_scores, raw_cells=raw_cells)
        judged = [block for block in self.blocks if not block.is_graded]
        self._write(output / "correct.csv", judged, spell_verdicts, raw_cells=raw_cells)

    def _write(
        self,
        path: Path,
        blocks: Sequence[_Block],
        spell_cells: Callable[[int, int], list[str]],
        *,
        raw_cells: bool,
    ) -> None:
        with naming(str(path)), path.open("w", encoding="utf-8", newline="") as file:
            writer = CsvWriter(file, raw_cells=raw_cells)
            writer.writerow(["model_id", *(name for block in blocks for name in block.columns)])
            for model in sorted({model for block in self.blocks for model in block.rows}):
                row = [model]
                for block in blocks:
                    width = len(block.columns)
                    if model in block.rows:
                        start = block.start + block.rows[model] * width
                        row += spell_cells(start, start + width)
                    else:
                        row += [""] * width
                writer.writerow(row)


def _sample_id(table: ScopeRecords, question: int) -> str:
    """The `sample_id` of the first record of a question."""
    return id_text(table.sample_ids.value(table.first[question]))


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
    records = RecordsOfScopes(selection)
    evaluations = count_evaluations(selection, records)
    matrix = _Matrix(selection, scratch)
    for number, evaluation in enumerate(evaluations):
        matrix.add(records.of(number), is_graded=names_metrics and evaluation.graded)
    matrix.write(output, raw_cells=raw_cells)
    with (output / "samples.csv").open("w", encoding="utf-8", newline="") as file:
        writer = CsvWriter(file, raw_cells=raw_cells)
        _write_samples(writer, matrix.blocks, names_metrics=names_metrics)
    notices = []
    if matrix.failed:
        notices.append(
            f"{counted(matrix.failed, 'record')} with an error left out: their cells are empty"
        )
    if matrix.repeated:
        reason = "only a model's first answer to a question is in the matrix"
        notices.append(f"{counted(matrix.repeated, 'answer')} left out: {reason}")
    if columns := sum(len(block.columns) for block in matrix.blocks if block.is_graded):
        reason = "scores other than 0 and 1 are neither right nor wrong"
        notices.append(
            f"correct.csv lacks {counted(columns, 'column')} of graded metrics: {reason}"
        )
    return notices


def _write_samples(writer: CsvWriter, blocks: Iterable[_Block], *, names_metrics: bool) -> None:
    """Write the table of columns; those of records that name a metric have two more fields."""
    more = [METRIC, "graded"] if names_metrics else []
    writer.writerow(["sample", "evaluation_name", *more, "sample_hash", "sample_id"])
    for block in blocks:
        if names_metrics:
            more = [block.metric or "", "true" if block.is_graded else "false"]
        for column, sample_hash, sample_id in zip(
            block.columns, block.hashes, block.sample_ids, strict=True
        ):
            writer.writerow([column, block.evaluation, *more, sample_hash, sample_id])
