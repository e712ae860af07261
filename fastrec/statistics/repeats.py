"""Repeats: how several answers of a model to a question (trials) become one value.

    mean       the mean of all answers
    pass@K     the chance that at least one of K answers is right: 1 - C(n - c, K) / C(n, K)
    pass^K     the chance that all of K answers are right: C(c, K) / C(n, K)
    majority   whether the most frequent answer is right, as it was extracted, or else the output;
               if two are as frequent, it is wrong
    first      the first answer

Of n answers, c are right. Both chances are the unbiased estimates: the share of all choices of K
answers. A question with fewer than K answers has no value. All values are exact.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import comb
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fastrec.errors import UsageError
from fastrec.statistics.exact import mean_score

RIGHT = 1
WRONG = 2
ERROR = 4

# The fields that say which trial a record is, such as the epoch, with their values.
TrialFields = tuple[tuple[str, str], ...]


class Trial(NamedTuple):
    """One of several answers."""

    flag: int  # `RIGHT`, `WRONG` or `ERROR`
    score: float
    answer: int  # the fingerprint of the extracted answer, or else of the output
    output: int  # the fingerprint of the output
    number: TrialFields = ()


def match_trials(
    trials: Iterable[Trial], others: Iterable[Trial]
) -> Iterator[tuple[Trial | None, Trial | None]]:
    """Pair the verdicts of two metrics on the same answers of a model to a question.

    None for what a metric has not judged.

    Two records are about the same answer if no field says that they are of different trials, and if
    such a field or the output is the same. Those with the same output and trial are paired first,
    then those with the same output.
    """
    waiting: dict[tuple[int, TrialFields], list[Trial]] = {}
    for other in others:
        waiting.setdefault((other.output, other.number), []).append(other)
    unpaired = []
    for trial in trials:
        same = waiting.get((trial.output, trial.number))
        if same:
            yield trial, same.pop(0)
        else:
            unpaired.append(trial)
    left = [other for same in waiting.values() for other in same]
    pairs = [(trial, other) for trial in unpaired for other in left if _may_be_same(trial, other)]
    paired = set()
    for trial, other in sorted(pairs, key=lambda pair: pair[0].output != pair[1].output):
        if id(trial) not in paired and id(other) not in paired:
            paired |= {id(trial), id(other)}
            yield trial, other
    yield from ((trial, None) for trial in unpaired if id(trial) not in paired)
    yield from ((None, other) for other in left if id(other) not in paired)


def _may_be_same(trial: Trial, other: Trial) -> bool:
    mine = dict(trial.number)
    theirs = dict(other.number)
    common = mine.keys() & theirs.keys()
    return all(mine[name] == theirs[name] for name in common) and (
        bool(common) or trial.output == other.output
    )


class RepeatsAs(Struct, frozen=True):
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

    def answers(self, trials: Iterable[Trial]) -> list[Trial]:
        return [trial for trial in trials if trial.flag != ERROR or self.errors_as_wrong]

    def value(self, trials: Iterable[Trial], *, graded: bool) -> Fraction | None:
        """The value of a model on a question; None without answers, or with too few."""
        answers = self.answers(trials)
        if self.kind == "first":
            answers = answers[:1]
        number = len(answers)
        right = sum(trial.flag == RIGHT for trial in answers)
        if number < max(self.k, 1):
            return None
        if self.kind == "pass@":
            return 1 - Fraction(comb(number - right, self.k), comb(number, self.k))
        if self.kind == "pass^":
            return Fraction(comb(right, self.k), comb(number, self.k))
        if self.kind == "majority":
            return Fraction(_majority(answers))
        if not graded:
            return Fraction(right, number)
        return mean_score(trial.score for trial in answers)


MEAN = RepeatsAs()


def _majority(answers: Sequence[Trial]) -> bool:
    """Whether the most frequent answer is right.

    If its verdicts differ, most of them must be right.
    """
    (first, votes), *others = Counter(trial.answer for trial in answers).most_common(2)
    right = sum(trial.flag == RIGHT for trial in answers if trial.answer == first)
    return 2 * right > votes and all(count < votes for _, count in others)


def parse_repeats(text: str, *, errors_as_wrong: bool = False) -> RepeatsAs:
    """Parse what `--repeats-as` takes.

    >>> str(parse_repeats("pass^4"))
    'pass^4'
    """
    match = re.fullmatch(r"(mean|majority|first)|(pass[@^])([1-9][0-9]{0,3})", text)
    if not match:
        raise UsageError(
            "--repeats-as must be mean, pass@K, pass^K, majority or first, with a number K, not "
            f"{text!r}"
        )
    return RepeatsAs(match[1] or match[2], int(match[3] or 1), errors_as_wrong)


def parse_series(text: str, *, errors_as_wrong: bool) -> list[RepeatsAs]:
    """Parse what `--repeats-as` takes in `stats`: also several K, such as `pass^1..4`.

    >>> list(map(str, parse_series("pass@2..4")))
    ['pass@2', 'pass@3', 'pass@4']
    """
    first, dots, last = text.partition("..")
    low = parse_repeats(first, errors_as_wrong=errors_as_wrong)
    if not dots:
        return [low]
    high = parse_repeats(f"{low.kind}{last}", errors_as_wrong=errors_as_wrong)
    least, most = sorted((low.k, high.k))
    return [replace(low, k=k) for k in range(least, most + 1)]
