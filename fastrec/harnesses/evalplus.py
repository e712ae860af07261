"""Results of EvalPlus and BigCodeBench: code that models wrote, and whether it passes tests.

    EvalPlus        *_eval_results.json with the status of base and plus tests, and pass@K
    BigCodeBench    *_eval_results.json with one status, and pass@K in *_pass_at_k.json beside it

The metric `plus` is 1 if base and plus tests pass, as EvalPlus counts it. The files do not have the
prompts, so the id of a task is its question. The name of the file has the model.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from fastrec.errors import LogError
from fastrec.harnesses.files import read_object
from fastrec.harnesses.log import (
    FoundFile,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    Sample,
    pass_at_k,
)
from fastrec.harnesses.transcripts import trial_of
from fastrec.harnesses.values import JsonObject, as_list, as_object, spell, texts_of
from fastrec.schemas.newest import Output
from fastrec.storage import base_name, parent_and_name

METADATA = ("trial", "samples_file", "base_status", "plus_status", "status")

_START = re.compile(rb'\s*\{\s*"(?:date|hash|eval)"\s*:')
_FIRST_KEY = re.compile(rb'\s*\{\s*"pass@\d+"\s*:')
_RESULTS = re.compile(r"[._]?eval_results\.json(?:\.\w+)?$")
_PASS_AT_K = re.compile(r"[._]?pass_at_k\.json(?:\.\w+)?$")
# What the harnesses add to the name of the model.
_SETTINGS = re.compile(r"(?:_[a-z]+)?_temp_[\d.]+.*$|--bigcodebench-.*$")
_VARIANT = re.compile(r"--(bigcodebench-[a-z-]+?)--")  # such as bigcodebench-hard-instruct
_STATUSES = ("base_status", "plus_status", "status")
_PASS = ("pass", "success")  # EvalPlus 0.1 wrote `success`


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    if _FIRST_KEY.match(head):
        return "pass_at_k"
    has_status = b'"base_status"' in head or b'"nfiles"' in head or b'"status"' in head
    return "results" if _START.match(head) and b'"eval"' in head and has_status else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    stated = {_PASS_AT_K.sub("", file.path): file for file in files if file.role == "pass_at_k"}
    grouped = Grouped()
    for file in files:
        if file.role == "results":
            beside = stated.get(_RESULTS.sub("", file.path))
            needed = (file, beside) if beside else (file,)
            grouped.logs.append(Log("evalplus", file.path, needed))
    return grouped.with_others(files)


def _document(path: str) -> JsonObject:
    return read_object(path, "result of EvalPlus or BigCodeBench")


def _attempts(log: Log) -> dict[str, list[JsonObject]]:
    """The attempts at each task, in the form of today."""
    attempts = {}
    for task_id, results in as_object(_document(log.path).get("eval")).items():
        if isinstance(results, dict):  # EvalPlus 0.1
            statuses = zip_longest(as_list(results.get("base")), as_list(results.get("plus")))
            results = [
                {"base_status": _first(base), "plus_status": _first(plus)}
                for base, plus in statuses
            ]
        attempts[task_id] = [as_object(result) for result in as_list(results)]
    return attempts


def _first(result: Any) -> Any:
    return next(iter(as_list(result)), None)


def plan(log: Log) -> LogPlan:
    document = _document(log.path)
    beside = _document(log.files[1].path) if len(log.files) > 1 else {}
    task_id = next(iter(_attempts(log)), "")
    if not task_id:
        raise LogError(log.path, "has no results of tasks (eval)")
    directory, name = parent_and_name(log.path)
    stem = _RESULTS.sub("", name) or base_name(directory)
    model = spell(beside.get("model") or _SETTINGS.sub("", stem))
    variant = _VARIANT.search(stem)
    benchmark = task_id.partition("/")[0] if "/" in task_id else "bigcodebench"
    figures = pass_at_k("pass", beside)
    for metric, stated in as_object(document.get("pass_at_k")).items():
        figures += pass_at_k(metric, stated, f"{metric} ")
    return LogPlan(
        run=RunInfo(
            task=variant[1] if variant else benchmark.lower(),
            model=model.replace("--", "/"),
            started=spell(document.get("date") or document.get("hash") or ""),
            metadata={"samples_file": stem},
        ),
        aggregates=figures,
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    for task_id, attempts in _attempts(log).items():
        for number, attempt in enumerate(attempts):
            sample = trial_of(task_id, number, _verdicts(attempt))
            for name in _STATUSES:
                if attempt.get(name):
                    sample.metadata[name] = spell(attempt[name])
            sample.output = Output(raw=texts_of(attempt.get("solution")))
            sample.fields = {
                "base_fail_tests": attempt.get("base_fail_tests"),
                "plus_fail_tests": attempt.get("plus_fail_tests"),
                "details": attempt.get("details"),
            }
            yield sample


def _verdicts(attempt: Mapping[str, Any]) -> dict[str, bool | None]:
    """Whether tests pass; None if they did not run."""
    base, plus, only = (
        None if attempt.get(name) is None else attempt[name] in _PASS for name in _STATUSES
    )
    if "status" in attempt:
        return {"pass": only}
    if plus is None:
        return {"base": base}
    return {"plus": bool(base) and plus, "base": base}
