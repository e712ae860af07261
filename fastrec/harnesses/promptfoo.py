"""Results of promptfoo as JSON (`promptfoo eval -o results.json`): a log per provider and prompt.

    promptfoo                      record
    description of the config      evaluation_name; without one, `promptfoo`
    provider                       model_id; its label, if the provider has one, is metadata
    prompt                         input.raw as it was sent; of a chat as JSON, its last question
    score, named scores            metrics `score`, `pass` and `score:NAME`; failed calls have an
                                   error for each
    vars, metadata of the test     metadata

Assertions are not references: what they expect may be a rubric or a function.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from fastrec.harnesses.files import read_object
from fastrec.harnesses.log import (
    Aggregate,
    FoundFile,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    Sample,
    Score,
    logs_by_name,
    tokens_of,
    with_every_metric,
)
from fastrec.harnesses.prompts import prompt_of
from fastrec.harnesses.values import (
    JsonObject,
    as_list,
    as_object,
    number_of,
    objects_in,
    spell,
    spelled,
)
from fastrec.schemas.newest import Input, Output, Performance

METADATA = ("provider_label", "prompt_label", "eval_id")

_START = re.compile(rb'\s*\{\s*"(evalId|results|version)"\s*:')
_ERROR = 2  # `failureReason` of a call that failed; 1 is an assertion


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    start = _START.match(head)
    has_rows = all(key in head for key in (b'"promptIdx"', b'"testIdx"', b'"provider"'))
    return "results" if start and (start[1] == b"evalId" or has_rows) else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    return logs_by_name("promptfoo", files, lambda file: map(_name, _rows(_document(file.path))))


def _document(path: str) -> JsonObject:
    document = read_object(path, "result of promptfoo")
    # `evaluate()` returns the summary alone.
    return document if isinstance(document.get("results"), dict) else {"results": document}


def _rows(document: JsonObject) -> list[JsonObject]:
    return objects_in(document["results"], "results")


def _name(row: JsonObject) -> str:
    """The name of a log in its file: prompt and provider."""
    return f"{row.get('promptIdx')} {_model(row)}"


def _model(row: JsonObject) -> str:
    provider = row.get("provider")
    return spell(as_object(provider).get("id") or provider or "")


def plan(log: Log) -> LogPlan:
    document = _document(log.path)
    results = document["results"]
    row = next(row for row in _rows(document) if _name(row) == log.task)
    number = row.get("promptIdx")
    prompts = as_list(results.get("prompts"))
    is_known = isinstance(number, int) and number < len(prompts)
    prompt = as_object(prompts[int(number or 0)] if is_known else None)
    metrics = as_object(prompt.get("metrics"))
    passed, failed, errors = (
        int(number_of(metrics.get(f"test{name}Count")) or 0) for name in ("Pass", "Fail", "Error")
    )
    judged = passed + failed
    share = (
        [Aggregate("pass", "share of tests that pass", passed / judged, judged)] if judged else ()
    )
    labels = {
        "provider_label": as_object(row.get("provider")).get("label"),
        "prompt_label": prompt.get("label"),
        "eval_id": document.get("evalId"),
    }
    return LogPlan(
        run=RunInfo(
            task=spell(as_object(document.get("config")).get("description") or "promptfoo"),
            model=_model(row),
            started=f"{spell(results.get('timestamp') or document.get('evalId') or '')}/{number}",
            version=spell(as_object(document.get("metadata")).get("promptfooVersion") or ""),
            metadata=spelled(labels),
        ),
        aggregates=share,
        expected_samples=judged + errors or None,
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    rows = [row for row in _rows(_document(log.path)) if _name(row) == log.task]
    yield from with_every_metric(map(_sample_of, rows))


def _sample_of(row: JsonObject) -> Sample:
    response = as_object(row.get("response"))
    test = as_object(row.get("testCase"))
    grading = as_object(row.get("gradingResult"))
    raw, formatted = prompt_of(as_object(row.get("prompt")).get("raw"))
    said = response.get("output")
    tokens = as_object(response.get("tokenUsage"))
    latency = number_of(row.get("latencyMs"))
    error = ""
    if row.get("failureReason") == _ERROR or (
        row.get("error") and row.get("gradingResult") is None
    ):
        error = spell(row.get("error") or response.get("error") or "the call failed")
    values = {"score": row.get("score"), "pass": row.get("success")}
    for name, value in as_object(row.get("namedScores")).items():
        values[f"score:{name}"] = value
    return Sample(
        sample_id=spell(row.get("testIdx")),
        input=Input(raw=raw, formatted=formatted, reference=[]),
        output=Output(raw=[] if said is None else [spell(said)]),
        scores=[
            Score(metric=name, value=None if error else number_of(value), problem="the call failed")
            for name, value in values.items()
        ],
        token_usage=tokens_of(tokens.get("prompt"), tokens.get("completion")),
        performance=None if latency is None or latency < 0 else Performance(latency_ms=latency),
        error=error,
        fields={
            **as_object(row.get("vars")),
            **as_object(test.get("metadata")),
            **as_object(row.get("metadata")),
            "description": test.get("description"),
            "explanation": grading.get("reason"),
            "cost": row.get("cost"),
        },
        unread=["componentResults"] if grading.get("componentResults") else (),
    )
