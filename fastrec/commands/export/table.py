"""CSV: one flat table with one row per record.

A reader guesses the type of a column from its first rows, so all cells of a column are spelled alike: scores and
latencies always with a decimal point or an exponent, and the score `true` as 1.0. `score_type` tells them apart.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fastrec.corpus.scan import PartFile, decode_lines
from fastrec.csv_writer import CsvWriter
from fastrec.errors import shown
from fastrec.limits import LIMITS, Limits
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.schema import Schema
from fastrec.sorting.keys import METRIC

# @@ measures: Sizes of a response, the same in all formats: characters, turns and tool calls.
#
#     response_characters   characters of what the model said: `output.raw`, all of its texts if it is a list, or the
#                           content of all turns of the role `assistant`; without reasoning; nothing if no turn has this
#                           role
#     turns                 number of turns, of all roles; 1 for single_turn
#     tool_calls            number of tool calls in all turns; 0 for single_turn
#
# They are counted in the record itself. What the record claims is in `evaluation.num_turns` and `tool_calls_count`.

MEASURES: Final = ("response_characters", "turns", "tool_calls")
_MODEL: Final = "assistant"


def measure(output: Any, turns: Any) -> tuple[int | None, int, int]:
    """Return the sizes of a response, in the order of `MEASURES`.

    Args:
        output: The output of a single turn, or nothing.
        turns: A list of turns, or nothing.
    """
    if turns.__class__ is not list:
        return _characters(output.raw) if output else None, 1, 0
    said = [len(turn.content) if turn.content else 0 for turn in turns if turn.role == _MODEL]
    calls = sum([len(turn.tool_calls) for turn in turns if turn.tool_calls])
    return sum(said) if said else None, len(turns), calls


def _characters(raw: str | list[str]) -> int:
    return len(raw) if raw.__class__ is str else sum(map(len, raw))


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
CHUNK_BYTES: Final = 1 << 20  # text to decode at a time


class ExportTask(msgspec.Struct, frozen=True):
    """A part to export, in any format."""

    part: PartFile
    output: str
    """The file to write."""
    limits: Limits = LIMITS
    raw_cells: bool = False
    """Whether text that a spreadsheet would evaluate stays as it is."""
    label: str = ""
    """The schema version, as the manifest spells it."""

    @property
    def schema(self) -> Schema:
        """The schema version of the records."""
        return CORPUS_LABELS[self.label]

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


class _Output(msgspec.Struct):
    raw: str | list[str]


class _Turn(msgspec.Struct):
    role: str
    content: str | None = None
    tool_calls: list[Raw] | None = None


class _Line(msgspec.Struct):
    """The fields of a record that are in the table, or measured for it; numbers as they are spelled."""

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
    output: _Output | None = None


def has_metrics(schema: Schema) -> bool:
    """Return whether records of this version name a metric: then an evaluation can have several."""
    return METRIC in schema.sort_fields


def table_columns(schema: Schema) -> tuple[str, ...]:
    """Return the names of the columns for records of this version."""
    return ("evaluation_name", *([METRIC] if has_metrics(schema) else []), *_COLUMNS)


def _line_type(schema: Schema) -> type[msgspec.Struct]:
    """Return `_Line` with the fields whose names depend on the version."""
    turns = ("turns", list[_Turn] | None, msgspec.field(name=schema.turns_field, default=None))
    # Only a version with metrics has this field. In others it is an unknown key, with a value of any type.
    metric = ("metric", str | None, msgspec.field(name=METRIC, default=None))
    return msgspec.defstruct("_Line", [turns, *([metric] if has_metrics(schema) else [])], bases=(_Line,))


def double_of(value: Raw) -> tuple[str, str]:
    """Return a number or boolean as the text of a double, which has the same digits, and the name of its type.

    >>> [double_of(Raw(text)) for text in (b"1", b"0.5", b"1e-7", b"true")]
    [('1.0', 'integer'), ('0.5', 'number'), ('1e-7', 'number'), ('1.0', 'boolean')]
    """
    text = bytes(value).decode()
    if text in ("true", "false"):
        return ("1.0" if text == "true" else "0.0"), "boolean"
    return (text, "number") if "." in text or "e" in text else (f"{text}.0", "integer")


def write_table(task: ExportTask) -> None:
    """Write the rows of one part without a header. Runs in a worker."""
    decode = msgspec.json.Decoder(_line_type(task.schema)).decode
    row_of = _row_with_metric if has_metrics(task.schema) else _row
    with open(task.output, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - paths stay str through pickle
        writer = CsvWriter(file, raw_cells=task.raw_cells)
        for lines, _ in decode_lines(task.part, decode, CHUNK_BYTES):
            writer.writerows(map(row_of, lines))


def _row_with_metric(line: Any) -> tuple[Any, ...]:
    name, *others = _row(line)
    return (name, line.metric or "", *others)


def _row(line: Any) -> tuple[Any, ...]:
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
        *double_of(line.evaluation.score),
        bytes(line.evaluation.is_correct).decode(),
        *(bytes(count).decode() for count in tokens),
        double_of(times.latency_ms)[0] if times and bytes(times.latency_ms) else "",
        *measure(line.output, line.turns),
        line.error,
    )
