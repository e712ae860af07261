"""Logs of LiveBench: scores of answers by their ground truth, in one directory per task.

    task/question.jsonl                                 what was asked, and mostly the ground truth
    task/model_answer/<model>.jsonl                     what the model said
    task/model_judgment/ground_truth_judgment.jsonl     a score from 0 to 1 for each question and
                                                        model; -1 if there is none

LiveBench comes from FastChat, and so do its files: what they share is read as in `mt_bench`.
Answers look the same in both; those beside judgements of LiveBench are its own.
"""

from collections.abc import Iterator, Sequence

from fastrec.harnesses.log import (
    FoundFile,
    Grouped,
    Log,
    LogPlan,
    Reading,
    RunInfo,
    Sample,
    Score,
    by_folder,
    role_by_patterns,
)
from fastrec.harnesses.mt_bench import FIRST_KEY, add_judged, first_time, judged_rows
from fastrec.harnesses.values import Fields, spell, texts_of
from fastrec.schemas.newest import Input, Output
from fastrec.storage import join, parent_of, storage_of

_ROLES = (
    ("judgments", FIRST_KEY, b'"task"', b'"model"', b'"score"', b'"category"'),
    (
        "questions",
        FIRST_KEY,
        b'"turns"',
        b'"(?:ground_truth|livebench_release_date|question_title)"',
    ),
    ("answers", FIRST_KEY, b'"answer_id"', b'"choices"', b'"model_id"'),
)
_JUDGMENTS = "model_judgment/ground_truth_judgment.jsonl"
_FAILED = "$ERROR$"  # the answer, if a call failed


def role_of(head: bytes, path: str) -> str | None:
    role = role_by_patterns(_ROLES, head.lstrip().partition(b"\n")[0])
    beside = join(parent_of(parent_of(path)), _JUDGMENTS)
    is_other = role == "answers" and not storage_of(beside).exists(beside)
    return None if is_other else role


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    grouped = Grouped()
    for its_files in by_folder(files, judgments=2, answers=2).values():
        add_judged(grouped, "livebench", its_files)
    return grouped


def read(log: Log) -> Reading:
    rows, questions, answers = judged_rows(log)
    task = rows[0]["task"]
    run = RunInfo(
        task=f"livebench_{spell(task)}" if task else "livebench",
        model=log.task,
        started=first_time(rows),
    )
    # a question that was judged again has several rows: LiveBench counts the last
    last = {spell(row["question_id"]): row for row in rows}
    return LogPlan(run=run), _samples(last, questions, answers)


def _samples(
    judged: dict[str, Fields], questions: dict[str, Fields], answers: dict[str, Fields]
) -> Iterator[Sample | str]:
    for number, row in judged.items():
        question = questions.get(number)
        answer = answers.get(number)
        if question is None or answer is None:
            yield f"a judgement has no {'question' if question is None else 'answer'}"
            continue
        said = texts_of(answer["choices.0.turns"])
        score = row.number("score")
        is_scored = score is not None and score >= 0
        yield Sample(
            sample_id=number,
            input=Input(
                raw="\n".join(texts_of(question["turns"])),
                reference=texts_of(question["ground_truth"]),
            ),
            output=Output(raw=said),
            scores=[
                Score(
                    "score",
                    score if is_scored else None,
                    "the log states no score",
                )
            ],
            error="the call failed" if _FAILED in said else "",
            fields={
                "category": row["category"],
                "subtask": row["subtask"],
                "livebench_release_date": question["livebench_release_date"],
                "total_output_tokens": answer["total_output_tokens"],
            },
        )
