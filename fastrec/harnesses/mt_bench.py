"""Logs of MT-Bench: judgements of single answers, with the questions and the answers of the models.

    question.jsonl                       the turns of each question
    model_answer/<model>.jsonl           what the model said in each turn
    model_judgment/<judge>_single.jsonl  a score from 1 to 10 for each question, turn and model;
                                         -1 if the judge failed

Each turn is a sample. The second turn is a conversation: its question alone is `input.raw`.
"""

from collections.abc import Iterable
from itertools import chain

from fastrec.errors import LogError
from fastrec.harnesses.files import read_rows
from fastrec.harnesses.log import (
    BadLog,
    Files,
    FilesByRole,
    FoundFile,
    Grouped,
    Log,
    Reading,
    Sample,
    Score,
    answer_to,
    by_role,
    plan_of,
)
from fastrec.harnesses.values import Fields, as_list, spell
from fastrec.schemas.newest import Message

ById = dict[str, Fields]  # the rows of a file, by the id of their question


def logs_of(files: Files) -> Grouped:
    roles = by_role(files)
    grouped = Grouped(
        bad=[
            BadLog(file.path, "it has preferences between two models, and no scores of one")
            for file in roles["pairs"]
        ]
    )
    add_judged(grouped, "mt-bench", roles)
    return grouped


def add_judged(grouped: Grouped, harness: str, files: FilesByRole) -> None:
    """A log is the judgements of one model in one file, with the questions and its answers."""
    answers: dict[str, FoundFile] = {}
    with grouped.collecting_bad():
        for file in files["answers"]:
            answers |= dict.fromkeys(_names(file, "model_id"), file)
        for file in files["judgments"]:
            for model in _names(file, "model"):
                if model in answers and files["questions"]:
                    needed = (file, files["questions"][0], answers[model])
                    grouped.logs.append(Log(harness, file.path, needed, model))
                else:
                    grouped.bad.append(
                        BadLog(
                            file.path,
                            f"give question.jsonl and the model_answer of {model}, too: judgements "
                            "do not have what was asked and said",
                        )
                    )


def _rows(file: FoundFile) -> list[Fields]:
    return read_rows(file.path, "a line of judgements, questions or answers")


def _names(file: FoundFile, key: str) -> list[str]:
    return list(dict.fromkeys(spell(row[key]) for row in _rows(file)))


def judged_rows(log: Log) -> tuple[list[Fields], ById, ById]:
    """The judgements on a model; what was asked and what it said, by the id of the question."""
    judgements, asked, said = map(_rows, log.files)
    return (
        [row for row in judgements if spell(row["model"]) == log.task],
        {spell(row["question_id"]): row for row in asked},
        {spell(row["question_id"]): row for row in said if spell(row["model_id"]) == log.task},
    )


def first_time(rows: Iterable[Fields]) -> str:
    times = [time for row in rows if (time := row.number("tstamp")) is not None]
    return spell(min(times)) if times else ""


def score_of(row: Fields, problem: str) -> Score:
    """The score of a judgement; a negative one says that there is none."""
    score = row.number("score")
    return Score("score", None if score is None or score < 0 else score, problem)


def read(log: Log) -> Reading:
    rows, questions, answers = judged_rows(log)
    judges = {spell(name) for row in rows for name in as_list(row["judge"])[:1]}
    judge = judges.pop() if len(judges) == 1 else ""
    return plan_of("mt_bench", log.task, first_time(rows) or judge, {"judge": judge}), (
        _sample_of(log.path, row, questions.get(number, Fields()), answers.get(number, Fields()))
        for row in rows
        for number in [spell(row["question_id"])]
    )


def _sample_of(path: str, row: Fields, question: Fields, answer: Fields) -> Sample:
    number = row["question_id"]
    turn = row.count("turn") or 0
    asked = question.texts("turns")[:turn]
    said = answer.texts("choices.0.turns")[:turn]
    if not len(asked) == len(said) == turn > 0:
        raise LogError(
            path, f"turn {row['turn']} of question {number} has no question or no answer"
        )
    sample = answer_to(
        asked[-1],
        question.texts("reference")[turn - 1 : turn],
        said,
        sample_id=f"{spell(number)}-{turn}",
        scores=[score_of(row, "the judge stated no score")],
        fields={
            "category": question["category"],
            "turn": turn,
            "judgment": row["judgment"],
        },
        unread=["user_prompt"] if row["user_prompt"] else (),
    )
    if turn > 1:
        sample.interaction_type = "multi_turn"
        sample.output = None
        sample.messages = [
            Message(turn_idx=index, role="assistant" if index % 2 else "user", content=text)
            for index, text in enumerate(chain.from_iterable(zip(asked, said, strict=True)))
        ]
        sample.num_turns = len(sample.messages)
    return sample
