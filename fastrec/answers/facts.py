"""Facts about questions: what some models made of each, as arrays with a value for each question.

A model with several answers counts with their mean. Sums are rounded once, whatever the order of
models: most questions have only right and wrong answers, so all that is needed of them are two
numbers, and few pairs of these are different.
"""

import sys
from collections.abc import Sequence
from functools import lru_cache
from math import fsum, nan, sqrt
from typing import NamedTuple

import numpy as np

from fastrec.answers.codes import Array, by_code, count_of, distinct_of, is_there
from fastrec.answers.records import ERROR, ScopeRecords, mean_of_doubles

_LARGEST = sys.float_info.max
_SQUARED = 1e140  # the squares of smaller scores can be added up


class Facts(NamedTuple):
    """What some models made of each question of a scope."""

    kinds: Array  # `RIGHT`, `WRONG` and `ERROR` of all their records, added up
    models: Array  # models with an answer
    # How many of them have it right; a model with several answers counts with its share.
    right: Array
    score: Array  # the mean over models of their mean scores; NaN without answers
    spread: Array  # twice the standard deviation over models; NaN without answers
    errors: Array  # models with nothing but errors


def facts_of(table: ScopeRecords, models: Array, *, graded: bool) -> Facts:
    """The facts about some models, given whether each model counts."""
    cells = table.cells
    count = table.questions
    is_chosen = models[cells.model]
    kinds = np.zeros(count, dtype=np.uint8)
    np.bitwise_or.at(kinds, cells.question[is_chosen], cells.flags[is_chosen])
    errors = count_of(cells.question[is_chosen & (cells.flags == ERROR)], count)
    is_answer = is_chosen & cells.is_answered
    question = cells.question[is_answer]
    share = cells.share[is_answer]
    score = cells.score[is_answer]
    answers = count_of(question, count)
    is_plain = ((share == 0) | (share == 1)) & (score == share)
    right = count_of(question[share == 1], count)
    first, place = distinct_of(right, answers)
    verdicts = map(_of_verdict, right[first].tolist(), answers[first].tolist())
    mean, spread = np.array(list(verdicts), dtype=np.float64).reshape(-1, 2)[place].T.copy()
    right = right.astype(np.float64)
    others = np.flatnonzero(is_there(question[~is_plain], count)[question])
    for number, places in by_code(question[others], others):
        shares = share[places].tolist()
        scores = score[places].tolist()
        right[number] = fsum(shares)
        mean[number] = mean_of_doubles(scores)
        spread[number] = _spread(scores if graded else shares)
    return Facts(kinds, answers, right, mean, spread, errors)


@lru_cache(maxsize=1 << 12)
def _of_verdict(right: int, answers: int) -> tuple[float, float]:
    if not answers:
        return nan, nan
    return right / answers, _spread([1.0] * right + [0.0] * (answers - right))


def _spread(values: Sequence[float]) -> float:
    low, high = min(values), max(values)
    if low == high:
        return 0.0
    unit = max(abs(low), abs(high))
    if unit > _SQUARED:  # squares would overflow
        return min(unit * _spread([value / unit for value in values]), _LARGEST)
    mean = fsum(values) / len(values)
    return 2 * sqrt(fsum([(value - mean) ** 2 for value in values]) / len(values))


def spread_range(table: ScopeRecords) -> float:
    """The range of the mean scores of models on questions, which the disagreement is a share of."""
    cells = table.cells
    scores = cells.score[cells.is_answered]
    if not scores.size or scores.min() == scores.max():
        return 1.0
    with np.errstate(over="ignore"):
        return min(float(scores.max() - scores.min()), _LARGEST)


def mean_lengths(table: ScopeRecords, models: Array) -> Array:
    """By question: the mean over some models of the mean length of their answers.

    NaN without answers.
    """
    cells = table.cells
    is_answer = table.is_answer
    place = cells.place[is_answer]
    counts = count_of(place, len(cells.question))
    lengths = np.bincount(place, table.gather("response_characters")[is_answer], len(counts))
    is_wanted = cells.is_answered & models[cells.model]
    means = lengths[is_wanted] / counts[is_wanted]
    question = cells.question[is_wanted]
    total = np.bincount(question, means, table.questions)
    if (counts > 1).any():  # means of several answers are rounded
        for number, its_means in by_code(question, means):
            total[number] = fsum(its_means)
    with np.errstate(invalid="ignore"):
        return total / count_of(question, table.questions)
