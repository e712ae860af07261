"""Tables of a corpus for SQL and data frames: `sql`, `table`, `batches` and `connect`.

    corpus ──▶ one Parquet file per part, in the cache directory ──▶ Arrow data set ──▶ DuckDB, pandas, Polars

The files are made once. They are found by the checksum of the manifest, and removed if they were not used for 30 days.

    answers     one row per record (`ANSWERS` has its columns)
    questions   one row per question and metric, computed from `answers`
    models      one row per evaluation, metric and model, computed from `answers`
    records     the lossless nested table of `export --format parquet`; made when it is first used

DuckDB sees Arrow data sets only. So a connection can be locked: it cannot read or write any file, nor load extensions.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fastrec.commands.export.cache import BUILDING, TABLES_SUFFIX, cache_directory, close_to_others, remove_unused
from fastrec.commands.export.table import ExportTask, Line, Usage, export_tasks, line_decoder
from fastrec.corpus.manifest import MANIFEST, read_manifest, read_summary
from fastrec.corpus.scan import SplitHashes, decode_lines, find_split_hashes, parts_of, run_in_order, with_progress
from fastrec.corpus.sources import has_sources, read_sources
from fastrec.engine import check_jobs
from fastrec.engine.base import collector_off
from fastrec.errors import FastrecError, UsageError, shown
from fastrec.filters import FilterArguments, make_filters
from fastrec.progress import Progress
from fastrec.storage import join, storage_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

_FORMAT: Final = 3  # to be increased whenever the content of the files changes
_BATCH_BYTES: Final = 4 << 20  # text to hold as records at a time
_GROUP_ROWS: Final = 50_000
_GROUP_BYTES: Final = 64 << 20
_RESULT_ROWS: Final = 10_000  # of a query, to hold at a time
_LARGEST_INTEGER: Final = 2**63 - 1
_REPEATED: Final = ("evaluation", "metric", "model", "question", "sample_id", "input", "reference", "error", "source")
"""Columns whose values occur several times; trying it with the others takes time."""

_AS_DOUBLE: Final = "as a double; infinite if it is larger than any double"
_AS_INTEGER: Final = "null if it is 2^63 or more: such a number is in `extra` of `records`"
ANSWERS: Final = {
    "evaluation": "evaluation_name",
    "metric": "evaluation_result_id; null if the record has none",
    "model": "model_id",
    "question": "sample_hash; of a hash that is several questions, also `/` and the sample_id in JSON",
    "sample_id": "as text",
    "input": "input.raw",
    "reference": "the references, one per line",
    "output": "everything that the model said: outputs and turns of the assistant, one per line",
    "correct": "evaluation.is_correct",
    "score": f"evaluation.score {_AS_DOUBLE}",
    "tokens_in": f"token_usage.input_tokens; {_AS_INTEGER}",
    "tokens_out": f"token_usage.output_tokens; {_AS_INTEGER}",
    "latency_ms": f"performance.latency_ms {_AS_DOUBLE}",
    "error": "null if there is none",
    "turns": "turns of the conversation; 1 for a single turn",
    "tool_calls": "calls of tools in all turns",
    "metadata": "a map from names to texts; values that are no text are JSON",
    "trial": "1 for the first answer of a model to a question and metric, 2 for the next",
    "source": "shard and line that the record comes from, as `shard:line`; null without `normalize --track-sources`",
}
"""The columns of `answers`, and what they hold."""

_QUESTION: Final = "evaluation, metric, question"
_QUESTIONS: Final = f"""
select {_QUESTION}, min(sample_id) as sample_id, any_value(input) as input, any_value(reference) as reference,
    count(*) as answers, count(distinct model) as models, avg(correct::int) filter (error is null) as accuracy,
    avg(score) filter (error is null) as score, count(error) as errors
from answers group by {_QUESTION}
"""  # noqa: S608 - all of it is constant
_MODELS: Final = f"""
select evaluation, metric, model, sum(answers)::bigint as answers, count(*) as questions, avg(correct) as accuracy,
    avg(score) as score
from (
    select {_QUESTION}, model, avg(correct::int) as correct, avg(score) as score, count(*) as answers
    from answers where error is null group by {_QUESTION}, model
)
group by evaluation, metric, model
"""  # noqa: S608
_VIEWS: Final = {"questions": _QUESTIONS, "models": _MODELS}

TABLES: Final = {
    "answers": "one row per record",
    "questions": "one row per question and metric; accuracy and score over answers without an error",
    "models": "one row per evaluation, metric and model; accuracy and score over questions, as in `fastrec stats`",
    "records": "the records with all their fields, nested, as `export --format parquet` writes them",
}
"""The tables, and what they hold."""


class _Input(msgspec.Struct):
    raw: str
    reference: str | list[str]


class _Line(Line, kw_only=True):
    """The fields of a record that are in `answers`."""

    input: Raw
    metadata: dict[str, Raw] | UnsetType = UNSET


def _schema() -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - an optional package

    types = {"correct": pa.bool_(), "score": pa.float64(), "latency_ms": pa.float64()}
    types |= dict.fromkeys(("tokens_in", "tokens_out", "turns", "tool_calls", "trial"), pa.int64())
    types["metadata"] = pa.map_(pa.string(), pa.string())
    return pa.schema([(name, types.get(name, pa.string())) for name in ANSWERS])


@collector_off()
def _write_answers(task: ExportTask) -> None:
    """Write the table of one part. Runs in a worker."""
    import pyarrow as pa  # noqa: PLC0415 - an optional package
    import pyarrow.parquet as pq  # noqa: PLC0415 - an optional package

    schema = _schema()
    questions = _Questions(task.split)
    decode = line_decoder(_Line, task.schema)
    sources = read_sources(task.sources, task.part.entry) if task.sources else None
    with pq.ParquetWriter(task.output, schema, compression="lz4", use_dictionary=list(_REPEATED)) as writer:
        for lines, _ in decode_lines(task.part, decode, _BATCH_BYTES, task.sort_fields):
            columns = _columns(lines, questions)
            found = islice(sources, len(lines)) if sources else ()
            columns["source"] = [f"{one.shard}:{one.line}" for one in found] or [None] * len(lines)
            arrays = [pa.array(columns[field.name], field.type) for field in schema]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema), row_group_size=_GROUP_ROWS)


_NO_USAGE: Final = Usage()
_decode_text = msgspec.json.Decoder(str).decode
_decode_input = msgspec.json.Decoder(_Input).decode


class _Questions:
    """What answers to a question have in common. They follow each other, and no cut between parts separates them."""

    def __init__(self, split: SplitHashes) -> None:
        self._split = split
        self._input, self._asked = b"", ("", "")
        self._hash: tuple[str, str] = ("", "")
        self._counts: Counter[tuple[str | None, str, str]] = Counter()

    def asked(self, line: Any) -> tuple[str, str]:
        """The input and the references. They are mostly those of the line before, and need no decoding."""
        if (text := bytes(line.input)) != self._input:
            found = _decode_input(text)
            references = found.reference
            joined = references if isinstance(references, str) else "\n".join(references)
            self._input, self._asked = text, (found.raw, joined)
        return self._asked

    def question_and_trial(self, line: Any) -> tuple[str, int]:
        """The name of the question, and the number of this answer among those of its model."""
        name, sample_hash, metric = line.evaluation_name, line.sample_hash, line.metric
        if (name, sample_hash) != self._hash:
            self._hash = name, sample_hash
            self._counts.clear()
        is_split = self._split and (name, metric, sample_hash) in self._split
        question = f"{sample_hash}/{bytes(line.sample_id).decode()}" if is_split else sample_hash
        identity = metric, question, line.model_id
        self._counts[identity] += 1
        return question, self._counts[identity]


def _columns(lines: Sequence[Any], questions: _Questions) -> dict[str, Sequence[Any]]:
    """The values of all columns but the source. Column by column, because that takes half of the time of rows."""
    asked, answered = [*map(questions.asked, lines)], [*map(questions.question_and_trial, lines)]
    usages, turns = [line.token_usage or _NO_USAGE for line in lines], [line.turns or () for line in lines]
    return {
        "evaluation": [line.evaluation_name for line in lines],
        "metric": [line.metric for line in lines],
        "model": [line.model_id for line in lines],
        "question": [question for question, _ in answered],
        "sample_id": [_text(line.sample_id) for line in lines],
        "input": [text for text, _ in asked],
        "reference": [references for _, references in asked],
        "output": [_said(line) for line in lines],
        "correct": [line.evaluation.is_correct for line in lines],
        "score": [_number(line.evaluation.score) for line in lines],
        "tokens_in": [_count(usage.input_tokens) for usage in usages],
        "tokens_out": [_count(usage.output_tokens) for usage in usages],
        "latency_ms": [_number(line.performance.latency_ms) if line.performance else None for line in lines],
        "error": [line.error or None for line in lines],
        "turns": [len(each) or 1 for each in turns],
        "tool_calls": [
            sum([len(turn.tool_calls) for turn in each if turn.tool_calls]) if each else 0 for each in turns
        ],
        "metadata": [
            [(name, _text(value)) for name, value in line.metadata.items()] if line.metadata else None for line in lines
        ],
        "trial": [trial for _, trial in answered],
    }


def _said(line: Any) -> str:
    said = [turn.content for turn in line.turns or () if turn.role == "assistant" and turn.content]
    if line.output is not None:
        raw = line.output.raw
        said[:0] = [raw] if isinstance(raw, str) else raw
    return "\n".join(said)


def _text(value: Raw) -> str:
    """A text as it is, and anything else as JSON."""
    text = bytes(value)
    return _decode_text(text) if text.startswith(b'"') else text.decode()


def _number(value: Raw) -> float | None:
    text = bytes(value)
    if text in (b"", b"null"):
        return None
    return float(text) if text not in (b"true", b"false") else float(text == b"true")


def _count(value: Raw) -> int | None:
    """A number of tokens; None if there is none, or if a column of 64 bits cannot hold it."""
    text = bytes(value)
    if not text.isdigit() or len(text) > len(str(_LARGEST_INTEGER)):
        return None
    number = int(text)
    return number if number <= _LARGEST_INTEGER else None


def _write_tables(corpus: str, folder: Path, jobs: int, progress: Progress | None, *, records: bool = False) -> None:
    """Write one file per part into a folder."""
    manifest = read_manifest(corpus)
    parts = parts_of(corpus, manifest)
    write, split, sources = _write_answers, SplitHashes(), ""
    if records:
        from fastrec.commands.export.parquet import write_parquet  # noqa: PLC0415 - needs pyarrow

        write = write_parquet
    else:
        evaluations = read_summary(corpus, manifest).evaluations
        split = find_split_hashes(parts, manifest, evaluations, jobs=jobs)
        sources = corpus if has_sources(manifest) else ""
    tasks = export_tasks(parts, manifest, folder, ".parquet", split=split, sources=sources)
    done = run_in_order(write, tasks, text_bytes=manifest.text_bytes, jobs=jobs)
    for _ in with_progress(done, parts, progress, "table"):
        pass


def _data_set(corpus: str, jobs: int, progress: Progress | None, *, records: bool = False) -> pa.dataset.Dataset:
    """The table of a corpus as an Arrow data set; make its files if they are not in the cache directory.

    If that cannot be written, they stay in that of temporary files until the process ends.
    """
    read_manifest(corpus)  # UsageError if it is no corpus
    checksum = sha256(storage_of(corpus).read_all(join(corpus, MANIFEST))).hexdigest()
    directory = cache_directory()
    folder = directory / f"{checksum}-{'records' if records else 'answers'}-{_FORMAT}{TABLES_SUFFIX}"
    if not os.path.isdir(folder):  # noqa: PTH112 - it is none, too, if only somebody else may see it
        remove_unused(directory)
        building = _new_folder(directory)
        try:
            _write_tables(corpus, building, jobs, progress, records=records)
            if building.parent == directory:
                with contextlib.suppress(OSError):  # another process may have made it meanwhile
                    building.rename(folder)
            else:
                folder = building
        finally:
            if folder != building:
                shutil.rmtree(building, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.utime(folder)  # it is in use
    return _open(folder, None if records else _schema())


def _new_folder(directory: Path) -> Path:
    """Make a folder in a directory. If that cannot be written, make a temporary one, which is removed at exit."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        close_to_others(directory)
        return Path(tempfile.mkdtemp(BUILDING, "", directory))
    except OSError:
        folder = Path(tempfile.mkdtemp(BUILDING, "fastrec-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder


def _open(folder: Path, schema: pa.Schema | None) -> pa.dataset.Dataset:
    import pyarrow.dataset as ds  # noqa: PLC0415 - an optional package

    files = sorted(map(str, folder.glob("*.parquet")))
    return ds.dataset(files, schema=schema, format="parquet")


def batches(
    corpus: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> pa.RecordBatchReader:
    """Read the table `answers` of a corpus batch by batch, in bounded memory.

    Args:
        corpus: A directory or URL that `normalize` published.
        columns: Only these columns; all by default.
        jobs: Processes to use if the table has to be made.
        progress: Receives the progress of making it.
        **filters: Only records that match these (`FilterArguments`).

    Raises:
        UsageError: The directory is not a corpus, a column is unknown, or no record matches.
        CorpusError: A file of the corpus is damaged.
    """
    need("pyarrow")
    check_jobs(jobs)
    if wrong := [name for name in columns or () if name not in ANSWERS]:
        raise UsageError(f"there is no column {wrong[0]!r}; the columns are {', '.join(ANSWERS)}")
    wanted, directory = make_filters(**filters), os.fspath(corpus)
    chosen = None if columns is None else list(columns)
    if not wanted:
        return _data_set(directory, jobs, progress).scanner(columns=chosen).to_reader()
    import pyarrow as pa  # noqa: PLC0415 - an optional package

    from fastrec.normalize.scratch import matching_corpus  # noqa: PLC0415 - no query needs it

    scratch = tempfile.TemporaryDirectory(prefix="fastrec-")
    try:
        matching = matching_corpus(directory, wanted, jobs=jobs, progress=progress)
        with matching as source:
            _write_tables(source, Path(scratch.name), jobs, progress)
    except BaseException:
        scratch.cleanup()
        raise
    reader = _open(Path(scratch.name), _schema()).scanner(columns=chosen).to_reader()

    def read() -> Iterator[pa.RecordBatch]:
        with scratch:
            yield from reader

    return pa.RecordBatchReader.from_batches(reader.schema, read())


def table(
    corpus: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> pa.Table:
    """Read the table `answers` of a corpus as an Arrow table: `.to_pandas()` follows. See `batches`."""
    return batches(corpus, columns=columns, jobs=jobs, progress=progress, **filters).read_all()


def connect(
    *corpora: str | os.PathLike[str],
    records: bool = False,
    locked: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> DuckDBPyConnection:
    """Open a DuckDB connection with the tables of one or several corpora: `TABLES`.

    Args:
        *corpora: Directories or URLs that `normalize` published. Several add a column `corpus` with their names.
        records: Make the table `records`, too.
        locked: Let no query read or write files, load extensions or change these settings.
        jobs: Processes to use if tables have to be made.
        progress: Receives the progress of making them.

    Raises:
        UsageError: A directory is not a corpus, or DuckDB is not installed.
        CorpusError: A file of a corpus is damaged.
    """
    need("duckdb", "pyarrow")
    check_jobs(jobs)
    import duckdb  # noqa: PLC0415 - an optional package

    names = _names([os.fspath(corpus) for corpus in corpora])
    connection = duckdb.connect(":memory:", config={"python_enable_replacements": False})
    for kind in ("answers", "records") if records else ("answers",):
        parts = []
        for number, (path, name) in enumerate(names.items()):
            connection.register(f"_{kind}_{number}", _data_set(path, jobs, progress, records=kind == "records"))
            quoted = name.replace("'", "''")
            corpus = f"'{quoted}' as corpus, " if len(names) > 1 else ""
            parts.append(f"select {corpus}* from _{kind}_{number}")  # noqa: S608
        connection.execute(f"create view {kind} as {' union all by name '.join(parts)}")
    for name, query in _VIEWS.items():
        if len(names) > 1:
            query = query.replace("evaluation, metric", "corpus, evaluation, metric")
        connection.execute(f"create view {name} as {query}")
    if locked:
        for setting in ("enable_external_access = false", "allow_community_extensions = false",
                        "autoinstall_known_extensions = false", "autoload_known_extensions = false",
                        "lock_configuration = true"):  # fmt: skip
            connection.execute(f"set {setting}")
    return connection


def _names(paths: Sequence[str]) -> dict[str, str]:
    """Name each corpus: the last part of its path, with a number where two are the same."""
    if not paths:
        raise UsageError("name at least one corpus")
    names: dict[str, str] = {}
    for path in paths:
        if path in names:
            raise UsageError(f"{shown(path)} is given twice")
        name = Path(path.rstrip("/")).name or path
        same = sum(re.fullmatch(rf"{re.escape(name)}( \d+)?", other) is not None for other in names.values())
        names[path] = f"{name} {same + 1}" if same else name
    return names


def need(*packages: str) -> None:
    """UsageError if a package is not installed."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise UsageError(f"this needs {' and '.join(missing)}: pip install {' '.join(missing)}")


class QueryError(UsageError):
    """DuckDB refused a query; the message shows the place."""


def mentions_records(query: str) -> bool:
    return re.search(r"\brecords\b", query, re.IGNORECASE) is not None


class Result(NamedTuple):
    """The result of a query, read batch by batch, in bounded memory."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextlib.contextmanager
def run_query(connection: DuckDBPyConnection, query: str, *, as_text: bool = False) -> Iterator[Result | None]:
    """Run one or several statements, and yield the result of the last; None if it has none.

    DuckDB runs in a thread. The main thread waits for it in Python, so a signal ends the wait at once.

    Args:
        connection: The connection.
        query: The statements.
        as_text: Whether dates, times and intervals are spelled by DuckDB: Python has only the years 1 to 9999.

    Raises:
        QueryError: DuckDB refuses it, or fails while batches are read.
    """
    import duckdb  # noqa: PLC0415 - an optional package

    thread = ThreadPoolExecutor(1)

    def wait_for(function: Callable[..., Any], *arguments: Any) -> Any:
        return thread.submit(function, *arguments).result()

    with contextlib.ExitStack() as stack:
        stack.callback(thread.shutdown, wait=False)
        try:
            reader = wait_for(_start, connection, query, as_text)
            if reader is not None:
                stack.callback(wait_for, reader.close)  # else the connection refuses the next query
            yield reader and Result(reader.schema, iter(partial(wait_for, _next_batch, reader), None))
        except duckdb.OutOfMemoryException as exc:
            raise MemoryError(str(exc)) from exc
        except duckdb.Error as exc:
            raise QueryError(_explain(connection, query, exc)) from exc
        except (KeyboardInterrupt, SystemExit):
            connection.interrupt()
            stack.pop_all()  # the process ends without waiting for the thread
            raise


def _start(connection: DuckDBPyConnection, query: str, as_text: bool) -> pa.RecordBatchReader | None:
    relation = connection.sql(query)
    if relation is None:
        return None
    names = _distinct(relation.columns)
    types = [_text_type(kind) if as_text else str(kind) for kind in relation.types]
    if names != relation.columns or types != [*map(str, relation.types)]:
        columns = zip(types, map(_quoted, names), strict=True)
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


def _distinct(names: Sequence[str]) -> list[str]:
    """Add numbers to names that occur again, as DuckDB does in a subquery.

    >>> _distinct(["a", "a", "a_1"])
    ['a', 'a_1', 'a_1_1']
    """
    distinct: list[str] = []
    for name in names:
        candidates = chain([name], (f"{name}_{number}" for number in count(1)))
        distinct.append(next(candidate for candidate in candidates if candidate not in distinct))
    return distinct


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _text_type(kind: DuckDBPyType) -> str:
    """A type with text in place of dates, times and intervals, also in lists, maps and structs."""
    name, spelled = kind.id, str(kind)
    if name.startswith(("date", "time", "interval")):
        return "VARCHAR"
    if name not in ("list", "array", "map", "struct", "tuple", "union"):
        return spelled
    # An array also has its size, which is a number.
    children = [(key, child) for key, child in kind.children if isinstance(child, type(kind))]
    inner = [(key, _text_type(child)) for key, child in children]
    if inner == [(key, str(child)) for key, child in children]:
        return spelled
    if name in ("list", "array"):
        return inner[0][1] + spelled[spelled.rindex("[") :]
    if name == "map":
        return f"MAP({inner[0][1]}, {inner[1][1]})"
    if name == "struct":
        return f"STRUCT({', '.join(f'{_quoted(key)} {child}' for key, child in inner)})"
    return "VARCHAR"


def _explain(connection: DuckDBPyConnection, query: str, error: duckdb.Error) -> str:
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

    try:
        with pq.ParquetWriter(path, result.schema, compression="zstd") as writer:
            group: list[pa.RecordBatch] = []
            for batch in result.batches:
                group.append(batch)
                if len(group) * _RESULT_ROWS >= _GROUP_ROWS or sum(one.nbytes for one in group) >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(group))
                    group = []
            if group:
                writer.write_table(pa.Table.from_batches(group))
    except pa.ArrowNotImplementedError as exc:
        raise UsageError(
            f"Parquet has no type for a column of this result: {exc}; cast it, such as to varchar"
        ) from exc


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yield the name of a new file. It replaces a file when the block ends without an error; a pipe is written itself.

    Raises:
        FastrecError: It cannot be written.
    """
    target = Path(path).resolve()  # of a symbolic link, the file that it points to
    if target.exists() and not target.is_file():
        yield path
        return
    temporary = target.with_name(f"{target.name[:60]}.{secrets.token_hex(4)}")
    try:
        yield str(temporary)
        temporary.replace(target)
    except OSError as exc:
        raise FastrecError(f"{shown(path)} cannot be written: {exc.strerror or exc}") from exc
    finally:
        temporary.unlink(missing_ok=True)
