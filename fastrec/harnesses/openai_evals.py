"""Logs of OpenAI evals: a file of JSON lines per run: its settings, events, and final report.

event       becomes
sampling    prompt and answers; of several, the first is the model's, others may be a grader's
match       the metric `match`: whether the answer is correct, with the expected answers
metrics     a metric for each number
error       the error of a sample without a score, for every metric of the run
any other   nothing; counted
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import starmap

from fastrec.errors import LogError
from fastrec.harnesses.files import read_rows
from fastrec.harnesses.log import (
    Aggregate,
    Figures,
    Log,
    Reading,
    Sample,
    Score,
    answer_to,
    extracted,
    plan_of,
    tokens_of,
)
from fastrec.harnesses.transcripts import prompt_of
from fastrec.harnesses.values import (
    Fields,
    JsonObject,
    as_list,
    as_object,
    number_of,
    spell,
    texts_of,
)

_USED = ("sampling", "match", "metrics", "error")
_READ = ("correct", "expected", "picked", "sampled", "prompt", "usage")

Events = list[tuple[str, Fields]]  # the kind and the data of each


def read(log: Log) -> Reading:
    rows = read_rows(log.path, "an event of OpenAI evals")
    specs = [row["spec"] for row in rows if isinstance(row["spec"], dict)]
    spec = Fields(*specs[:1])
    models = as_list(spec["completion_fns"]) or as_list(spec["model_name"])
    if not models or not spec["eval_name"]:
        raise LogError(log.path, "does not name the model and the eval")
    report = next((row["final_report"] for row in rows if "final_report" in row), None)
    means, not_compared = _figures(as_object(report), rows)
    unfinished = ("the log has no final report: the run did not finish",)
    return plan_of(
        spec.text("eval_name"),
        spell(models[0]),
        spec.text("created_at", "run_id"),
        {"run_id": spec["run_id"], "split": spec["split"]},
        aggregates=means,
        not_compared=not_compared,
        notes=unfinished if report is None else (),
    ), _samples(rows)


def _figures(report: JsonObject, rows: Sequence[Fields]) -> Figures:
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


def _samples(rows: Sequence[Fields]) -> Iterator[Sample]:
    events = defaultdict(list)
    for row in rows:
        if row["sample_id"] is not None and isinstance(row["data"], dict):
            events[spell(row["sample_id"])].append((spell(row["type"]), Fields(row["data"])))
    return starmap(_sample_of, events.items())


def _sample_of(sample_id: str, events: Events) -> Sample:
    first = dict(reversed(events))
    match = first.get("match", Fields())
    sampling = first.get("sampling", Fields())
    raw, formatted = prompt_of(sampling.get("prompt", match["prompt"]))
    scores = [Score("match", match.number("correct"))] if match else []
    fields = {name: value for name, value in (sampling | match).items() if name not in _READ}
    for kind, data in events:
        for name, value in data.items() if kind == "metrics" else ():
            number = number_of(value)
            if number is None:
                fields[name] = value
            else:
                scores.append(Score(name, number))
    error = "" if sampling or match else "the log has no answer for this sample"
    failure = first.get("error")
    if failure and not scores:
        error = spell(failure["message"] or failure["type"])
    picked = match["picked"]
    unread = [kind for kind, _ in events if kind not in _USED]
    for kind, data in events:
        if kind in ("sampling", "match") and data is not first[kind]:
            unread.append(f"further {kind}")
    return answer_to(
        raw,
        match.texts("expected"),
        texts_of(sampling.get("sampled", match["sampled"])),
        formatted,
        sample_id=sample_id,
        scores=scores,
        answers=[] if picked is None else [extracted(spell(picked), "match")],
        error=error,
        fields=fields,
        unread=unread,
        token_usage=tokens_of(sampling["usage.prompt_tokens"], sampling["usage.completion_tokens"]),
    )
