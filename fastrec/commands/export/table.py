"""CSV: one flat table with one row per record and numbers spelled as in the record."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Final, NamedTuple, TextIO

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fastrec.corpus.scan import PartFile, decode_lines
from fastrec.errors import shown
from fastrec.limits import LIMITS, Limits

__all__ = ["CsvWriter", "ExportTask", "Row", "read_rows", "write_table"]

_CHUNK_BYTES: Final = 1 << 20  # text to decode at a time


class ExportTask(msgspec.Struct, frozen=True):
    """A part to export, in any format."""

    part: PartFile
    output: str
    """The file to write."""
    limits: Limits = LIMITS

    def __str__(self) -> str:
        return f"exporting {shown(self.part.path)}"


class Row(NamedTuple):
    """A row of the table; its fields are the columns."""

    evaluation_name: str
    sample_hash: str
    model_id: str
    evaluation_id: str
    sample_id: str
    sample_id_type: str
    interaction_type: str
    score: str
    is_correct: str
    input_tokens: str
    output_tokens: str
    total_tokens: str
    latency_ms: str
    error: str


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
    with open(task.output, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - paths stay str through pickle
        CsvWriter(file).writerows(read_rows(task.part))


def read_rows(part: PartFile) -> Iterator[Row]:
    """Yield a row for each record of a part; raises what `decode_lines` raises."""
    for lines, _ in decode_lines(part, msgspec.json.Decoder(_Line).decode, _CHUNK_BYTES):
        yield from map(_row, lines)


def _row(line: _Line) -> Row:
    usage, times = line.token_usage, line.performance
    tokens = (usage.input_tokens, usage.output_tokens, usage.total_tokens) if usage else (b"", b"", b"")
    sample_id = bytes(line.sample_id)
    is_text = sample_id.startswith(b'"')
    return Row._make(
        (
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
    )
