"""Marks: what each model of a scope made of a question, packed; and the facts that follow for any choice of models.

    flags     one byte per model: 1 if it has a right answer, 2 if it has a wrong one, 4 if it has an error, or a sum
    shares    the share of right answers of each model; empty if the flags tell it: no model is both right and wrong
    scores    the mean score of each model; empty if it is the share
    lengths   the mean length of the outputs of each model
    outputs   a fingerprint of the output of each model with one record
    numbers   the trials of these records (`trial_of`), as far as they have one, and other metrics judge the question
    trials    the records of models with several of them (`pack_trials`); empty if there are none

Shares, scores and lengths are doubles, fingerprints are integers of 64 bits. Those of a model without an answer mean
nothing. Models are in order of their ids.
"""

from __future__ import annotations

import math
import sqlite3
import sys
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from fastrec.answers.table import Outcome
from fastrec.answers.transcript import decoded
from fastrec.statistics.repeats import ERROR, RIGHT, WRONG, Trial, TrialFields
from fastrec.summary.same_run import TRIAL_FIELDS

OUTCOMES_BY_FLAGS: Final[tuple[Outcome, ...]] = ("none", "right", "wrong", "mixed", "error", "right", "wrong", "mixed")
_SHARES: Final = (0.0, 1.0, 0.0, 0.5, 0.0, 1.0, 0.0, 0.5)
"""By the flags of a model, unless it is right and wrong."""
VALUES_BY_FLAGS: Final = (None, 1.0, 0.0, 0.5, None, 1.0, 0.0, 0.5)  # the same; None without an answer
ANSWERS: Final = RIGHT | WRONG
_LARGEST: Final = sys.float_info.max
_SQUARED: Final = 1e140  # the squares of smaller scores can be added up

RecordMark = tuple[int, int, float, int, int, bytes]
"""Of a record: the position of its model in the scope, its flag, its score, the length and the fingerprint of its
output, and the fields of its line from `answer_attribution` on, as a JSON object."""


class Marks(NamedTuple):
    flags: bytes
    shares: bytes
    scores: bytes = b""
    lengths: bytes = b""
    outputs: bytes = b""
    numbers: bytes = b""
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


def fingerprint(texts: Sequence[str]) -> int:
    """A number that tells some texts from others."""
    return fingerprint_of_json(msgspec.json.encode(texts)[1:-1])


def fingerprint_of_json(texts: bytes | bytearray) -> int:
    """The same for texts as they are spelled in JSON, with commas between them."""
    return xxh3_64_intdigest(texts)


def mark(records: Sequence[RecordMark], models: int) -> Marks:
    numbers, kinds, scores, lengths, outputs, _ = zip(*records, strict=True)
    if numbers == _first(models):  # one record of each model
        is_scored = scores != tuple([kind == RIGHT for kind in kinds])
        packed = _pack(scores) if is_scored else b""
        return Marks(bytes(kinds), b"", packed, _pack(lengths), array("Q", outputs).tobytes())
    return _mark(records, models)


@lru_cache(maxsize=64)
def _first(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def _pack(values: Iterable[float]) -> bytes:
    return array("d", values).tobytes()


def _mark(records: Sequence[RecordMark], models: int) -> Marks:
    """Pack records if some models have several of them, or none."""
    flags = bytearray(models)
    outputs = array("Q", bytes(8 * models))
    answers: dict[int, list[RecordMark]] = {}
    for record in records:
        flags[record[0]] |= record[1]
        outputs[record[0]] = record[4]
        if record[1] != ERROR:
            answers.setdefault(record[0], []).append(record)
    shares, scores, lengths = ([0.0] * models for _ in range(3))
    for model, found in answers.items():
        count = len(found)
        if count == 1:
            _, flag, scores[model], lengths[model], *_ = found[0]
            shares[model] = float(flag == RIGHT)
        else:
            shares[model] = sum([flag == RIGHT for _, flag, *_ in found]) / count
            scores[model] = _mean_of([score for _, _, score, *_ in found])
            lengths[model] = sum([length for _, _, _, length, *_ in found]) / count
    is_mixed = any(kind & ANSWERS == ANSWERS for kind in flags)
    return Marks(
        bytes(flags),
        _pack(shares) if is_mixed else b"",
        _pack(scores) if scores != shares else b"",
        _pack(lengths),
        outputs.tobytes(),
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
    except OverflowError:  # rounding must not lead beyond the largest double
        mean = 2 * math.fsum([value / len(values) / 2 for value in values])
        return sorted([min(values), mean, max(values)])[1]


def _spread(values: Sequence[float]) -> float:
    low, high = min(values), max(values)
    if low == high:
        return 0.0
    unit = max(abs(low), abs(high))
    if unit > _SQUARED:  # squares would overflow
        return min(unit * _spread([value / unit for value in values]), _LARGEST)
    mean = math.fsum(values) / len(values)
    return 2 * math.sqrt(math.fsum([(value - mean) ** 2 for value in values]) / len(values))


# Trials: the records of a model that has several of them for one question (`statistics.repeats`).

_ANSWER_FIELDS: Final = tuple(name for name in TRIAL_FIELDS if name != "filter")  # a filter reads an answer in its way


_decode_trials = msgspec.msgpack.Decoder(dict[int, list[Trial]]).decode
_decode_numbers = msgspec.msgpack.Decoder(dict[int, TrialFields]).decode


def pack_numbers(records: Sequence[RecordMark]) -> bytes:
    """Pack which trials the records are; nothing if no record says it."""
    found = {record[0]: trial_of(decoded(record[-1])) for record in records}
    numbers = {model: number for model, number in found.items() if number}
    return msgspec.msgpack.encode(numbers) if numbers else b""


def pack_trials(records: Sequence[RecordMark]) -> bytes:
    """Pack the records of the models that have several; nothing if none has.

    Trials are in the order of their number, such as the epoch. Those without a number are in the order of the corpus.
    """
    counts = Counter([record[0] for record in records])
    if len(counts) == len(records):
        return b""
    found: dict[int, list[tuple[Any, Trial]]] = {model: [] for model, count in counts.items() if count > 1}
    for model, flag, score, _, output, tail in records:
        if model in found:
            fields = decoded(tail)
            extracted = [one["extracted_value"] for one in fields.get("answer_attribution") or ()]
            answer = fingerprint(extracted) if any(extracted) else output
            found[model].append((_order(fields), Trial(flag, score, answer, output, trial_of(fields))))
    by_order = {model: sorted(trials, key=lambda one: one[0]) for model, trials in found.items()}
    return msgspec.msgpack.encode({model: [trial for _, trial in trials] for model, trials in by_order.items()})


def trial_of(fields: Mapping[str, Any]) -> TrialFields:
    """The fields of a record that say which of several answers it judges."""
    known = {**fields, **(fields.get("metadata") or {})}
    return tuple([(name, str(known[name])) for name in _ANSWER_FIELDS if name in known])


def _order(fields: Mapping[str, Any]) -> tuple[bool, int, str]:
    known = {**fields, **(fields.get("metadata") or {})}
    text = next((str(known[name]) for name in TRIAL_FIELDS if name in known), "")
    return (False, int(text), "") if text.isdecimal() and len(text) < 20 else (True, 0, text)


def unpack_trials(packed: bytes) -> dict[int, list[Trial]]:
    return _decode_trials(packed) if packed else {}


def unpack_numbers(packed: bytes) -> dict[int, TrialFields]:
    return _decode_numbers(packed) if packed else {}


# Of few models, most questions have the same marks as another one. So SQL cuts the marks of chosen models out of the
# packed columns, and finds those that differ. Their facts are computed once, and kept in a temporary table. What is
# selected from `marks` and this table together has the columns of the table `question`, so that the same SQL works on
# both. Graded scores hardly repeat: then the table has the facts of each question.

_KEPT: Final = 4
_MOST_RUNS: Final = 8
_WIDTHS: Final = {"flags": 1, "shares": 8, "scores": 8, "lengths": 8, "outputs": 8}
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
        f"(SELECT m.scope, m.id, {_FACTS}, "  # noqa: S608 - all ours
        f"length_{name}({flags}, {cut.column('lengths')}) AS output_chars, "
        "(SELECT a.input_chars FROM asked a WHERE a.id = m.id) AS input_chars "
        f"FROM marks m CROSS JOIN temp.{name} c ON {same} WHERE m.scope = {scope})"
    )
