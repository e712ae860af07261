"""Trials: the records of a model that has several of them for one question, and how they become one value.

    mean       the mean of all answers
    pass@K     the chance that at least one of K answers is right: 1 - C(n - c, K) / C(n, K)
    pass^K     the chance that all of K answers are right: C(c, K) / C(n, K)
    majority   whether the most frequent extracted answer is right; if two are as frequent, it is wrong
    first      the first answer

Of n answers, c are right. Both chances are the unbiased estimates: the share of all choices of K answers. A question
with fewer than K answers has no value. All values are exact.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import msgspec

from fastrec.answers.marks import ERROR, RIGHT, RecordMark
from fastrec.errors import UsageError
from fastrec.judge.parse import parse
from fastrec.summary.same_run import TRIAL_FIELDS
from fastrec.summary.significance import Value, to_double


class Trial(NamedTuple):
    """One of several records of a model and question."""

    flag: int  # `RIGHT`, `WRONG` or `ERROR`
    score: float
    answer: int  # trials of a model with the same extracted answer have the same number
    length: int  # characters of the output


_decode = msgspec.msgpack.Decoder(dict[int, list[Trial]]).decode


def pack_trials(records: Sequence[RecordMark]) -> bytes:
    """Pack the records of the models that have several; nothing if none has.

    Trials are in the order of their number, such as the epoch. Those without a number are in the order of the corpus.
    """
    counts = Counter([record[0] for record in records])
    if len(counts) == len(records):
        return b""
    found: dict[int, list[tuple[Any, Trial]]] = {model: [] for model, count in counts.items() if count > 1}
    answers: dict[tuple[int, str], int] = {}
    for model, flag, score, length, tail in records:
        if model in found:
            fields: Any = parse(tail)[0]
            extracted = str([one.get("extracted_value") for one in fields.get("answer_attribution") or ()])
            answer = answers.setdefault((model, extracted), len(answers))
            found[model].append((_order(fields), Trial(flag, score, answer, length)))
    by_order = {model: sorted(trials, key=lambda one: one[0]) for model, trials in found.items()}
    return msgspec.msgpack.encode({model: [trial for _, trial in trials] for model, trials in by_order.items()})


def _order(fields: Mapping[str, Any]) -> tuple[bool, int, str]:
    known = {**fields, **(fields.get("metadata") or {})}
    text = next((str(known[name]) for name in TRIAL_FIELDS if name in known), "")
    return (False, int(text), "") if text.isdecimal() and len(text) < 20 else (True, 0, text)


def unpack_trials(packed: bytes) -> dict[int, list[Trial]]:
    return _decode(packed) if packed else {}


class RepeatsAs(msgspec.Struct, frozen=True):
    """How several answers of a model to a question become one value."""

    kind: str = "mean"
    k: int = 1
    errors_as_wrong: bool = False

    def __str__(self) -> str:
        return f"{self.kind}{self.k}" if self.kind.startswith("pass") else self.kind

    @property
    def by_verdict(self) -> bool:
        """Whether only right and wrong count, not scores."""
        return self.kind not in ("mean", "first")

    def value(self, trials: Iterable[Trial], *, graded: bool) -> Fraction | None:
        """The value of a model on a question; None without answers, or with too few."""
        answers = [one for one in trials if one.flag != ERROR or self.errors_as_wrong]
        number, right = len(answers), sum(one.flag == RIGHT for one in answers)
        if number < max(self.k, 1):
            return None
        if self.kind == "pass@":
            return 1 - Fraction(math.comb(number - right, self.k), math.comb(number, self.k))
        if self.kind == "pass^":
            return Fraction(math.comb(right, self.k), math.comb(number, self.k))
        if self.kind == "majority":
            return Fraction(_majority(answers))
        if self.kind == "first":
            answers = answers[:1]
        if not graded:
            return Fraction(sum(one.flag == RIGHT for one in answers), len(answers))
        scores = (Fraction(0) if one.flag == ERROR else Fraction(repr(one.score)) for one in answers)
        return sum(scores, Fraction()) / len(answers)

    def alone(self, value: Value, flags: int) -> Value:
        """The value of a model with one record at most, given that of its answer and its flags."""
        if self.k > 1:
            return None
        return 0.0 if flags == ERROR and self.errors_as_wrong else value


MEAN: Final = RepeatsAs()


def _majority(answers: Sequence[Trial]) -> bool:
    """Whether the most frequent answer is right. If its verdicts differ, most of them must be right."""
    (first, votes), *others = Counter(one.answer for one in answers).most_common(2)
    right = sum(one.flag == RIGHT for one in answers if one.answer == first)
    return 2 * right > votes and all(count < votes for _, count in others)


def mean_of(values: Iterable[Value]) -> tuple[int, float | None, float | None]:
    """The number of values, their mean, and its standard error; None for what is undefined."""
    counts = Counter(value for value in values if value is not None)
    number = counts.total()
    total, squares = (sum((Fraction(v) ** power * n for v, n in counts.items()), Fraction()) for power in (1, 2))
    if number < 2:
        return number, to_double(total) if number else None, None
    variance = (squares - total**2 / number) / (number * (number - 1))
    return number, to_double(total / number), math.sqrt(to_double(variance))


def parse_repeats(text: str, *, errors_as_wrong: bool = False) -> RepeatsAs:
    """Parse what `--repeats-as` takes.

    >>> str(parse_repeats("pass^4"))
    'pass^4'
    """
    found = re.fullmatch(r"(mean|majority|first)|(pass[@^])([1-9][0-9]{0,3})", text)
    if not found:
        raise UsageError(f"--repeats-as must be mean, pass@K, pass^K, majority or first, with a number K, not {text!r}")
    return RepeatsAs(found[1] or found[2], int(found[3] or 1), errors_as_wrong)
