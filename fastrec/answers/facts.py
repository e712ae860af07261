"""Facts about questions: what some models made of each, as arrays with a value for each question.

A model with several answers counts with their mean. Sums are rounded once, whatever the order of
models: most questions have only right and wrong answers, so all that is needed of them are two
numbers, and few pairs of these are different.
"""

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fastrec.answers.codes import Array
from fastrec.answers.records import ANSWERS, ERROR, ScopeRecords, mean_of_doubles

_LARGEST = sys.float_info.max
_SQUARED = 1e140  # the squares of smaller scores can be added up


class Facts(NamedTuple):
    """What some models made of each question of a scope."""

    kinds: Array  # `RIGHT`, `WRONG` and `ERROR` of all their records, added up
    models: Array  # models with an answer
    right: (
        Array  # how many of them have it right; a model with several answers counts with its share
    )
    score: Array  # the mean over models of their mean scores; NaN without answers
    spread: Array  # twice the standard deviation over models; NaN without answers
    errors: Array  # models with nothing but errors


def facts_of(table: ScopeRecords, models: Array | None, *, graded: bool) -> Facts:
    """The facts about some models, given whether each model counts, or about all."""
    cells = table.cells
    count = table.questions
    counts = np.ones(len(cells.model), dtype=np.bool_) if models is None else models[cells.model]
    question = cells.question[counts]
    flags = cells.flags[counts]
    kinds = np.zeros(count, dtype=np.int64)
    for kind in (1, 2, 4):
        kinds |= np.where(np.bincount(question[flags & kind > 0], minlength=count) > 0, kind, 0)
    errors = np.bincount(question[flags == ERROR], minlength=count)
    answering = flags & ANSWERS > 0
    question = question[answering]
    share = cells.share[counts][answering]
    score = cells.score[counts][answering]
    answers = np.bincount(question, minlength=count)
    is_plain = ((share == 0) | (share == 1)) & (score == share)
    has_other = np.bincount(question[~is_plain], minlength=count) > 0
    right = np.bincount(question[share == 1], minlength=count).astype(np.float64)
    mean, spread = _of_verdicts(right, answers)
    bounds = np.searchsorted(question, np.arange(count + 1))
    for number in np.flatnonzero(has_other).tolist():
        some = slice(bounds[number], bounds[number + 1])
        shares = share[some].tolist()
        scores = score[some].tolist()
        right[number] = math.fsum(shares)
        mean[number] = mean_of_doubles(scores)
        spread[number] = _spread(scores if graded else shares)
    return Facts(kinds, answers, right, mean, spread, errors)


def _of_verdicts(right: Array, answers: Array) -> tuple[Array, Array]:
    """The means and the spreads of questions with right and wrong answers only."""
    pairs = right.astype(np.int64) * (int(answers.max(initial=0)) + 1) + answers
    distinct, places = np.unique(pairs, return_inverse=True)
    base = int(answers.max(initial=0)) + 1
    found = [_of_verdict(*divmod(one, base)) for one in distinct.tolist()]
    by_pair = np.array(found, dtype=np.float64).reshape(-1, 2)[places]
    return by_pair[:, 0].copy(), by_pair[:, 1].copy()


@lru_cache(maxsize=1 << 12)
def _of_verdict(right: int, answers: int) -> tuple[float, float]:
    if not answers:
        return math.nan, math.nan
    return right / answers, _spread([1.0] * right + [0.0] * (answers - right))


def _spread(values: Sequence[float]) -> float:
    low, high = min(values), max(values)
    if low == high:
        return 0.0
    unit = max(abs(low), abs(high))
    if unit > _SQUARED:  # squares would overflow
        return min(unit * _spread([value / unit for value in values]), _LARGEST)
    mean = math.fsum(values) / len(values)
    return 2 * math.sqrt(math.fsum([(value - mean) ** 2 for value in values]) / len(values))


def spread_range(table: ScopeRecords) -> float:
    """The range of the mean scores of models on questions, which the disagreement is a share of."""
    cells = table.cells
    scores = cells.score[cells.flags & ANSWERS > 0]
    if not scores.size or scores.min() == scores.max():
        return 1.0
    with np.errstate(over="ignore"):
        return min(float(scores.max() - scores.min()), _LARGEST)


def mean_lengths(table: ScopeRecords, models: Array | None) -> Array:
    """By question: the mean over models of the mean length of their answers.

    NaN without answers.
    """
    cells = table.cells
    is_answer = table.flag & ANSWERS > 0
    lengths = table.gather("response_characters")
    counts = np.bincount(cells.place[is_answer], minlength=len(cells.question))
    sums = np.bincount(
        cells.place[is_answer], weights=lengths[is_answer], minlength=len(cells.question)
    )
    wanted = counts > 0
    if models is not None:
        wanted &= models[cells.model]
    means = sums[wanted] / counts[wanted]
    question = cells.question[wanted]
    answers = np.bincount(question, minlength=table.questions)
    if (counts > 1).any():  # means of several answers are rounded
        bounds = np.searchsorted(question, np.arange(table.questions + 1)).tolist()
        total = np.array(
            [math.fsum(means[bounds[at] : bounds[at + 1]]) for at in range(table.questions)]
        )
    else:
        total = np.bincount(question, weights=means, minlength=table.questions)
    with np.errstate(invalid="ignore"):
        return total / answers
