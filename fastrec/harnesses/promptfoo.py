"""Results of promptfoo (`promptfoo eval -o results.json`, or `.jsonl`).

A log is a provider and a prompt.

    promptfoo                      record
    description of the config      evaluation_name; without one, `promptfoo`
    provider                       model_id: its label, if it has one, as in promptfoo's tables;
                                   then its id is metadata
    prompt                         input.raw as it was sent; of a chat as JSON, its last question
    score, named scores            metrics `score`, `pass` and `score:NAME`; failed calls have an
                                   error for each
    vars, metadata of the test     metadata

Assertions are not references: what they expect may be a rubric or a function.
"""

from typing import Any

from fastrec.harnesses.files import read_object, read_rows
from fastrec.harnesses.log import (
    Aggregate,
    Files,
    FoundFile,
    Grouped,
    Log,
    Reading,
    Sample,
    Score,
    answer_to,
    logs_by_name,
    plan_of,
    tokens_of,
)
from fastrec.harnesses.transcripts import prompt_of, time_of
from fastrec.harnesses.values import Fields, number_of, spell

_ERROR = 2  # `failureReason` of a call that failed; 1 is an assertion


def logs_of(files: Files) -> Grouped:
    return logs_by_name(
        "promptfoo", files, lambda file: map(_name, _document(file).objects("results.results"))
    )


def _document(file: FoundFile) -> Fields:
    if file.role == "rows":
        rows = read_rows(file.path, "a result of promptfoo")
        return Fields(evalId=rows[0]["evalId"], results=Fields(results=rows))
    document = read_object(file.path, "result of promptfoo")
    # `evaluate()` returns the summary alone.
    return document if isinstance(document["results"], dict) else Fields(results=document)


def _name(row: Fields) -> str:
    """The name of a log in its file: prompt and provider."""
    return f"{_number(row)} {_model(row)}"


def _number(row: Fields) -> Any:
    """The number of the prompt; its name in files before version 3 (2024), which lack numbers."""
    return row.get("promptIdx", row["prompt.label"] or row["prompt.display"])


def _model(row: Fields) -> str:
    """Providers of one id differ in their labels: the same model with other settings."""
    return row.text("provider.label", "provider.id", "provider")


def read(log: Log) -> Reading:
    document = _document(log.files[0])
    rows = [row for row in document.objects("results.results") if _name(row) == log.task]
    row = rows[0]
    number = _number(row)
    prompt = document.object(f"results.prompts.{number}")
    passed, failed, errors = (
        prompt.count(f"metrics.test{name}Count") or 0 for name in ("Pass", "Fail", "Error")
    )
    judged = passed + failed
    share = (
        [Aggregate("pass", "share of tests that pass", passed / judged, judged)] if judged else ()
    )
    labels = {
        "provider_id": row["provider.label"] and row["provider.id"],
        "prompt_label": prompt["label"],
        "eval_id": document["evalId"],
    }
    started = document.text("results.timestamp", "evalId")
    return plan_of(
        document.text("config.description") or "promptfoo",
        _model(row),
        f"{started}/{number}",
        labels,
        document.text("metadata.promptfooVersion"),
        aggregates=share,
        expected_samples=judged + errors or None,
    ), map(_sample_of, rows)


def _sample_of(row: Fields) -> Sample:
    raw, formatted = prompt_of(row["prompt.raw"])
    said = row["response.output"]
    error = ""
    if row["failureReason"] == _ERROR or (row["error"] and row["gradingResult"] is None):
        error = row.text("error", "response.error") or "the call failed"
    values = {"score": row["score"], "pass": row["success"]}
    for name, value in row.object("namedScores").items():
        values[f"score:{name}"] = value
    about = {
        **row.object("testCase.metadata"),
        **row.object("metadata"),
        "description": row["testCase.description"],
        "explanation": row["gradingResult.reason"],
        "cost": row["cost"],
    }
    return answer_to(
        raw,
        [],
        [] if said is None else [spell(said)],
        formatted,
        sample_id=spell(row.get("testIdx", row["vars"])),
        scores=[
            Score(name, None if error else number_of(value), "the call failed", fields=about)
            for name, value in values.items()
        ],
        token_usage=tokens_of(
            row["response.tokenUsage.prompt"], row["response.tokenUsage.completion"]
        ),
        performance=time_of(row["latencyMs"], 1),
        error=error,
        fields=row.object("vars") or row.object("testCase.vars"),
        unread=["componentResults"] if row["gradingResult.componentResults"] else (),
    )
