"""CSV: one flat table with one row per record, or the matrix of models × questions, for item response theory.

A reader guesses the type of a column from its first rows, so all cells of a column are spelled alike: scores and
latencies always with a decimal point or an exponent, and the score `true` as 1.0. `score_type` tells them apart.

The sizes of a response (`MEASURES`) are the same in all formats. They are counted in the record itself; what the record
claims is in `evaluation.num_turns` and `tool_calls_count`.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fastrec.corpus.manifest import Manifest
from fastrec.corpus.scan import PartFile, SplitHashes, decode_lines
from fastrec.csv_writer import CsvWriter
from fastrec.errors import counted, naming, shown
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.schema import Schema
from fastrec.sorting.keys import METRIC

CHUNK_BYTES: Final = 1 << 20  # text to decode at a time
MEASURES: Final = ("response_characters", "turns", "tool_calls")
_COLUMNS: Final = (
    "sample_hash",
    "model_id",
    "evaluation_id",
    "sample_id",
    "sample_id_type",
    "interaction_type",
    "score",
    "score_type",
    "is_correct",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "latency_ms",
    *MEASURES,
    "error",
)


def measure(output: Any, turns: Any) -> tuple[int | None, int, int]:
    """Measure a response: characters of what the model said without reasoning, None if nothing; turns; tool calls."""
    if turns.__class__ is not list:
        if not output:
            return None, 1, 0
        raw = output.raw
        return len(raw) if raw.__class__ is str else sum(map(len, raw)), 1, 0
    said = [len(turn.content) if turn.content else 0 for turn in turns if turn.role == "assistant"]
    calls = sum([len(turn.tool_calls) for turn in turns if turn.tool_calls])
    return sum(said) if said else None, len(turns), calls


class ExportTask(msgspec.Struct, frozen=True):
    part: PartFile
    output: str
    label: str  # the schema version, as the manifest spells it
    sort_fields: tuple[str, ...]
    raw_cells: bool = True  # whether text that a spreadsheet would evaluate stays as it is
    split: SplitHashes = frozenset()
    sources: str = ""  # the directory of the corpus, if the table has the sources of records

    @property
    def schema(self) -> Schema:
        return CORPUS_LABELS[self.label]

    def __str__(self) -> str:
        return f"exporting {shown(self.part.path)}"


def export_tasks(
    parts: Iterable[PartFile], manifest: Manifest, folder: Path, suffix: str, **options: Any
) -> list[ExportTask]:
    """Make a task for each part, with a file in a folder."""
    return [
        ExportTask(part, str(folder / f"part-{number:05d}{suffix}"), manifest.schema, manifest.sort_fields, **options)
        for number, part in enumerate(parts)
    ]


class _Score(msgspec.Struct):
    score: Raw
    is_correct: bool


class Usage(msgspec.Struct):
    input_tokens: Raw = Raw()
    output_tokens: Raw = Raw()
    total_tokens: Raw = Raw()


class _Times(msgspec.Struct):
    latency_ms: Raw = Raw()


class Output(msgspec.Struct):
    raw: str | list[str]


class Turn(msgspec.Struct):
    role: str
    content: str | None = None
    tool_calls: list[Raw] | None = None


class _Cell(msgspec.Struct, kw_only=True):
    """The fields of a record that the matrix and all tables need; numbers as they are spelled."""

    evaluation_name: str
    sample_hash: str
    model_id: str
    sample_id: Raw
    evaluation: _Score
    error: str = ""
    metric: ClassVar[str | None] = None


class Line(_Cell, kw_only=True):
    """The fields of a record that are in tables, too, or measured for them."""

    token_usage: Usage | UnsetType = UNSET
    performance: _Times | UnsetType = UNSET
    output: Output | None = None


class _Row(Line, kw_only=True):
    evaluation_id: str
    interaction_type: str


def has_metrics(schema: Schema) -> bool:
    """Whether records of this version name a metric: then an evaluation can have several."""
    return METRIC in schema.sort_fields


def table_columns(schema: Schema) -> tuple[str, ...]:
    return ("evaluation_name", *([METRIC] if has_metrics(schema) else []), *_COLUMNS)


def line_decoder(kind: type[_Cell], schema: Schema) -> Callable[[bytes], Any]:
    """Make a decoder of lines, with the fields whose names depend on the version: `metric`, and `turns` of a Line."""
    fields: list[tuple[str, Any, Any]] = []
    if issubclass(kind, Line):
        fields.append(("turns", list[Turn] | None, msgspec.field(name=schema.turns_field, default=None)))
    if has_metrics(schema):  # in other versions it is an unknown key, with a value of any type
        fields.append(("metric", str | None, msgspec.field(name=METRIC, default=None)))
    return msgspec.json.Decoder(msgspec.defstruct("_Line", fields, bases=(kind,), kw_only=True)).decode


def double_of(value: Raw) -> tuple[str, str]:
    """Spell a number or boolean as a double, with the same digits, and name its type.

    >>> [double_of(Raw(text)) for text in (b"1", b"0.5", b"1e-7", b"true")]
    [('1.0', 'integer'), ('0.5', 'number'), ('1e-7', 'number'), ('1.0', 'boolean')]
    """
    text = bytes(value).decode()
    if text in ("true", "false"):
        return ("1.0" if text == "true" else "0.0"), "boolean"
    return (text, "number") if "." in text or "e" in text else (f"{text}.0", "integer")


def write_table(task: ExportTask) -> None:
    """Write the rows of one part without a header. Runs in a worker."""
    decode = line_decoder(_Row, task.schema)
    row_of = partial(_row, has_metrics=has_metrics(task.schema))
    with naming(task.output), open(task.output, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
        writer = CsvWriter(file, raw_cells=task.raw_cells)
        for lines, _ in decode_lines(task.part, decode, CHUNK_BYTES, task.sort_fields):
            writer.writerows(map(row_of, lines))


def _row(line: Any, *, has_metrics: bool) -> tuple[Any, ...]:
    usage, times = line.token_usage, line.performance
    tokens = (usage.input_tokens, usage.output_tokens, usage.total_tokens) if usage else (b"", b"", b"")
    sample_id = bytes(line.sample_id)
    is_text = sample_id.startswith(b'"')
    return (
        line.evaluation_name,
        *([line.metric or ""] if has_metrics else []),
        line.sample_hash,
        line.model_id,
        line.evaluation_id,
        msgspec.json.decode(sample_id) if is_text else sample_id.decode(),
        "string" if is_text else "integer",
        line.interaction_type,
        *double_of(line.evaluation.score),
        "true" if line.evaluation.is_correct else "false",
        *(bytes(count).decode() for count in tokens),
        double_of(times.latency_ms)[0] if times and bytes(times.latency_ms) else "",
        *measure(line.output, line.turns),
        line.error,
    )


# The matrix of models × questions:
#
# 1. One task per part writes an answer per record: question, model, score.
# 2. The names of all questions and models are collected and sorted. They are the columns and rows. If records name a
#    metric, each question has a column for each metric, so that no column mixes metrics. So has each sample_id of a
#    split hash (`keys.is_split`).
# 3. Each cell gets the offset of its answer in a text file. The cells are a file too.
# 4. The matrix is written row by row. `correct.csv` lacks columns of graded metrics, whose `is_correct` says little.
#
# Memory holds the names of questions and models, and one row.

_CELL: Final = 8  # bytes: the offset of the answer, or 0 if there is none

Scope = tuple[str, str | None]
"""An evaluation_name and one of its metrics; None for records without a metric."""

_Question = tuple[str, tuple[str, ...], str, tuple[str, ...]]
"""evaluation_name, metric or nothing, which sorts first, sample_hash, and sample_id in JSON if the hash is split."""


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
    decode, encode = line_decoder(_Cell, task.schema), msgspec.json.encode
    with naming(task.output), open(task.output, "wb") as file:  # noqa: PTH123 - paths stay str through pickle
        for lines, _ in decode_lines(task.part, decode, CHUNK_BYTES, task.sort_fields):
            file.writelines(encode(_answer(line, task.split)) + b"\n" for line in lines)


def _answer(line: Any, split: SplitHashes) -> _Answer:
    spelled = sample_id = bytes(line.sample_id).decode()
    if sample_id.startswith('"'):
        sample_id = msgspec.json.decode(sample_id)
    score, _ = double_of(line.evaluation.score)
    metric = () if line.metric is None else (line.metric,)
    is_split = split and (line.evaluation_name, line.metric, line.sample_hash) in split
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
    places = {question: number for number, question in enumerate(questions)}
    rows = {model: number * len(questions) for number, model in enumerate(models)}
    size = len(questions) * len(models) * _CELL
    failed = repeated = 0
    with (scratch / "cells").open("w+b") as cells, (scratch / "texts").open("w+b") as texts:
        cells.truncate(max(size, 1))  # an empty file cannot be mapped
        offset = texts.write(b"\n")  # so that no answer has offset 0
        with mmap.mmap(cells.fileno(), 0) as mapped:
            offsets = memoryview(mapped)[:size].cast("Q")
            for answer in _read(answers):
                cell = rows[answer.model_id] + places[answer.question]
                if answer.failed:
                    failed += 1
                elif offsets[cell]:
                    repeated += 1
                else:
                    offsets[cell] = offset
                    offset += texts.write(f"{answer.score},{answer.is_correct:d}\n".encode())
            texts.flush()
            with mmap.mmap(texts.fileno(), 0, access=mmap.ACCESS_READ) as text:
                found = (
                    (model, _cells(text, offsets[start : start + len(questions)].tolist()))
                    for model, start in rows.items()
                )
                _write_rows(output, found, questions, is_graded, raw_cells=raw_cells)
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


def _cells(text: mmap.mmap, offsets: Iterable[int]) -> list[Sequence[str]]:
    """The score and the correctness at each offset."""
    return [text[start : text.find(b"\n", start)].decode().split(",") if start else ("", "") for start in offsets]


def _write_rows(
    output: Path,
    rows: Iterable[tuple[str, Sequence[Sequence[str]]]],
    questions: Sequence[_Question],
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
        for model, cells in rows:
            for kind, writer in enumerate(writers):
                writer.writerow([model, *(cells[column][kind] for column in columns[kind])])
