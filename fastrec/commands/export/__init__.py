"""`export`: write a corpus as tables.

1. Check the arguments, the output path, and that the packages for the format are installed.
2. Select the records that match the filters.
3. One task per part writes a file (`parquet`, `table`); for CSV, these are joined. The matrix is
   made of columns.
4. Write `export.json` and a README: a dataset card for the Hugging Face hub that explains the
   columns.
5. Publish the output directory atomically.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import tomllib
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from fastrec._version import __version__
from fastrec.commands.export.pairs import Details, read_details, write_pairs
from fastrec.commands.export.table import ExportTask, has_metrics, table_columns, write_table
from fastrec.corpus.manifest import Manifest, skipped_lines
from fastrec.corpus.output import Kind
from fastrec.corpus.publish import LocalOutput, check_output, open_local_output
from fastrec.corpus.reader import CorpusReader, open_corpus
from fastrec.corpus.scan import run_in_order, with_progress
from fastrec.corpus.secrets import SecretsTask, list_secrets, search_part
from fastrec.engine import check_jobs
from fastrec.errors import SecretsError, UsageError, naming, need, shown
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.judge.secrets import secrets_in
from fastrec.notebook import Framed
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS, NEWEST_SCHEMA
from fastrec.schemas.schema import Schema
from fastrec.schemas.view import REFUSALS
from fastrec.storage import is_url

if TYPE_CHECKING:
    from fastrec.answers.selection import Selection

FORMATS = ("parquet", "csv", "matrix", "pairs")
_MARKER = "export.json"
_CONFIGS = {
    "parquet": "data/*.parquet",
    "csv": "records.csv",
}  # the files that the viewer shows


def _readme(form: str, manifest: Manifest, notices: list[str], *, raw_cells: bool) -> str:
    texts = tomllib.loads(Path(__file__).with_name("readme.toml").read_text(encoding="utf-8"))
    by_version = (
        "with_metrics" if has_metrics(CORPUS_LABELS[manifest.schema]) else "without_metrics"
    )
    columns = texts[form]["about"].replace("{version}\n", texts[form][by_version])
    columns = columns.replace("{measures}\n", texts["measures"])
    cells = (
        "" if form in ("parquet", "pairs") else "\n" + texts["raw_cells" if raw_cells else "cells"]
    )
    front_matter = ""
    if form in _CONFIGS:
        data_files = f'  data_files:\n  - split: train\n    path: "{_CONFIGS[form]}"\n'
        front_matter = f"---\nconfigs:\n- config_name: default\n{data_files}---\n\n"
    return (
        f"{front_matter}# Evaluation records\n\n"
        f"{manifest.records:,} records of schema `{manifest.schema}`, exported by fastrec from "
        "the corpus whose "
        f"`text_xxh3_128` is `{manifest.text_xxh3_128}`.\n\n{columns}{cells}"
    ) + "".join(f"\n{notice}\n" for notice in notices)


class Exported(Framed, kw_only=True):
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
    corpus: AnyPath,
    output: AnyPath,
    *,
    format: str = "parquet",  # noqa: A002 - the name of the option
    jobs: int = CORES,
    overwrite: bool = False,
    raw_cells: bool = False,
    details: AnyPath | None = None,
    allow_secrets: bool = False,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Exported:
    """Write a corpus as tables, or as pairs of the public data store.

    Args:
        corpus: A directory that `normalize` published.
        output: The directory to publish. It must not exist, unless it is an export and `overwrite`
            is true.
        format: `parquet`, `csv`, `matrix` or `pairs`.
        jobs: Processes to use; a small corpus is exported in this process.
        overwrite: Whether to replace an existing export.
        raw_cells: Whether text in CSV stays as it is, even if a spreadsheet would evaluate it (see
            `csv_writer`).
        details: A TOML file with what no record says, such as the organisation; only for `pairs`.
        allow_secrets: Whether to publish metadata that have what looks like a credential.
        progress: Receives the progress.
        **filters: Export only records that match these (`FilterArguments`).

    Raises:
        UsageError: The directory is not a corpus, no record matches, another argument is invalid,
            or a package that the format needs is not installed. Nothing was done.
        SecretsError: Records or details have what looks like a credential. Nothing was published.
        CorpusError: A part is not what fastrec writes. Nothing was published.
        ShardError: A part cannot be read completely. Nothing was published.
    """
    started = time.perf_counter()
    _check(format, jobs, raw_cells=raw_cells)
    if details is not None and format != "pairs":
        raise UsageError("details are an option of pairs")
    given = read_details(None if details is None else os.fspath(details))
    target = os.fspath(output)
    if is_url(target):
        raise UsageError(
            f"tables must be written to a local directory, not to {shown(target)}: copy them there"
        )
    wanted = make_filters(**filters)
    reader = open_corpus(corpus)  # raises UsageError if it is not a corpus, before anything is done
    manifest = reader.manifest
    if format == "pairs" and CORPUS_LABELS[manifest.schema] is not NEWEST_SCHEMA:
        raise UsageError(
            f"pairs have records of {NEWEST_SCHEMA.name}: normalize with --schema "
            f"{NEWEST_SCHEMA.name}"
        )
    check_output(target, [reader.path])
    kind = Kind("an export", _MARKER, _listed_files)
    with (
        open_local_output(target, kind, overwrite=overwrite, fresh=True) as made,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(made.clear)  # after a failure too: the next run cannot use its files
        selection = None
        if wanted or format == "matrix":
            # numpy starts threads, as pyarrow does
            from fastrec.answers.selection import select  # noqa: PLC0415

            selection = select(reader, wanted, jobs=jobs, progress=progress)
        tasks = list(_make_tasks(format, made, reader, selection, raw_cells=raw_cells))
        if format != "matrix" and not allow_secrets:
            _check_secrets(tasks, given, jobs, progress)
        skipped = " ".join(map(str.strip, skipped_lines(manifest.skipped)))
        notices = [skipped] if skipped else []
        notices += [f"only records that match {wanted}"] if wanted else []
        if selection and format == "matrix":
            from fastrec.commands.export.matrix import write_matrix  # noqa: PLC0415 - as above

            with naming(str(made.staging)):
                notices += write_matrix(
                    selection, Path(made.work), made.staging, raw_cells=raw_cells
                )
        else:
            parts = [task.part for task in tasks]
            if format == "pairs":
                notices += write_pairs(
                    with_progress(tasks, parts, progress, "write"), made.staging, given
                )
            else:
                text_bytes = sum(part.entry.text_bytes for part in parts)
                task = write_table if format == "csv" else _write_parquet
                done = run_in_order(task, tasks, text_bytes=text_bytes, jobs=jobs)
                list(with_progress(done, parts, progress, "write"))
                _finish(
                    format, made, [task.output for task in tasks], CORPUS_LABELS[manifest.schema]
                )
        manifest = msgspec.structs.replace(manifest, records=sum(task.records for task in tasks))
        with naming(str(made.staging)):
            files = _describe(format, made.staging, manifest, notices, wanted, raw_cells=raw_cells)
        made.publish()
    return Exported(
        output=os.fspath(output),
        format=format,
        rows=manifest.records,
        files=len(files),
        bytes=sum(files.values()),
        text_bytes=sum(task.text_bytes for task in tasks),
        seconds=time.perf_counter() - started,
        notices=notices,
    )


def _check_secrets(
    tasks: Sequence[ExportTask], details: Details, jobs: int, progress: Progress | None
) -> None:
    """SecretsError if records or details have what looks like a credential."""
    parts = [task.part for task in tasks]
    searched = [SecretsTask(task.part, task.chosen) for task in tasks]
    text_bytes = sum(part.entry.text_bytes for part in parts)
    results = run_in_order(search_part, searched, text_bytes=text_bytes, jobs=jobs)
    found = [
        f"{finding.path} {finding.message} (details)"
        for finding in secrets_in(msgspec.to_builtins(details))
    ]
    found += list_secrets(with_progress(results, parts, progress, "check"))
    if found:
        raise SecretsError("\n  ".join(found))


class _Listing(msgspec.Struct):
    fastrec: str
    format: str
    files: dict[str, int]


def _listed_files(document: bytes) -> set[str]:
    """The files of an export by its `export.json`; none if that is of something else."""
    try:
        return {"README.md", *msgspec.json.decode(document, type=_Listing).files}
    except REFUSALS:
        return set()


def _check(form: str, jobs: int, *, raw_cells: bool) -> None:
    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}; the formats are {', '.join(FORMATS)}")
    if raw_cells and form == "parquet":
        raise UsageError("raw cells are an option of csv and matrix: Parquet has all text as it is")
    check_jobs(jobs)
    if form == "parquet":
        need("Parquet", "pyarrow")


def _make_tasks(
    form: str,
    made: LocalOutput,
    corpus: CorpusReader,
    selection: Selection | None,
    *,
    raw_cells: bool,
) -> Iterator[ExportTask]:
    """Make a task for each part that has selected records, with a file for its rows."""
    folder = Path(made.work) if form == "csv" else made.staging / "data"
    if form != "matrix":
        folder.mkdir(exist_ok=True)
    files = count()
    for number, part in enumerate(corpus.parts):
        chosen = b""
        records = part.entry.records
        text_bytes = part.entry.text_bytes
        if selection and not selection.is_whole:
            is_chosen = selection.scope_codes(number) >= 0
            chosen = is_chosen.tobytes()
            records = int(is_chosen.sum())
            text_bytes = int(selection.columns(number).numbers("bytes")[is_chosen].sum())
        if records or not chosen:
            yield ExportTask(
                part,
                corpus.columns_path(number),
                str(folder / f"part-{next(files):05d}.{form}"),
                corpus.manifest.schema,
                raw_cells,
                records,
                text_bytes,
                chosen,
            )


def _write_parquet(task: ExportTask) -> None:
    """Write Parquet with pyarrow, which only workers import."""
    import_module("fastrec.commands.export.parquet").write_parquet(task)


def _finish(form: str, made: LocalOutput, files: Sequence[str], schema: Schema) -> None:
    """Join the files of the parts if the format is a single table."""
    with naming(str(made.staging)):
        if form == "csv":
            with (made.staging / "records.csv").open("wb") as table:
                table.write(",".join(table_columns(schema)).encode() + b"\n")
                for path in files:
                    with open(path, "rb") as file:  # noqa: PTH123
                        shutil.copyfileobj(file, table, 1 << 20)
        elif not files:  # a file without rows, for a corpus without records
            path = str(made.staging / "data" / "part-00000.parquet")
            import_module("fastrec.commands.export.parquet").open_writer(path, schema).close()


def _describe(
    form: str,
    staging: Path,
    manifest: Manifest,
    notices: list[str],
    filters: Filters,
    *,
    raw_cells: bool,
) -> dict[str, int]:
    """Write the README and `export.json`, sync all files, and return the sizes of the tables."""
    files = {
        str(path.relative_to(staging)): path.stat().st_size for path in sorted(staging.rglob("*.*"))
    }
    about: dict[str, Any] = {
        "fastrec": __version__,
        "format": form,
        "records": manifest.records,
        "text_xxh3_128": manifest.text_xxh3_128,
        "files": files,
    }
    if filters:
        given = msgspec.structs.asdict(filters)
        about["filters"] = {name: value for name, value in given.items() if value}
    (staging / "README.md").write_text(
        _readme(form, manifest, notices, raw_cells=raw_cells), encoding="utf-8"
    )
    (staging / _MARKER).write_bytes(
        msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n"
    )
    for path in filter(Path.is_file, staging.rglob("*")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return files
