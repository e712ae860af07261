"""The footer of a Parquet file, as far as it tells what the file is.

It is read without pyarrow: discovery runs in the driver, and pyarrow starts threads. A process with threads must not
fork.

    PAR1 … pages … footer, length of the footer (4 bytes) PAR1

The footer is a struct in Thrift's compact protocol. Its first fields are the version, the schema, the number of rows
and the row groups: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from fastrec.harnesses.files import read_at
from fastrec.storage import storage_of

__all__ = ["MAGIC", "Footer", "read_footer"]

MAGIC: Final = b"PAR1"

_TAIL_BYTES: Final = 8  # the length of the footer, and the magic bytes
_LOOK_BYTES: Final = 1 << 20  # schema and first row group, also of files with thousands of row groups
_MAX_DEPTH: Final = 16

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_NUMBERS: Final = (_I16, _I32, _I64)

# Numbers of fields, by struct.
_SCHEMA, _ROWS, _ROW_GROUPS = 2, 3, 4  # FileMetaData
_NAME, _CHILDREN = 4, 5  # SchemaElement
_COLUMNS: Final = 1  # RowGroup
_COLUMN: Final = 3  # ColumnChunk
_TYPE, _PATH, _STATISTICS = 1, 3, 12  # ColumnMetaData
_BYTE_ARRAY: Final = 6  # Type
_BOUNDS: Final = ((6, 5), (2, 1))  # Statistics: least and greatest value, and as they were called before


class Footer(msgspec.Struct, frozen=True):
    """What the footer of a Parquet file says."""

    columns: frozenset[str]
    """The names of the columns; of nested ones, the outermost name."""
    rows: int
    constants: dict[str, str]
    """Columns of text with a single value in the first row group, by path, for example `doc.task_name`."""


def read_footer(path: str) -> Footer | None:
    """Read the footer of a Parquet file; None if it has none, because it is cut or damaged."""
    with storage_of(path).open_reader(path) as reader:
        if reader.size < len(MAGIC) + _TAIL_BYTES:
            return None
        tail = read_at(reader, _TAIL_BYTES, reader.size - _TAIL_BYTES)
        length = int.from_bytes(tail[:4], "little")
        start = reader.size - _TAIL_BYTES - length
        if tail[4:] != MAGIC or start < len(MAGIC):
            return None
        data = read_at(reader, min(length, _LOOK_BYTES), start)
    try:
        return _parse(data)
    except (IndexError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse(data: bytes) -> Footer:
    thrift = _Thrift(data)
    columns: frozenset[str] | None = None
    rows = 0
    constants: dict[str, str] = {}
    for number, kind in thrift.fields():
        if number == _ROW_GROUPS and columns is not None:
            count, kind = thrift.list_header()
            constants = _constants(thrift.value(kind, 1)) if count else {}
            break  # the other row groups can be many
        value = thrift.value(kind)
        if number == _SCHEMA:
            columns = _columns(value)
        elif number == _ROWS:
            rows = value
    if columns is None or rows < 0:
        raise ValueError("no schema")
    return Footer(columns=columns, rows=rows, constants=constants)


def _columns(schema: list[dict[int, Any]]) -> frozenset[str]:
    """Return the names of the outermost columns; the schema lists all nodes of the tree, parents first."""
    names = []
    inside = 0  # nodes to come that belong to a column that was named
    for node in schema[1:]:
        if inside:
            inside -= 1
        else:
            names.append(node[_NAME].decode())
        inside += node.get(_CHILDREN, 0)
    return frozenset(names)


def _constants(row_group: dict[int, Any]) -> dict[str, str]:
    constants = {}
    for chunk in row_group[_COLUMNS]:
        column = chunk.get(_COLUMN, {})
        if column.get(_TYPE) != _BYTE_ARRAY:
            continue
        statistics = column.get(_STATISTICS, {})
        for least, greatest in _BOUNDS:
            value = statistics.get(least)
            if value and value == statistics.get(greatest):
                constants[b".".join(column[_PATH]).decode()] = value.decode("utf-8", "replace")
    return constants


class _Thrift:
    """Reads values in Thrift's compact protocol; IndexError if the data end early, ValueError if they make no sense."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def fields(self, depth: int = 0) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of a struct; the caller reads the value."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            yield number, head & 15

    def list_header(self) -> tuple[int, int]:
        """Return number and type of the items of a list."""
        head = self._byte()
        count = head >> 4
        return (self._unsigned() if count == 15 else count), head & 15

    def value(self, kind: int, depth: int = 0) -> Any:
        """Read a value: a struct as a dict by field number, text as bytes."""
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in _NUMBERS:
            return self._signed()
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind == _STRUCT:
            return {number: self.value(kind, depth + 1) for number, kind in self.fields(depth)}
        if kind in (_LIST, _SET):
            count, kind = self.list_header()
            if depth > _MAX_DEPTH or count > len(self._data) - self._at:  # an item has at least one byte
                raise ValueError("nested too deeply, or longer than the data")
            if kind in (_TRUE, _FALSE):
                kind = _BYTE
            return [self.value(kind, depth + 1) for _ in range(count)]
        if kind == _BYTE:
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        raise ValueError("an unknown type")  # a map: the metadata of Parquet have none

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _bytes(self, size: int) -> bytes:
        start = self._at
        self._at += size
        if self._at > len(self._data):
            raise IndexError(size)
        return self._data[start : self._at]

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")
        return value | byte << shift

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
