"""`import`: turn logs of evaluation harnesses into shards of records, one shard per log.

    find ──▶ plan each log ──▶ convert its slices to work files ──▶ write its shard ──▶ compare with its aggregates

Slices of all logs are converted in parallel. A log with damage anywhere has no shard. `import.json` accounts for each
log: its samples, records, what was left out and why, and whether the records reproduce the figures that the log states.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence

import msgspec

from fastrec._version import __version__
from fastrec.arguments import Strings, several
from fastrec.commands.import_logs.discover import find_logs
from fastrec.commands.import_logs.document import IMPORT_FILE, BadLog, Comparison, Import, ImportedLog
from fastrec.commands.import_logs.pipeline import Pipeline
from fastrec.engine import check_jobs, jobs_for, make_engine
from fastrec.errors import UsageError, shown
from fastrec.harnesses.registry import HARNESS_NAMES
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress
from fastrec.storage import is_url, join, storage_of, without_file_protocol

__all__ = ["BadLog", "Comparison", "Import", "ImportedLog", "import_logs"]


def import_logs(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    from_: str = "auto",
    metric: Strings = (),
    jobs: int = 1,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
) -> Import:
    """Import logs of harnesses.

    Args:
        paths: Logs, directories, globs or URLs.
        output: A directory for the shards. One of an earlier import is replaced.
        from_: The harness whose logs are imported; `auto` tells it by the content of each file.
        metric: Patterns of metrics; the scores of others are left out.
        jobs: Processes to use; small inputs are imported in this process.
        progress: Receives the progress.
        limits: Bounds of the work.

    Raises:
        UsageError: There are no logs, or another argument is wrong.
        OSError: A shard cannot be written.
    """
    check_jobs(jobs)
    if from_ not in ("auto", *HARNESS_NAMES):
        raise UsageError(f"from must be auto or one of {', '.join(HARNESS_NAMES)}, not {from_!r}")
    patterns = several("metric", metric)
    names = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    directory = without_file_protocol(os.fspath(output))
    earlier = _earlier_shards(directory)
    found = find_logs([os.fspath(path) for path in names], from_)
    result = Import(fastrec=__version__, bad_logs=list(found.bad), other_files=found.others)
    storage_of(directory).make_directory(directory)
    work = tempfile.mkdtemp(prefix=".import-", dir=None if is_url(directory) else directory)
    size = sum(log.size for log in found.logs)
    try:
        with make_engine(jobs_for(size, len(found.logs) + size // limits.task_bytes, jobs, limits)) as engine:
            Pipeline(engine, work, directory, patterns, progress or Progress()).run(found.logs, result)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    result.bad_logs.sort(key=lambda bad: bad.path)
    _publish(directory, result, earlier)
    return result


def _earlier_shards(directory: str) -> set[str]:
    """Return the shards of an earlier import; UsageError if the directory has other files."""
    storage = storage_of(directory)
    if not storage.exists(directory):
        return set()
    path = join(directory, IMPORT_FILE)
    if not storage.exists(path):
        if storage.is_directory(directory) and not storage.files_in(directory):
            return set()
        raise UsageError(f"{shown(directory)} exists, and no import has written it: name a new directory")
    try:
        earlier = msgspec.json.decode(storage.read_all(path), type=Import)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise UsageError(f"{shown(path)} is not the account of an import: name a new directory") from exc
    return {log.file for log in earlier.logs}


def _publish(directory: str, result: Import, earlier: set[str]) -> None:
    """Write the account, and remove shards of an earlier import that are not part of this one."""
    storage = storage_of(directory)
    data = msgspec.json.format(msgspec.json.encode(result), indent=2)
    storage.write_all(join(directory, IMPORT_FILE), data + b"\n")
    for name in sorted(earlier - {log.file for log in result.logs}):
        if os.path.basename(name) == name and storage.exists(join(directory, name)):  # noqa: PTH119 - may be a URL
            storage.remove(join(directory, name))
