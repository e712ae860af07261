"""Pair files of samples with the results of their run, and find the task of each.

The names tell it, if they are still those that lm-eval gave:

    samples_<task>_<date>.jsonl     results_<date>.json      since May 2024
    samples_<task>_<date>.jsonl     <any name>_<date>.json   --output_path with a file name
    <model arguments>_<task>.jsonl  results.json             until then

Tasks have underscores of their own, and the name of one may begin or end like that of another. So a name counts only
with a task that the results have, and the longest one wins. If names do not tell it, the content does: the hash over
all samples that the results state, or else that there is only one task, with the same metrics.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from fastrec.errors import LogError, shown
from fastrec.harnesses.lm_eval.json_text import decoder_of
from fastrec.harnesses.lm_eval.lines import rows_in
from fastrec.harnesses.lm_eval.results import Results, metric_keys, read_results
from fastrec.harnesses.lm_eval.roles import RESULTS, SAMPLES
from fastrec.harnesses.log import BadLog, FoundFile, Grouped, Log

__all__ = ["NAME", "date_in", "logs_of", "task_hash"]

NAME: Final = "lm-eval"

_SUFFIX: Final = re.compile(r"(?:\.(?:jsonl|ndjson|json|zst|zstd|gz|gzip|bz2|xz))+$", re.IGNORECASE)
_DATE: Final = re.compile(r"_?(\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?)$")
_ODD: Final = re.compile(r"\W")

_NO_RESULTS: Final = (
    "there is no results file of the same run beside it, so that the model and the date are unknown: "
    "put results_<date>.json into its directory, and import the directory"
)
_NO_TASK: Final = (
    "no results file beside it has its task: neither its name nor its content tells to which run it belongs"
)
_NO_SAMPLES: Final = "it has only aggregates, and there are no samples: run lm_eval with --log_samples"


class _Run(msgspec.Struct):
    """A results file of a directory."""

    file: FoundFile
    results: Results
    date: str


class _Hashes(msgspec.Struct):
    doc_hash: str = ""
    prompt_hash: str = ""
    target_hash: str = ""


_decode_hashes: Final = decoder_of(_Hashes)
_decode_keys: Final = decoder_of(dict[str, msgspec.Raw])


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    """Group samples and results into logs: one for each file of samples."""
    found = Grouped()
    runs: defaultdict[str, list[_Run]] = defaultdict(list)
    broken: dict[str, str] = {}
    for file in files:
        if file.role == RESULTS:
            directory, _ = _split(file.path)
            try:
                runs[directory].append(_Run(file, read_results(file.path), date_in(file.path)))
            except LogError as exc:
                found.bad.append(BadLog(file.path, exc.reason))
                broken[directory] = file.path
    used: dict[tuple[str, str], str] = {}
    for file in files:
        if file.role == SAMPLES:
            directory, _ = _split(file.path)
            beside = runs.get(directory)
            problem = _add(file, beside or _of_same_date(file, runs), used, found)
            if problem and directory in broken:
                problem = f"the results file beside it cannot be read: {shown(broken[directory])}"
            if problem:
                found.bad.append(BadLog(file.path, problem))
    idle = [
        run.file.path for some in runs.values() for run in some if not any(run.file.path == path for path, _ in used)
    ]
    if found.logs or broken:
        found.others += len(idle)
    else:
        found.bad += [BadLog(path, _NO_SAMPLES) for path in idle]
    return found


def _of_same_date(file: FoundFile, runs: Mapping[str, Sequence[_Run]]) -> list[_Run]:
    """Return the results of the same microsecond in another directory: the Hub has results in their own repository."""
    date = date_in(file.path)
    same = [run for some in runs.values() for run in some if run.date == date and "." in date]
    return same if len(same) == 1 else []


def _add(file: FoundFile, runs: Sequence[_Run], used: dict[tuple[str, str], str], found: Grouped) -> str:
    """Add the log of a file of samples; return why it has none, if so."""
    if not runs:
        return _NO_RESULTS
    try:
        pair = _by_name(file.path, runs) or _by_content(file.path, runs)
    except LogError as exc:
        return exc.reason
    except ValueError as exc:
        return f"a sample is damaged: {exc}"
    if pair is None:
        return _NO_TASK
    run, task = pair
    first = used.setdefault((run.file.path, task), file.path)
    if first != file.path:
        return f"it has the samples of {task} of the same run as {shown(first)}"
    found.logs.append(Log(NAME, file.path, (file, run.file), task))
    return ""


def _by_name(path: str, runs: Sequence[_Run]) -> tuple[_Run, str] | None:
    """Return the run and the task that a file name tells, if it tells exactly one."""
    date = date_in(path)
    same_date = [run for run in runs if run.date == date]
    if date and not same_date:
        return None
    fitting = [(run, task) for run in same_date or runs if (task := _task_in(path, run.results.tasks))]
    longest = max((len(task) for _, task in fitting), default=0)
    fitting = [(run, task) for run, task in fitting if len(task) == longest]
    return fitting[0] if len(fitting) == 1 else None


def _task_in(path: str, tasks: Sequence[str]) -> str:
    """Return the task that a file name ends with; empty if there is none."""
    name = _ODD.sub("_", _DATE.sub("", _stem(path)))
    plain = {_ODD.sub("_", task): task for task in tasks}
    if name.startswith("samples_"):
        return plain.get(name.removeprefix("samples_"), "")
    return max((task for end, task in plain.items() if f"_{name}".endswith(f"_{end}")), key=len, default="")


def _by_content(path: str, runs: Sequence[_Run]) -> tuple[_Run, str] | None:
    """Return the run whose results state the hash of these samples; or the only task that there is."""
    stated = {text: (run, task) for run in runs for task, text in _hashes_of(run.results).items()}
    if stated and (pair := stated.get(task_hash(path))):
        return pair
    date = date_in(path)
    possible = [run for run in runs if not (date and run.date and run.date != date)]
    only = [(run, task) for run in possible for task in run.results.tasks]
    if len(only) != 1 or _hashes_of(only[0][0].results):
        return None
    run, task = only[0]
    metrics = {metric for metric, _ in metric_keys(run.results.figures(task))}
    keys = next((set(_decode_keys(line)) for line in rows_in(path)), set())
    return only[0] if metrics & keys else None


def _hashes_of(results: Results) -> Mapping[str, str]:
    stated = results.task_hashes if isinstance(results.task_hashes, dict) else {}
    return {task: text for task, text in stated.items() if isinstance(text, str)}


def task_hash(path: str) -> str:
    """Compute the hash over all samples of a file that lm-eval calls `task_hashes`; ValueError if one is damaged."""
    digest = sha256()
    for line in rows_in(path):
        row = _decode_hashes(line)
        digest.update(f"{row.doc_hash}{row.prompt_hash}{row.target_hash}".encode())
    return digest.hexdigest()


def date_in(path: str) -> str:
    """Return the date at the end of a file name, with colons; empty if there is none.

    >>> date_in("out/samples_mmlu_pro_2024-11-28T01-02-03.456789.jsonl.zst")
    '2024-11-28T01:02:03.456789'
    """
    found = _DATE.search(_stem(path))
    if not found:
        return ""
    day, _, time = found[1].partition("T")
    return f"{day}T{time.replace('-', ':')}"


def _stem(path: str) -> str:
    return _SUFFIX.sub("", _split(path)[1])


def _split(path: str) -> tuple[str, str]:
    """Split a path or URL into directory and name."""
    directory, _, name = path.rpartition("/")
    return directory, name
