"""Parquet: one file per part, all with the same columns, in row groups of limited size.

1. Decode each line to a Struct (`Decoder`). A corpus has valid records in normal form, so nothing
   is validated again. Free-form objects are not decoded: their column gets their text. Most lines
   have only known keys. A line with unknown keys is decoded twice, once for its columns and once
   for its unknown keys, which go to `extra` under their paths:

       {…,"evaluation":{…,"judge":"gpt"},"run":3} ──▶ {"$.evaluation.judge":"gpt","$.run":3}

2. Convert rows to columns (`batch_of`). Each version has one fixed schema, derived from the Structs
   of its records: objects are structs, and `_TYPES` has the types of other fields. A field of
   several types has a column NAME_type. The sizes of the response (`MEASURES`) follow as int64
   columns. If a column cannot hold a value exactly (an integer beyond 64 bits, or beyond 2⁵³ in a
   double), the column is null and the value is in `extra`, the last column, under its path. Columns
   and `extra` together are the record: nothing is lost.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET, Raw, Struct, UnsetType, ValidationError, defstruct

from fastrec.commands.export.table import MEASURES, ExportTask, measure
from fastrec.errors import naming
from fastrec.judge.arbiter import judge_slowly
from fastrec.judge.findings import Errors, json_path
from fastrec.judge.parse import LongInteger, spell
from fastrec.limits import current_limits
from fastrec.schemas.schema import Schema, Shape, build, rewrite_hint
from fastrec.schemas.view import json_decoder

_GROUP_ROWS = 100_000

Steps = tuple[str | int, ...]


# The fields of a record, with free-form objects as `Raw`, or dicts after the slow path; values
# without a column.
_DecodedRecord = tuple[Any, dict[str, Any]]


class Decoder:
    """Decodes lines.

    Raises MsgspecError or UnicodeDecodeError for a line that is not a record in normal form.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._strict = json_decoder(_raw_struct(schema.record, forbid=True))
        self._tolerant = json_decoder(_raw_struct(schema.record, forbid=False))
        self._refused = False

    def decode(self, line: bytes) -> _DecodedRecord:
        if not self._refused:  # after a line with unknown keys the next one probably has some too
            try:
                return self._strict(line), {}
            except ValidationError:
                pass
        try:
            record = self._tolerant(line)
            value = msgspec.json.decode(line)
        except ValidationError:
            # If it is valid, it has an integer of more than 4,300 digits.
            judged = judge_slowly(line, self._schema)
            if isinstance(judged, Errors):
                raise
            value, _ = judged
            record = build(self._schema.record, value)
        extra = dict(_unknown(value, self._schema.shape, ()))
        self._refused = bool(extra)
        return record, extra


def _unknown(value: Any, shape: Shape, steps: Steps) -> Iterator[tuple[str, Any]]:
    """Yield the unknown keys of all objects that have a schema, in the order of the text."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, shape, (*steps, index))
        return
    for key, child in value.items():
        field = shape.fields.get(key)
        if not field:
            yield json_path((*steps, key), whole=True), child
        elif field.shape:
            yield from _unknown(child, field.shape, (*steps, key))


def _raw_struct(struct: type[Struct], *, forbid: bool) -> type[Struct]:
    """Copy a Struct of records, with `Raw` for free-form objects."""

    def replace(hint: Any) -> Any:
        if isinstance(hint, type) and issubclass(hint, Struct):
            return _raw_struct(hint, forbid=forbid)
        if get_origin(hint) is dict:
            return Raw
        # msgspec takes `Raw | None` for null alone. The normal form has no null in such a field.
        kinds = get_args(hint)
        nullable = type(None) in kinds and any(get_origin(kind) is dict for kind in kinds)
        return Raw | UnsetType if nullable else hint

    hints = get_type_hints(struct, include_extras=True)
    fields = [
        (
            field.name,
            rewrite_hint(hints[field.name], replace),
            *(() if field.required else (field.default,)),
        )
        for field in msgspec.structs.fields(struct)
    ]
    return defstruct(struct.__name__, fields, kw_only=True, gc=False, forbid_unknown_fields=forbid)


_TYPE_NAMES = {
    bool: "boolean",
    int: "integer",
    LongInteger: "integer",
    float: "number",
    str: "string",
    list: "array",
    UnsetType: None,
    type(None): None,
}
# What pyarrow raises if a column cannot hold a value exactly.
_INEXACT = (OverflowError, pa.ArrowInvalid)


@cache
def table_schema(schema: Schema) -> pa.Schema:
    return _schema_of(_columns_of(schema))


def _schema_of(columns: _Struct) -> pa.Schema:
    measures = [pa.field(name, pa.int64()) for name in MEASURES]
    return pa.schema([*columns.inner, *measures, pa.field("extra", pa.string())])


def batch_of(
    rows: Sequence[_DecodedRecord], schema: Schema, names: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Convert records to columns: all of them, or only some."""
    records = [record for record, _ in rows]
    # `extra` has what the columns cannot hold.
    columns = _columns_of(schema, None if names is None or "extra" in names else tuple(names))
    try:
        arrays = columns.columns(records)
    except _INEXACT:  # rare: find the values and move them to `extra`
        for record, extra in rows:
            extra.update(columns.take_out(record, ()))
        arrays = columns.columns(records)
    turns_of = attrgetter(schema.turns_field)
    sizes = [measure(record.output, turns_of(record)) for record in records]
    measures = [pa.array(values, pa.int64()) for values in zip(*sizes, strict=True)]
    extras = pa.array([spell(extra) if extra else None for _, extra in rows], pa.string())
    batch = pa.RecordBatch.from_arrays([*arrays, *measures, extras], schema=_schema_of(columns))
    return batch if names is None else batch.select(list(names))


class _Scalar:
    """A field that is no object: the value, and the name of its type if there are several."""

    def __init__(self, name: str, kinds: frozenset[Any]) -> None:
        self.name = name
        self._type = _TYPES[kinds]
        self._convert = _CONVERSIONS.get(kinds)
        self.fields: list[pa.Field] = [pa.field(name, self._type)]
        if len(kinds) > 1:
            self.fields.append(pa.field(f"{name}_type", pa.string()))

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        """Convert the values of many records, UNSET where a record has none."""
        known = [None if value is UNSET else value for value in values]
        if convert := self._convert:
            known = [None if value is None else convert(value) for value in known]
        array = pa.array(known, self._type)
        if len(self.fields) == 1:
            return [array]
        return [array, pa.array([_TYPE_NAMES[value.__class__] for value in values], pa.string())]

    def fits(self, value: Any) -> bool:
        try:
            self.arrays([value])
        except _INEXACT:
            return False
        return True


class _Struct:
    """An object, or a list of objects."""

    def __init__(
        self,
        name: str,
        struct: type[Struct],
        names: Sequence[str] | None = None,
        *,
        is_list: bool = False,
    ) -> None:
        """Make the columns of all fields, or only those with some names."""
        hints = get_type_hints(struct)
        self.name = name
        columns = [_column(name, hints[name]) for name in struct.__struct_fields__]
        self._columns = [
            column
            for column in columns
            if names is None or any(field.name in names for field in column.fields)
        ]
        self.inner: list[pa.Field] = [field for column in self._columns for field in column.fields]
        kind = pa.struct(self.inner)
        self.fields: list[pa.Field] = [pa.field(name, pa.list_(kind) if is_list else kind)]
        self._is_list = is_list

    def columns(self, values: list[Any]) -> list[pa.Array]:
        """Convert many objects; the columns are null where an object is missing."""
        arrays = []
        for column in self._columns:
            arrays += column.arrays([getattr(value, column.name, UNSET) for value in values])
        return arrays

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        missing = pa.array([not value and value != [] for value in values], pa.bool_())
        if not self._is_list:
            return [
                pa.StructArray.from_arrays(self.columns(values), fields=self.inner, mask=missing)
            ]
        ends = accumulate([len(value) if value else 0 for value in values], initial=0)
        items = list(chain.from_iterable(filter(None, values)))
        structs = pa.StructArray.from_arrays(self.columns(items), fields=self.inner)
        return [pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs, mask=missing)]

    def take_out(self, value: Any, steps: Steps) -> Iterator[tuple[str, Any]]:
        """Replace what does not fit into its column with null, and yield it with its path."""
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.take_out(item, (*steps, index))
            return
        for column in self._columns:
            child = getattr(value, column.name)
            path = (*steps, column.name)
            if isinstance(column, _Struct):
                yield from column.take_out(child, path) if child else ()
            elif not column.fits(child):
                setattr(value, column.name, None)
                yield json_path(path), child


@cache
def _columns_of(schema: Schema, names: tuple[str, ...] | None = None) -> _Struct:
    return _Struct("", schema.record, names)


def _column(name: str, hint: Any) -> _Scalar | _Struct:
    choices = (hint,) if get_origin(hint) in (list, dict, Literal) else get_args(hint) or (hint,)
    kinds = [kind for kind in choices if kind not in (UnsetType, type(None))]
    is_list = get_origin(kinds[0]) is list
    struct = get_args(kinds[0])[0] if is_list else kinds[0]
    if isinstance(struct, type) and issubclass(struct, Struct):
        return _Struct(name, struct, is_list=is_list)
    return _Scalar(name, frozenset(get_origin(kind) or kind for kind in kinds))


# For each set of types that a field may have: the type of its column.
_TYPES: dict[frozenset[Any], pa.DataType] = {
    frozenset({str}): pa.string(),
    frozenset({Literal}): pa.string(),
    frozenset({bool}): pa.bool_(),
    frozenset({int}): pa.int64(),
    frozenset({list}): pa.list_(pa.string()),
    frozenset({dict}): pa.string(),
    frozenset({int, str}): pa.string(),
    frozenset({str, list}): pa.list_(pa.string()),
    frozenset({int, float}): pa.float64(),
    frozenset({int, float, bool}): pa.float64(),
}
# How values of some of them are converted.
_CONVERSIONS: dict[frozenset[Any], Callable[[Any], Any]] = {
    frozenset({dict}): lambda value: bytes(value) if isinstance(value, Raw) else spell(value),
    frozenset({int, str}): lambda value: value if isinstance(value, str) else spell(value),
    frozenset({str, list}): lambda value: [value] if isinstance(value, str) else value,
}


def write_parquet(task: ExportTask) -> None:
    """Write one part as a Parquet file. Runs in a worker."""
    pa.set_cpu_count(1)  # the other processes use the other cores
    pa.set_io_thread_count(1)
    schema = task.schema
    chunks = task.rows(Decoder(schema).decode)
    batches = ((batch_of(rows, schema), text_bytes) for rows, text_bytes in chunks)
    with naming(task.output), open_writer(task.output, schema) as writer:
        write_groups(writer, batches)


def write_groups(writer: pq.ParquetWriter, batches: Iterable[tuple[pa.RecordBatch, int]]) -> None:
    """Write batches, each given with its size, in row groups of limited size."""
    most_bytes = current_limits().parquet_group_bytes
    group = []
    size = 0
    for batch, batch_bytes in batches:
        group.append(batch)
        size += batch_bytes
        if size >= most_bytes or sum(map(len, group)) >= _GROUP_ROWS:
            writer.write_table(pa.Table.from_batches(group), row_group_size=_GROUP_ROWS)
            group = []
            size = 0
    if group:
        writer.write_table(pa.Table.from_batches(group), row_group_size=_GROUP_ROWS)


def open_writer(path: str, schema: Schema) -> pq.ParquetWriter:
    settings = {"write_page_index": True}
    # Pages cut by content stay the same when other rows change, so deduplicating storage uploads
    # only what is new.
    if "use_content_defined_chunking" in inspect.signature(pq.ParquetWriter).parameters:
        settings["use_content_defined_chunking"] = True
    file = pa.OSFile(os.fsencode(path), "wb")  # as text, only a path in UTF-8 is accepted
    return pq.ParquetWriter(file, table_schema(schema), compression="zstd", **settings)
