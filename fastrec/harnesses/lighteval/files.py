"""The footer of a Parquet file, as far as it tells what the file is.

It is read without pyarrow: discovery runs in the driver, and pyarrow starts threads. A process with threads must not
fork.

    PAR1 … pages … footer, length of the footer (4 bytes) PAR1

The footer is a struct in Thrift's compact protocol. Its first fields are the version, the schema, the number of rows
and the row groups: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from fastrec.errors import LogError
from fastrec.harnesses.lighteval.results import Results, date_of, read_results
from fastrec.harnesses.log import BadLog, FoundFile, Grouped, Log
from fastrec.harnesses.values import read_at
from fastrec.storage import storage_of

_MAGIC: Final = b"PAR1"

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
        if reader.size < len(_MAGIC) + _TAIL_BYTES:
            return None
        tail = read_at(reader, _TAIL_BYTES, reader.size - _TAIL_BYTES)
        length = int.from_bytes(tail[:4], "little")
        start = reader.size - _TAIL_BYTES - length
        if tail[4:] != _MAGIC or start < len(_MAGIC):
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


# @@ roles: Tell the files of lighteval: details by their columns, results by their keys.

_DETAILS: Final = "details"
_RESULTS: Final = "results"

_LAYOUTS: Final = (frozenset({"doc", "model_response", "metric"}), frozenset({"example", "metrics", "predictions"}))
_FIRST_KEY: Final = re.compile(rb'\s*\{\s*"config_general"\s*:')


def role_of(head: bytes, path: str) -> str | None:
    """Return whether a file has details or results of lighteval, or None if neither."""
    if not head.startswith(_MAGIC):
        return _RESULTS if _is_results(head) else None
    footer = read_footer(path)
    if footer is None:  # cut: what it was cannot be known, but that it is cut should be said
        return _DETAILS
    if any(layout <= footer.columns for layout in _LAYOUTS):
        return _DETAILS
    return "results table" if {"config_general", "results"} <= footer.columns else None


def _is_results(head: bytes) -> bool:
    """Return whether a file begins like the results of a run."""
    if _FIRST_KEY.match(head):
        return True
    return head.lstrip()[:1] == b"{" and b'"config_general"' in head and b'"lm_eval_version"' not in head


# @@ grouping: Which results belong to which details: all files of a run have the same date in their names, and name the same tasks.
#
#     results/<org>/<model>/results_<date>.json
#     details/<org>/<model>/<date>/details_<task>|<shots>_<date>.parquet
#
# Both trees can be elsewhere, and users rename files. So the date decides where both names have one; then the task, which
# the footer of the details tells since 0.11; then which results are nearest in the tree.

NAME: Final = "lighteval"
TASK_COLUMN: Final = "doc.task_name"

_NAME_OF_DETAILS: Final = re.compile(r"(?:details_)?(.*?)(?:_\d{4}-\d\d-\d\dT[\d.:_-]+)?\.parquet")
_NOT_PART: Final = re.compile(r"[^0-9A-Za-z]+")
_NO_DETAILS: Final = "there are no details of this run: lighteval writes them with --save-details"
_ADVICE: Final = "give the results_<date>.json of its run, too: it names the model"


class _Run(msgspec.Struct):
    """The results of a run, and where they are."""

    file: FoundFile
    results: Results
    date: str


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    """Pair details with the results of their run."""
    grouped = Grouped()
    runs = []
    for file in files:
        if file.role == _RESULTS:
            try:
                runs.append(_Run(file=file, results=read_results(file.path), date=date_of(file.path)))
            except LogError as error:
                grouped.bad.append(BadLog(path=file.path, reason=error.reason))
    used = set()
    for file in files:
        if file.role == _DETAILS:
            found = _find(file.path, runs)
            if isinstance(found, _Run):
                used.add(found.file.path)
                grouped.logs.append(Log(harness=NAME, path=file.path, files=(file, found.file)))
            else:
                grouped.bad.append(found)
        elif file.role != _RESULTS:
            grouped.others += 1
    idle = [run.file.path for run in runs if run.file.path not in used]
    if grouped.logs or grouped.bad:
        grouped.others += len(idle)
    else:
        grouped.bad += [BadLog(path=path, reason=_NO_DETAILS) for path in idle]
    return grouped


def named_task(path: str, tasks: Sequence[str]) -> str:
    """Return the task that the name of details names, whatever became of its `|` and `:`; empty if none does."""
    match = _NAME_OF_DETAILS.fullmatch(os.path.basename(path))  # noqa: PTH119
    name = _plain(match[1]) if match else ""
    return next((task for task in tasks if _plain(task) == name), "")


def _plain(name: str) -> str:
    return _NOT_PART.sub("_", name).strip("_")


def _find(path: str, runs: Sequence[_Run]) -> _Run | BadLog:
    """Return the results that belong to details, or why there are none."""
    footer = read_footer(path)
    if footer is None:
        return BadLog(
            path=path, reason="it is cut or damaged: a Parquet file ends with a footer, and this one has none"
        )
    date = date_of(path)
    task = footer.constants.get(TASK_COLUMN, "")
    found = [run for run in runs if not date or not run.date or run.date == date]
    if not found:
        other = f"; the results found are of other runs than {date}" if runs else ""
        return BadLog(path=path, reason=f"there are no results of its run{other}: {_ADVICE}")
    if any(run.date == date for run in found):
        found = [run for run in found if run.date == date]
    found = [run for run in found if _has(run.results, task or named_task(path, run.results.tasks))]
    if not found:
        return BadLog(path=path, reason=f"no results found here have its task {task}: {_ADVICE}")
    nearest = max(_shared(path, run.file.path) for run in found)
    found = [run for run in found if _shared(path, run.file.path) == nearest]
    if any(run.results != found[0].results for run in found):
        names = " and ".join(os.path.basename(run.file.path) for run in found[:2])  # noqa: PTH119
        return BadLog(path=path, reason=f"{names} could both be its results: import each run by itself")
    return found[0]


def _has(results: Results, task: str) -> bool:
    """Return whether results have a task; details whose task is not known may be of any."""
    return not task or task in results.results or any(name.endswith(f"|{task}") for name in results.results)


def _shared(path: str, other: str) -> int:
    """Return how many leading directories two paths have in common."""
    pairs = zip(path.split("/")[:-1], other.split("/")[:-1], strict=False)
    count = 0
    for one, two in pairs:
        if one != two:
            break
        count += 1
    return count
