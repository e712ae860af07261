"""CSV: one flat table with one row per record and numbers spelled as in the record."""

from __future__ import annotations

import csv
from typing import Any, Final, TextIO

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fastrec.corpus.scan import PartFile, decode_lines
from fastrec.errors import shown
from fastrec.limits import LIMITS, Limits

__all__ = ["CHUNK_BYTES", "COLUMNS", "CsvWriter", "ExportTask", "write_table"]

COLUMNS: Final = (
    "evaluation_name",
    "sample_hash",
    "model_id",
    "evaluation_id",
    "sample_id",
    "sample_id_type",
    "interaction_type",
    "score",
    "is_correct",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "latency_ms",
    "error",
)
CHUNK_BYTES: Final = 1 << 20  # text to decode at a time


class ExportTask(msgspec.Struct, frozen=True):
    """A part to export, in any format."""

    part: PartFile
    output: str
    """The file to write."""
    limits: Limits = LIMITS

    def __str__(self) -> str:
        return f"exporting {shown(self.part.path)}"


class _Evaluation(msgspec.Struct):
    score: Raw
    is_correct: Raw


class _Usage(msgspec.Struct):
    input_tokens: Raw
    output_tokens: Raw
    total_tokens: Raw


class _Times(msgspec.Struct):
    latency_ms: Raw = Raw()


class _Line(msgspec.Struct):
    """The fields of a record that are in the table; numbers as they are spelled."""

    evaluation_name: str
    sample_hash: str
    model_id: str
    evaluation_id: str
    sample_id: Raw
    interaction_type: str
    evaluation: _Evaluation
    token_usage: _Usage | UnsetType = UNSET
    performance: _Times | UnsetType = UNSET
    error: str = ""


class CsvWriter:
    r"""Writes CSV rows that end with \n, and quotes cells that contain \r, which most readers take for an end of row.

    Before Python 3.13, the csv module quotes only characters of its own line terminator.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        writer = csv.writer(self, lineterminator="\r\n")
        self.writerow, self.writerows = writer.writerow, writer.writerows

    def write(self, row: str) -> None:
        """Write a row from the csv module."""
        self._file.write(row[:-2] + "\n")


def write_table(task: ExportTask) -> None:
    """Write the rows of one part without a header. Runs in a worker."""
    decode = msgspec.json.Decoder(_Line).decode
    with open(task.output, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - paths stay str through pickle
        writer = CsvWriter(file)
        for lines, _ in decode_lines(task.part, decode, CHUNK_BYTES):
            writer.writerows(map(_row, lines))


def _row(line: _Line) -> tuple[Any, ...]:
    usage, times = line.token_usage, line.performance
    tokens = (usage.input_tokens, usage.output_tokens, usage.total_tokens) if usage else (b"", b"", b"")
    sample_id = bytes(line.sample_id)
    is_text = sample_id.startswith(b'"')
    return (
        line.evaluation_name,
        line.sample_hash,
        line.model_id,
        line.evaluation_id,
        msgspec.json.decode(sample_id) if is_text else sample_id.decode(),
        "string" if is_text else "integer",
        line.interaction_type,
        bytes(line.evaluation.score).decode(),
        bytes(line.evaluation.is_correct).decode(),
        *(bytes(count).decode() for count in tokens),
        bytes(times.latency_ms).decode() if times else "",
        line.error,
    )
