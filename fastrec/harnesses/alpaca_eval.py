"""Logs of AlpacaEval: `annotations.json`, what a judge preferred, perhaps with a leaderboard.

    preference p     win_rate    discrete_win_rate
    1.5 < p <= 2     p - 1       1
    1.5, 0           0.5         0.5: a draw; AlpacaEval 1 wrote 0
    1 <= p < 1.5     p - 1       0
    anything else    none: the judge failed, and the leaderboard does not count it

`output_1` is the answer of the baseline, which is no reference: it is metadata.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from io import StringIO
from typing import Any

from fastrec.errors import LogError
from fastrec.harnesses.files import read_rows, read_text
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
    by_role,
    logs_by_name,
    plan_of,
)
from fastrec.harnesses.values import Fields, Texts, number_of
from fastrec.storage import base_name, join, parent_of

_MEANS = ("win_rate", "discrete_win_rate")
_READ = ("instruction", "output_2", "generator_2", "preference")


def logs_of(files: Files) -> Grouped:
    """A log is the judgements on one model in one file, with the nearest leaderboard above it."""
    roles = by_role(files)
    boards = roles["leaderboard"]
    boards.sort(key=lambda board: board.path.count("/"), reverse=True)

    def nearest_board(file: FoundFile) -> Files:
        path = file.path
        above = [board for board in boards if path.startswith(join(parent_of(board.path), ""))]
        name = f"{base_name(parent_of(path))}_leaderboard."  # of its annotator
        own = [board for board in above if base_name(board.path).startswith(name)]
        return (own or above)[:1]

    return logs_by_name("alpaca-eval", roles["annotations"], _models, nearest_board)


def _models(file: FoundFile) -> list[str]:
    return [row["generator_2"] for row in _rows(file.path)]


def read(log: Log) -> Reading:
    rows = [row for row in _rows(log.path) if row["generator_2"] == log.task]
    # The judge, and the model that others are compared with.
    compared = [
        ",".join(dict.fromkeys(row.text(name) for row in rows))
        for name in ("annotator", "generator_1")
    ]
    stated = {name: number_of(text) for name, text in _stated(log).items()}
    total = stated.pop("n_total", None)
    means = [
        Aggregate(name, name, mean / 100, None if total is None else int(total))
        for name in _MEANS
        if (mean := stated.pop(name, None)) is not None
    ]
    others = [name for name, value in stated.items() if name and value is not None]
    return plan_of(
        "alpaca_eval",
        log.task,
        "/".join(filter(None, compared)),
        {},
        aggregates=means,
        not_compared=dict.fromkeys(others, "it is not the mean of a score"),
    ), _samples(rows)


def _samples(rows: Sequence[Fields]) -> Iterator[Sample]:
    seen = Counter[str]()
    for row in rows:
        asked = row["instruction"]
        # The log has no ids, and rows differ from model to model.
        number = sha256(asked.encode()).hexdigest()[:16]
        seen[number] += 1
        yield answer_to(
            asked,
            [],
            row.texts("output_2"),
            sample_id=number if seen[number] == 1 else f"{number}-{seen[number]}",
            scores=_scores(row["preference"]),
            fields={name: value for name, value in row.items() if name not in _READ},
        )


def _scores(preference: Any) -> list[Score]:
    value = number_of(preference)
    value = 1.5 if value == 0 else value
    if value is None or not 1 <= value <= 2:
        problem = f"the judge stated no preference from 1 to 2, but {preference!r}"
        return [Score(name, None, problem) for name in _MEANS]
    discrete = 0.5 if value == 1.5 else float(value > 1.5)
    return [Score(_MEANS[0], value - 1), Score(_MEANS[1], discrete)]


def _rows(path: str) -> list[Fields]:
    rows = read_rows(path, "a judgement of AlpacaEval")
    for number, row in enumerate(rows, 1):
        if not all(isinstance(row[name], str) for name in ("instruction", "generator_2")):
            raise LogError(
                path, f"item {number:,} does not name the instruction and the model (generator_2)"
            )
    return rows


def _stated(log: Log) -> Texts:
    """The row of a model in the leaderboard, which calls it by its name or by its folder.

    Empty if there is none.
    """
    names = (log.task, *log.path.split("/")[-3:-2])
    for file in log.files[1:]:
        text = read_text(file.path).decode(errors="replace")
        for row in csv.DictReader(StringIO(text)):
            if row.get("") in names:
                return row
    return {}
