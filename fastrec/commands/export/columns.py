"""The columns of a Parquet table: one fixed schema, derived from the Structs of records.

    field of type                    becomes
    string, boolean                  the same
    integer                          int64
    number                           double, and a column NAME_type: integer, number or boolean
    string or integer, or array      string, or list of strings, and a column NAME_type: string, integer or array
    object, array of objects         struct, list of structs
    free-form object                 string: its JSON text

If a column cannot hold a value exactly (an integer beyond 64 bits, or beyond 2⁵³ in a double), the column is null and
the value is in `extra`, the last column, under its path. Columns and `extra` together are the record: nothing is lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa
from msgspec import UNSET, Raw, UnsetType

from fastrec.commands.export.decode import Row
from fastrec.judge.findings import json_path
from fastrec.judge.normal import spell
from fastrec.judge.parse import LongInteger
from fastrec.schemas.v0_2_0 import Record

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
_INT64_MAX: Final = 2**63 - 1
_EXACT_MAX: Final = 2**53  # doubles represent every integer from -2⁵³ to 2⁵³


class _InexactError(Exception):
    """A column cannot hold all of its values exactly."""


def table_schema() -> pa.Schema:
    """Return the schema of all files."""
    return pa.schema([*_record().fields, pa.field("extra", pa.string())])


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Convert rows to columns."""
    records = [row.record for row in rows]
    columns = _record()
    try:
        arrays = columns.arrays(records)
    except _InexactError:  # rare: find the values and move them to `extra`
        for row in rows:
            row.extra.update(columns.take_out(row.record, ()))
        arrays = columns.arrays(records)
    extra = pa.array([spell(row.extra) if row.extra else None for row in rows], pa.string())
    return pa.RecordBatch.from_arrays([*arrays, extra], schema=table_schema())


class _Column:
    """A field of a record, and the columns that it becomes."""

    def __init__(self, name: str, *fields: pa.Field) -> None:
        self.name = name
        self.fields = list(fields)

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        """Convert the values of many records, UNSET where a record has none."""
        raise NotImplementedError

    def fits(self, value: Any) -> bool:  # noqa: ARG002
        """Return whether the column can hold a value exactly."""
        return True

    def take_out(self, value: Any, steps: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:  # noqa: ARG002
        """Remove what does not fit from inside a value, and yield it with its path."""
        return iter(())


class _Plain(_Column):
    """Strings, booleans, integers, and lists of strings."""

    def __init__(self, name: str, type_: pa.DataType) -> None:
        super().__init__(name, pa.field(name, type_))
        self._type = type_

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        try:
            return [pa.array(_with_nulls(values), self._type)]
        except OverflowError as exc:
            raise _InexactError from exc

    def fits(self, value: Any) -> bool:
        return not isinstance(value, int) or -_INT64_MAX - 1 <= value <= _INT64_MAX


class _Json(_Column):
    """A free-form object, as its JSON text."""

    def __init__(self, name: str) -> None:
        super().__init__(name, pa.field(name, pa.string()))

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        texts = [
            None if value is UNSET else bytes(value) if isinstance(value, Raw) else spell(value) for value in values
        ]
        return [pa.array(texts, pa.string())]


class _Typed(_Column):
    """A field with several types: the value, and the name of its type."""

    def __init__(self, name: str, type_: pa.DataType) -> None:
        super().__init__(name, pa.field(name, type_), pa.field(f"{name}_type", pa.string()))
        self._type = type_

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        try:
            array = pa.array(self._spelled(values), self._type)
        except (OverflowError, pa.ArrowInvalid) as exc:
            raise _InexactError from exc
        return [array, pa.array([_TYPE_NAMES[value.__class__] for value in values], pa.string())]

    def _spelled(self, values: list[Any]) -> list[Any]:
        if self._type == pa.float64():
            return _with_nulls(values)
        if self._type == pa.string():
            return [value if value.__class__ is str else _digits(value) for value in values]
        return [[value] if value.__class__ is str else value for value in _with_nulls(values)]

    def fits(self, value: Any) -> bool:
        return self._type != pa.float64() or not isinstance(value, int) or -_EXACT_MAX <= value <= _EXACT_MAX


class _Object:
    """The columns of an object."""

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        hints = get_type_hints(struct)
        self._columns = [_column(field.name, hints[field.name]) for field in msgspec.structs.fields(struct)]
        self.fields = [field for column in self._columns for field in column.fields]
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

    def take_out(self, value: Any, steps: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
        """Replace what does not fit into its column with null, and yield it with its path."""
        for column in self._columns:
            child, path = getattr(value, column.name), (*steps, column.name)
            if not column.fits(child):
                setattr(value, column.name, None)
                yield json_path(path), child
            elif child:
                yield from column.take_out(child, path)


class _Struct(_Column):
    """A field that is an object."""

    def __init__(self, name: str, inner: _Object) -> None:
        super().__init__(name, pa.field(name, inner.type))
        self._inner = inner
        self.take_out = inner.take_out  # type: ignore[method-assign]

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        missing = pa.array([not value for value in values], pa.bool_())
        return [pa.StructArray.from_arrays(self._inner.arrays(values), fields=self._inner.fields, mask=missing)]


class _List(_Column):
    """A field that is an array of objects."""

    def __init__(self, name: str, inner: _Object) -> None:
        super().__init__(name, pa.field(name, pa.list_(inner.type)))
        self._inner = inner

    def arrays(self, values: list[Any]) -> list[pa.Array]:
        ends, flat = [0], []
        for value in values:
            if value:
                flat += value
            ends.append(len(flat))
        items = pa.StructArray.from_arrays(self._inner.arrays(flat), fields=self._inner.fields)
        missing = pa.array([value.__class__ is not list for value in values], pa.bool_())
        return [pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, mask=missing)]

    def take_out(self, value: Any, steps: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
        for index, item in enumerate(value):
            yield from self._inner.take_out(item, (*steps, index))


def _with_nulls(values: list[Any]) -> list[Any]:
    return [None if value is UNSET else value for value in values]


def _digits(value: Any) -> str | None:
    if not isinstance(value, int):
        return None
    return value.text if isinstance(value, LongInteger) else str(value)


@functools.cache
def _record() -> _Object:
    return _Object(Record)


def _column(name: str, hint: Any) -> _Column:
    """Choose the column of a field by the types that the field may have."""
    choices = (hint,) if get_origin(hint) in (list, dict, Literal) else get_args(hint) or (hint,)
    kinds = [kind for kind in choices if kind not in (UnsetType, type(None))]
    items = next((get_args(kind)[0] for kind in kinds if get_origin(kind) is list), None)
    if isinstance(items, type) and issubclass(items, msgspec.Struct):
        return _List(name, _Object(items))
    if len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], msgspec.Struct):
        return _Struct(name, _Object(kinds[0]))
    return _SIMPLE[frozenset(get_origin(kind) or kind for kind in kinds)](name)


_SIMPLE: Final[dict[frozenset[Any], Callable[[str], _Column]]] = {
    frozenset({str}): lambda name: _Plain(name, pa.string()),
    frozenset({Literal}): lambda name: _Plain(name, pa.string()),
    frozenset({bool}): lambda name: _Plain(name, pa.bool_()),
    frozenset({int}): lambda name: _Plain(name, pa.int64()),
    frozenset({list}): lambda name: _Plain(name, pa.list_(pa.string())),
    frozenset({dict}): _Json,
    frozenset({int, str}): lambda name: _Typed(name, pa.string()),
    frozenset({str, list}): lambda name: _Typed(name, pa.list_(pa.string())),
    frozenset({int, float}): lambda name: _Typed(name, pa.float64()),
    frozenset({int, float, bool}): lambda name: _Typed(name, pa.float64()),
}
"""The column for each set of types that a field may have."""
