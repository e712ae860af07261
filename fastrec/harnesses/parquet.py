"""Read details with pyarrow.

Only workers import this module: pyarrow starts threads, and a process with threads must not fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fastrec.errors import LogError, listed
from fastrec.harnesses.files import ReaderFile
from fastrec.storage import storage_of

_SLICE_BYTES: Final = 16 << 20
_BATCH_BYTES: Final = 2 << 20
_BATCH_ROWS: Final = 1000
_CUT: Final = "it is cut or damaged: a Parquet file ends with a footer, and this one has none"
FEWER_ROWS: Final = "this Parquet file is damaged: it has fewer rows than its footer says"
_BUFFER_BYTES: Final = 1 << 20  # read a column in pieces, not as a whole


class Survey(msgspec.Struct):
    # the names of the columns; of structs, also those of their fields
    columns: dict[str, list[str]]
    filled: list[str]  # the columns, or fields of structs as `doc.query`, that may have values
    rows: int
    # Row groups to read together: the first, the one after the last, the rows before, and their
    # own rows.
    slices: list[tuple[int, int, int, int]]


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
            if _has_spelled(array.type):
                array = array.cast(_spelled(array.type))
            values: list[Any] = array.to_pylist()
        return values

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
            raise LogError(
                path, f"has two columns of the same name: {listed(file.schema_arrow.names, 30)}"
            )
        filled = [
            f"{field.name}.{child.name}" if child is not field else field.name
            for field in file.schema_arrow
            for child in (field.type if pa.types.is_struct(field.type) else [field])
            if not pa.types.is_null(child.type)
        ]
        metadata = file.metadata
        slices: list[tuple[int, int, int, int]] = []
        first = size = before = rows = 0
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            size += group.total_byte_size
            rows += group.num_rows
            if size >= _SLICE_BYTES or index == metadata.num_row_groups - 1:
                slices.append((first, index + 1, before, rows - before))
                first = index + 1
                size = 0
                before = rows
        return Survey(columns=columns, filled=filled, rows=metadata.num_rows, slices=slices)


def first_task(path: str) -> str:
    """The task that the first row names; empty if it does not, or there is no row."""
    for table in tables(path, ["doc.task_name"]):
        for task in table.values("doc", "task_name"):
            return task if isinstance(task, str) else ""
    if survey(path).rows:
        raise LogError(path, FEWER_ROWS)
    return ""


def tables(
    path: str, wanted: Sequence[str], groups: tuple[int, int] | None = None
) -> Iterator[Table]:
    """Read columns of some row groups, or of all, a few rows at a time, to bound memory."""
    with _opened(path) as file, _errors_of(path):
        first, end = groups or (0, file.metadata.num_row_groups)
        for index in range(first, end):
            group = file.metadata.row_group(index)
            rows = max(1, _BATCH_BYTES * group.num_rows // max(1, group.total_byte_size))
            for batch in file.iter_batches(
                batch_size=min(rows, _BATCH_ROWS),
                row_groups=[index],
                columns=list(wanted),
                use_threads=False,
            ):
                yield Table(path, batch)


def _has_spelled(kind: pa.DataType) -> bool:
    """Whether a type has dates, times or decimals in it, in lists and structs too."""
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return any(_has_spelled(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))


def _spelled(kind: pa.DataType) -> pa.DataType:
    """The type with text in place of dates, times and decimals."""
    if not _has_spelled(kind):
        return kind
    if pa.types.is_list(kind):
        return pa.list_(_spelled(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _spelled(field.type)) for field in kind])
    return pa.string()


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
    with storage_of(path).open_reader(path) as reader:
        pool = pa.default_memory_pool()
        pa.set_memory_pool(
            pa.system_memory_pool()
        )  # gives memory back; a reader keeps the pool that it starts with
        try:
            with _errors_of(path, _CUT):
                file = pq.ParquetFile(
                    ReaderFile(reader), buffer_size=_BUFFER_BYTES, pre_buffer=False
                )
        finally:
            pa.set_memory_pool(pool)
        yield file


@contextmanager
def _errors_of(path: str, problem: str = "") -> Iterator[None]:
    """Turn errors of pyarrow into ours.

    Some are an OSError, but without a number, unlike those of the system.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, IndexError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = str(error).partition("\n")[0]
        raise LogError(path, problem or f"this Parquet file is damaged: {reason}") from None
