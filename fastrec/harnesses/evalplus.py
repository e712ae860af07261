"""Results of EvalPlus and BigCodeBench: code that models wrote, and whether it passes tests.

    EvalPlus        *_eval_results.json with the status of base and plus tests, and pass@K
    BigCodeBench    *_eval_results.json with one status, and pass@K in *_pass_at_k.json beside it

The metric `plus` is 1 if base and plus tests pass, as EvalPlus counts it. The files do not have the
prompts, so the id of a task is its question. The name of the file has the model.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from fastrec.errors import LogError
from fastrec.harnesses.files import read_object
from fastrec.harnesses.log import (
    Files,
    Grouped,
    Log,
    LogPlan,
    Reading,
    RunInfo,
    Sample,
    by_role,
    pass_at_k,
)
from fastrec.harnesses.transcripts import trial_of
from fastrec.harnesses.values import Fields, as_list, as_object, spelled
from fastrec.storage import base_name, parent_and_name

_RESULTS = r"[._]?eval_results\.json(?:\.\w+)?$"
_STATED = r"[._]?pass_at_k\.json(?:\.\w+)?$"
# What the harnesses add to the name of the model. BigCodeBench adds its revision, too, since 0.2.
_SETTINGS = r"(?:_[a-z]+)?_temp_[\d.]+.*$|--main$|(?:--main)?--bigcodebench-.*$"
_VARIANT = r"--(bigcodebench-[a-z-]+?)--"  # such as bigcodebench-hard-instruct
_STATUSES = ("base_status", "plus_status", "status")
_FIELDS = ("base_fail_tests", "plus_fail_tests", "details")
_PASS = ("pass", "success")  # EvalPlus 0.1 wrote `success`

_document = partial(read_object, what="result of EvalPlus or BigCodeBench")


def logs_of(files: Files) -> Grouped:
    roles = by_role(files)
    stated = {re.sub(_STATED, "", file.path): (file,) for file in roles["pass_at_k"]}
    return Grouped(
        [
            Log("evalplus", file.path, (file, *stated.get(re.sub(_RESULTS, "", file.path), ())))
            for file in roles["results"]
        ]
    )


def read(log: Log) -> Reading:
    document = _document(log.path)
    attempts = {task: _attempts(results) for task, results in document.object("eval").items()}
    beside = _document(log.paths.get("pass_at_k"))
    task_id = next(iter(attempts), "")
    if not task_id:
        raise LogError(log.path, "has no results of tasks (eval)")
    directory, name = parent_and_name(log.path)
    stem = re.sub(_RESULTS, "", name) or base_name(directory)
    model = re.sub(_SETTINGS, "", beside.text("model") or stem)
    variant = re.search(_VARIANT, stem)
    benchmark = task_id.partition("/")[0] if "/" in task_id else "bigcodebench"
    figures = pass_at_k("pass", beside)
    for metric, stated in document.object("pass_at_k").items():
        figures += pass_at_k(metric, stated, f"{metric} ")
    return LogPlan(
        run=RunInfo(
            task=variant[1] if variant else benchmark.lower(),
            model=model.replace("--", "/"),
            started=document.text("date", "hash"),
            metadata={"samples_file": stem},
        ),
        aggregates=figures,
    ), _samples(attempts)


def _attempts(results: Any) -> list[Fields]:
    """The attempts at a task, in the form of today."""
    if isinstance(results, dict):  # EvalPlus 0.1
        statuses = zip_longest(as_list(results.get("base")), as_list(results.get("plus")))
        results = [
            {"base_status": _first(base), "plus_status": _first(plus)} for base, plus in statuses
        ]
    return [as_object(result) for result in as_list(results)]


def _first(result: Any) -> Any:
    return next(iter(as_list(result)), None)


def _samples(attempts_by_task: Mapping[str, Sequence[Fields]]) -> Iterator[Sample]:
    for task_id, attempts in attempts_by_task.items():
        for number, attempt in enumerate(attempts):
            yield trial_of(
                task_id,
                number,
                _verdicts(attempt),
                said=attempt.texts("solution"),
                metadata=spelled({name: attempt[name] for name in _STATUSES}),
                fields={name: attempt[name] for name in _FIELDS},
            )


def _verdicts(attempt: Fields) -> dict[str, bool | None]:
    """Whether tests pass; None if they did not run."""
    base, plus, only = (
        None if attempt[name] is None else attempt[name] in _PASS for name in _STATUSES
    )
    if "status" in attempt:
        return {"pass": only}
    if plus is None:
        return {"base": base}
    return {"plus": bool(base) and plus, "base": base}
