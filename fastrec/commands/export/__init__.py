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

import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Unpack

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from fastrec._version import __version__
from fastrec.commands.export.pairs import Details, read_details, write_pairs
from fastrec.commands.export.table import ExportTask, has_metrics, table_columns, write_table
from fastrec.corpus.manifest import Manifest, skipped_lines
from fastrec.corpus.output import Kind
from fastrec.corpus.publish import LocalOutput, check_output, open_local_output
from fastrec.corpus.reader import CorpusReader, open_corpus
from fastrec.corpus.scan import run_on_parts
from fastrec.corpus.secrets import list_secrets, search_part
from fastrec.engine import check_jobs
from fastrec.errors import SecretsError, UsageError, check_choice, naming, need
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.json_documents import indented_json
from fastrec.judge.findings import FindingGroups
from fastrec.judge.secrets import secrets_in
from fastrec.notebook import Framed
from fastrec.parameters import CORES, AnyPath
from fastrec.progress import Progress
from fastrec.schemas.registry import CORPUS_LABELS, NEWEST_SCHEMA
from fastrec.schemas.view import REFUSALS, view_decoder
from fastrec.storage import check_local
from fastrec.storage.local import LOCAL

if TYPE_CHECKING:
    from fastrec.answers.selection import Selection

FORMATS = ("parquet", "csv", "matrix", "pairs")
_MARKER = "export.json"


def _readme(form: str, manifest: Manifest, notices: list[str], *, raw_cells: bool) -> str:
    texts = tomllib.loads(Path(__file__).with_name("readme.toml").read_text(encoding="utf-8"))
    schema = CORPUS_LABELS[manifest.schema]
    of_version = texts[form]["with_metrics" if has_metrics(schema) else "without_metrics"]
    about = texts[form]["about"].format(version=of_version, measures=texts["measures"])
    front_matter = texts[form].get("front_matter", "")
    if form in ("csv", "matrix"):
        about += "\n" + texts["raw_cells" if raw_cells else "cells"]
    return (
        f"{front_matter}# Evaluation records\n\n"
        f"{manifest.records:,} records of schema `{manifest.schema}`, exported by fastrec from "
        f"the corpus whose `text_xxh3_128` is `{manifest.text_xxh3_128}`.\n\n{about}"
    ) + "".join(f"\n{notice}\n" for notice in notices)


class Exported(Framed):
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
    started = perf_counter()
    target = os.fspath(output)
    _check_options(format, target, raw_cells=raw_cells, has_details=details is not None)
    check_jobs(jobs)
    given = read_details(None if details is None else os.fspath(details))
    wanted = make_filters(**filters)
    reader = open_corpus(corpus)  # raises UsageError if it is not a corpus, before anything is done
    newest = NEWEST_SCHEMA.name
    if format == "pairs" and CORPUS_LABELS[reader.manifest.schema] is not NEWEST_SCHEMA:
        raise UsageError(f"pairs have records of {newest}: normalize with --schema {newest}")
    check_output(target, [reader.path])
    kind = Kind("an export", _MARKER, _listed_files)
    with (
        open_local_output(target, kind, overwrite=overwrite, fresh=True) as opened,
        ExitStack() as stack,
    ):
        stack.callback(opened.clear)  # after a failure too: the next run cannot use its files
        staging = opened.staging
        selection = None
        if wanted or format == "matrix":
            # numpy starts threads, as pyarrow does
            from fastrec.answers.selection import select  # noqa: PLC0415

            selection = select(reader, wanted, jobs=jobs, progress=progress)
        tasks = list(_make_tasks(format, opened, reader, selection, raw_cells=raw_cells))
        run = partial(run_on_parts, tasks=tasks, progress=progress)
        if format != "matrix" and not allow_secrets:
            _check_secrets(run(search_part, stage="check", jobs=jobs), given)
        manifest = replace(reader.manifest, records=sum(task.records for task in tasks))
        skipped = " ".join(map(str.strip, skipped_lines(manifest.skipped)))
        notices = [skipped] if skipped else []
        notices += [f"only records that match {wanted}"] if wanted else []
        with naming(str(staging)):
            if selection and format == "matrix":
                from fastrec.commands.export.matrix import write_matrix  # noqa: PLC0415 - as above

                notices += write_matrix(selection, Path(opened.work), staging, raw_cells=raw_cells)
            elif format == "pairs":
                each = run(lambda task: task, stage="write", jobs=1)  # for the progress
                notices += write_pairs(each, staging, given)
            elif format == "csv":
                _join_tables(run(write_table, stage="write", jobs=jobs), staging, manifest)
            else:
                _write_parquet(run, staging, manifest, jobs)
            readme = _readme(format, manifest, notices, raw_cells=raw_cells)
            files = _describe(format, staging, manifest, readme, wanted)
        opened.publish()
    return Exported(
        output=target,
        format=format,
        rows=manifest.records,
        files=len(files),
        bytes=sum(files.values()),
        text_bytes=sum(task.text_bytes for task in tasks),
        seconds=perf_counter() - started,
        notices=notices,
    )


def _check_options(form: str, output: str, *, raw_cells: bool, has_details: bool) -> None:
    check_choice("format", form, FORMATS)
    if raw_cells and form == "parquet":
        raise UsageError("raw cells are an option of csv and matrix: Parquet has all text as it is")
    if form == "parquet":
        need("Parquet", "pyarrow")
    if has_details and form != "pairs":
        raise UsageError("details are an option of pairs")
    check_local(output, "tables")


def _join_tables(paths: Iterable[str], staging: Path, manifest: Manifest) -> None:
    """Join the rows of all parts below a header."""
    with (staging / "records.csv").open("wb") as table:
        table.write(",".join(table_columns(CORPUS_LABELS[manifest.schema])).encode() + b"\n")
        for path in paths:
            with open(path, "rb") as rows:
                shutil.copyfileobj(rows, table, 1 << 20)


def _write_parquet(
    run: Callable[..., Iterable[None]], staging: Path, manifest: Manifest, jobs: int
) -> None:
    if not list(run(_write_part, stage="write", jobs=jobs)):  # no part has records
        from fastrec.commands.export.parquet import open_writer  # noqa: PLC0415 - starts threads

        path = staging / "data" / "part-00000.parquet"
        open_writer(str(path), CORPUS_LABELS[manifest.schema]).close()


def _write_part(task: ExportTask) -> None:
    """Write Parquet with pyarrow, which only workers import."""
    from fastrec.commands.export.parquet import write_parquet  # noqa: PLC0415

    write_parquet(task)


def _check_secrets(groups: Iterable[FindingGroups], details: Details) -> None:
    """SecretsError if records or details have what looks like a credential."""
    secrets = [
        f"{finding.path} {finding.message} (details)"
        for finding in secrets_in(to_builtins(details))
    ]
    secrets += list_secrets(groups)
    if secrets:
        raise SecretsError("\n  ".join(secrets))


_decode_marker = view_decoder(fastrec=str, format=str, files=dict[str, int])


def _listed_files(document: bytes) -> set[str]:
    """The files of an export by its `export.json`; none if that is of something else."""
    try:
        return {"README.md", *_decode_marker(document).files}
    except REFUSALS:
        return set()


def _make_tasks(
    form: str,
    opened: LocalOutput,
    corpus: CorpusReader,
    selection: Selection | None,
    *,
    raw_cells: bool,
) -> Iterator[ExportTask]:
    """Make a task for each part that has selected records, with a file for its rows."""
    folder = Path(opened.work) if form == "csv" else opened.staging / "data"
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
                chosen,
                output=str(folder / f"part-{next(files):05d}.{form}"),
                label=corpus.manifest.schema,
                raw_cells=raw_cells,
                records=records,
                text_bytes=text_bytes,
            )


def _describe(
    form: str, staging: Path, manifest: Manifest, readme: str, filters: Filters
) -> dict[str, int]:
    """Write the README and `export.json`, sync all files, and return the sizes of the tables."""
    files = {
        str(path.relative_to(staging)): path.stat().st_size for path in sorted(staging.rglob("*.*"))
    }
    about = {
        "fastrec": __version__,
        "format": form,
        "records": manifest.records,
        "text_xxh3_128": manifest.text_xxh3_128,
        "files": files,
    }
    if filters:
        given = asdict(filters)
        about["filters"] = {name: value for name, value in given.items() if value}
    (staging / "README.md").write_text(readme, encoding="utf-8")
    (staging / _MARKER).write_bytes(indented_json(about))
    for path in filter(Path.is_file, staging.rglob("*")):
        LOCAL.sync(str(path))
    return files
