"""CSV: one flat table with one row per record.

A reader guesses the type of a column from its first rows, so all cells of a column are spelled
alike: scores and latencies always with a decimal point or an exponent, and the score `true` as 1.0.
`score_type` tells them apart.

The sizes of a response (`MEASURES`) are the same in all formats. They are counted in the record
itself; what the record claims is in `evaluation.num_turns` and `tool_calls_count`.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import compress, repeat
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from fastrec.corpus.reader import lines_of, open_columns
from fastrec.corpus.scan import PartFile, decoding
from fastrec.corpus.secrets import ChosenTask
from fastrec.csv_writer import CsvWriter
from fastrec.errors import naming
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.schema import Schema
from fastrec.schemas.view import view, view_decoder
from fastrec.sorting.keys import METRIC

Row = TypeVar("Row")
_CHUNK_BYTES = 2 << 20  # text to hold as records at a time
MEASURES = ("response_characters", "turns", "tool_calls")
_COLUMNS = (
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
    """Measure a response: characters of what the model said without reasoning, None if nothing.

    Turns; tool calls.
    """
    if turns.__class__ is not list:
        if not output:
            return None, 1, 0
        raw = output.raw
        return len(raw) if raw.__class__ is str else sum(map(len, raw)), 1, 0
    said = [len(turn.content) if turn.content else 0 for turn in turns if turn.role == "assistant"]
    calls = sum([len(turn.tool_calls) for turn in turns if turn.tool_calls])
    return sum(said) if said else None, len(turns), calls


class ExportTask(ChosenTask, frozen=True, kw_only=True):
    output: str
    label: str  # the schema version, as the manifest spells it
    raw_cells: bool  # whether text that a spreadsheet would evaluate stays as it is
    records: int  # to export
    text_bytes: int  # of these records

    @property
    def schema(self) -> Schema:
        return CORPUS_LABELS[self.label]

    def rows(self, decode: Callable[[bytes], Row]) -> Iterator[tuple[list[Row], int]]:
        """Yield the decoded records of the part, and the size of their text, chunk by chunk."""
        positions = compress(range(self.part.entry.records), self.chosen or repeat(1))
        lines = lines_of(self.part, open_columns(self.part), positions)
        return read_rows(self.part, lines, decode)


def read_rows(
    part: PartFile, lines: Iterable[bytes], decode: Callable[[bytes], Row]
) -> Iterator[tuple[list[Row], int]]:
    """Decode lines of a part, and yield them with the size of their text, chunk by chunk."""
    rows = []
    size = 0
    with decoding(part):
        for line in lines:
            rows.append(decode(line))
            size += len(line) + 1
            if size >= _CHUNK_BYTES:
                yield rows, size
                rows = []
                size = 0
    if rows:
        yield rows, size


_USAGE = view(input_tokens=(Raw, Raw()), output_tokens=(Raw, Raw()), total_tokens=(Raw, Raw()))
_TIMES = view(latency_ms=(Raw, Raw()))
OUTPUT = view(raw=str | list[str])
TURN = view(role=str, content=(str | None, None), tool_calls=(list[Raw] | None, None))


def has_metrics(schema: Schema) -> bool:
    """Whether records of this version name a metric: then an evaluation can have several."""
    return METRIC in schema.sort_fields


def table_columns(schema: Schema) -> tuple[str, ...]:
    return ("evaluation_name", *([METRIC] if has_metrics(schema) else []), *_COLUMNS)


def _line_decoder(schema: Schema) -> Callable[[bytes], Any]:
    """Make a decoder of lines; the names of `turns` and `metric` depend on the version."""
    turns: Any = list[TURN] | None  # type: ignore[valid-type]
    fields = {"turns": (turns, field(name=schema.turns_field, default=None))}
    if has_metrics(schema):  # in other versions it is an unknown key, with a value of any type
        fields["metric"] = str | None, field(name=METRIC, default=None)
    # The fields that are in the table, or measured for it; numbers as they are spelled.
    return view_decoder(
        evaluation_name=str,
        sample_hash=str,
        model_id=str,
        evaluation_id=str,
        sample_id=Raw,
        interaction_type=str,
        evaluation=view(score=Raw, is_correct=bool),
        token_usage=(_USAGE | UnsetType, UNSET),
        performance=(_TIMES | UnsetType, UNSET),
        output=(OUTPUT | None, None),
        error=(str, ""),
        **fields,
    )


_BOOLEANS = {"true": "1.0", "false": "0.0"}


def double_of(value: Raw) -> tuple[str, str]:
    """Spell a number or boolean as a double, with the same digits, and name its type.

    >>> [double_of(Raw(text)) for text in (b"1", b"0.5", b"1e-7", b"true")]
    [('1.0', 'integer'), ('0.5', 'number'), ('1e-7', 'number'), ('1.0', 'boolean')]
    """
    text = bytes(value).decode()
    if text in _BOOLEANS:
        return _BOOLEANS[text], "boolean"
    return (text, "number") if "." in text or "e" in text else (f"{text}.0", "integer")


def write_csv(path: Path, rows: Iterable[Iterable[object]], *, raw_cells: bool) -> None:
    with naming(str(path)), path.open("w", encoding="utf-8", newline="") as file:
        writer = CsvWriter(file, raw_cells=raw_cells)
        for row in rows:
            writer.writerow(row)


def write_table(task: ExportTask) -> str:
    """Write the rows of one part without a header, and return the path. Runs in a worker."""
    decode = _line_decoder(task.schema)
    rows = (_row(line) for lines, _ in task.rows(decode) for line in lines)
    write_csv(Path(task.output), rows, raw_cells=task.raw_cells)
    return task.output


def _row(line: Any) -> tuple[Any, ...]:
    usage = line.token_usage or _USAGE()
    times = line.performance or _TIMES()
    tokens = usage.input_tokens, usage.output_tokens, usage.total_tokens
    sample_id = bytes(line.sample_id)
    is_text = sample_id.startswith(b'"')
    metric = [line.metric or ""] if hasattr(line, "metric") else []  # only of some versions
    return (
        line.evaluation_name,
        *metric,
        line.sample_hash,
        line.model_id,
        line.evaluation_id,
        msgspec.json.decode(sample_id) if is_text else sample_id.decode(),
        "string" if is_text else "integer",
        line.interaction_type,
        *double_of(line.evaluation.score),
        "true" if line.evaluation.is_correct else "false",
        *(bytes(count).decode() for count in tokens),
        double_of(times.latency_ms)[0] if bytes(times.latency_ms) else "",
        *measure(line.output, line.turns),
        line.error,
    )
