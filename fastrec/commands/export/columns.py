"""The columns of a Parquet table: one fixed schema for each version, derived from the Structs of its records.

    field of type                    becomes
    string, boolean                  the same
    integer                          int64
    number                           double, and a column NAME_type: integer, number or boolean
    string or integer, or array      string, or list of strings, and a column NAME_type: string, integer or array
    array of strings                 list of strings
    object, array of objects         struct, list of structs
    free-form object                 string: its JSON text

Sizes of the response (`measures`) follow as int64 columns.

If a column cannot hold a value exactly (an integer beyond 64 bits, or beyond 2⁵³ in a double), the column is null and
the value is in `extra`, the last column, under its path. Columns and `extra` together are the record: nothing is lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa
from msgspec import UNSET, Raw, UnsetType

from fastrec.commands.export.decode import DecodedRecord
from fastrec.commands.export.measures import MEASURES, measure
from fastrec.judge.findings import json_path
from fastrec.judge.parse import LongInteger, spell
from fastrec.schemas.schema import Schema

__all__ = ["batch_of", "table_schema"]

_TYPE_NAMES: Final = {
    bool: "boolean",
    int: "integer",
    LongInteger: "integer",
    float: "number",
    str: "string",
    list: "array",
    UnsetType: None,
    type(None): None,
}
_BOUNDS: Final = {pa.int64(): (-(2**63), 2**63 - 1), pa.float64(): (-(2**53), 2**53)}
"""The integers that a type represents exactly."""

Steps = tuple[str | int, ...]
Convert = Callable[[list[Any]], list[Any]]


class _InexactError(Exception):
    """A column cannot hold all of its values exactly."""


@functools.cache
def table_schema(schema: Schema) -> pa.Schema:
    """Return the schema of all files of a corpus whose records have this version."""
    measures = [pa.field(name, pa.int64()) for name in MEASURES]
    return pa.schema([*_columns_of(schema).fields, *measures, pa.field("extra", pa.string())])


def batch_of(rows: Sequence[DecodedRecord], schema: Schema) -> pa.RecordBatch:
    """Convert rows to columns."""
    records = [row.record for row in rows]
    columns = _columns_of(schema)
    try:
        arrays = columns.arrays(records)
    except _InexactError:  # rare: find the values and move them to `extra`
        for row in rows:
            row.extra.update(columns.take_out(row.record, ()))
        arrays = columns.arrays(records)
    turns_of = attrgetter(schema.turns_field)
    sizes = [measure(record.output, turns_of(record)) for record in records]
    measures = [pa.array([size[number] for size in sizes], pa.int64()) for number in range(len(MEASURES))]
    extra = pa.array([spell(row.extra) if row.extra else None for row in rows], pa.string())
    return pa.RecordBatch.from_arrays([*arrays, *measures, extra], schema=table_schema(schema))


class _Scalar:
    """A field without known fields of its own: the value, and the name of its type if there are several."""

    def __init__(self, name: str, type_: pa.DataType, convert: Convert, *, typed: bool = False) -> None:
        self.name = name
        self.fields: list[pa.Field] = [
            pa.field(name, type_),
            *([pa.field(f"{name}_type", pa.string())] if typed else []),
        ]
        self._type, self._convert = type_, convert
        self._bounds = _BOUNDS.get(type_)

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        """Convert the values of many records, UNSET where a record has none."""
        try:
            array = pa.array(self._convert(values), self._type)
        except (OverflowError, pa.ArrowInvalid) as exc:
            raise _InexactError from exc
        if len(self.fields) == 1:
            return [array]
        return [array, pa.array([_TYPE_NAMES[value.__class__] for value in values], pa.string())]

    def fits(self, value: Any) -> bool:
        """Return whether the column can hold a value exactly."""
        return self._bounds is None or not isinstance(value, int) or self._bounds[0] <= value <= self._bounds[1]


class _Object:
    """The columns of an object."""

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        hints = get_type_hints(struct)
        self._columns = [_column(field.name, hints[field.name]) for field in msgspec.structs.fields(struct)]
        self.fields: list[pa.Field] = [field for column in self._columns for field in column.fields]
        self.type = pa.struct(self.fields)

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        """Convert many objects; the columns are null where an object is missing."""
        whole = all(values)  # a Struct is true, UNSET is not
        arrays: list[pa.Array] = []
        for column in self._columns:
            name = column.name
            if whole:
                arrays += column.arrays([getattr(value, name) for value in values])
            else:
                arrays += column.arrays([getattr(value, name) if value else UNSET for value in values])
        return arrays

    def take_out(self, value: Any, steps: Steps) -> Iterator[tuple[str, Any]]:
        """Replace what does not fit into its column with null, and yield it with its path."""
        for column in self._columns:
            child, path = getattr(value, column.name), (*steps, column.name)
            if isinstance(column, _Struct):
                yield from column.take_out(child, path) if child else ()
            elif not column.fits(child):
                setattr(value, column.name, None)
                yield json_path(path), child


class _Struct:
    """A field that is an object."""

    def __init__(self, name: str, inner: _Object) -> None:
        self.name, self._inner = name, inner
        self.fields: list[pa.Field] = [pa.field(name, inner.type)]

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        missing = pa.array([not value for value in values], pa.bool_())
        return [pa.StructArray.from_arrays(self._inner.arrays(values), fields=self._inner.fields, mask=missing)]

    def take_out(self, value: Any, steps: Steps) -> Iterator[tuple[str, Any]]:
        return self._inner.take_out(value, steps)


class _List(_Struct):
    """A field that is an array of objects."""

    def __init__(self, name: str, inner: _Object) -> None:
        super().__init__(name, inner)
        self.fields = [pa.field(name, pa.list_(inner.type))]

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        ends, flat = [0], []
        for value in values:
            if value:
                flat += value
            ends.append(len(flat))
        items = pa.StructArray.from_arrays(self._inner.arrays(flat), fields=self._inner.fields)
        missing = pa.array([value.__class__ is not list for value in values], pa.bool_())
        return [pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, mask=missing)]

    def take_out(self, value: Any, steps: Steps) -> Iterator[tuple[str, Any]]:
        for index, item in enumerate(value):
            yield from self._inner.take_out(item, (*steps, index))


def _with_nulls(values: list[Any]) -> list[Any]:
    return [None if value is UNSET else value for value in values]


def _json(values: list[Any]) -> list[bytes | None]:
    return [None if value is UNSET else bytes(value) if isinstance(value, Raw) else spell(value) for value in values]


def _texts(values: list[Any]) -> list[str | None]:
    return [value if value.__class__ is str else _digits(value) for value in values]


def _digits(value: Any) -> str | None:
    if not isinstance(value, int):
        return None
    return value.text if isinstance(value, LongInteger) else str(value)


def _lists(values: list[Any]) -> list[Any]:
    return [[value] if value.__class__ is str else value for value in _with_nulls(values)]


@functools.cache
def _columns_of(schema: Schema) -> _Object:
    return _Object(schema.record)


def _column(name: str, hint: Any) -> _Scalar | _Struct:
    """Choose the column of a field by the types that the field may have."""
    choices = (hint,) if get_origin(hint) in (list, dict, Literal) else get_args(hint) or (hint,)
    kinds = [kind for kind in choices if kind not in (UnsetType, type(None))]
    items = next((get_args(kind)[0] for kind in kinds if get_origin(kind) is list), None)
    if isinstance(items, type) and issubclass(items, msgspec.Struct):
        return _List(name, _Object(items))
    if len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], msgspec.Struct):
        return _Struct(name, _Object(kinds[0]))
    type_, convert, typed = _SCALARS[frozenset(get_origin(kind) or kind for kind in kinds)]
    return _Scalar(name, type_, convert, typed=typed)


_SCALARS: Final[dict[frozenset[Any], tuple[pa.DataType, Convert, bool]]] = {
    frozenset({str}): (pa.string(), _with_nulls, False),
    frozenset({Literal}): (pa.string(), _with_nulls, False),
    frozenset({bool}): (pa.bool_(), _with_nulls, False),
    frozenset({int}): (pa.int64(), _with_nulls, False),
    frozenset({list}): (pa.list_(pa.string()), _with_nulls, False),
    frozenset({dict}): (pa.string(), _json, False),
    frozenset({int, str}): (pa.string(), _texts, True),
    frozenset({str, list}): (pa.list_(pa.string()), _lists, True),
    frozenset({int, float}): (pa.float64(), _with_nulls, True),
    frozenset({int, float, bool}): (pa.float64(), _with_nulls, True),
}
"""For each set of types that a field may have: the type of its column, the conversion, whether types differ."""
