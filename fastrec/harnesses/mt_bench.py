"""Logs of MT-Bench: judgements of single answers, with the questions and the answers of the models.

In a folder for each benchmark, such as `data/mt_bench`:

    question.jsonl                       the turns of each question
    model_answer/<model>.jsonl           what the model said in each turn
    reference_answer/<judge>.jsonl       what the judge compares them with; not read
    model_judgment/<judge>_single.jsonl  a score from 1 to 10 for each question, turn and model;
                                         -1 if the judge failed

Each turn is a sample. The second turn is a conversation: its question alone is `input.raw`.
"""

import re
from collections.abc import Iterable
from itertools import chain

from fastrec.errors import LogError
from fastrec.harnesses.files import read_rows
from fastrec.harnesses.log import (
    BadLog,
    Files,
    FoundFile,
    Grouped,
    Log,
    Reading,
    Sample,
    Score,
    answer_to,
    by_role,
    lists_by,
    plan_of,
)
from fastrec.harnesses.values import Fields, as_list, spell
from fastrec.schemas.newest import Message
from fastrec.storage import base_name, parent_of

_FOLDERS = ("model_answer", "model_judgment")  # in that of the benchmark
ById = dict[str, Fields]  # the rows of a file, by the id of their question


def logs_of(files: Files) -> Grouped:
    grouped = Grouped(
        bad=[
            BadLog(file.path, "it has preferences between two models, and no scores of one")
            for file in by_role(files)["pairs"]
        ]
    )
    add_judged(grouped, "mt-bench", files)
    return grouped


def add_judged(grouped: Grouped, harness: str, files: Files) -> None:
    """A log is the judgements of one model in one file, with the questions and its answers.

    The harnesses know the answers of a model by the name of their file, perhaps in lower case.
    """
    for benchmark in lists_by(_folder_of, files).values():
        roles = by_role(benchmark)
        named = {base_name(file.path).partition(".jsonl")[0]: file for file in roles["answers"]}
        answers = {name.lower(): file for name, file in named.items()} | named
        for file in roles["judgments"]:
            with grouped.collecting_bad():
                for model in dict.fromkeys(spell(row["model"]) for row in _rows(file)):
                    if model in answers and roles["questions"]:
                        needed = (file, roles["questions"][0], answers[model])
                        grouped.logs.append(Log(harness, file.path, needed, model))
                    else:
                        grouped.bad.append(
                            BadLog(
                                file.path,
                                f"give question.jsonl and the model_answer of {model}, too: "
                                "judgements do not have what was asked and said",
                            )
                        )


def _folder_of(file: FoundFile) -> str:
    """The folder of the benchmark. Answers that a judge compares with are not in it."""
    folder = parent_of(file.path)
    return parent_of(folder) if base_name(folder) in _FOLDERS else folder


def _rows(file: FoundFile) -> list[Fields]:
    return read_rows(file.path, "a line of judgements, questions or answers")


def judged_rows(log: Log) -> tuple[list[Fields], ById, ById]:
    """The judgements on a model; what was asked and what it said, by the id of the question."""
    judgements, asked, said = map(_rows, log.files)
    return (
        [row for row in judgements if spell(row["model"]) == log.task],
        {spell(row["question_id"]): row for row in asked},
        {spell(row["question_id"]): row for row in said},
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
    benchmark = re.search(r"\bdata/([^/]+)/model_judgment/", log.path)
    name = benchmark[1] if benchmark else "mt_bench"
    return plan_of(name, log.task, first_time(rows) or judge, {"judge": judge}), (
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
