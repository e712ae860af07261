"""Logs of OpenAI evals: one file of JSON lines per run, with its settings, events of samples, and final report.

event       becomes
sampling    prompt and answers; of several, the first is the model's, and others may be those of a grader
match       the metric `match`: whether the answer is correct, with the expected answers
metrics     a metric for each number
error       the error of a sample without a score, for every metric of the run
any other   nothing; counted
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastrec.errors import LogError
from fastrec.harnesses.lm_eval.questions import prompt_of
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
from fastrec.harnesses.values import as_list, number_of, read_rows, spell
from fastrec.schemas.newest import Input, Output

_SPEC: Final = re.compile(rb'\s*\{\s*"spec"\s*:\s*\{')
_USED: Final = ("sampling", "match", "metrics", "error")


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    return (
        "events" if _SPEC.match(head) and b'"eval_name"' in head and b'"run_id"' in head else None
    )


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    return Grouped(logs=[Log("openai-evals", file.path, (file,)) for file in files])


def plan(log: Log) -> LogPlan:
    rows = read_rows(log.path, "an event of OpenAI evals")
    spec: dict[str, Any] = next(
        (row["spec"] for row in rows if isinstance(row.get("spec"), dict)), {}
    )
    models = as_list(spec.get("completion_fns")) or as_list(spec.get("model_name"))
    if not models or not spec.get("eval_name"):
        raise LogError(log.path, "does not name the model and the eval")
    report: Any = next((row["final_report"] for row in rows if "final_report" in row), None)
    stated = report if isinstance(report, dict) else {}
    found = {score.metric for sample in _samples(rows) for score in sample.scores}
    names = {name: "match" if name == "accuracy" and name not in found else name for name in stated}
    means = [Aggregate(names[name], name, value) for name in stated
             if names[name] in found and (value := number_of(stated[name])) is not None]  # fmt: skip
    kept = {one.name for one in means}
    metadata = {name: spell(spec[name]) for name in ("run_id", "split") if spec.get(name)}
    return LogPlan(
        run=RunInfo(
            task=spell(spec["eval_name"]),
            model=spell(models[0]),
            started=spell(spec.get("created_at") or spec.get("run_id") or ""),
            metadata=metadata,
        ),
        aggregates=means,
        not_compared={
            name: "no event of a sample has a number of this name"
            for name in stated
            if name not in kept
        },
        notes=()
        if report is not None
        else ("the log has no final report: the run did not finish",),
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    yield from with_every_metric(_samples(read_rows(log.path, "an event of OpenAI evals")))


def _samples(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    events: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for row in rows:
        if row.get("sample_id") is not None and isinstance(row.get("data"), dict):
            events.setdefault(spell(row["sample_id"]), []).append(
                (spell(row.get("type")), row["data"])
            )
    for sample_id, some in events.items():
        asked = next((data for kind, data in some if kind == "sampling"), {})
        match = next((data for kind, data in some if kind == "match"), {})
        sampled = sum(kind == "sampling" for kind, _ in some)
        raw, formatted = prompt_of(asked.get("prompt", match.get("prompt")))
        said = [spell(text) for text in as_list(asked.get("sampled", match.get("sampled")))]
        scores = [Score(metric="match", value=number_of(match.get("correct")))] if match else []
        fields = {
            name: match[name]
            for name in match
            if name not in ("correct", "expected", "picked", "sampled", "prompt")
        }
        for kind, data in some:
            if kind == "metrics":
                scores += [Score(metric=name, value=number_of(value)) for name, value in data.items()
                           if number_of(value) is not None]  # fmt: skip
                fields |= {name: value for name, value in data.items() if number_of(value) is None}
        failed = next((data for kind, data in some if kind == "error"), None)
        missing = "" if asked or match else "the log has no answer for this sample"
        picked = match.get("picked")
        yield Sample(
            sample_id=sample_id,
            input=Input(
                raw=raw,
                formatted=formatted,
                reference=[spell(one) for one in as_list(match.get("expected"))],
            ),
            output=Output(raw=said),
            scores=scores,
            answers=[] if picked is None else [extracted(spell(picked), "match")],
            error=spell(failed.get("message") or failed.get("type"))
            if failed and not scores
            else missing,
            fields=fields,
            unread=[kind for kind, _ in some if kind not in _USED]
            + ["further sampling"] * (sampled - 1),
        )
