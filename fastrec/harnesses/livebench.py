"""Logs of LiveBench: scores of answers by their ground truth, in one directory per task.

    task/question.jsonl                                 what was asked, and mostly the ground truth
    task/model_answer/<model>.jsonl                     what the model said
    task/model_judgment/ground_truth_judgment.jsonl     a score from 0 to 1 for each question and
                                                        model; -1 if there is none

LiveBench comes from FastChat, and so do its files: what they share is read as in `mt_bench`.
Answers look the same in both; those beside judgements of LiveBench are its own.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from fastrec.harnesses.log import FoundFile, Grouped, Log, LogPlan, RunInfo, Sample, Score
from fastrec.harnesses.mt_bench import (
    FIRST_KEY,
    asked_and_said,
    first_time,
    judged_logs,
    judgements_of,
)
from fastrec.harnesses.values import as_list, as_object, number_of, spell, texts_of
from fastrec.schemas.newest import Input, Output
from fastrec.storage import join, parent_of, storage_of

_ANSWER = (b'"answer_id"', b'"choices"', b'"model_id"')
_JUDGMENT = (b'"task"', b'"model"', b'"score"', b'"category"')
_QUESTION = (b'"ground_truth"', b'"livebench_release_date"', b'"question_title"')
_JUDGMENTS = "model_judgment/ground_truth_judgment.jsonl"
_FAILED = "$ERROR$"  # the answer, if a call failed


def role_of(head: bytes, path: str) -> str | None:
    line = head.lstrip().partition(b"\n")[0]
    if not FIRST_KEY.match(line):
        return None
    if all(key in line for key in _JUDGMENT):
        return "judgments"
    if b'"turns"' in line and any(key in line for key in _QUESTION):
        return "questions"
    if all(key in line for key in _ANSWER):
        beside = join(_task_directory(path, "answers"), _JUDGMENTS)
        return "answers" if storage_of(beside).exists(beside) else None
    return None


def _task_directory(path: str, role: str) -> str:
    directory = parent_of(path)
    return directory if role == "questions" else parent_of(directory)


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    tasks: defaultdict[str, list[FoundFile]] = defaultdict(list)
    for file in files:
        tasks[_task_directory(file.path, file.role)].append(file)
    grouped = Grouped()
    for its_files in tasks.values():
        found = judged_logs("livebench", its_files)
        grouped.logs += found.logs
        grouped.bad += found.bad
    return grouped.with_others(files)


def plan(log: Log) -> LogPlan:
    rows = judgements_of(log)
    task = rows[0].get("task")
    return LogPlan(
        run=RunInfo(
            task=f"livebench_{spell(task)}" if task else "livebench",
            model=log.task,
            started=first_time(rows),
        ),
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample | str]:  # noqa: ARG001 - the protocol has them
    questions, answers = asked_and_said(log)
    # a question that was judged again has several rows: LiveBench counts the last
    last = {spell(row.get("question_id")): row for row in judgements_of(log)}
    for number, row in last.items():
        question = questions.get(number)
        answer = answers.get(number)
        if question is None or answer is None:
            yield f"a judgement has no {'question' if question is None else 'answer'}"
            continue
        asked = texts_of(question.get("turns"))
        choice = next(iter(as_list(answer.get("choices"))), None)
        said = texts_of(as_object(choice).get("turns"))
        score = number_of(row.get("score"))
        is_scored = score is not None and score >= 0
        yield Sample(
            sample_id=number,
            input=Input(raw="\n".join(asked), reference=texts_of(question.get("ground_truth"))),
            output=Output(raw=said),
            scores=[
                Score(
                    metric="score",
                    value=score if is_scored else None,
                    problem="the log states no score",
                )
            ],
            error="the call failed" if _FAILED in said else "",
            fields={
                "category": row.get("category"),
                "subtask": row.get("subtask"),
                "livebench_release_date": question.get("livebench_release_date"),
                "total_output_tokens": answer.get("total_output_tokens"),
            },
        )
