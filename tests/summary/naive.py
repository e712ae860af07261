"""The numbers of models, computed from a list of all records in the simplest way, with fractions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

__all__ = ["NaiveModel", "hash_of", "naive_models", "near_root", "question_of", "split_hashes"]

Records = list[dict[str, Any]]


class NaiveModel(NamedTuple):
    """One model on one evaluation."""

    records: int
    errors: int
    answers: int
    questions: int  # that have answers
    correct: int
    accuracy: float | None
    accuracy_variance: Fraction | None  # the squared standard error
    mean_score: float | None
    score_variance: Fraction | None


def naive_models(
    records: Iterable[dict[str, Any]], *, errors_as_wrong: bool = False
) -> dict[tuple[str, str], NaiveModel]:
    """Return the numbers by evaluation and model."""
    own: dict[tuple[str, str], Records] = defaultdict(list)
    records = list(records)
    for record in records:
        own[record["evaluation_name"], record["model_id"]].append(record)
    split = split_hashes(records)
    return {key: _model(found, split, errors_as_wrong) for key, found in own.items()}


Hash = tuple[str, str | None, str]
"""evaluation_name, metric and sample_hash."""


def hash_of(record: dict[str, Any]) -> Hash:
    return record["evaluation_name"], record.get("evaluation_result_id"), record["sample_hash"]


def split_hashes(records: Iterable[dict[str, Any]]) -> set[Hash]:
    """Hashes that one run of a model has under several sample_ids."""
    ids: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for record in records:
        ids[(*hash_of(record), record["model_id"], record.get("evaluation_id"))].add(
            repr(record.get("sample_id"))
        )
    return {
        (name, metric, hash_) for (name, metric, hash_, *_), found in ids.items() if len(found) > 1
    }


def question_of(record: dict[str, Any], split: set[Hash]) -> tuple[Any, ...]:
    """The hash; if it is split, with the sample_id."""
    found = hash_of(record)
    return (*found, record["sample_id"]) if found in split else found


def _model(records: Records, split: set[Hash], errors_as_wrong: bool) -> NaiveModel:
    answers = [record for record in records if errors_as_wrong or not record.get("error")]
    by_question: dict[tuple[Any, ...], Records] = defaultdict(list)
    for record in answers:
        by_question[question_of(record, split)].append(record)
    right = [[_is_correct(record) for record in found] for found in by_question.values()]
    scores = [
        [Fraction(record["evaluation"]["score"]) for record in found]
        for found in by_question.values()
    ]
    return NaiveModel(
        len(records),
        sum(bool(record.get("error")) for record in records),
        len(answers),
        len(by_question),
        sum(map(sum, right)),
        *_mean_and_variance([Fraction(sum(found), len(found)) for found in right]),
        *_mean_and_variance([sum(found, Fraction()) / len(found) for found in scores]),
    )


def _is_correct(record: dict[str, Any]) -> bool:
    return bool(record["evaluation"]["is_correct"]) and not record.get("error")


def _mean_and_variance(values: list[Fraction]) -> tuple[float | None, Fraction | None]:
    n = len(values)
    if not n:
        return None, None
    mean = sum(values, Fraction()) / n
    variance = (
        sum(((value - mean) ** 2 for value in values), Fraction()) / (n - 1) / n if n > 1 else None
    )
    try:
        return float(mean), variance
    except OverflowError:
        return None, variance


def near_root(found: float | None, variance: Fraction | None) -> bool:
    """Return whether a standard error is the root of a variance, to 12 digits."""
    if variance is None or found is None:
        return variance is None and found is None
    return math.isclose(found, math.sqrt(variance), rel_tol=1e-12, abs_tol=1e-30)
