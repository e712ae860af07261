"""`import.json`, the account of an import, and the output directory.

The account and the shards appear when all logs are done.

On this machine, shards are written into a hidden directory inside it and renamed at the end. In an
object store, where renaming is copying, they are written under their names: each appears when it is
complete.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
from msgspec import Struct

from fastrec.corpus.lock import locked
from fastrec.errors import UsageError, shown
from fastrec.harnesses.log import BadLog
from fastrec.harnesses.registry import KNOWN
from fastrec.harnesses.values import OptionalNumber, Texts
from fastrec.json_documents import CountsByName, indented_json
from fastrec.notebook import Tabular
from fastrec.schemas.view import REFUSALS
from fastrec.storage import base_name, is_url, join, storage_of

_IMPORT_FILE = "import.json"


class MetricAccount(Struct):
    """The records of one metric."""

    #: Its records.
    records: int
    #: Those whose score is a number. Others have an `error`.
    scored: int
    #: The mean of these scores.
    mean: OptionalNumber
    #: Whether the metric is graded (docs/import.md#scores).
    graded: bool


class Comparison(Struct):
    """A figure that a log states, and the same figure computed from its records."""

    #: What the log calls it.
    name: str
    #: The `evaluation_result_id`; empty if it is a number of samples.
    metric: str
    #: What the log says.
    stated: float
    #: What the records give.
    recomputed: OptionalNumber
    #: Whether both are equal but for rounding.
    agrees: bool


class ImportedLog(Struct, kw_only=True):
    """One log and its shard."""

    #: Its path.
    log: str
    #: The harness.
    harness: str
    #: Its shard in the output directory.
    file: str
    evaluation_id: str
    #: Empty, like `model_id`, if a column of a table has it.
    evaluation_name: str
    model_id: str
    #: If the log says it.
    harness_version: str
    #: Number of samples.
    samples: int
    #: One per sample and metric.
    records: int
    #: Records with an `error`, such as a score that is no number.
    errors: int
    #: By `evaluation_result_id`.
    metrics: dict[str, MetricAccount]
    #: Samples without a record, by reason.
    left_out: CountsByName
    #: Scores by metric that no `--metric` matches.
    metrics_left_out: CountsByName
    #: Names of metadata that samples and scores have, chosen or not.
    metadata: list[str] = []
    #: Fields that records lack, also in part: values by reason.
    fields_left_out: dict[str, CountsByName] = {}
    #: Means and numbers of samples that the log states.
    comparisons: list[Comparison]
    #: Figures that cannot be recomputed, with the reason.
    not_compared: Texts
    #: Remarks, such as that the run did not finish.
    notes: list[str]

    @property
    def disagreements(self) -> list[Comparison]:
        return [comparison for comparison in self.comparisons if not comparison.agrees]


class Import(Tabular, kw_only=True):
    """The account of an import."""

    #: Version of this document's format.
    format: int = 1
    #: Version of fastrec.
    fastrec: str
    #: In the order of the input.
    logs: list[ImportedLog] = []
    #: Logs that could not be imported.
    bad_logs: list[BadLog] = []
    #: Logs with the same content as another, imported one.
    same_logs: Texts = {}
    #: Files that are not needed or belong to no harness.
    other_files: int = 0
    #: Names of these files, by kind.
    skipped_files: dict[str, list[str]] = {}


_WORK = ".import-"
_SHARD = re.compile(rf"(?:{'|'.join(KNOWN)})-[0-9a-f]{{16}}\.jsonl\.zst")
_OWN = rf"{re.escape(_WORK)}.*|{_SHARD.pattern}"  # of an import that was killed


@contextmanager
def open_output(directory: str) -> Iterator[ImportOutput]:
    """Open an output directory: a new or empty one, or that of an earlier import.

    Raises:
        UsageError: The directory has other files.
        LockedError: Another import writes there.
    """
    _check(directory)
    if is_url(directory):
        with TemporaryDirectory(prefix="fastrec-") as work:
            yield ImportOutput(directory, work)
        return
    path = Path(directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.absolute()):
        path.mkdir(exist_ok=True)
        for left in path.glob(f"{_WORK}*"):  # of an import that was killed
            shutil.rmtree(left, ignore_errors=True)
        try:
            with TemporaryDirectory(
                prefix=_WORK, dir=directory, ignore_cleanup_errors=True
            ) as work:
                yield ImportOutput(directory, work)
        finally:
            with suppress(OSError):  # not empty: something was published
                path.rmdir()


def _check(directory: str) -> None:
    """Refuse a directory that no import has written."""
    storage = storage_of(directory)
    if not storage.exists(directory):
        return
    if not storage.is_directory(directory):
        raise UsageError(f"{shown(directory)} is a file: name a directory")
    account = join(directory, _IMPORT_FILE)
    if storage.exists(account):
        try:
            msgspec.json.decode(storage.read_all(account), type=Import)
        except REFUSALS as exc:
            raise UsageError(
                f"{shown(account)} is not the account of an import: name a new directory"
            ) from exc
    elif any(not re.fullmatch(_OWN, base_name(path)) for path in storage.files_in(directory)):
        raise UsageError(
            f"{shown(directory)} has files that no import has written: name a new directory"
        )


class ImportOutput(NamedTuple):
    directory: str
    work: str  # a local directory

    @property
    def shards(self) -> str:
        """Where shards are written."""
        return self.directory if is_url(self.directory) else self.work

    def publish(self, result: Import) -> None:
        """Make the shards and the account visible; remove shards of an earlier import."""
        directory = self.directory
        storage = storage_of(directory)
        names = {log.file for log in result.logs}
        storage.write_all(join(self.shards, _IMPORT_FILE), indented_json(result))
        if not is_url(directory):
            for name in [*sorted(names), _IMPORT_FILE]:
                os.replace(join(self.work, name), join(directory, name))
        for path in storage.files_in(directory):
            name = base_name(path)
            if _SHARD.fullmatch(name) and name not in names:
                storage.remove(join(directory, name))
