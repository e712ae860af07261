"""The matrix of models × questions, for item response theory: `scores.csv`, `correct.csv` and `samples.csv`.

1. One task per part writes an answer per record: question, model, score.
2. The names of all questions and models are collected and sorted. They are the columns and rows.
3. Each cell gets the offset of its answer in a text file. The cells are a file too.
4. The matrix is written row by row.

Memory holds the names of questions and models, and one row.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Raw

from fastrec.commands.export.table import CHUNK_BYTES, ExportTask, double_of
from fastrec.corpus.scan import decode_lines
from fastrec.csv_writer import CsvWriter

__all__ = ["write_answers", "write_matrix"]

_CELL: Final = 8  # bytes: the offset of the answer, or 0 if there is none

_Question = tuple[str, str]  # evaluation_name and sample_hash


class _Evaluation(msgspec.Struct):
    score: Raw
    is_correct: bool


class _Line(msgspec.Struct):
    evaluation_name: str
    sample_hash: str
    model_id: str
    sample_id: Raw
    evaluation: _Evaluation
    error: str | None = None


class _Answer(msgspec.Struct, array_like=True):
    """The values of a record that are in the matrix."""

    evaluation_name: str
    sample_hash: str
    model_id: str
    sample_id: str
    score: str
    is_correct: bool
    failed: bool


def write_answers(task: ExportTask) -> None:
    """Write the answers of one part, one per line. Runs in a worker."""
    decode = msgspec.json.Decoder(_Line).decode
    encode = msgspec.json.encode
    with open(task.output, "wb") as file:  # noqa: PTH123 - paths stay str through pickle
        for lines, _ in decode_lines(task.part, decode, CHUNK_BYTES):
            file.writelines(encode(_answer(line)) + b"\n" for line in lines)


def _answer(line: _Line) -> _Answer:
    sample_id = bytes(line.sample_id).decode()
    if sample_id.startswith('"'):
        sample_id = msgspec.json.decode(sample_id)
    score, _ = double_of(line.evaluation.score)
    names = (line.evaluation_name, line.sample_hash, line.model_id, sample_id)
    return _Answer(*names, score, line.evaluation.is_correct, bool(line.error))


def write_matrix(answers: Sequence[str], scratch: Path, output: Path, *, raw_cells: bool = False) -> tuple[int, int]:
    """Write the matrix, and return how many records it lacks: those with an error, and repeated answers."""
    sample_ids: dict[_Question, str] = {}
    names: set[str] = set()
    for answer in _read(answers):
        sample_ids.setdefault((answer.evaluation_name, answer.sample_hash), answer.sample_id)
        names.add(answer.model_id)
    questions, models = sorted(sample_ids), sorted(names)
    with (output / "samples.csv").open("w", encoding="utf-8", newline="") as file:
        writer = CsvWriter(file, raw_cells=raw_cells)
        writer.writerow(["sample", "evaluation_name", "sample_hash", "sample_id"])
        writer.writerows(["/".join(question), *question, sample_ids[question]] for question in questions)
    size = len(questions) * len(models) * _CELL
    with (scratch / "cells").open("w+b") as cells, (scratch / "texts").open("w+b") as texts:
        cells.truncate(max(size, 1))  # an empty file cannot be mapped
        texts.write(b"\n")  # so that no answer has offset 0
        with mmap.mmap(cells.fileno(), 0) as mapped:
            offsets = memoryview(mapped)[:size].cast("Q")
            left_out = _fill(offsets, texts, answers, questions, models)
            texts.flush()
            with mmap.mmap(texts.fileno(), 0, access=mmap.ACCESS_READ) as text:
                _write_rows(output, text, offsets, questions, models, raw_cells=raw_cells)
            offsets.release()
    return left_out


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
    """Write the first answer of each model to each question, and its offset into its cell.

    Returns the numbers of records with an error, which are no answers, and of further answers to the same question.
    """
    columns = {question: number for number, question in enumerate(questions)}
    rows = {model: number * len(questions) for number, model in enumerate(models)}
    failed = repeated = 0
    offset = texts.tell()
    for answer in _read(answers):
        cell = rows[answer.model_id] + columns[answer.evaluation_name, answer.sample_hash]
        if answer.failed:
            failed += 1
            continue
        if offsets[cell]:
            repeated += 1
            continue
        offsets[cell] = offset
        offset += texts.write(f"{answer.score},{answer.is_correct:d}\n".encode())
    return failed, repeated


def _write_rows(
    output: Path,
    text: mmap.mmap,
    offsets: memoryview[int],
    questions: Sequence[_Question],
    models: Sequence[str],
    *,
    raw_cells: bool,
) -> None:
    with (
        (output / "scores.csv").open("w", encoding="utf-8", newline="") as scores,
        (output / "correct.csv").open("w", encoding="utf-8", newline="") as correct,
    ):
        writers = [CsvWriter(file, raw_cells=raw_cells) for file in (scores, correct)]
        for writer in writers:
            writer.writerow(["model_id", *map("/".join, questions)])
        for number, model in enumerate(models):
            row = offsets[number * len(questions) : (number + 1) * len(questions)].tolist()
            cells = [text[start : text.find(b"\n", start)].decode().split(",") if start else ("", "") for start in row]
            for kind, writer in enumerate(writers):
                writer.writerow([model, *(cell[kind] for cell in cells)])
