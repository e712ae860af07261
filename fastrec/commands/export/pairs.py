"""Write a corpus as pairs of the public data store: an aggregate and a samples file per run.

    records ──▶ rows appended to the samples file of their run, scores collected ──▶ aggregates

1. Go through the corpus once. A run has an evaluation, a model and an `evaluation_id`; its rows are
   its records.
2. Build the aggregate of each run of what its records say, and of the details that the user gives.
3. Judge all aggregates as `check-pairs` does. What the data store would refuse, such as a missing
   field that no record has, is one error that lists all of it.
"""

from __future__ import annotations

import re
import time
import uuid
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from math import dist, fsum, sqrt
from pathlib import Path
from typing import Any

import msgspec
from msgspec import MsgspecError, Struct, ValidationError, convert, field

from fastrec.commands.export.table import ExportTask
from fastrec.errors import UsageError, counted, shown
from fastrec.filters import matches_any
from fastrec.json_documents import indented_json
from fastrec.judge.aggregate import (
    NOT_PORTABLE,
    RESERVED,
    judge_aggregate,
    model_folders,
)
from fastrec.judge.findings import PAIR_WARNINGS
from fastrec.schemas.newest import SCHEMA
from fastrec.schemas.schema import LABELS, JsonObject
from fastrec.schemas.view import encode_json, view, view_decoder
from fastrec.toml_file import read_toml

_SETTINGS = ("temperature", "top_p", "top_k", "max_tokens")
_HELD_BYTES = 32 << 20  # rows that wait to be appended
_MOST_PROBLEMS = 40
_LONGEST_NAME = 240  # bytes of the name of a folder
_LONGEST_SETTING = 200  # longer metadata of a run is no setting
_RESULT = re.compile(r"^evaluation_results\[(\d+)\]")
# Records of 0.3.0 with these are refused by readers of the data store.
_WRONG_LABELS = LABELS - SCHEMA.labels
# A day, perhaps with a time, or seconds since 1970.
_DATE = re.compile(r"(?:\d{4}-\d\d-\d\d[^/]*|\d{9,13}(?:\.\d+)?)(?![^/])")
_LINE_ENDS = re.compile("\x85|\u2028|\u2029".encode())  # for some readers of the data store


class Details(Struct, forbid_unknown_fields=True):
    """What no record says: fields of aggregates.

    Models, evaluations and metrics are named by patterns.
    """

    source_metadata: JsonObject = {}
    eval_library: JsonObject = {}  # for records that do not name their harness or its version
    # In seconds since 1970; the time of the export, if it is not given.
    retrieved_timestamp: str = ""
    models: dict[str, JsonObject] = {}  # fields of `model_info`
    # Fields of results, such as `source_data` and `generation_config`.
    evaluations: dict[str, JsonObject] = {}
    metrics: dict[str, JsonObject] = {}  # fields of `metric_config`


class _Scores(Struct):
    """The scores of one metric of a run: of rows without an error, and of the others."""

    answered: array[float] = field(default_factory=lambda: array("d"))
    failed: array[float] = field(default_factory=lambda: array("d"))
    has_correct: bool = False
    is_lower: bool = False  # whether metadata say that lower is better


class _Run:
    def __init__(self, line: Any, root: Path, details: Details) -> None:
        self.line = line
        ids = f"{line.evaluation_name}\0{line.model_id}\0{line.evaluation_id}"
        self.name = str(uuid.UUID(bytes=sha256(ids.encode()).digest()[:16], version=4))
        developer, slash, _ = line.model_id.partition("/")
        known = _given(
            name=line.model_id,
            id=line.model_id,
            developer=developer if slash else "",
            additional_details={"deployment_type": "unknown", "model_availability": "unknown"},
        )
        self.model_info = _deep(known, *_matching(details.models, line.model_id))
        folders = model_folders(line.model_id, self.model_info.get("developer"))
        self.folder = "/".join(("data", *map(_portable, (line.evaluation_name, *folders))))
        self.samples = root / self.folder / f"{self.name}_samples.jsonl"
        self.waiting: list[bytes] = []
        self.rows = 0
        self.checksum = sha256()
        self.metrics = defaultdict[str | None, _Scores](_Scores)
        self.constant = dict(line.metadata)  # metadata that all rows have in common

    def add(self, line: Any, text: bytes) -> None:
        scores = self.metrics[line.evaluation_result_id]
        (scores.failed if line.error else scores.answered).append(line.evaluation.score)
        scores.has_correct = scores.has_correct or line.evaluation.is_correct
        scores.is_lower = scores.is_lower or line.metadata.get("lower_is_better") == "true"
        if self.constant and line.metadata != self.constant:
            is_same = line.metadata.items().__contains__
            self.constant = dict(filter(is_same, self.constant.items()))
        self.waiting.append(text)
        self.rows += 1

    def flush(self) -> None:
        if not self.waiting:
            return
        text = b"".join(self.waiting)
        self.waiting = []
        self.checksum.update(text)
        self.samples.parent.mkdir(parents=True, exist_ok=True)
        with self.samples.open("ab") as file:
            file.write(text)

    def aggregate(self, details: Details, now: str) -> JsonObject:
        line = self.line
        known = dict(self.constant)
        library = {name: known.pop(key) for name, key in _LIBRARY if key in known}
        before = f"{line.evaluation_name}/{line.model_id}/"
        started = (
            line.evaluation_id.removeprefix(before) if line.evaluation_id.startswith(before) else ""
        )
        date = _DATE.match(started)  # an import has a hash where a log has no date
        started = date[0] if date else ""
        arguments = {
            name: number for name in _SETTINGS if (number := _number(known.get(name))) is not None
        }
        others = {
            name: value
            for name, value in known.items()
            if name not in (*arguments, "graded") and len(value) <= _LONGEST_SETTING
        }
        settings = _given(generation_args=arguments, additional_details=others)
        result = _given(generation_config=settings) | {
            "evaluation_name": line.evaluation_name,
            "source_data": {"dataset_name": line.evaluation_name, "source_type": "other"},
        }
        result = _deep(result, *_matching(details.evaluations, line.evaluation_name))
        return _given(evaluation_timestamp=started) | {
            "schema_version": SCHEMA.label,
            "evaluation_id": line.evaluation_id,
            "retrieved_timestamp": details.retrieved_timestamp or now,
            "source_metadata": {"source_type": "evaluation_run", **details.source_metadata},
            "eval_library": details.eval_library | library,
            "model_info": self.model_info,
            "evaluation_results": [
                result | _scored(metric, scores, details)
                for metric, scores in sorted(self.metrics.items(), key=lambda item: item[0] or "")
            ],
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": f"{self.folder}/{self.samples.name}",
                "hash_algorithm": "sha256",
                "checksum": self.checksum.hexdigest(),
                "total_rows": self.rows,
            },
        }


_LIBRARY = (("name", "harness"), ("version", "harness_version"))


def _scored(metric: str | None, scores: _Scores, details: Details) -> JsonObject:
    """A metric and its score: the mean of rows without an error, as `check-pairs` has it."""
    counted_scores = scores.answered or scores.failed
    size = len(counted_scores)
    mean = fsum(score / size for score in counted_scores)
    # Rounding leads out of the bounds of a metric.
    mean = min(max(mean, min(counted_scores)), max(counted_scores))
    spread: JsonObject = {"num_samples": size}
    if size > 1:
        deviation = dist(counted_scores, [mean] * size) / sqrt(size - 1)
        spread["standard_error"] = {"value": deviation / sqrt(size), "method": "analytic"}
        spread["standard_deviation"] = deviation
    is_binary = {0, 1}.issuperset([*scores.answered, *scores.failed])
    config: JsonObject = {"score_type": "binary"} if is_binary else {}
    if scores.is_lower or scores.has_correct:  # a score of 1 is correct: higher is better
        config["lower_is_better"] = scores.is_lower
    config |= _given(metric_id=metric, metric_name=metric)
    config = _deep(config, *_matching(details.metrics, metric or ""))
    # Without these, readers refuse the type.
    if not is_binary and {"min_score", "max_score"} <= config.keys():
        config.setdefault("score_type", "continuous")
    return ({} if metric is None else {"evaluation_result_id": metric}) | {
        "metric_config": config,
        "score_details": {"score": mean, "uncertainty": spread}
        | _given(details=_given(rows_with_error=str(len(scores.failed)) if scores.failed else "")),
    }


def read_details(path: str | None) -> Details:
    if path is None:
        return Details()
    try:
        return convert(read_toml(path, "the details"), Details)
    except ValidationError as exc:
        raise UsageError(f"{shown(path)}: {exc}") from exc


def write_pairs(tasks: Iterable[ExportTask], root: Path, details: Details) -> list[str]:
    """Write the pairs of all tasks below a directory; return notices for the user."""
    runs: dict[tuple[str, str, str], _Run] = {}
    relabelled = Counter[str]()
    decode = view_decoder(
        schema_version=str,
        evaluation_id=str,
        model_id=str,
        evaluation_name=str,
        evaluation=view(score=float, is_correct=bool),
        evaluation_result_id=(str | None, None),
        error=(str | None, None),
        metadata=(dict[str, str], {}),
    )
    held = 0
    for task in tasks:
        for rows, size in task.rows(lambda text: (decode(text), text)):
            for line, text in rows:
                key = line.evaluation_name, line.model_id, line.evaluation_id
                run = runs.get(key)
                if not run:
                    run = runs[key] = _Run(line, root, details)
                run.add(line, _row(line, text))
                if line.schema_version in _WRONG_LABELS:
                    relabelled[line.schema_version] += 1
            held += size
            if held >= _HELD_BYTES:
                for run in runs.values():
                    run.flush()
                held = 0
    now = str(int(time.time()))
    aggregates = {}
    for run in runs.values():
        run.flush()
        aggregates[run.samples.with_name(f"{run.name}.json")] = run.aggregate(details, now)
    notices = _check(aggregates.values())
    for path, document in aggregates.items():
        path.write_bytes(indented_json(document))
    if relabelled:
        labels = ", ".join(f"{label} ({count:,})" for label, count in sorted(relabelled.items()))
        changed = counted(relabelled.total(), "row")
        notice = f"{changed} with the schema_version of another version, {labels}"
        notices.append(f"{notice}: {SCHEMA.label} in the pairs")
    return notices


def _row(line: Any, text: bytes) -> bytes:
    """The row of a record: with the label of its version, and without line ends in texts."""
    if line.schema_version in _WRONG_LABELS:
        wrong, right = (
            b'"schema_version":"%s"' % label.encode()
            for label in (line.schema_version, SCHEMA.label)
        )
        text = text.replace(wrong, right, 1)  # it is the first field of the normal form
    return _LINE_ENDS.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), text) + b"\n"


def _check(documents: Iterable[JsonObject]) -> list[str]:
    """Judge all aggregates; UsageError with everything that is missing or wrong.

    Return a notice for what the data store would warn of.
    """
    problems = Counter[str]()
    warnings = Counter[str]()
    for document in documents:
        _, findings = judge_aggregate(encode_json(document))
        of_document = {
            f"{_named(finding.path, document)}: {finding.message}"
            for finding in findings
            if finding.severity == "error" and finding.code != "pair.secret"  # searched before
        }
        model = document["model_info"]
        if not model.get("developer"):
            of_document.add(f"model_info.{model['id']}.developer: needed for a folder")
        problems.update(of_document)
        warnings.update({finding.code for finding in findings} & set(PAIR_WARNINGS))
    if problems:
        lines = [
            f"  {problem} ({counted(count, 'run')})" for problem, count in sorted(problems.items())
        ]
        if (more := len(lines) - _MOST_PROBLEMS) > 0:
            lines[_MOST_PROBLEMS:] = [f"  and {more:,} more"]
        head = "the aggregates lack what no record says; give it in a file, --details details.toml:"
        tables = '[source_metadata], [eval_library], [metrics."NAME"] and [models."NAME"]'
        tail = f"Its tables are {tables}; docs/sharing.md has an example."
        raise UsageError("\n".join([head, *lines, tail]))
    codes = [f"{code} ({counted(count, 'run')})" for code, count in sorted(warnings.items())]
    return [f"the data store may warn of {', '.join(codes)}"] if codes else []


def _named(path: str, document: JsonObject) -> str:
    """Write the name of a metric into the JSON path of an aggregate."""

    def name(matched: re.Match[str]) -> str:
        result = document["evaluation_results"][int(matched[1])]
        metric = result.get("evaluation_result_id") or result["evaluation_name"]
        return f"evaluation_results.{metric}"

    return _RESULT.sub(name, path.removeprefix("$."))


def _matching(tables: Mapping[str, JsonObject], name: str) -> Iterable[JsonObject]:
    return (fields for pattern, fields in tables.items() if matches_any(name, [pattern]))


def _deep(*tables: JsonObject) -> JsonObject:
    """Merge objects.

    Later ones come first, and objects in them are merged, too, unless their `source_type` differs.
    """
    merged: JsonObject = {}
    for table in tables:
        for name, value in table.items():
            old = merged.get(name)
            if isinstance(old, dict) and isinstance(value, dict) and "source_type" not in value:
                value = _deep(old, value)
            merged[name] = value
    return merged


def _given(**fields: Any) -> JsonObject:
    return {name: value for name, value in fields.items() if value}


def _number(text: str | None) -> float | None:
    with suppress(MsgspecError):
        return msgspec.json.decode(text or "", type=int | float)
    return None


def _portable(name: str) -> str:
    """Return a name of a folder that every system allows."""
    name = NOT_PORTABLE.sub("_", name.encode()[:_LONGEST_NAME].decode(errors="ignore"))
    name = f"_{name[1:]}" if name.startswith(".") else name
    return RESERVED.sub(lambda match: f"{match[0]}_", name)
