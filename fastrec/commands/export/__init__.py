"""`export`: write a corpus as tables.

1. Check the arguments, the output path, and that the packages for the format are installed.
2. One task per part writes a file (`parquet`, `table`, `matrix`).
3. For CSV and the matrix, join these files into one table. Write a README (`card`) and `export.json`.
4. Publish the output directory atomically.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Unpack

import msgspec

from fastrec._version import __version__
from fastrec.commands.export.card import card
from fastrec.commands.export.matrix import LeftOut, Scope, write_answers, write_matrix
from fastrec.commands.export.table import ExportTask, has_metrics, table_columns, write_table
from fastrec.corpus.documents import read_manifest, read_summary
from fastrec.corpus.local_output import LocalOutput, open_local_output
from fastrec.corpus.manifest import Manifest, skipped_lines, text_hash
from fastrec.corpus.output import Kind
from fastrec.corpus.publish import check_output
from fastrec.corpus.scan import parts_of, run_in_order, with_progress
from fastrec.engine import check_jobs
from fastrec.errors import UsageError, counted, shown
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.limits import LIMITS, Limits
from fastrec.normalize.matching import matching_corpus
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS
from fastrec.schemas.schema import Schema
from fastrec.storage import is_url

__all__ = ["FORMATS", "Exported", "export"]

FORMATS: Final = ("parquet", "csv", "matrix")
_MARKER: Final = "export.json"


class Exported(msgspec.Struct, kw_only=True):
    """The result of an export."""

    output: str
    format: str
    rows: int
    files: int
    bytes: int
    text_bytes: int
    seconds: float
    notices: list[str]


def export(
    corpus: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    format: str = "parquet",  # noqa: A002 - the name of the option
    jobs: int = 1,
    overwrite: bool = False,
    raw_cells: bool = False,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
    **filters: Unpack[FilterArguments],
) -> Exported:
    """Write a corpus as tables.

    Args:
        corpus: A directory that `normalize` published.
        output: The directory to publish. It must not exist, unless it is an export and `overwrite` is true.
        format: `parquet`, `csv` or `matrix`.
        jobs: Processes to use; a small corpus is exported in this process.
        overwrite: Whether to replace an existing export.
        raw_cells: Whether text in CSV stays as it is, even if a spreadsheet would evaluate it (see `csv_writer`).
        progress: Receives the progress.
        limits: Sizes of buffers.
        **filters: Export only records that match these (`FilterArguments`).

    Raises:
        UsageError: The directory is not a corpus, no record matches, another argument is invalid, or a package that the
            format needs is not installed. Nothing was done.
        CorpusError: A part is not what fastrec writes. Nothing was published.
        ShardError: A part cannot be read completely. Nothing was published.
    """
    started = time.perf_counter()
    _check(format, jobs, raw_cells=raw_cells)
    directory, target = os.fspath(corpus), os.fspath(output)
    if is_url(target):
        raise UsageError(f"tables must be written to a local directory, not to {shown(target)}: copy them there")
    wanted = make_filters(**filters)
    read_manifest(directory)  # raises UsageError if it is not a corpus, before anything is done
    check_output(target, [directory])
    kind = Kind("an export", _MARKER, _listed_files)
    with open_local_output(target, kind, overwrite=overwrite, fresh=True) as made, contextlib.ExitStack() as stack:
        stack.callback(made.clear)  # after a failure too: the next run cannot use its files
        source = stack.enter_context(matching_corpus(directory, wanted, jobs=jobs, progress=progress, limits=limits))
        manifest = read_manifest(source)
        parts = parts_of(source, manifest)
        schema = CORPUS_LABELS[manifest.schema]
        graded = _graded_scopes(source, manifest) if format == "matrix" and has_metrics(schema) else None
        task, folder, suffix = _plan(format, made)
        folder.mkdir(exist_ok=True)
        tasks = [
            ExportTask(part, str(folder / f"part-{number:05d}{suffix}"), limits, raw_cells, manifest.schema)
            for number, part in enumerate(parts)
        ]
        done = run_in_order(task, tasks, text_bytes=manifest.text_bytes, jobs=jobs, limits=limits)
        list(with_progress(done, parts, progress, "write"))
        skipped = " ".join(map(str.strip, skipped_lines(manifest.skipped)))
        notices = [skipped] if skipped else []
        notices += [f"only records that match {wanted}"] if wanted else []
        notices += _finish(format, made, [task.output for task in tasks], schema, graded, raw_cells=raw_cells)
        files = _describe(format, made.staging, manifest, notices, wanted, raw_cells=raw_cells)
        made.publish()
    return Exported(
        output=os.fspath(output),
        format=format,
        rows=sum(part.entry.records for part in parts),  # each task compares its own number with the manifest
        files=len(files),
        bytes=sum(files.values()),
        text_bytes=manifest.text_bytes,
        seconds=time.perf_counter() - started,
        notices=notices,
    )


class _Listing(msgspec.Struct):
    fastrec: str
    format: str
    files: dict[str, int]


def _listed_files(document: bytes) -> set[str]:
    """Return the files of an export by its `export.json`; none if that is of something else."""
    try:
        return {"README.md", *msgspec.json.decode(document, type=_Listing).files}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return set()


def _check(form: str, jobs: int, *, raw_cells: bool) -> None:
    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}; the formats are {', '.join(FORMATS)}")
    if raw_cells and form == "parquet":
        raise UsageError("raw cells are an option of csv and matrix: Parquet has all text as it is")
    check_jobs(jobs)
    # Only looked up, not imported: pyarrow starts threads, and a process with threads must not fork workers.
    if form == "parquet" and find_spec("pyarrow") is None:
        raise UsageError("Parquet needs pyarrow, which is not installed: pip install pyarrow")


def _plan(form: str, made: LocalOutput) -> tuple[Callable[[ExportTask], None], Path, str]:
    """Return the task, the directory for its files, and the suffix of their names."""
    if form == "parquet":
        return _write_parquet, made.staging / "data", ".parquet"
    work = Path(made.work)
    return (write_table, work, ".csv") if form == "csv" else (write_answers, work, ".jsonl")


def _write_parquet(task: ExportTask) -> None:
    """Write Parquet with pyarrow, which only workers import."""
    import_module("fastrec.commands.export.parquet").write_parquet(task)


def _finish(
    form: str, made: LocalOutput, files: Sequence[str], schema: Schema, graded: set[Scope] | None, *, raw_cells: bool
) -> list[str]:
    """Join the files of the parts if the format is a single table; return notices for the user."""
    notices: list[str] = []
    if form == "csv":
        with (made.staging / "records.csv").open("wb") as table:
            table.write(",".join(table_columns(schema)).encode() + b"\n")
            for path in files:
                with open(path, "rb") as file:  # noqa: PTH123
                    shutil.copyfileobj(file, table, 1 << 20)
    elif form == "matrix":
        left_out = write_matrix(files, Path(made.work), made.staging, graded, raw_cells=raw_cells)
        notices += _matrix_notices(left_out)
    elif not files:
        import_module("fastrec.commands.export.parquet").write_empty(
            str(made.staging / "data" / "part-00000.parquet"), schema
        )
    return notices


def _graded_scopes(corpus: str, manifest: Manifest) -> set[Scope]:
    """Return the evaluations and metrics whose scores are other than 0 and 1, by the summary of the corpus."""
    evaluations = read_summary(corpus, manifest).evaluations
    return {(evaluation.evaluation_name, evaluation.metric) for evaluation in evaluations if evaluation.graded}


def _matrix_notices(left_out: LeftOut) -> Iterator[str]:
    if left_out.failed:
        yield f"{counted(left_out.failed, 'record')} with an error left out: their cells are empty"
    if left_out.repeated:
        yield (
            f"{counted(left_out.repeated, 'answer')} left out: only a model's first answer to a question is in the "
            "matrix"
        )
    if left_out.graded:
        yield (
            f"correct.csv lacks {counted(left_out.graded, 'column')} of graded metrics: scores other than 0 and 1 are "
            "neither right nor wrong"
        )


def _describe(
    form: str, staging: Path, manifest: Manifest, notices: list[str], filters: Filters, *, raw_cells: bool
) -> dict[str, int]:
    """Write the README and `export.json`, flush all files to disk, and return the sizes of the tables."""
    files = {str(path.relative_to(staging)): path.stat().st_size for path in sorted(staging.rglob("*.*"))}
    hash_name, text = text_hash(manifest)
    about = {
        "fastrec": __version__,
        "format": form,
        "records": manifest.records,
        hash_name: text,
        "files": files,
        **({"filters": manifest.options["filters"]} if filters else {}),
    }
    (staging / "README.md").write_text(card(form, manifest, notices, raw_cells=raw_cells), encoding="utf-8")
    (staging / _MARKER).write_bytes(msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")
    for path in filter(Path.is_file, staging.rglob("*")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return files
