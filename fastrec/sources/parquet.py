"""Read Parquet with pyarrow: tables of columns, or rows of records as lines of JSON.

pyarrow starts threads, and a process with threads must not fork. So mostly workers import this.

Records as columns have no absent fields, and a field has one type. So in a line,

- a field that is null is left out, as is an object in which all fields are null
- text in place of an object or of objects is their JSON, if it is JSON
- a number that JSON lacks (NaN, Infinity) is null, so as a score it is rejected

Rows of `fastrec export` become exactly the records that they were made of: a column NAME_type has
the type of NAME, and `extra` has what other columns cannot hold, by path.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Raw

from fastrec.errors import ForeignFormatError, ShardCorruptError, ShardError, listed
from fastrec.storage import open_reader
from fastrec.storage.base import Reader, ReaderFile

_SLICE_BYTES = 16 << 20
_BATCH_BYTES = 2 << 20
_BATCH_ROWS = 1000
_CUT = "it is cut or damaged: a Parquet file ends with a footer, and this one has none"
_FEWER_ROWS = "this Parquet file is damaged: it has fewer rows than its footer says"
_BUFFER_BYTES = 1 << 20  # read a column in pieces, not as a whole


class Survey(msgspec.Struct):
    # the names of the columns; of structs, also those of their fields
    columns: dict[str, list[str]]
    filled: list[str]  # the columns, or fields of structs as `doc.query`, that may have values
    rows: int
    # Row groups to read together: the first, the one after the last, and the rows before.
    slices: list[tuple[int, int, int]]


class Table:
    def __init__(self, path: str, batch: pa.RecordBatch) -> None:
        self._path = path
        self._batch = batch
        self.rows: int = batch.num_rows

    def values(self, column: str, field: str = "") -> list[Any]:
        """The values of a column, or of a field of it; nulls if the file does not have it.

        Arrow spells dates, times and decimals: Python has no dates after 9999 and no nanoseconds,
        and with pandas installed, the values would be those of pandas.
        """
        array = self._array(column, field)
        if array is None:
            return [None] * self.rows
        with _errors_of(self._path):  # for example bytes that are no text
            kind = _spelled(array.type)
            if kind != array.type:
                array = array.cast(kind)
            values: list[Any] = array.to_pylist()
        return values

    def cells(self) -> Iterator[dict[str, Any]]:
        """The rows, as values by the name of their column."""
        names = self._batch.schema.names
        for row in zip(*map(self.values, names), strict=True):
            yield dict(zip(names, row, strict=True))

    def lengths(self, column: str, field: str = "") -> list[list[int]]:
        """The lengths of the innermost lists of a column, without decoding their items.

        A list has one length, a list of lists the length of each. Values that are no lists have
        none.
        """
        array = self._array(column, field)
        if array is None or not _is_list(array.type):
            return [[] for _ in range(self.rows)]
        if not _is_list(array.type.value_type):
            return [[length] if length else [] for length in _lengths(array)]
        inner = _lengths(array.values)
        bounds = array.offsets.to_pylist()
        return [inner[start:end] for start, end in pairwise(bounds)]

    def _array(self, column: str, field: str) -> Any:
        if column not in self._batch.schema.names:
            return None
        array = self._batch.column(column)
        if not field:
            return array
        if not pa.types.is_struct(array.type) or array.type.get_field_index(field) < 0:
            return None
        return array.field(field)


def survey(path: str) -> Survey:
    """Read the footer of a file, and cut its rows into slices.

    Only row groups are looked at, not their columns: pyarrow ends the process if the metadata of a
    column are damaged.
    """
    with _opened(path) as file, _errors_of(path):
        columns = {
            field.name: [child.name for child in field.type]
            if pa.types.is_struct(field.type)
            else []
            for field in file.schema_arrow
        }
        if len(columns) < len(file.schema_arrow):
            names = listed(file.schema_arrow.names, 30)
            raise ShardCorruptError(path, f"has two columns of the same name: {names}")
        filled = [
            f"{field.name}.{child.name}" if child is not field else field.name
            for field in file.schema_arrow
            for child in (field.type if pa.types.is_struct(field.type) else [field])
            if not pa.types.is_null(child.type)
        ]
        metadata = file.metadata
        slices = []
        first = size = before = rows = 0
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            size += group.total_byte_size
            rows += group.num_rows
            if size >= _SLICE_BYTES or index == metadata.num_row_groups - 1:
                slices.append((first, index + 1, before))
                first = index + 1
                size = 0
                before = rows
        return Survey(columns=columns, filled=filled, rows=metadata.num_rows, slices=slices)


def first_task(path: str) -> str:
    """The task that the first row names; empty if it does not, or there is no row."""
    for table in tables(path, ["doc.task_name"]):
        for task in table.values("doc", "task_name"):
            return task if isinstance(task, str) else ""
    return ""


def tables(
    path: str, wanted: Sequence[str], groups: tuple[int, int] | None = None
) -> Iterator[Table]:
    """Read columns of some row groups, or of all, a few rows at a time, to bound memory."""
    with _opened(path) as file, _errors_of(path):
        first, end = groups or (0, file.metadata.num_row_groups)
        yield from _tables(path, file, wanted, range(first, end))


def _tables(
    path: str, file: pq.ParquetFile, wanted: Sequence[str], groups: Sequence[int]
) -> Iterator[Table]:
    for index in groups:
        group = file.metadata.row_group(index)
        rows_left = group.num_rows
        rows = max(1, _BATCH_BYTES * rows_left // max(1, group.total_byte_size))
        for batch in file.iter_batches(
            batch_size=min(rows, _BATCH_ROWS),
            row_groups=[index],
            columns=list(wanted),
            use_threads=False,
        ):
            yield Table(path, batch)
            rows_left -= batch.num_rows
        if rows_left:
            raise ShardCorruptError(path, _FEWER_ROWS)


# Rows of records

# Columns that every table of records has.
RECORD = ("evaluation_id", "model_id", "evaluation_name", "sample_id", "evaluation")
# Fields of records that are objects with any keys.
FREE = ("metadata", "additional_details", "arguments")
# Fields of records that are objects, or arrays of objects.
OBJECTS = (
    *FREE,
    "input",
    "output",
    "interactions",
    "messages",
    "tool_calls",
    "answer_attribution",
    "evaluation",
    "token_usage",
    "performance",
)
# Columns of an export that are counted in the record.
MEASURES = ("response_characters", "turns", "tool_calls")
_EXTRA = "extra"
_STEP = re.compile(r'\.([^.\[]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')

_encode_lines = msgspec.json.Encoder().encode_lines
_decode_raw = msgspec.json.Decoder(Raw).decode
_decode_extra = msgspec.json.Decoder(dict[str, Raw]).decode


def lines(path: str, reader: Reader, start: int, end: int | None) -> Iterator[bytes]:
    """Yield the rows of the row groups of a byte range as lines of JSON, some at a time."""
    file = _file(path, reader)
    with _errors_of(path):
        names = file.schema_arrow.names
        if not {*RECORD} <= {*names}:
            reason = f"is a Parquet table, not of records, which have the columns {listed(RECORD)}"
            raise ForeignFormatError(path, f"{reason}; `fastrec import` reads tables and logs")
        is_export = {*MEASURES, _EXTRA} <= {*names}
        record_of = _object_maker(file.schema_arrow, "record", is_export)
        groups = _groups_in(file.metadata, reader.size, start, end)
        for table in _tables(path, file, names, groups):
            records = [record_of(cells) for cells in table.cells()]
            if is_export:
                for record in records:
                    _restore(record)
            text = _encode_lines(records)
            if text.count(b"\n") > table.rows:
                raise ShardCorruptError(path, "has a line break inside of a value")
            yield text


def _groups_in(metadata: Any, size: int, start: int, end: int | None) -> list[int]:
    """The row groups that begin in a byte range, if all of them shared the file by their sizes.

    Their true offsets are not looked at, as in `survey`.
    """
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    *offsets, whole = accumulate((max(0, group.total_byte_size) for group in groups), initial=0)
    places = [offset * size // (whole + 1) for offset in offsets]
    return [index for index, place in enumerate(places) if start <= place < (end or size)]


_Make = Callable[[Any], Any]


def _object_maker(columns: Iterable[pa.Field], name: str, is_export: bool) -> _Make:
    """Make the function from cells to an object, which is a field of this name."""
    kinds = {column.name: column.type for column in columns}
    types = {field: f"{field}_type" for field in kinds if is_export and f"{field}_type" in kinds}
    plan = []
    for field, kind in kinds.items():
        if field not in types.values():
            make = _maker(kind, "" if name in (*FREE, "") else field, is_export)
            plan.append((field, types.get(field), make))

    def make_object(cells: dict[str, Any]) -> dict[str, Any]:
        fields = {}
        for field, type_column, make in plan:
            value = cells[field]
            if value is None:
                continue
            if type_column:
                value = _typed(value, cells[type_column])
            elif make:
                value = make(value)
            if value != {} or is_export:
                fields[field] = value
        return fields

    return make_object


def _maker(kind: pa.DataType, name: str, is_export: bool) -> _Make | None:
    """Make the function from a cell of a field to its value; None if they are the same."""
    if pa.types.is_struct(kind):
        return _object_maker(kind, name, is_export)
    if pa.types.is_map(kind):
        return dict
    if _is_list(kind):
        make_item = _maker(kind.value_type, name, is_export)
        return make_item and (lambda items: [item and make_item(item) for item in items])
    if "binary" in str(kind):  # of several kinds
        return bytes.decode
    return _objects_in if name in OBJECTS else None


def _typed(cell: Any, kind: str) -> Any:
    """The value in a column of an export, whose type is in the column beside it."""
    if kind == "integer":
        return Raw(cell.encode()) if isinstance(cell, str) else int(cell)
    if kind == "boolean":
        return bool(cell)
    return cell[0] if kind == "string" and isinstance(cell, list) else cell


def _objects_in(text: Any) -> Any:
    """The JSON of an object or an array in a text, or what is there if it is something else."""
    if not isinstance(text, str) or not text.startswith(("{", "[")) or "\n" in text:
        return text
    try:
        return _decode_raw(text)
    except msgspec.MsgspecError:
        return text


def _restore(record: dict[str, Any]) -> None:
    """Add the values that columns could not hold, by paths like `$.messages[0]["my key"]`."""
    for name in MEASURES:
        record.pop(name, None)
    for path, value in _decode_extra(record.pop(_EXTRA, "{}")).items():
        *steps, last = [
            int(index) if index else msgspec.json.decode(quoted) if quoted else name
            for name, index, quoted in _STEP.findall(path)
        ]
        parent: Any = record
        for step in steps:
            parent = parent[step]
        parent[last] = value


def _spelled(kind: pa.DataType) -> pa.DataType:
    """The type with text in place of dates, times and decimals, in lists and structs too."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_spelled(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_spelled(field.type)) for field in kind])
    is_spelled = pa.types.is_temporal(kind) or pa.types.is_decimal(kind)
    return pa.string() if is_spelled else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _lengths(array: Any) -> list[int]:
    """Count the innermost values of each item of an array of lists."""
    bounds = array.offsets.to_pylist()
    if _is_list(array.type.value_type):
        before = [0, *accumulate(_lengths(array.values))]
        bounds = [before[bound] for bound in bounds]
    return [end - start for start, end in pairwise(bounds)]


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    with open_reader(path) as reader:
        yield _file(path, reader)


def _file(path: str, reader: Reader) -> pq.ParquetFile:
    pool = pa.default_memory_pool()
    pa.set_memory_pool(
        pa.system_memory_pool()
    )  # gives memory back; a reader keeps the pool that it starts with
    try:
        with _errors_of(path, _CUT):
            return pq.ParquetFile(ReaderFile(reader), buffer_size=_BUFFER_BYTES, pre_buffer=False)
    finally:
        pa.set_memory_pool(pool)


@contextmanager
def _errors_of(path: str, problem: str = "") -> Iterator[None]:
    """Turn errors of pyarrow into ours.

    Some are an OSError, but without a number, unlike those of the system.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, LookupError, TypeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise ShardError(path, f"cannot be read: {error.strerror}") from error
        reason = str(error).partition("\n")[0]
        raise ShardCorruptError(
            path, problem or f"this Parquet file is damaged: {reason}"
        ) from None
