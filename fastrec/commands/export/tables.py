"""Tables of a corpus for SQL and data frames: `sql`, `table`, `batches` and `connect`.

    corpus ──▶ Arrow data sets, which are read as a query needs them (`arrow`) ──▶ DuckDB, pandas,
    Polars

    answers     one row per record (`ANSWERS` has its columns)
    questions   one row per question and metric, computed from `answers`
    models      one row per evaluation, metric and model, computed from `answers`
    records     the lossless nested table of `export --format parquet`

DuckDB sees Arrow data sets only. So a connection can be locked: it cannot read or write any file,
nor load extensions.
"""

from __future__ import annotations

import os
import re
import secrets
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from fastrec.answers.selection import Selection, select
from fastrec.engine import check_jobs
from fastrec.errors import UsageError, need, shown, utf8, writing
from fastrec.filters import FilterArguments, Strings, as_tuple, make_filters
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

    from fastrec.commands.export.arrow import LazyDataset

_RESULT_ROWS = 10_000  # of a query, to hold at a time
_DATA = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))
TABLES: dict[str, str] = _DATA["tables"]  # the tables, and what they hold
ANSWERS: dict[str, str] = _DATA["answers"]  # the columns of `answers`, and what they hold


def batches(
    corpus: AnyPath,
    *,
    columns: Strings | None = None,
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> pa.RecordBatchReader:
    """Read the table `answers` of a corpus batch by batch, in bounded memory.

    Args:
        corpus: A directory or URL that `normalize` published.
        columns: Only these columns; all by default.
        jobs: Processes to use if a filter needs the text of records.
        progress: Receives the progress of reading it.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: The directory is not a corpus, a column is unknown, or no record matches.
        CorpusError: A file of the corpus is damaged.
    """
    need("an Arrow table", "pyarrow")
    check_jobs(jobs)
    names = list(ANSWERS if columns is None else as_tuple("columns", columns))
    if wrong := [name for name in names if name not in ANSWERS]:
        raise UsageError(f"there is no column {wrong[0]!r}; the columns are {', '.join(ANSWERS)}")
    selection = select(corpus, make_filters(**filters), jobs=jobs, progress=progress)
    import pyarrow as pa  # noqa: PLC0415 - an optional package

    from fastrec.commands.export.arrow import AnswersDataset  # noqa: PLC0415 - needs pyarrow

    answers = AnswersDataset(selection, names)
    return pa.RecordBatchReader.from_batches(answers.schema, answers.batches(names))


def table(
    corpus: AnyPath,
    *,
    columns: Strings | None = None,
    jobs: int = CORES,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> pa.Table:
    """Read the table `answers` of a corpus as an Arrow table: `.to_pandas()` follows.

    See `batches`.
    """
    return batches(corpus, columns=columns, jobs=jobs, progress=progress, **filters).read_all()


class Tables(NamedTuple):
    """The tables of corpora, as DuckDB sees them."""

    connection: DuckDBPyConnection
    datasets: list[LazyDataset]

    def raise_failure(self) -> None:
        """Raise the error that ended the last query while it read a corpus, if there was one."""
        for dataset in self.datasets:
            if dataset.failures:
                raise dataset.failures.pop()


def connect(*corpora: AnyPath, locked: bool = False) -> DuckDBPyConnection:
    """Open a DuckDB connection with the tables of one or several corpora: `TABLES`.

    Args:
        *corpora: Directories or URLs that `normalize` published. Several add a column `corpus` with
            their names.
        locked: Let no query read or write files, load extensions or change these settings.

    Raises:
        UsageError: A directory is not a corpus, or DuckDB is not installed.
        CorpusError: A file of a corpus is damaged.
    """
    return open_tables(*corpora, locked=locked).connection


def open_tables(*corpora: AnyPath, locked: bool = False) -> Tables:
    """Do the same, and return what reports errors about corpora, too."""
    need("sql", "duckdb", "pyarrow")
    import duckdb  # noqa: PLC0415 - an optional package

    from fastrec.commands.export.arrow import (  # noqa: PLC0415 - needs pyarrow
        AnswersDataset,
        RecordsDataset,
    )

    names = _names([os.fspath(corpus) for corpus in corpora])
    selections = {
        name: Selection(corpus) for name, corpus in zip(names.values(), corpora, strict=True)
    }
    connection = duckdb.connect(":memory:", config={"python_enable_replacements": False})
    datasets: list[LazyDataset] = []
    kinds: dict[str, Callable[[Selection], LazyDataset]] = {
        "_answers": partial(AnswersDataset, names=(*ANSWERS, "failed")),
        "records": RecordsDataset,
    }
    for table_name, make in kinds.items():
        parts = []
        for name, selection in selections.items():
            source = f"_source_{len(datasets)}"
            datasets.append(make(selection))
            connection.register(source, datasets[-1])
            quoted = name.replace("'", "''")
            corpus = f"'{quoted}' as corpus, " if len(names) > 1 else ""
            parts.append(f"select {corpus}* from {source}")  # noqa: S608
        connection.execute(f"create view {table_name} as {' union all by name '.join(parts)}")
    for name, query in _DATA["views"].items():
        if len(names) > 1:
            query = query.replace("evaluation, metric", "corpus, evaluation, metric")
        connection.execute(f"create view {name} as {query}")
    if locked:
        connection.execute(_DATA["lock"])
    return Tables(connection, datasets)


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Name each corpus: the last part of its path, with a number where two are the same."""
    if not paths:
        raise UsageError("name at least one corpus")
    names: dict[str, str] = {}
    for path in paths:
        if path.rstrip("/") in [name.rstrip("/") for name in names]:
            raise UsageError(f"{shown(path)} is given twice")
        name = utf8(Path(path.rstrip("/")).name or path)
        numbered = (f"{name} {number}" for number in count(2))
        names[path] = next(
            candidate for candidate in chain([name], numbered) if candidate not in names.values()
        )
    return names


class QueryError(UsageError):
    """DuckDB refused a query; the message shows the place."""


class Result(NamedTuple):
    """The result of a query, read batch by batch, in bounded memory."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def run_query(tables: Tables, query: str, *, as_text: bool = False) -> Iterator[Result | None]:
    """Run one or several statements, and yield the result of the last; None if it has none.

    DuckDB runs in a thread. The main thread waits for it in Python, so a signal ends the wait at
    once.

    Args:
        tables: What it can read.
        query: The statements.
        as_text: Whether dates, times and intervals are spelled by DuckDB: Python has only the years
            1 to 9999.

    Raises:
        QueryError: DuckDB refuses it, or fails while batches are read.
        CorpusError: A file of a corpus is damaged.
    """
    import duckdb  # noqa: PLC0415 - an optional package

    connection = tables.connection
    thread = ThreadPoolExecutor(1)

    def wait_for(function: Callable[..., Any], *arguments: Any) -> Any:
        return thread.submit(function, *arguments).result()

    with ExitStack() as stack:
        stack.callback(thread.shutdown, wait=False)
        try:
            reader = wait_for(_start, connection, query, as_text)
            if reader is not None:
                stack.callback(wait_for, reader.close)  # else the connection refuses the next query
            yield reader and Result(
                reader.schema, iter(partial(wait_for, _next_batch, reader), None)
            )
        except duckdb.OutOfMemoryException as exc:
            raise MemoryError(str(exc)) from exc
        except (duckdb.Error, QueryError) as exc:
            tables.raise_failure()
            raise QueryError(_explain(connection, query, exc)) from exc
        except (KeyboardInterrupt, SystemExit):
            connection.interrupt()
            stack.pop_all()  # the process ends without waiting for the thread
            raise


def _start(
    connection: DuckDBPyConnection, query: str, as_text: bool
) -> pa.RecordBatchReader | None:
    relation = connection.sql(query)
    if relation is None:
        return None
    if len(set(relation.columns)) < len(relation.columns):
        relation = relation.project("*")  # adds numbers to names that occur again
    types = [_text_type(kind) if as_text else str(kind) for kind in relation.types]
    if types != [*map(str, relation.types)]:
        columns = zip(types, map(_quoted, relation.columns), strict=True)
        spelled = [f"#{number}::{kind} as {name}" for number, (kind, name) in enumerate(columns, 1)]
        relation = relation.project(", ".join(spelled))
    # The name of the method in DuckDB 1 is deprecated in DuckDB 2.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return read(_RESULT_ROWS)


def _next_batch(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return next(reader, None)
    except OSError as exc:  # Arrow passes the errors of DuckDB on as these
        error = MemoryError if str(exc).startswith("Out of Memory") else QueryError
        raise error(str(exc)) from exc


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


# A quoted name, or a type of dates, times or intervals. A field of a struct may be called like one.
_QUOTED_OR_TIME = re.compile(
    r"""("(?:[^"]|"")*"|'(?:[^']|'')*')"""
    r"|\b(?:DATE|INTERVAL|TIME(?:STAMP)?(?:_\w+)?(?: WITH TIME ZONE)?)\b(?! )"
)


def _text_type(kind: DuckDBPyType) -> str:
    """A type with text in place of dates, times and intervals, also in lists, maps and structs."""
    return _QUOTED_OR_TIME.sub(lambda match: match[1] or "VARCHAR", str(kind))


def _explain(connection: DuckDBPyConnection, query: str, error: Exception) -> str:
    """The message of an error, with its place in the query."""
    import duckdb  # noqa: PLC0415 - an optional package

    if isinstance(error, duckdb.BinderException):
        try:
            connection.execute(query)  # fails again, but says where
        except duckdb.Error as placed:
            return str(placed)
    return str(error)


def write_result(result: Result, path: str) -> None:
    """Write the result of a query as a Parquet file.

    Raises:
        UsageError: Parquet has no type for a column.
    """
    import pyarrow as pa  # noqa: PLC0415 - an optional package
    import pyarrow.parquet as pq  # noqa: PLC0415 - an optional package

    from fastrec.commands.export.parquet import write_groups  # noqa: PLC0415 - needs pyarrow

    try:
        file = pa.OSFile(os.fsencode(path), "wb")  # as in `open_writer`
        with pq.ParquetWriter(file, result.schema, compression="zstd") as writer:
            batches = ((batch, batch.nbytes) for batch in result.batches)
            write_groups(writer, batches)
    except pa.ArrowNotImplementedError as exc:
        raise UsageError(
            f"Parquet has no type for a column of this result: {exc}; cast it, such as to varchar"
        ) from exc


@contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yield the name of a new file.

    It replaces a file when the block ends without an error; a pipe is written itself.

    Raises:
        FastrecError: It cannot be written.
    """
    target = Path(os.path.realpath(path))  # of a symbolic link, the file that it points to
    if target.exists() and not target.is_file():
        yield path
        return
    temporary = target.with_name(f"{target.name[:60]}.{secrets.token_hex(4)}")
    try:
        with writing(path):
            yield str(temporary)
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
