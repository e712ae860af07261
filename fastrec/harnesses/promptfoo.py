"""Results of promptfoo as JSON (`promptfoo eval -o results.json`): a log for each provider and prompt of a file.

    promptfoo                      record
    description of the config      evaluation_name; without one, `promptfoo`
    provider                       model_id; its label, if the provider has one, is metadata
    prompt                         input.raw as it was sent; chats as JSON have their last question there
    score, named scores            metrics `score`, `pass` and `score:NAME`; failed calls have an error for each
    vars, metadata of the test     metadata

Assertions are not references: what they expect may be a rubric or a function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastrec.errors import LogError
from fastrec.harnesses.lm_eval.questions import prompt_of
from fastrec.harnesses.log import (
    Aggregate,
    BadLog,
    FoundFile,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    Sample,
    Score,
    with_every_metric,
)
from fastrec.harnesses.values import as_list, decoder, number_of, read_document, spell
from fastrec.schemas.newest import Input, Output, Performance, TokenUsage

_START: Final = re.compile(rb'\s*\{\s*"(evalId|results|version)"\s*:')
_decode: Final = decoder(dict[str, Any])
_ERROR: Final = 2  # `failureReason` of a call that failed; 1 is an assertion


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    found = _START.match(head)
    has_rows = all(key in head for key in (b'"promptIdx"', b'"testIdx"', b'"provider"'))
    return "results" if found and (found[1] == b"evalId" or has_rows) else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    found = Grouped()
    for file in files:
        try:
            names = dict.fromkeys(_name(row) for row in _rows(_document(file.path)))
        except LogError as exc:
            found.bad.append(BadLog(file.path, exc.reason))
            continue
        found.logs += [Log("promptfoo", file.path, (file,), name) for name in names]
    return found


def _document(path: str) -> dict[str, Any]:
    found = read_document(
        path, _decode, "these are no results of promptfoo, or they are cut or damaged"
    )
    return (
        found if isinstance(found.get("results"), dict) else {"results": found}
    )  # `evaluate()` returns the summary


def _rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in as_list(document["results"].get("results")) if isinstance(row, dict)]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _name(row: dict[str, Any]) -> str:
    """The name of a log in its file: prompt and provider."""
    return f"{row.get('promptIdx')} {_model(row)}"


def _model(row: dict[str, Any]) -> str:
    provider = row.get("provider")
    return spell(_object(provider).get("id") or provider or "")


def plan(log: Log) -> LogPlan:
    document = _document(log.path)
    results = document["results"]
    info = _object(document.get("metadata"))
    row = next(one for one in _rows(document) if _name(one) == log.task)
    number = row.get("promptIdx")
    prompts = as_list(results.get("prompts"))
    prompt = _object(prompts[number] if isinstance(number, int) and number < len(prompts) else None)
    metrics = _object(prompt.get("metrics"))
    counts = [number_of(metrics.get(f"test{name}Count")) for name in ("Pass", "Fail", "Error")]
    passed, failed, errors = (0 if count is None else int(count) for count in counts)
    label = _object(row.get("provider")).get("label")
    about = {
        "provider_label": label,
        "prompt_label": prompt.get("label"),
        "eval_id": document.get("evalId"),
    }
    judged = passed + failed
    return LogPlan(
        run=RunInfo(
            task=spell(_object(document.get("config")).get("description") or "promptfoo"),
            model=_model(row),
            started=f"{spell(results.get('timestamp') or document.get('evalId') or '')}/{number}",
            version=spell(info.get("promptfooVersion") or ""),
            metadata={name: spell(value) for name, value in about.items() if value},
        ),
        aggregates=[Aggregate("pass", "share of tests that pass", passed / judged, judged)]
        if judged
        else (),
        expected_samples=judged + errors if judged or errors else None,
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    yield from with_every_metric(_samples(log))


def _samples(log: Log) -> Iterator[Sample]:
    for row in _rows(_document(log.path)):
        if _name(row) != log.task:
            continue
        response, test, grading = (
            _object(row.get(name)) for name in ("response", "testCase", "gradingResult")
        )
        raw, formatted = prompt_of(_object(row.get("prompt")).get("raw"))
        is_error = row.get("failureReason") == _ERROR or (
            row.get("error") and row.get("gradingResult") is None
        )
        scores = {"score": row.get("score"), "pass": row.get("success")}
        scores |= {
            f"score:{name}": value for name, value in _object(row.get("namedScores")).items()
        }
        tokens = {
            name: number_of(value) for name, value in _object(response.get("tokenUsage")).items()
        }
        read = tokens.get("prompt")
        written = tokens.get("completion")
        latency = number_of(row.get("latencyMs"))
        said = response.get("output")
        yield Sample(
            sample_id=spell(row.get("testIdx")),
            input=Input(raw=raw, formatted=formatted, reference=[]),
            output=Output(raw=[] if said is None else [spell(said)]),
            scores=[
                Score(metric=name, value=None if is_error else number_of(value), problem="the call failed")
                for name, value in scores.items()
            ],
            token_usage=None if read is None or written is None else TokenUsage(
                input_tokens=int(read), output_tokens=int(written), total_tokens=int(read + written)
            ),
            performance=None if latency is None or latency < 0 else Performance(latency_ms=latency),
            error=spell(row.get("error") or response.get("error") or "the call failed") if is_error else "",
            fields={
                **_object(row.get("vars")),
                **_object(test.get("metadata")),
                **_object(row.get("metadata")),
                "description": test.get("description"),
                "explanation": grading.get("reason"),
                "cost": row.get("cost"),
            },
            unread=["componentResults"] if grading.get("componentResults") else (),
        )  # fmt: skip
