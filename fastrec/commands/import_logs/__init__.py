"""`import`: turn logs of evaluation harnesses into shards of records, one shard per log.

    find ──▶ plan each log ──▶ convert its slices to work files ──▶ write its shard ──▶ compare with its aggregates

Slices of all logs are converted in parallel. A log with damage anywhere has no shard. `import.json` accounts for each
log: its samples, records, what was left out and why, and whether the records reproduce the figures that the log states.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from fastrec._version import __version__
from fastrec.arguments import Strings, several
from fastrec.commands.import_logs.discover import find_logs
from fastrec.commands.import_logs.document import BadLog, Comparison, Import, ImportedLog
from fastrec.commands.import_logs.output import open_output
from fastrec.commands.import_logs.pipeline import Pipeline
from fastrec.engine import check_jobs, is_small, make_engine
from fastrec.errors import UsageError, listed
from fastrec.harnesses.registry import HARNESS_NAMES
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress
from fastrec.storage import without_file_protocol

__all__ = ["BadLog", "Comparison", "Import", "ImportedLog", "import_logs"]

_MOST_METRICS: Final = 30


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
        from_: The harness whose logs are imported; `auto` recognises it by the content of each file.
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
    found = find_logs([os.fspath(path) for path in names], from_)
    result = Import(fastrec=__version__, bad_logs=list(found.bad), other_files=found.others)
    size = sum(log.size for log in found.logs)
    # How many slices there will be is not known yet: archives have ten times their size in text.
    processes = 1 if is_small(size, limits) else jobs
    with open_output(directory, limits) as made:
        with make_engine(processes) as engine:
            Pipeline(engine, made, patterns, progress or Progress()).run(found.logs, result)
        result.bad_logs.sort(key=lambda bad: bad.path)
        _check_patterns(patterns, result)
        if result.logs:  # otherwise an earlier import stays as it is
            made.publish(result)
    return result


def _check_patterns(patterns: tuple[str, ...], result: Import) -> None:
    """Refuse patterns that no metric matches."""
    if patterns and result.logs and not any(log.records for log in result.logs):
        known = sorted({name for log in result.logs for name in log.metrics_left_out})
        named = ", ".join(repr(pattern) for pattern in patterns)
        raise UsageError(f"no metric matches {named}; the logs have {listed(known, _MOST_METRICS)}")
