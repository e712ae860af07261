"""Which results belong to which details: all files of a run have the same date in their names, and name the same tasks.

    results/<org>/<model>/results_<date>.json
    details/<org>/<model>/<date>/details_<task>|<shots>_<date>.parquet

Both trees can be elsewhere, and users rename files. So the date decides where both names have one; then the task, which
the footer of the details tells since 0.11; then which results are nearest in the tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from fastrec.errors import LogError
from fastrec.harnesses.lighteval.footer import read_footer
from fastrec.harnesses.lighteval.results import Results, date_of, read_results
from fastrec.harnesses.lighteval.roles import DETAILS, RESULTS
from fastrec.harnesses.log import BadLog, FoundFile, Grouped, Log

__all__ = ["NAME", "TASK_COLUMN", "logs_of", "named_task"]

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
        if file.role == RESULTS:
            try:
                runs.append(_Run(file=file, results=read_results(file.path), date=date_of(file.path)))
            except LogError as error:
                grouped.bad.append(BadLog(path=file.path, reason=error.reason))
    used = set()
    for file in files:
        if file.role == DETAILS:
            found = _find(file.path, runs)
            if isinstance(found, _Run):
                used.add(found.file.path)
                grouped.logs.append(Log(harness=NAME, path=file.path, files=(file, found.file)))
            else:
                grouped.bad.append(found)
        elif file.role != RESULTS:
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
