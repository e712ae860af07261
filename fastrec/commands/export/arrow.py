"""The tables `answers` and `records` of a corpus as Arrow data sets, made while they are read.

    a query names columns and rows ──▶ columns of parts ──▶ lines of these rows, if a column needs
    them ──▶ batches

No file is written. Most columns of `answers` are in the columns of parts. Those in `_TEXTS` are
read from the lines, but only of rows that a condition on other columns does not rule out. `records`
is read from the lines.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from msgspec import Raw, field

from fastrec.answers.codes import Array, joint_codes
from fastrec.answers.records import Records
from fastrec.answers.selection import Selection
from fastrec.commands.export.parquet import Decoder, batch_of, table_schema
from fastrec.commands.export.table import OUTPUT, TURN, read_rows
from fastrec.corpus.columns import PartColumns
from fastrec.corpus.reader import lines_of
from fastrec.corpus.scan import is_sorted_by_question
from fastrec.corpus.sources import has_sources, read_sources
from fastrec.errors import FastrecError
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.view import json_decoder, view, view_decoder
from fastrec.where import text_of

_READ_AHEAD = 2  # batches
_LARGEST_INTEGER = 2**63 - 1
_CODED = ("evaluation", "metric", "model", "sample_id")
# Columns of the table by those of parts.
_NUMBERS = {"correct": "correct", "failed": "error", "turns": "turns", "tool_calls": "tool_calls"}
_DOUBLES = ("score", "latency_ms")
_TOKENS = {"tokens_in": "input_tokens", "tokens_out": "output_tokens"}

# The types of columns that are no texts.
_TYPES = {
    **dict.fromkeys((*_TOKENS, *_NUMBERS, "trial"), pa.int64()),
    **dict.fromkeys(("correct", "failed"), pa.bool_()),
    **dict.fromkeys(_DOUBLES, pa.float64()),
    "metadata": pa.map_(pa.string(), pa.string()),
}


class _Rows(NamedTuple):
    """Records of a part."""

    part: int
    columns: PartColumns
    positions: Array

    def numbers(self, name: str) -> Array:
        """Their values of a column of the part."""
        numbers: Array = self.columns.numbers(name)[self.positions]
        return numbers


class LazyDataset(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """A data set whose batches are made when they are read.

    DuckDB asks for the columns and rows that a query needs.
    """

    def __init__(self, selection: Selection, schema: pa.Schema) -> None:
        self.selection = selection
        self.version = CORPUS_LABELS[selection.manifest.schema]
        # Errors while batches were read: DuckDB passes on only their texts.
        self.failures: list[FastrecError | OSError] = []
        self._schema = schema

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression = None,  # noqa: A002 - the name in pyarrow
        **_: Any,
    ) -> ds.Scanner:
        """What DuckDB calls: it may ask for a filter on columns that it does not need otherwise."""
        condition = str(filter)
        names = [
            name
            for name in self.schema.names
            if columns is None or name in columns or name in condition
        ]
        return ds.Scanner.from_batches(
            self._report(self.batches(names, filter)),
            schema=self.schema_of(names),
            columns=columns,
            filter=filter,
            batch_readahead=_READ_AHEAD,
        )

    def schema_of(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])

    def batches(
        self, names: Sequence[str], condition: ds.Expression = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows with some columns; rows that a condition rules out may be left out."""
        raise NotImplementedError

    def _report(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except (FastrecError, OSError) as exc:
            self.failures.append(exc)
            raise

    def _parts(self) -> Iterator[_Rows]:
        for part in range(len(self.selection.parts)):
            yield _Rows(part, self.selection.columns(part), self.selection.members(part).positions)

    def _read(self, rows: _Rows, decode: Callable[[bytes], Any]) -> Iterator[list[Any]]:
        part = self.selection.parts[rows.part]
        lines = lines_of(part, rows.columns, rows.positions.tolist())
        for records, _ in read_rows(part, lines, decode):
            yield records


class RecordsDataset(LazyDataset):
    """The nested table of `export --format parquet`."""

    def __init__(self, selection: Selection) -> None:
        super().__init__(selection, table_schema(CORPUS_LABELS[selection.manifest.schema]))

    def batches(
        self,
        names: Sequence[str],
        condition: ds.Expression = None,  # noqa: ARG002 - lines are read to evaluate it
    ) -> Iterator[pa.RecordBatch]:
        decode = Decoder(self.version).decode
        for rows in self._parts():
            for records in self._read(rows, decode):
                yield batch_of(records, self.version, names)


class AnswersDataset(LazyDataset):
    """The table `answers`. A column `failed` says whether there is an error, without reading it."""

    def __init__(self, selection: Selection, names: Iterable[str]) -> None:
        super().__init__(
            selection, pa.schema([(name, _TYPES.get(name, pa.string())) for name in names])
        )
        scopes = range(len(selection.scopes))
        # Kept, because columns of questions and of trials need the same.
        self._load = lru_cache(1)(partial(Records, selection, scopes))

    def batches(
        self, names: Sequence[str], condition: ds.Expression = None
    ) -> Iterator[pa.RecordBatch]:
        schema = self.schema_of(names)
        texts = [name for name in names if name in _TEXTS]
        decode = self._decoder(texts)
        can_choose = condition is not None and not any(name in str(condition) for name in _TEXTS)
        for rows in self._parts():
            arrays = {name: self._array(rows, name) for name in names if name not in texts}
            small = pa.table({**arrays, "": rows.positions})
            if can_choose:
                small = small.filter(condition)
            chosen = rows._replace(positions=small.column("").to_numpy())
            begin = 0
            for lines in self._read(chosen, decode) if texts else [range(len(chosen.positions))]:
                part = small.slice(begin, len(lines))
                columns = [
                    [*map(_TEXTS[name], lines)] if name in texts else part.column(name)
                    for name in names
                ]
                yield from pa.table(columns, schema=schema).to_batches()
                begin += len(lines)

    def _decoder(self, texts: Sequence[str]) -> Callable[[bytes], Any]:
        """Make a decoder of the fields that columns of texts need."""
        turns = field(name=self.version.turns_field, default=None)
        fields = {
            "input": {"input": _INPUT},
            "reference": {"input": _INPUT},
            "output": {"output": (OUTPUT | None, None), "turns": (list[TURN] | None, turns)},
            "metadata": {"metadata": (dict[str, Raw] | None, None)},
        }
        return view_decoder(**{key: kind for name in texts for key, kind in fields[name].items()})

    def _array(self, rows: _Rows, name: str) -> pa.Array:
        """The values of a column that does not need all lines."""
        if name in _CODED:
            values = rows.columns.values(name)
            texts = [None if value is None else text_of(value) for value in values]
            return pa.array(texts, pa.string()).take(pa.array(rows.numbers(name)))
        if name in _NUMBERS:
            return pa.array(rows.numbers(_NUMBERS[name])).cast(_TYPES[name])
        if name in _DOUBLES:
            doubles = rows.columns.doubles(name)[rows.positions]
            return pa.array(doubles, from_pandas=True)  # NaN is null
        if name in _TOKENS:
            counts = rows.numbers(_TOKENS[name])
            is_unknown = (rows.numbers("has_tokens") == 0) | (counts > _LARGEST_INTEGER)
            return pa.array(counts.astype(np.int64), mask=is_unknown)
        others = {
            "question": self._questions,
            "trial": self._trials,
            "error": self._errors,
            "source": self._sources,
        }
        return others[name](rows)

    def _errors(self, rows: _Rows) -> pa.Array:
        """The errors, for which only lines with one are read."""
        has_error = rows.numbers("error") == 1
        with_error = rows._replace(positions=rows.positions[has_error])
        lines = chain.from_iterable(self._read(with_error, _decode_error))
        errors = pa.array([line.error for line in lines], pa.string())
        places = np.cumsum(has_error) - 1
        return errors.take(pa.array(places, mask=~has_error))

    def _sources(self, rows: _Rows) -> pa.Array:
        if not has_sources(self.selection.manifest):
            return pa.nulls(len(rows.positions), pa.string())
        sources = read_sources(self.selection.parts[rows.part], rows.positions.tolist())
        return pa.array([f"{source.shard}:{source.line}" for source in sources], pa.string())

    def _questions(self, rows: _Rows) -> pa.Array:
        records, places = self._records(rows)
        return pa.array(records.names, pa.string()).take(pa.array(records.question[places]))

    def _trials(self, rows: _Rows) -> pa.Array:
        """Number the records of each question and model, in the order of the corpus."""
        records, places = self._records(rows)
        codes = joint_codes(records.question, records.model)
        order = np.lexsort((records.number, codes))
        _, starts, groups = np.unique(codes[order], return_index=True, return_inverse=True)
        trials = np.empty(len(order), dtype=np.int64)
        trials[order] = np.arange(len(order)) - starts[groups] + 1
        return pa.array(trials[places])

    def _records(self, rows: _Rows) -> tuple[Records, Array]:
        """Records with all questions of some rows, and the places of these rows among them."""
        # If the records of a question are adjacent, no cut between parts separates them.
        is_adjacent = is_sorted_by_question(self.selection.manifest)
        every = range(len(self.selection.parts))
        records = self._load(range(rows.part, rows.part + 1) if is_adjacent else every)
        order = np.argsort(records.number, kind="stable")
        begin = np.searchsorted(records.number[order], self.selection.starts[rows.part])
        return records, order[begin : begin + len(rows.positions)]


_INPUT = view(raw=str, reference=str | list[str])
_decode_error = view_decoder(error=str)
_decode_text = json_decoder(str)


def _reference(line: Any) -> str:
    reference = line.input.reference
    return reference if isinstance(reference, str) else "\n".join(reference)


def _said(line: Any) -> str:
    raw = line.output.raw if line.output else []
    said = [raw] if isinstance(raw, str) else raw
    turns = [turn.content for turn in line.turns or () if turn.role == "assistant"]
    return "\n".join([*said, *filter(None, turns)])


def _metadata(line: Any) -> list[tuple[str, str]] | None:
    values = line.metadata
    return [(name, _text(value)) for name, value in values.items()] if values else None


def _text(value: Raw) -> str:
    """A text as it is, and anything else as JSON."""
    text = bytes(value)
    return _decode_text(text) if text.startswith(b'"') else text.decode()


# Columns that are read from all lines, and how.
_TEXTS = {
    "input": lambda line: line.input.raw,
    "reference": _reference,
    "output": _said,
    "metadata": _metadata,
}
