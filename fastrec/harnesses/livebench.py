"""Logs of LiveBench: scores of answers by their ground truth, in one directory per task.

    task/question.jsonl                                 what was asked, and mostly the ground truth
    task/model_answer/<model>.jsonl                     what the model said
    task/model_judgment/ground_truth_judgment.jsonl     a score from 0 to 1 for each question and
                                                        model; -1 if there is none

LiveBench comes from FastChat, and so do its files: what they share is read as in `mt_bench`.
Answers look the same in both; those beside judgements of LiveBench are its own.
"""

import re

from fastrec.harnesses.log import (
    Files,
    Grouped,
    Log,
    Reading,
    Samples,
    answer_to,
    plan_of,
)
from fastrec.harnesses.mt_bench import ById, add_judged, first_time, judged_rows, score_of
from fastrec.harnesses.values import OptionalText, spell
from fastrec.storage import join, parent_of, storage_of

# keys of the first line
_ANSWERS = rb'\s*\{\s*"question_id"\s*:(?=[^\n]*"answer_id")(?=[^\n]*"choices")(?=[^\n]*"model_id")'
_JUDGMENTS = "model_judgment/ground_truth_judgment.jsonl"
_FAILED = "$ERROR$"  # the answer, if a call failed


def role_of(head: bytes, path: str) -> OptionalText:
    beside = join(parent_of(parent_of(path)), _JUDGMENTS)
    return "answers" if re.match(_ANSWERS, head) and storage_of(beside).exists(beside) else None


def logs_of(files: Files) -> Grouped:
    grouped = Grouped()
    add_judged(grouped, "livebench", files)
    return grouped


def read(log: Log) -> Reading:
    rows, questions, answers = judged_rows(log)
    task = rows[0]["task"]
    name = f"livebench_{spell(task)}" if task else "livebench"
    # a question that was judged again has several rows: LiveBench counts the last
    last = {spell(row["question_id"]): row for row in rows}
    return plan_of(name, log.task, first_time(rows), {}), _samples(last, questions, answers)


def _samples(judged: ById, questions: ById, answers: ById) -> Samples:
    for number, row in judged.items():
        question = questions.get(number)
        answer = answers.get(number)
        if question is None or answer is None:
            yield f"a judgement has no {'question' if question is None else 'answer'}"
            continue
        said = answer.texts("choices.0.turns")
        yield answer_to(
            "\n".join(question.texts("turns")),
            question.texts("ground_truth"),
            said,
            sample_id=number,
            scores=[score_of(row, "the log states no score")],
            error="the call failed" if _FAILED in said else "",
            fields={
                "category": row["category"],
                "subtask": row["subtask"],
                "livebench_release_date": question["livebench_release_date"],
                "total_output_tokens": answer["total_output_tokens"],
            },
        )
