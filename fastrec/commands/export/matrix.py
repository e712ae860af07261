"""The matrix of models × questions, for item response theory: `scores.csv`, `correct.csv` and `samples.csv`.

1. One task per part writes an answer per record: question, model, score.
2. The names of all questions and models are collected and sorted. They are the columns and rows. If records name a
   metric, each question has a column for each metric, so that no column mixes metrics. So has each sample_id of a split
   hash (`keys.is_split`).
3. Each cell gets the offset of its answer in a text file. The cells are a file too.
4. The matrix is written row by row. `correct.csv` lacks the columns of graded metrics: their `is_correct` says little.

Memory holds the names of questions and models, and one row.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Raw

from fastrec.commands.export.table import CHUNK_BYTES, ExportTask, Score, double_of, has_metrics
from fastrec.corpus.scan import SplitHashes, decode_lines
from fastrec.csv_writer import CsvWriter
from fastrec.errors import counted, naming
from fastrec.sorting.keys import METRIC

_CELL: Final = 8  # bytes: the offset of the answer, or 0 if there is none

Scope = tuple[str, str | None]
"""An evaluation_name and one of its metrics; None for records without a metric."""

_Question = tuple[str, tuple[str, ...], str, tuple[str, ...]]
"""evaluation_name, metric or nothing, which sorts first, sample_hash, and sample_id in JSON if the hash is split."""


class _Line(msgspec.Struct):
    evaluation_name: str
    sample_hash: str
    model_id: str
    sample_id: Raw
    evaluation: Score
    error: str | None = None


class _LineWithMetric(_Line):
    metric: str | None = msgspec.field(name=METRIC, default=None)


class _Answer(msgspec.Struct, array_like=True):
    """The values of a record that are in the matrix."""

    question: _Question
    model_id: str
    sample_id: str
    score: str
    is_correct: bool
    failed: bool


def write_answers(task: ExportTask) -> None:
    """Write the answers of one part, one per line. Runs in a worker."""
    decode = msgspec.json.Decoder(_LineWithMetric if has_metrics(task.schema) else _Line).decode
    encode = msgspec.json.encode
    with naming(task.output), open(task.output, "wb") as file:  # noqa: PTH123 - paths stay str through pickle
        for lines, _ in decode_lines(task.part, decode, CHUNK_BYTES, task.sort_fields):
            file.writelines(encode(_answer(line, task.split)) + b"\n" for line in lines)


def _answer(line: _Line, split: SplitHashes) -> _Answer:
    spelled = sample_id = bytes(line.sample_id).decode()
    if sample_id.startswith('"'):
        sample_id = msgspec.json.decode(sample_id)
    score, _ = double_of(line.evaluation.score)
    metric = (line.metric,) if isinstance(line, _LineWithMetric) and line.metric is not None else ()
    is_split = split and (line.evaluation_name, metric[0] if metric else None, line.sample_hash) in split
    question = (line.evaluation_name, metric, line.sample_hash, (spelled,) if is_split else ())
    return _Answer(question, line.model_id, sample_id, score, line.evaluation.is_correct, bool(line.error))


def write_matrix(
    answers: Sequence[str], scratch: Path, output: Path, graded: Collection[Scope] | None, *, raw_cells: bool
) -> list[str]:
    """Write the matrix, and return notices of what it lacks.

    `graded` are the evaluations and metrics whose scores are other than 0 and 1; None if records name no metric.
    """
    sample_ids: dict[_Question, str] = {}
    names: set[str] = set()
    for answer in _read(answers):
        sample_ids.setdefault(answer.question, answer.sample_id)
        names.add(answer.model_id)
    questions, models = sorted(sample_ids), sorted(names)
    is_graded = [
        graded is not None and (name, metric[0] if metric else None) in graded for name, metric, *_ in questions
    ]
    _write_samples(output, sample_ids, is_graded if graded is not None else None, raw_cells=raw_cells)
    size = len(questions) * len(models) * _CELL
    with (scratch / "cells").open("w+b") as cells, (scratch / "texts").open("w+b") as texts:
        cells.truncate(max(size, 1))  # an empty file cannot be mapped
        texts.write(b"\n")  # so that no answer has offset 0
        with mmap.mmap(cells.fileno(), 0) as mapped:
            offsets = memoryview(mapped)[:size].cast("Q")
            failed, repeated = _fill(offsets, texts, answers, questions, models)
            texts.flush()
            with mmap.mmap(texts.fileno(), 0, access=mmap.ACCESS_READ) as text:
                _write_rows(output, text, offsets, questions, models, is_graded, raw_cells=raw_cells)
            offsets.release()
    notices = []
    if failed:
        notices.append(f"{counted(failed, 'record')} with an error left out: their cells are empty")
    if repeated:
        reason = "only a model's first answer to a question is in the matrix"
        notices.append(f"{counted(repeated, 'answer')} left out: {reason}")
    if columns := sum(is_graded):
        reason = "scores other than 0 and 1 are neither right nor wrong"
        notices.append(f"correct.csv lacks {counted(columns, 'column')} of graded metrics: {reason}")
    return notices


def _column_name(question: _Question) -> str:
    name, metric, sample_hash, sample_id = question
    return "/".join([name, *metric, sample_hash, *sample_id])


def _write_samples(
    output: Path, sample_ids: dict[_Question, str], is_graded: Sequence[bool] | None, *, raw_cells: bool
) -> None:
    """Write the table of columns; those of records that name a metric have two more fields."""
    with (output / "samples.csv").open("w", encoding="utf-8", newline="") as file:
        writer = CsvWriter(file, raw_cells=raw_cells)
        more = [] if is_graded is None else [METRIC, "graded"]
        writer.writerow(["sample", "evaluation_name", *more, "sample_hash", "sample_id"])
        for number, question in enumerate(sorted(sample_ids)):
            name, metric, sample_hash, _ = question
            more = [] if is_graded is None else [*(metric or ("",)), "true" if is_graded[number] else "false"]
            writer.writerow([_column_name(question), name, *more, sample_hash, sample_ids[question]])


def _read(answers: Sequence[str]) -> Iterator[_Answer]:
    decode = msgspec.json.Decoder(_Answer).decode
    for path in answers:
        with open(path, "rb") as file:  # noqa: PTH123
            yield from map(decode, file)


def _fill(
    offsets: memoryview[int],
    texts: BinaryIO,
    answers: Sequence[str],
    questions: Sequence[_Question],
    models: Sequence[str],
) -> tuple[int, int]:
    """Write the first answers and their offsets; return the numbers of records with an error and of further answers."""
    columns = {question: number for number, question in enumerate(questions)}
    rows = {model: number * len(questions) for number, model in enumerate(models)}
    failed = repeated = 0
    offset = texts.tell()
    for answer in _read(answers):
        cell = rows[answer.model_id] + columns[answer.question]
        if answer.failed:
            failed += 1
        elif offsets[cell]:
            repeated += 1
        else:
            offsets[cell] = offset
            offset += texts.write(f"{answer.score},{answer.is_correct:d}\n".encode())
    return failed, repeated


def _write_rows(  # noqa: PLR0917
    output: Path,
    text: mmap.mmap,
    offsets: memoryview[int],
    questions: Sequence[_Question],
    models: Sequence[str],
    is_graded: Sequence[bool],
    *,
    raw_cells: bool,
) -> None:
    whole = range(len(questions))
    columns = (whole, [number for number in whole if not is_graded[number]])  # of each of the two files
    names = list(map(_column_name, questions))
    with (
        (output / "scores.csv").open("w", encoding="utf-8", newline="") as scores,
        (output / "correct.csv").open("w", encoding="utf-8", newline="") as correct,
    ):
        writers = [CsvWriter(file, raw_cells=raw_cells) for file in (scores, correct)]
        for kind, writer in enumerate(writers):
            writer.writerow(["model_id", *(names[column] for column in columns[kind])])
        for number, model in enumerate(models):
            row = offsets[number * len(questions) : (number + 1) * len(questions)].tolist()
            cells = [text[start : text.find(b"\n", start)].decode().split(",") if start else ("", "") for start in row]
            for kind, writer in enumerate(writers):
                writer.writerow([model, *(cells[column][kind] for column in columns[kind])])
