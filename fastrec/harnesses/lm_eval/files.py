"""The files of lm-eval: recognise and read samples and results, and pair them.

A file of samples has one object per line, or, until May 2024, all of them in one indented array.
Names tell which results belong to it, and its task, if they are still those that lm-eval gave:

    samples_<task>_<date>.jsonl     results_<date>.json      since May 2024
    samples_<task>_<date>.jsonl     <any name>_<date>.json   --output_path with a file name
    <model arguments>_<task>.jsonl  results.json             until then

Tasks have underscores of their own, and the name of one may begin or end like that of another. So a
name counts only with a task that the results have, and the longest one wins. If names do not tell
it, the content does: the hash over all samples that the results state, or else that there is only
one task, with the same metrics.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from operator import itemgetter
from typing import Any

from msgspec import Struct

from fastrec.errors import LogError, ShardError, shown
from fastrec.harnesses.files import open_plain, read_document
from fastrec.harnesses.json_array import JsonArray
from fastrec.harnesses.log import (
    BadLog,
    Files,
    FoundFile,
    Grouped,
    Log,
    Run,
    by_role,
    date_in,
    lists_by,
    runs_in,
)
from fastrec.harnesses.recognise import head_of
from fastrec.harnesses.values import (
    Fields,
    JsonObject,
    Texts,
    as_object,
    decode_object,
    decoder,
    spell,
)
from fastrec.sources.lines import Chunk, LongLine
from fastrec.sources.shard import Slice, shard_at
from fastrec.storage import base_name, parent_of

_CHUNK = 64 << 10  # text decoded at a time: its samples fit into the processor's cache
_LONGEST = 64 << 20  # bytes of a line: two jobs hold it several times


def is_array(path: str) -> bool:
    return head_of(path).lstrip()[:1] == b"["


def rows_in(path: str) -> Iterator[bytes]:
    return map(itemgetter(1), rows_of(Slice(shard_at(path))))


def rows_of(piece: Slice) -> Iterator[tuple[int, bytes]]:
    """The samples of a file, each with its number, or those of a piece, with their lines in it."""
    path = piece.shard.path
    if is_array(path):
        with open_plain(path) as reader:
            items = JsonArray(path, reader.read, None, max_held=_LONGEST).items()
            yield from enumerate((bytes(item) for _, _, item in items), start=1)
        return
    for chunk in piece.shard.read(
        piece.start, piece.end, chunk_bytes=_CHUNK, max_line_bytes=_LONGEST
    ):
        if isinstance(chunk, LongLine):
            place = place_of(piece, chunk.line)
            raise LogError(path, f"{place} is longer than {_LONGEST >> 20} MiB")
        for number, line in enumerate(chunk.data.split(b"\n"), start=chunk.line):
            if line.strip():
                yield number, line


def place_of(piece: Slice, number: int) -> str:
    """Where a sample is in its file."""
    if is_array(piece.shard.path):
        return f"item {number:,}"
    if piece.start:
        before = piece.shard.read(0, piece.start)
        number += sum(chunk.data.count(b"\n") for chunk in before if isinstance(chunk, Chunk))
    return f"line {number:,}"


# Arguments that name the model, in lm-eval's own order: an adapter is another model than its base.
_NAMES = ("peft", "delta", "pretrained", "model", "path", "engine")


class Results(Fields):
    """The `results_<date>.json` of a run."""

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks.

        Groups are among them only if the file does not tell them apart.
        """
        return list(self.object("configs") or map(_plain_name, self.object("results")))

    def figures(self, task: str) -> Fields:
        """The figures of a task or group, as `metric,filter`."""
        stated = self.object("results")
        # version 0.4.0 indented the names of tasks that belong to a group
        plain = {_plain_name(name): figures for name, figures in reversed(stated.items())}
        return as_object(stated.get(task) or plain.get(task))

    def of_task(self, name: str, task: str) -> Any:
        """What one of its tables says about a task."""
        return as_object(self[name]).get(task)

    @property
    def started(self) -> str:
        return "" if self["date"] in (None, "NaN") else spell(self["date"])


def _plain_name(name: str) -> str:
    return name.lstrip(" -")


def read_results(path: str) -> Results:
    return Results(
        read_document(path, decode_object, "is damaged, or not a results file of lm-eval")
    )


def model_of(results: Results) -> str:
    """The model of a run; empty if the file does not name one.

    >>> model_of(Results(config={"model": "hf", "model_args": "pretrained=org/m,dtype=float16"}))
    'org/m'
    """
    given = results["config.model_args"]
    if isinstance(given, str):
        given = dict(argument.strip().partition("=")[::2] for argument in given.split(","))
    names = [as_object(given).get(name) for name in _NAMES]
    names += [results[name] for name in ("model_name", "model_name_sanitized", "config.model")]
    return next((spell(name) for name in names if name), "")


def metric_keys(figures: JsonObject) -> list[tuple[str, str]]:
    """The metrics of a task, each with its filter, in the order of the file.

    >>> metric_keys({"alias": "t", "acc,none": 0.5, "acc_stderr,none": "N/A", "em,strict-match": 1})
    [('acc', 'none'), ('em', 'strict-match')]
    """
    pairs = [key.partition(",") for key in figures]
    return [
        (metric, name) for metric, comma, name in pairs if comma and not metric.endswith("_stderr")
    ]


# Pairing samples with the results of their run, and finding the task of each.

_SUFFIX = r"(?i)(?:\.(?:jsonl|ndjson|json|zst|zstd|gz|gzip|bz2|xz))+$"
_DATE = r"_?\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?$"
_ODD = r"\W"

_NO_RESULTS = (
    "there is no results file of the same run beside it, so that the model and the date are "
    "unknown: "
    "put results_<date>.json into its directory, and import the directory"
)


class _Hashes(Struct):
    doc_hash: str = ""
    prompt_hash: str = ""
    target_hash: str = ""


_decode_hashes = decoder(_Hashes)


def logs_of(files: Files) -> Grouped:
    grouped = Grouped()
    runs = lists_by(lambda run: parent_of(run.file.path), runs_in(files, read_results, grouped))
    broken = {parent_of(bad.path): bad.path for bad in grouped.bad}
    used: dict[tuple[str, str], str] = {}
    for file in by_role(files)["samples"]:
        directory = parent_of(file.path)
        problem = _add(file, runs.get(directory) or _of_same_date(file, runs), used, grouped)
        if problem and directory in broken:
            problem = f"the results file beside it cannot be read: {shown(broken[directory])}"
        if problem:
            grouped.bad.append(BadLog(file.path, problem))
    if not by_role(files)["samples"] and not broken:
        grouped.bad += [
            BadLog(
                run.file.path,
                "it has only aggregates, and there are no samples: run lm_eval with --log_samples",
            )
            for run in chain.from_iterable(runs.values())
        ]
    return grouped


def _of_same_date(file: FoundFile, runs: Mapping[str, Sequence[Run]]) -> list[Run]:
    """The results of the same microsecond in another directory, as on the Hub."""
    date = date_in(file.path)
    same = [run for there in runs.values() for run in there if run.date == date and "." in date]
    return same if len(same) == 1 else []


def _add(
    file: FoundFile, runs: Sequence[Run], used: dict[tuple[str, str], str], grouped: Grouped
) -> str:
    """Add the log of a file of samples; return why it has none, if so."""
    runs = [run for run in runs if _may_be_of(file.path, run.results)]
    if not runs:
        return _NO_RESULTS
    try:
        pair = _by_name(file.path, runs) or _by_content(file.path, runs)
    except (LogError, ShardError) as exc:
        return exc.reason
    except ValueError as exc:
        return f"a sample is damaged: {exc}"
    if pair is None:
        return (
            "no results file beside it has its task: neither its name nor its content tells to "
            "which run it belongs"
        )
    run, task = pair
    first = used.setdefault((run.file.path, task), file.path)
    if first != file.path:
        return f"it has the samples of {task} of the same run as {shown(first)}"
    grouped.logs.append(Log("lm-eval", file.path, (file, run.file), task))
    return ""


def _may_be_of(path: str, results: Results) -> bool:
    """Tell whether the arguments of the model that an old name begins with, if any, are those here.

    A further run in the same directory replaced its `results.json`.
    """
    given = results.text("config.model_args")
    key = re.escape(given.partition("=")[0])
    stem = re.sub(_SUFFIX, "", base_name(path))
    if not key or not re.match(f"{key}(?:__|=)", stem):
        return True
    return any(_plain(stem) == _plain(f"{given}_{task}") for task in results.tasks)


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name)


def _by_name(path: str, runs: Sequence[Run]) -> tuple[Run, str] | None:
    """The run and the task that a file name tells, if it tells exactly one."""
    date = date_in(path)
    same_date = [run for run in runs if run.date == date]
    if date and not same_date:
        return None
    fitting = [
        (run, task) for run in same_date or runs if (task := _task_in(path, run.results.tasks))
    ]
    longest = max((len(task) for _, task in fitting), default=0)
    fitting = [(run, task) for run, task in fitting if len(task) == longest]
    return fitting[0] if len(fitting) == 1 else None


def _task_in(path: str, tasks: Sequence[str]) -> str:
    stem = re.sub(_SUFFIX, "", base_name(path))
    name = re.sub(_ODD, "_", re.sub(_DATE, "", stem))
    plain = {re.sub(_ODD, "_", task): task for task in tasks}
    if name.startswith("samples_"):
        return plain.get(name.removeprefix("samples_"), "")
    return max(
        (task for end, task in plain.items() if f"_{name}".endswith(f"_{end}")), key=len, default=""
    )


def _by_content(path: str, runs: Sequence[Run]) -> tuple[Run, str] | None:
    """The run whose results state the hash of these samples; or the only task that there is."""
    date = date_in(path)
    possible = [run for run in runs if not (date and run.date and run.date != date)]
    # All runs of a task with the same prompts have the same hash.
    stated = [(run, *pair) for run in possible for pair in _hashes_of(run.results).items()]
    if stated:
        text = task_hash(path)
        same = [(run, task) for run, task, its_text in stated if its_text == text]
        return same[0] if len(same) == 1 else None
    only = [(run, task) for run in possible for task in run.results.tasks]
    if len(only) != 1:
        return None
    run, task = only[0]
    metrics = {metric for metric, _ in metric_keys(run.results.figures(task))}
    keys = next((set(decode_object(line)) for line in rows_in(path)), set())
    return only[0] if metrics & keys else None


def _hashes_of(results: Results) -> Texts:
    return {
        task: text for task, text in results.object("task_hashes").items() if isinstance(text, str)
    }


def task_hash(path: str) -> str:
    """Compute the hash over all samples of a file that lm-eval calls `task_hashes`.

    ValueError if one is damaged.
    """
    digest = sha256()
    for line in rows_in(path):
        row = _decode_hashes(line)
        digest.update(f"{row.doc_hash}{row.prompt_hash}{row.target_hash}".encode())
    return digest.hexdigest()
