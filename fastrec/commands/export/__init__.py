"""`export`: a corpus as tables, for those who do not read JSON lines.

1. Check what was asked, where the tables are to go, and that what they need is installed.
2. One task per part (`parquet`, `table`, `matrix`) writes a file.
3. Put together what is one table (CSV, matrix); write a README (`card`), and `export.json`: what it is made of.
4. Publish by one rename.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from fastrec._version import __version__
from fastrec.commands.export.card import card
from fastrec.commands.export.matrix import write_answers, write_matrix
from fastrec.commands.export.part import PartToExport
from fastrec.commands.export.table import COLUMNS, write_table
from fastrec.corpus.documents import part_paths, read_manifest
from fastrec.corpus.manifest import Manifest
from fastrec.corpus.publish import Kind, Workplace, check_output, workplace
from fastrec.engine import make_engine
from fastrec.engine.jobs import jobs_for
from fastrec.errors import UsageError, shown
from fastrec.storage.paths import is_url

__all__ = ["FORMATS", "Exported", "export"]

FORMATS: Final = ("parquet", "csv", "matrix")
_TOLD_BY: Final = "export.json"


class Exported(msgspec.Struct, kw_only=True):
    """What an export did."""

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
) -> Exported:
    """Write a corpus as tables.

    Args:
        corpus: The directory that `normalize` published.
        output: The directory to publish; it must not exist, unless `overwrite` is given and it is an export.
        format: `parquet`, `csv` or `matrix`.
        jobs: Processes to use; a small corpus is exported in this one anyway.
        overwrite: Whether an export that is there may be replaced.

    Raises:
        UsageError: The directory is no corpus, another argument makes no sense, or a package that the format needs is
            not installed; nothing was done.
        CorpusError: The corpus holds what fastrec does not write; nothing was published.
        ShardError: A part could not be read whole; nothing was published.
    """
    started = time.perf_counter()
    _check(format, jobs)
    directory, target = os.fspath(corpus), os.fspath(output)
    if is_url(target):
        raise UsageError(f"tables are written to a directory of this machine, not to {shown(target)}: copy them there")
    manifest = read_manifest(directory)
    paths = part_paths(directory, manifest)
    check_output(target, [directory])
    text_bytes = sum(part.text_bytes for part in manifest.parts)
    with (
        workplace(target, Kind("an export", _TOLD_BY), overwrite=overwrite, fresh=True) as place,
        place.cleared_on_failure(),
        make_engine(jobs_for(text_bytes, len(paths), jobs)) as engine,
    ):
        task, folder, suffix = _plan(format, place)
        folder.mkdir(exist_ok=True)
        orders = [
            PartToExport(path, entry.text_bytes, entry.records, str(folder / f"part-{number:05d}{suffix}"))
            for number, (path, entry) in enumerate(zip(paths, manifest.parts, strict=True))
        ]
        rows = sum(count for _, count in engine.run(task, orders))
        notices = _finish(format, place, [order.into for order in orders])
        files = _describe(format, place.staging, manifest, notices)
        place.publish()
    return Exported(
        output=os.fspath(output),
        format=format,
        rows=rows,
        files=len(files),
        bytes=sum(files.values()),
        text_bytes=manifest.text_bytes,
        seconds=time.perf_counter() - started,
        notices=notices,
    )


def _check(form: str, jobs: int) -> None:
    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}; the formats are {', '.join(FORMATS)}")
    if jobs < 1:
        raise UsageError(f"there must be at least one job, not {jobs}")
    # Looked for, not imported: it starts threads, and beside them no worker could be forked.
    if form == "parquet" and find_spec("pyarrow") is None:
        raise UsageError("Parquet needs pyarrow, which is not installed: pip install 'fastrec[parquet]'")


def _plan(form: str, place: Workplace) -> tuple[Callable[[PartToExport], int], Path, str]:
    """Give the task, the directory that its files go to, and what their names end with."""
    if form == "parquet":
        return _write_parquet, place.staging / "data", ".parquet"
    work = Path(place.work)
    return (write_table, work, ".csv") if form == "csv" else (write_answers, work, ".jsonl")


def _write_parquet(part: PartToExport) -> int:
    """Write Parquet, with a package that only workers import."""
    count: int = import_module("fastrec.commands.export.parquet").write_parquet(part)
    return count


def _finish(form: str, place: Workplace, files: Sequence[str]) -> list[str]:
    """Make what is one table of the files of the parts; what is good to know about it."""
    if form == "csv":
        with (place.staging / "records.csv").open("wb") as table:
            table.write(",".join(COLUMNS).encode() + b"\n")
            for path in files:
                with open(path, "rb") as file:  # noqa: PTH123
                    shutil.copyfileobj(file, table, 1 << 20)
    elif form == "matrix":
        matrix = write_matrix(files, Path(place.work), place.staging)
        if matrix.repeated:
            return [f"{matrix.repeated:,} answers are left out: of several of a model to a sample the first counts"]
    elif not files:
        import_module("fastrec.commands.export.parquet").write_empty(str(place.staging / "data" / "part-00000.parquet"))
    return []


def _describe(form: str, staging: Path, manifest: Manifest, notices: list[str]) -> dict[str, int]:
    """Write the README and `export.json`, flush all to the disk, and give the tables with their sizes."""
    files = {str(path.relative_to(staging)): path.stat().st_size for path in sorted(staging.rglob("*.*"))}
    about = {
        "fastrec": __version__,
        "format": form,
        "records": manifest.records,
        "text_sha256": manifest.text_sha256,
        "files": files,
    }
    (staging / "README.md").write_text(card(form, manifest, notices), encoding="utf-8")
    (staging / _TOLD_BY).write_bytes(msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")
    for path in filter(Path.is_file, staging.rglob("*")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return files
