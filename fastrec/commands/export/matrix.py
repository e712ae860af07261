"""The matrix of models × samples, for item response theory: `scores.csv`, `correct.csv`, and `samples.csv` for a key.

1. One task per part leaves an answer per record: sample, model, score.
2. All samples and models are gathered; sorted, they are the columns and the rows.
3. Each answer is put into its cell, in a file: of the answers themselves only their places are there.
4. The matrix is written row by row.

Memory holds the names of samples and models, and one row.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Raw

from fastrec.commands.export.part import PartToExport, decoded_chunks
from fastrec.commands.export.table import Writer

__all__ = ["MATRIX_FILES", "Matrix", "write_answers", "write_matrix"]

MATRIX_FILES: Final = ("scores.csv", "correct.csv", "samples.csv")

_CHUNK_BYTES: Final = 1 << 20
_CELL: Final = 8  # bytes: where the answer stands, from 1; 0 if there is none


class _Evaluation(msgspec.Struct):
    score: Raw
    is_correct: bool


class _Line(msgspec.Struct):
    evaluation_name: str
    sample_hash: str
    model_id: str
    sample_id: Raw
    evaluation: _Evaluation


class _Answer(msgspec.Struct, array_like=True):
    """What a record adds to the matrix."""

    evaluation_name: str
    sample_hash: str
    model_id: str
    sample_id: str
    score: str
    is_correct: bool


class Matrix(msgspec.Struct):
    """What was written."""

    models: int
    samples: int
    repeated: int
    """Answers beyond the first of a model to a sample: they are left out."""


def write_answers(part: PartToExport) -> int:
    """Leave the answers of one part, one a line, and give their number. Runs in a worker."""
    decode = msgspec.json.Decoder(_Line).decode
    encode = msgspec.json.encode
    rows = 0
    with open(part.into, "wb") as file:  # noqa: PTH123 - it came through pickle as a str
        for some, _ in decoded_chunks(part, decode, _CHUNK_BYTES):
            file.writelines(encode(_answer(line)) + b"\n" for line in some)
            rows += len(some)
    return rows


def _answer(line: _Line) -> _Answer:
    sample_id = bytes(line.sample_id).decode()
    if sample_id.startswith('"'):
        sample_id = msgspec.json.decode(sample_id)
    score = bytes(line.evaluation.score).decode()
    return _Answer(line.evaluation_name, line.sample_hash, line.model_id, sample_id, score, line.evaluation.is_correct)


def write_matrix(answers: Sequence[str], scratch: Path, into: Path) -> Matrix:
    """Write the matrix of all answers."""
    found: dict[tuple[str, str], str] = {}
    names: set[str] = set()
    for answer in _read(answers):
        found.setdefault((answer.evaluation_name, answer.sample_hash), answer.sample_id)
        names.add(answer.model_id)
    samples, models = sorted(found), sorted(names)
    _write_samples(into / "samples.csv", samples, found)
    with (scratch / "cells").open("w+b") as cells, (scratch / "texts").open("w+b") as texts:
        cells.truncate(max(len(samples) * len(models) * _CELL, 1))
        texts.write(b"\n")  # nothing to read at place 0, and a map needs a byte
        with mmap.mmap(cells.fileno(), 0) as mapped:
            places = memoryview(mapped)[: len(samples) * len(models) * _CELL].cast("Q")
            repeated = _fill(places, texts, answers, samples, models)
            texts.flush()
            with mmap.mmap(texts.fileno(), 0, access=mmap.ACCESS_READ) as text:
                _write_rows(into, text, places, samples, models)
            places.release()
    return Matrix(len(models), len(samples), repeated)


def _read(answers: Sequence[str]) -> Iterator[_Answer]:
    decode = msgspec.json.Decoder(_Answer).decode
    for path in answers:
        with open(path, "rb") as file:  # noqa: PTH123
            yield from map(decode, file)


def _write_samples(path: Path, samples: Sequence[tuple[str, str]], ids: dict[tuple[str, str], str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = Writer(file)
        writer.writerow(["sample", "evaluation_name", "sample_hash", "sample_id"])
        writer.writerows([_name(sample), *sample, ids[sample]] for sample in samples)


def _name(sample: tuple[str, str]) -> str:
    return "/".join(sample)


def _fill(
    places: Any, texts: BinaryIO, answers: Sequence[str], samples: Sequence[tuple[str, str]], models: Sequence[str]
) -> int:
    """Put each answer into its cell; the first of a model to a sample stays. Give the number of the others."""
    columns = {sample: number for number, sample in enumerate(samples)}
    rows = {model: number * len(samples) for number, model in enumerate(models)}
    repeated = 0
    place = texts.tell()
    for answer in _read(answers):
        cell = rows[answer.model_id] + columns[answer.evaluation_name, answer.sample_hash]
        if places[cell]:
            repeated += 1
            continue
        places[cell] = place
        place += texts.write(f"{answer.score},{answer.is_correct:d}\n".encode())
    return repeated


def _write_rows(
    into: Path, text: mmap.mmap, places: Any, samples: Sequence[tuple[str, str]], models: Sequence[str]
) -> None:
    header = ["model_id", *map(_name, samples)]
    with (
        (into / "scores.csv").open("w", encoding="utf-8", newline="") as scores,
        (into / "correct.csv").open("w", encoding="utf-8", newline="") as correct,
    ):
        writers = [Writer(file) for file in (scores, correct)]
        for writer in writers:
            writer.writerow(header)
        for number, model in enumerate(models):
            row = places[number * len(samples) : (number + 1) * len(samples)].tolist()
            cells = [text[place : text.find(b"\n", place)].decode().split(",") if place else ("", "") for place in row]
            for kind, writer in enumerate(writers):
                writer.writerow([model, *(cell[kind] for cell in cells)])
