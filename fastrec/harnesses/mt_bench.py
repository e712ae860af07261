"""Logs of MT-Bench: judgements of single answers, with the questions and the answers of the models.

    question.jsonl                       the turns of each question
    model_answer/<model>.jsonl           what the model said in each turn
    model_judgment/<judge>_single.jsonl  a score from 1 to 10 for each question, turn and model;
                                         -1 if the judge failed

Each turn is a sample. The second one is a conversation: its question alone is `input.raw`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fastrec.errors import LogError
from fastrec.harnesses.files import read_rows
from fastrec.harnesses.log import (
    BadLog,
    FoundFile,
    Grouped,
    Log,
    LogPlan,
    RunInfo,
    Sample,
    Score,
    role_by_keys,
)
from fastrec.harnesses.values import JsonObject, as_list, number_of, spell, texts_of
from fastrec.schemas.newest import Input, Message, Output

METADATA = ("judge",)

_KEYS = {
    "judgments": (b'"judge"', b'"judgment"', b'"score"', b'"turn"', b'"model"'),
    "pairs": (b'"judge"', b'"model_1"', b'"model_2"', b'"g1_winner"'),
    "answers": (b'"answer_id"', b'"choices"', b'"turns"', b'"model_id"'),
    "questions": (b'"category"', b'"turns"'),
}
FIRST_KEY = re.compile(rb'\{\s*"question_id"\s*:')
_PAIRS = "it has preferences between two models, and no scores of one"
_MISSING = (
    "give question.jsonl and the model_answer of {}, too: judgements do not have "
    "what was asked and said"
)


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    line = head.lstrip().partition(b"\n")[0]
    return role_by_keys(_KEYS, line) if FIRST_KEY.match(line) else None


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    grouped = judged_logs("mt-bench", files)
    grouped.bad += [BadLog(file.path, _PAIRS) for file in files if file.role == "pairs"]
    return grouped.with_others(files)


def judged_logs(harness: str, files: Iterable[FoundFile]) -> Grouped:
    """A log is the judgements of one model in one file, with the questions and its answers."""
    grouped = Grouped()
    by_role: defaultdict[str, list[FoundFile]] = defaultdict(list)
    for file in files:
        by_role[file.role].append(file)
    questions = by_role["questions"]
    answers: dict[str, FoundFile] = {}
    try:
        for file in by_role["answers"]:
            answers |= dict.fromkeys(_names(file, "model_id"), file)
        for file in by_role["judgments"]:
            for model in _names(file, "model"):
                if model in answers and questions:
                    needed = (file, questions[0], answers[model])
                    grouped.logs.append(Log(harness, file.path, needed, model))
                else:
                    grouped.bad.append(BadLog(file.path, _MISSING.format(model)))
    except LogError as exc:
        grouped.bad.append(BadLog(exc.path, exc.reason))
    return grouped


def _rows(file: FoundFile) -> list[JsonObject]:
    return read_rows(file.path, "a line of judgements, questions or answers")


def _names(file: FoundFile, key: str) -> list[str]:
    return list(dict.fromkeys(spell(row.get(key)) for row in _rows(file)))


def judgements_of(log: Log) -> list[JsonObject]:
    return [row for row in _rows(log.files[0]) if spell(row.get("model")) == log.task]


def asked_and_said(log: Log) -> tuple[dict[str, JsonObject], dict[str, JsonObject]]:
    """The questions, and the answers of the model of a log, by the id of the question."""
    _, asked, said = map(_rows, log.files)
    questions = {spell(row.get("question_id")): row for row in asked}
    answers = {}
    for row in said:
        if spell(row.get("model_id")) == log.task:
            answers[spell(row.get("question_id"))] = row
    return questions, answers


def first_time(rows: Iterable[Mapping[str, Any]]) -> str:
    times = [time for row in rows if (time := number_of(row.get("tstamp"))) is not None]
    return spell(min(times)) if times else ""


def plan(log: Log) -> LogPlan:
    rows = judgements_of(log)
    judges = {spell(as_list(row.get("judge"))[:1]) for row in rows}
    named = as_list(rows[0].get("judge"))
    judge = spell(named[0]) if len(judges) == 1 and named else ""
    return LogPlan(
        run=RunInfo(
            task="mt_bench",
            model=log.task,
            started=first_time(rows) or judge,
            metadata={"judge": judge} if judge else {},
        ),
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    questions, answers = asked_and_said(log)
    for row in judgements_of(log):
        number = spell(row.get("question_id"))
        yield _sample_of(log.path, row, questions.get(number, {}), answers.get(number, {}))


def _sample_of(path: str, row: JsonObject, question: JsonObject, answer: JsonObject) -> Sample:
    number = row.get("question_id")
    turn = row.get("turn")
    try:
        asked = texts_of(question["turns"])[:turn]
        said = texts_of(answer["choices"][0]["turns"])[:turn]
    except (KeyError, IndexError, TypeError):
        asked = said = []
    if not isinstance(turn, int) or not len(asked) == len(said) == turn > 0:
        raise LogError(path, f"turn {turn} of question {number} has no question or no answer")
    score = number_of(row.get("score"))
    if score is not None and score < 0:
        score = None
    sample = Sample(
        sample_id=f"{spell(number)}-{turn}",
        input=Input(
            raw=asked[-1], reference=texts_of(as_list(question.get("reference"))[turn - 1 : turn])
        ),
        scores=[Score(metric="score", value=score, problem="the judge stated no score")],
        fields={
            "category": question.get("category"),
            "turn": turn,
            "judgment": row.get("judgment"),
        },
        unread=["user_prompt"] if row.get("user_prompt") else (),
    )
    if turn == 1:
        sample.output = Output(raw=said)
        return sample
    sample.interaction_type = "multi_turn"
    sample.messages = []
    for question_text, answer_text in zip(asked, said, strict=True):
        for role, text in (("user", question_text), ("assistant", answer_text)):
            message = Message(turn_idx=len(sample.messages), role=role, content=text)
            sample.messages.append(message)
    sample.num_turns = len(sample.messages)
    return sample
