"""Logs of MT-Bench: judgements of single answers, with the questions and the answers of the models.

    question.jsonl                       the turns of each question
    model_answer/<model>.jsonl           what the model said in each turn
    model_judgment/<judge>_single.jsonl  a score from 1 to 10 for each question, turn and model; -1 if the judge failed

Each turn is a sample. The second one is a conversation: its question alone is `input.raw`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastrec.errors import LogError
from fastrec.harnesses.log import BadLog, FoundFile, Grouped, Log, LogPlan, RunInfo, Sample, Score
from fastrec.harnesses.values import as_list, number_of, read_rows, spell
from fastrec.schemas.newest import Input, Message, Output

_KEYS: Final = {
    "judgments": (b'"judge"', b'"judgment"', b'"score"', b'"turn"', b'"model"'),
    "pairs": (b'"judge"', b'"model_1"', b'"model_2"', b'"g1_winner"'),
    "answers": (b'"answer_id"', b'"choices"', b'"turns"', b'"model_id"'),
    "questions": (b'"category"', b'"turns"'),
}
_FIRST_KEY: Final = re.compile(rb'\{\s*"question_id"\s*:')
_MISSING: Final = (
    "give question.jsonl and the model_answer of {}, too: judgements do not have "
    "what was asked and said"
)


def role_of(head: bytes, path: str) -> str | None:  # noqa: ARG001 - all harnesses have this signature
    line = head.lstrip().partition(b"\n")[0]
    if not _FIRST_KEY.match(line):
        return None
    return next((role for role, keys in _KEYS.items() if all(key in line for key in keys)), None)


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    """A log is the judgements of one model in one file."""
    found = Grouped()
    try:
        answers = {
            spell(row.get("model_id")): file
            for file in files
            if file.role == "answers"
            for row in _rows(file)
        }
        for file in files:
            if file.role == "pairs":
                found.bad.append(
                    BadLog(file.path, "it has preferences between two models, and no scores of one")
                )
            for model in (
                dict.fromkeys(spell(row.get("model")) for row in _rows(file))
                if file.role == "judgments"
                else ()
            ):
                beside = [one for one in files if one.role == "questions"]
                if model in answers and beside:
                    found.logs.append(
                        Log("mt-bench", file.path, (file, beside[0], answers[model]), model)
                    )
                else:
                    found.bad.append(BadLog(file.path, _MISSING.format(model)))
    except LogError as exc:
        found.bad.append(BadLog(exc.path, exc.reason))
    used = {one.path for log in found.logs for one in log.files} | {bad.path for bad in found.bad}
    found.others = [file.path for file in files if file.path not in used]
    return found


def _rows(file: FoundFile) -> list[dict[str, Any]]:
    return read_rows(file.path, "a line of MT-Bench")


def plan(log: Log) -> LogPlan:
    rows = [row for row in _rows(log.files[0]) if row.get("model") == log.task]
    judges = dict.fromkeys(spell(as_list(row.get("judge"))[:1]) for row in rows)
    judge = (
        spell(as_list(rows[0].get("judge"))[0])
        if len(judges) == 1 and as_list(rows[0].get("judge"))
        else ""
    )
    times = [time for row in rows if (time := number_of(row.get("tstamp"))) is not None]
    return LogPlan(
        run=RunInfo(
            task="mt_bench",
            model=log.task,
            started=spell(min(times)) if times else judge,
            metadata={"judge": judge} if judge else {},
        ),
    )


def samples(log: Log, run: RunInfo, log_slice: Any) -> Iterator[Sample]:  # noqa: ARG001 - the protocol has them
    judged, asked, said = (_rows(file) for file in log.files)
    questions = {row.get("question_id"): row for row in asked}
    answers = {row.get("question_id"): row for row in said if row.get("model_id") == log.task}
    for row in judged:
        if row.get("model") != log.task:
            continue
        number = row.get("question_id")
        turn = row.get("turn")
        question = questions.get(number, {})
        try:
            turns = [spell(text) for text in question["turns"]][:turn]
            texts = [spell(text) for text in answers[number]["choices"][0]["turns"]][:turn]
        except (KeyError, IndexError, TypeError):
            turns = texts = []
        if not isinstance(turn, int) or not len(turns) == len(texts) == turn > 0:
            raise LogError(
                log.path, f"turn {turn} of question {number} has no question or no answer"
            )
        score = number_of(row.get("score"))
        failed = score is None or score < 0
        pairs = [
            pair
            for both in zip(turns, texts, strict=True)
            for pair in zip(("user", "assistant"), both, strict=True)
        ]
        sample = Sample(
            sample_id=f"{spell(number)}-{turn}",
            input=Input(
                raw=turns[-1],
                reference=[
                    spell(one) for one in as_list(question.get("reference"))[turn - 1 : turn]
                ],
            ),
            scores=[
                Score(
                    metric="score",
                    value=None if failed else score,
                    problem="the judge stated no score",
                )
            ],
            fields={
                "category": question.get("category"),
                "turn": turn,
                "judgment": row.get("judgment"),
            },
            unread=["user_prompt"] if row.get("user_prompt") else (),
        )
        if turn == 1:
            sample.output = Output(raw=texts)
        else:
            sample.interaction_type, sample.num_turns = "multi_turn", len(pairs)
            sample.messages = [
                Message(turn_idx=at, role=role, content=text)
                for at, (role, text) in enumerate(pairs)
            ]
        yield sample
