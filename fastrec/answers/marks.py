"""Marks: what each model of a scope made of a question, packed; and the facts that follow for any choice of models.

    flags     one byte per model: 1 if it has a right answer, 2 if it has a wrong one, 4 if it has an error, or a sum
    shares    the share of right answers of each model; empty if the flags tell it: no model is both right and wrong
    scores    the mean score of each model; empty if it is the share
    lengths   the mean length of the outputs of each model
    trials    the records of models with several of them (`trials.pack_trials`); empty if there are none

Shares, scores and lengths are doubles. Those of a model without an answer mean nothing. Models are in order of their
ids.
"""

from __future__ import annotations

import math
import sqlite3
import sys
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from fastrec.answers.table import Outcome

RIGHT: Final = 1
WRONG: Final = 2
ERROR: Final = 4
OUTCOMES_BY_FLAGS: Final[tuple[Outcome, ...]] = ("none", "right", "wrong", "mixed", "error", "right", "wrong", "mixed")
_SHARES: Final = (0.0, 1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.5)
"""By the flags of a model, unless it is right and wrong."""
VALUES_BY_FLAGS: Final = (None, 1.0, 0.0, 0.5, None, 1.0, 0.0, 0.5)
"""The same; None without an answer."""
ANSWERS: Final = RIGHT | WRONG
_LARGEST: Final = sys.float_info.max
_SQUARED: Final = 1e140  # the squares of smaller scores can be added up

RecordMark = tuple[int, int, float, int, bytes]
"""Of a record: the position of its model in the scope, its flag, its score, the length of its output, and the fields of
its line from `answer_attribution` on, as a JSON object."""


class Marks(NamedTuple):
    flags: bytes
    shares: bytes
    scores: bytes = b""
    lengths: bytes = b""
    trials: bytes = b""


class Facts(NamedTuple):
    """What follows from the marks of some models; the columns of a table of questions."""

    kinds: int  # all flags of these models together
    models: int  # models with an answer
    right: float
    score: float | None
    spread: float | None  # twice the standard deviation of the values of these models
    errors: int
    low: float | None  # the least of their mean scores
    high: float | None


def mark(records: Sequence[RecordMark], models: int) -> Marks:
    numbers, kinds, scores, lengths, _ = zip(*records, strict=True)
    if numbers == _first(models):  # one record of each model
        is_scored = scores != tuple([kind == RIGHT for kind in kinds])
        return Marks(bytes(kinds), b"", _pack(scores) if is_scored else b"", _pack(lengths))
    return _mark(records, models)


@lru_cache(maxsize=64)
def _first(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def _pack(values: Iterable[float]) -> bytes:
    return array("d", values).tobytes()


def _mark(records: Sequence[RecordMark], models: int) -> Marks:
    """Pack records if some models have several of them, or none."""
    flags = bytearray(models)
    answers: dict[int, list[RecordMark]] = {}
    for record in records:
        flags[record[0]] |= record[1]
        if record[1] != ERROR:
            answers.setdefault(record[0], []).append(record)
    shares, scores, lengths = ([0.0] * models for _ in range(3))
    for model, found in answers.items():
        count = len(found)
        if count == 1:
            _, flag, scores[model], lengths[model], _ = found[0]
            shares[model] = float(flag == RIGHT)
        else:
            shares[model] = sum([flag == RIGHT for _, flag, *_ in found]) / count
            scores[model] = _mean_of([score for _, _, score, *_ in found])
            lengths[model] = sum([length for _, _, _, length, _ in found]) / count
    is_mixed = any(kind & ANSWERS == ANSWERS for kind in flags)
    return Marks(
        bytes(flags),
        _pack(shares) if is_mixed else b"",
        _pack(scores) if scores != shares else b"",
        _pack(lengths),
    )


def _values_of(marks: Marks, models: Sequence[int], *, graded: bool) -> list[float]:
    """Return the values of models with an answer: the share of right answers, or the score if the metric is graded."""
    packed = (marks.scores or marks.shares) if graded else marks.shares
    if packed:
        column = array("d", packed)
        return [column[model] for model in models]
    return [_SHARES[marks.flags[model]] for model in models]


def values_or_none(marks: Marks, models: Sequence[int | None], *, graded: bool) -> tuple[float | None, ...]:
    """Return the values of some models; None for one that is not in the scope, or has no answer."""
    flags = marks.flags
    answering = [model for model in models if model is not None and flags[model] & ANSWERS]
    values = dict(zip(answering, _values_of(marks, answering, graded=graded), strict=True))
    return tuple([None if model is None else values.get(model) for model in models])


def facts_of(marks: Marks, models: Sequence[int], *, graded: bool) -> Facts:
    flags = _flags_of(marks.flags, models)
    facts = _facts_of_flags(flags)
    if not facts.models or (not marks.shares and not marks.scores):
        return facts
    answering = _answering(flags, models, facts.models)
    shares = _values_of(marks, answering, graded=False)
    scores = _values_of(marks, answering, graded=True)
    return facts._replace(
        right=math.fsum(shares),
        score=_mean_of(scores),
        spread=_spread(scores if graded else shares),
        low=min(scores),
        high=max(scores),
    )


def mean_length(flags: bytes, lengths: bytes, models: Sequence[int]) -> float | None:
    """Return the mean length of the outputs of some models, in ascending order; None without answers."""
    flags = _flags_of(flags, models)
    answers = _facts_of_flags(flags).models
    if not answers:
        return None
    values = array("d", lengths)
    if answers == len(values):
        return math.fsum(values) / answers
    return math.fsum([values[model] for model in _answering(flags, models, answers)]) / answers


def _flags_of(flags: bytes, models: Sequence[int]) -> bytes:
    return flags if len(models) == len(flags) else bytes([flags[model] for model in models])


def _answering(flags: bytes, models: Sequence[int], answers: int) -> Sequence[int]:
    """Return the models with an answer, given the flags of all, and their number."""
    if answers == len(models):
        return models
    return [model for model, kind in zip(models, flags, strict=True) if kind & ANSWERS]


@lru_cache(maxsize=1 << 12)  # of few models, most questions have the same flags as another one
def _facts_of_flags(flags: bytes) -> Facts:
    """Return the facts about models, given their flags, if their scores follow from them."""
    kinds = 0
    for kind in set(flags):
        kinds |= kind
    shares = [_SHARES[kind] for kind in flags if kind & ANSWERS]
    errors = flags.count(ERROR)
    if not shares:
        return Facts(kinds, 0, 0.0, None, None, errors, None, None)
    right = math.fsum(shares)
    return Facts(kinds, len(shares), right, right / len(shares), _spread(shares), errors, min(shares), max(shares))


def _mean_of(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum([value / len(values) for value in values])


def _spread(values: Sequence[float]) -> float:
    low, high = min(values), max(values)
    if low == high:
        return 0.0
    unit = max(abs(low), abs(high))
    if unit > _SQUARED:  # squares would overflow
        return min(unit * _spread([value / unit for value in values]), _LARGEST)
    mean = math.fsum(values) / len(values)
    return 2 * math.sqrt(math.fsum([(value - mean) ** 2 for value in values]) / len(values))


# Of few models, most questions have the same marks as another one. So SQL cuts the marks of chosen models out of the
# packed columns, and finds those that differ. Their facts are computed once, and kept in a temporary table. What is
# selected from `marks` and this table together has the columns of the table `question`, so that the same SQL works on
# both. Graded scores hardly repeat: then the table has the facts of each question.

_KEPT: Final = 4
_MOST_RUNS: Final = 8
_WIDTHS: Final = {"flags": 1, "shares": 8, "scores": 8, "lengths": 8}
_PACKED: Final = ["flags", "shares", "scores"]
_FACTS: Final = ", ".join(Facts._fields)


class Cut:
    """How SQL cuts the marks of some models, in ascending order, out of packed columns.

    >>> Cut([0, 1, 4]).column("scores")
    "coalesce(CAST(substr(m.scores, 1, 16) || substr(m.scores, 33, 8) AS BLOB), x'')"
    """

    models: list[int]
    """The positions of these models in what is cut. Many models have others between them, which are cut too."""

    def __init__(self, models: Sequence[int]) -> None:
        gaps = [at for at in range(1, len(models)) if models[at] - models[at - 1] > 1]
        widest = sorted(gaps, key=lambda at: models[at - 1] - models[at])[: _MOST_RUNS - 1]
        bounds = pairwise([0, *sorted(widest), len(models)])
        self._runs = [range(models[first], models[end - 1] + 1) for first, end in bounds] if models else []
        positions = {model: at for at, model in enumerate(model for run in self._runs for model in run)}
        self.models = [positions[model] for model in models]

    def column(self, name: str) -> str:
        if name not in _WIDTHS:
            return f"m.{name}"  # with the positions of models in the scope
        width = _WIDTHS[name]
        pieces = [f"substr(m.{name}, {run.start * width + 1}, {len(run) * width})" for run in self._runs]
        # A piece of an empty column is NULL.
        return f"coalesce(CAST({' || '.join(pieces)} AS BLOB), x'')" if pieces else "x''"


class Choices:
    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, tuple[int, ...]], tuple[str, str]] = OrderedDict()
        self._made = 0

    def facts(self, connection: sqlite3.Connection, scope: int, models: tuple[int, ...], *, graded: bool) -> str:
        key = scope, models
        if key not in self._kept:
            self._made += 1
            name = f"choice_{self._made}"
            self._kept[key] = name, _choose(connection, name, scope, models, graded=graded)
            if len(self._kept) > _KEPT:
                _, (oldest, _) = self._kept.popitem(last=False)
                connection.execute(f"DROP TABLE temp.{oldest}")
                connection.create_function(f"length_{oldest}", 2, None)
        self._kept.move_to_end(key)
        return self._kept[key][1]


def _choose(connection: sqlite3.Connection, name: str, scope: int, models: Sequence[int], *, graded: bool) -> str:
    cut = Cut(models)
    flags, *_ = packed = [cut.column(column) for column in _PACKED]
    names, keys = (["id"], ["m.id"]) if graded else (_PACKED, packed)
    columns = ", ".join([*keys, *packed] if graded else packed)
    different = connection.execute(f"SELECT DISTINCT {columns} FROM marks m WHERE scope = {scope}")  # noqa: S608
    places = ", ".join("?" * (len(keys) + len(Facts._fields)))
    connection.execute("BEGIN")
    with connection:
        key = ", ".join(names)
        typed = ", ".join(f"{column} {'INTEGER' if graded else 'BLOB'}" for column in names)  # as in `marks`
        connection.execute(f"CREATE TABLE temp.{name} ({typed}, {_FACTS}, PRIMARY KEY ({key})) WITHOUT ROWID")
        connection.executemany(
            f"INSERT INTO temp.{name} VALUES ({places})",  # noqa: S608 - a name of ours
            (
                (*row[: len(keys)], *facts_of(Marks(*row[-len(packed) :]), cut.models, graded=graded))
                for row in different
            ),
        )
    connection.create_function(
        f"length_{name}", 2, lambda kinds, packed: mean_length(kinds, packed, cut.models), deterministic=True
    )
    same = " AND ".join(f"c.{column} = {value}" for column, value in zip(names, keys, strict=True))
    # The join must begin with `marks`: the other table may have no id.
    return (
        f"(SELECT m.id, {_FACTS}, length_{name}({flags}, {cut.column('lengths')}) AS output_chars, "  # noqa: S608
        "(SELECT a.input_chars FROM asked a WHERE a.id = m.id) AS input_chars "
        f"FROM marks m CROSS JOIN temp.{name} c ON {same} WHERE m.scope = {scope})"
    )
