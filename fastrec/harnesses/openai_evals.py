"""Logs of OpenAI evals: a file of JSON lines per run: its settings, events, and final report.

event       becomes
sampling    prompt and answers; of several, the first is the model's, others may be a grader's
match       the metric `match`: whether the answer is correct, with the expected answers
metrics     a metric for each number
error       the error of a sample without a score, for every metric of the run
any other   nothing; counted
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastrec.errors import LogError
from fastrec.harnesses.files import read_rows
from fastrec.harnesses.log import (
    Aggregate,
    FoundFile,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    Sample,
    Score,
    extracted,
    with_every_metric,
)
from fastrec.harnesses.prompts import prompt_of
from fastrec.harnesses.values import (
    JsonObject,
    as_list,
    as_object,
    number_of,
    spell,
    spelled,
    texts_of,
)
from fastrec.schemas.newest import Input, Output

METADATA = ("run_id", "split")

_SPEC = re.compile(rb'\s*\{\s*"spec"\s*:\s*\{')
_USED = ("sampling", "match", "metrics", "error")
_READ_OF_MATCH = ("correct", "expected", "picked", "sampled", "prompt")


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    is_log = _SPEC.match(head) and b'"eval_name"' in head and b'"run_id"' in head
    return "events" if is_log else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    return Grouped(logs=[Log("openai-evals", file.path, (file,)) for file in files])


def _rows(log: Log) -> list[JsonObject]:
    return read_rows(log.path, "an event of OpenAI evals")


def plan(log: Log) -> LogPlan:
    rows = _rows(log)
    specs = [row["spec"] for row in rows if isinstance(row.get("spec"), dict)]
    spec = specs[0] if specs else {}
    models = as_list(spec.get("completion_fns")) or as_list(spec.get("model_name"))
    if not models or not spec.get("eval_name"):
        raise LogError(log.path, "does not name the model and the eval")
    reports = [row["final_report"] for row in rows if "final_report" in row]
    means, not_compared = _figures(as_object(reports[0]) if reports else {}, rows)
    unfinished = ("the log has no final report: the run did not finish",)
    return LogPlan(
        run=RunInfo(
            task=spell(spec["eval_name"]),
            model=spell(models[0]),
            started=spell(spec.get("created_at") or spec.get("run_id") or ""),
            metadata=spelled({name: spec.get(name) for name in METADATA}),
        ),
        aggregates=means,
        not_compared=not_compared,
        notes=() if reports and reports[0] is not None else unfinished,
    )


def _figures(
    report: Mapping[str, Any], rows: list[JsonObject]
) -> tuple[list[Aggregate], dict[str, str]]:
    metrics = {score.metric for sample in _samples(rows) for score in sample.scores}
    means = []
    not_compared = {}
    for name, stated in report.items():
        metric = "match" if name == "accuracy" and name not in metrics else name
        value = number_of(stated)
        if metric in metrics and value is not None:
            means.append(Aggregate(metric, name, value))
        else:
            not_compared[name] = "no event of a sample has a number of this name"
    return means, not_compared


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    yield from with_every_metric(_samples(_rows(log)))


def _samples(rows: list[JsonObject]) -> Iterator[Sample]:
    events: dict[str, list[tuple[str, JsonObject]]] = {}
    for row in rows:
        if row.get("sample_id") is not None and isinstance(row.get("data"), dict):
            event = (spell(row.get("type")), row["data"])
            events.setdefault(spell(row["sample_id"]), []).append(event)
    for sample_id, its_events in events.items():
        yield _sample_of(sample_id, its_events)


def _sample_of(sample_id: str, events: list[tuple[str, JsonObject]]) -> Sample:
    first: dict[str, JsonObject] = {}
    for kind, data in events:
        first.setdefault(kind, data)
    match = first.get("match", {})
    sampling = first.get("sampling", {})
    raw, formatted = prompt_of(sampling.get("prompt", match.get("prompt")))
    scores = [Score(metric="match", value=number_of(match.get("correct")))] if match else []
    fields = {name: value for name, value in match.items() if name not in _READ_OF_MATCH}
    for kind, data in events:
        for name, value in data.items() if kind == "metrics" else ():
            number = number_of(value)
            if number is None:
                fields[name] = value
            else:
                scores.append(Score(metric=name, value=number))
    error = "" if sampling or match else "the log has no answer for this sample"
    failure = first.get("error")
    if failure and not scores:
        error = spell(failure.get("message") or failure.get("type"))
    picked = match.get("picked")
    further = sum(kind == "sampling" for kind, _ in events) - 1
    return Sample(
        sample_id=sample_id,
        input=Input(raw=raw, formatted=formatted, reference=texts_of(match.get("expected"))),
        output=Output(raw=texts_of(sampling.get("sampled", match.get("sampled")))),
        scores=scores,
        answers=[] if picked is None else [extracted(spell(picked), "match")],
        error=error,
        fields=fields,
        unread=[kind for kind, _ in events if kind not in _USED] + ["further sampling"] * further,
    )
