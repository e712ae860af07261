"""What scores say about the questions of a scope: difficulty, discrimination, flags, reliability.

The scores of all models on all questions are an array; `statistics.items` has what follows from it.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import compress

import numpy as np
from msgspec import Struct

from fastrec.answers.codes import Array, by_code, distinct_of, none_if_nan
from fastrec.answers.near_duplicates import near_duplicates
from fastrec.answers.records import ScopeRecords
from fastrec.answers.table import Scope
from fastrec.answers.transcript import transcript_of
from fastrec.errors import UsageError
from fastrec.judge.parse import decoded
from fastrec.parameters import Names
from fastrec.schemas.view import view, view_decoder
from fastrec.statistics.intervals import OptionalNumber
from fastrec.statistics.items import (
    FEWEST_MODELS,
    Reliability,
    discriminations,
    reliability,
    rest_means,
    wrong_key_p_values,
)
from fastrec.statistics.subset import SubsetFidelity, choose_subset, judge_subsets
from fastrec.summary.document import ScopeNames

ALL_RIGHT = "all_right"
ALL_WRONG = "all_wrong"
SUSPECTED_KEY = "suspected_key"
NEAR_DUPLICATE = "near_duplicate"
FLAGS = (SUSPECTED_KEY, ALL_WRONG, ALL_RIGHT, NEAR_DUPLICATE)

_MOST_CELLS = 50_000_000  # of models × questions
_MOST_TEXTS = 200_000  # that are compared to find near duplicates
_ALPHA = 0.05
_COVERAGE = 0.9  # of the questions, for models that reliability is computed over


class Item(Struct, kw_only=True):
    """A question, and what the scores of models say about it."""

    sample_hash: str
    #: Its ids.
    sample_ids: list[str | int]
    #: Models with an answer.
    models: int
    #: 1 minus the mean score of the models, or the mean score if lower is better. The scale is from
    #: 0 to 1, or to the scores beyond them.
    difficulty: float
    #: The correlation of its scores with the mean of all other questions, over models.
    discrimination: OptionalNumber
    #: How probable this is with a right key (docs/benchmark.md), adjusted for all questions.
    p_wrong_key: OptionalNumber
    #: `suspected_key`, `all_wrong`, `all_right`, `near_duplicate`.
    flags: list[str] = []
    #: Hashes of questions with nearly the same text.
    near_duplicates: list[str]
    #: Of a suspected key: what it says.
    references: list[str] = []
    #: Of a suspected key: what most of the stronger half of the models gave.
    agreed_value: str | None = None
    #: How many of them gave it.
    agreed_by: int = 0


class Subset(Struct):
    """Questions that stand for all of them."""

    #: Hashes, in the order of the corpus.
    questions: list[str]
    #: Of subsets that are chosen in this way.
    chosen: SubsetFidelity
    #: Of random subsets of this size.
    random: SubsetFidelity


class EvaluationItems(ScopeNames):
    """The questions of an evaluation and metric."""

    #: Models with an answer.
    models: int
    #: The total.
    total: int
    #: Fewer than 8.
    too_few_models: bool
    #: Questions by flag.
    flags: dict[str, int]
    #: Cronbach's alpha; KR-20 if scores are 0 and 1.
    reliability: OptionalNumber
    #: Lower end of the 95 % interval.
    reliability_low: OptionalNumber
    #: Upper end of the 95 % interval.
    reliability_high: OptionalNumber
    #: Of measurement, of a mean score.
    standard_error: OptionalNumber
    #: For a reliability of 0.9, with questions like these.
    questions_needed: int | None
    #: Models with at least 90 % of the questions: reliability is over these, if they are at least
    #: 8.
    complete_models: int
    #: Questions that all of these answered.
    complete_questions: int
    #: By `p_wrong_key`, the lowest first, then by discrimination.
    questions: list[Item]
    #: With `--subset`.
    subset: Subset | None


def analyse_items(
    table: ScopeRecords, scope: Scope, models: Names, *, subset: int | None, seed: int
) -> EvaluationItems:
    """Analyse the questions of a scope, by the answers of all its models or of some."""
    names = list(compress(table.models, table.are_models(models)))
    if len(names) * table.questions > _MOST_CELLS:
        raise UsageError(
            f"{table.name[0]} has {len(names):,} models and {table.questions:,} questions, which "
            "are too many: choose models with --model"
        )
    scores = table.values_of(names, graded=scope.graded)
    if scope.lower_is_better:
        scores = -scores
    answering = int((~np.isnan(scores)).any(axis=1).sum())
    enough = answering >= FEWEST_MODELS
    complete = scores[np.ix_(*_complete(scores))]
    internal = reliability(complete) if len(complete) >= FEWEST_MODELS else None
    questions = _questions(
        table, names, scores, seed, enough=enough, is_lower=scope.lower_is_better
    )
    return EvaluationItems(
        *table.name,
        models=answering,
        total=table.questions,
        too_few_models=not enough,
        flags=dict(Counter(flag for question in questions for flag in question.flags)),
        **(internal._asdict() if internal else dict.fromkeys(Reliability._fields)),
        complete_models=len(complete),
        complete_questions=complete.shape[1],
        questions=questions,
        subset=None if subset is None else _subset(table, scores, subset, seed),
    )


def _questions(
    table: ScopeRecords,
    models: Sequence[str],
    scores: Array,
    seed: int,
    *,
    enough: bool,
    is_lower: bool,
) -> list[Item]:
    """Analyse each question, given the scores of some models; negative ones if lower is better."""
    worst = np.nanmin(scores, initial=-float(is_lower))
    best = np.nanmax(scores, initial=not is_lower)
    answered_by = ~np.isnan(scores)
    answered = answered_by.sum(axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        means = np.nansum(scores, axis=0) / answered
        difficulties = (best - means) / (best - worst)
    nothing = np.full(table.questions, np.nan)
    correlations = discriminations(scores) if enough else nothing
    p_values = wrong_key_p_values(scores, seed) if enough else nothing
    duplicates = _near_duplicates(table)
    sample_ids = _sample_ids(table)
    rest = rest_means(scores)
    questions = []
    for number in np.flatnonzero(answered).tolist():
        known = scores[answered_by[:, number], number]
        near = [table.hashes[other] for other in duplicates.get(number, ())]
        has_flag = (
            p_values[number] < _ALPHA,  # False if it is NaN
            (known == worst).all(),
            (known == best).all(),
            near,
        )
        item = Item(
            sample_hash=table.hashes[number],
            sample_ids=sample_ids[number],
            models=int(answered[number]),
            difficulty=float(difficulties[number]),
            discrimination=none_if_nan(correlations[number]),
            p_wrong_key=none_if_nan(p_values[number]),
            flags=list(compress(FLAGS, has_flag)),
            near_duplicates=near,
        )
        if SUSPECTED_KEY in item.flags:
            others = rest[:, number]
            is_strong = others >= np.nanmedian(others)
            _add_agreement(item, table, number, set(compress(models, is_strong)))
        questions.append(item)
    questions.sort(key=_order)
    return questions


def _order(item: Item) -> tuple[float, float, str]:
    p, discrimination = (
        2.0 if value is None else value for value in (item.p_wrong_key, item.discrimination)
    )
    return p, discrimination, item.sample_hash


def _sample_ids(table: ScopeRecords) -> dict[int, list[str | int]]:
    """The ids of each question."""
    codes, sample_ids = table.sample_ids
    pairs = distinct_of(table.question, codes).first
    own = by_code(table.question[pairs], codes[pairs])
    return {question: [sample_ids[code] for code in ids] for question, ids in own}


_decode = view_decoder(input=view(raw=str))


def _near_duplicates(table: ScopeRecords) -> dict[int, list[int]]:
    """By question: those with nearly the same text; nothing is compared if there are too many."""
    if table.questions > _MOST_TEXTS:
        return {}
    asked = table.selection.read(table.number[table.first], _decode)
    return near_duplicates([question.input.raw for question in asked])


def _add_agreement(item: Item, table: ScopeRecords, question: int, strong: set[str]) -> None:
    """Add what the stronger half of the models answered to a question whose key is suspected."""
    numbers = table.number[table.question == question]
    given = {}  # of a model, each value once
    for line in table.selection.lines(numbers):
        record = decoded(line)
        transcript = transcript_of(record)
        item.references = transcript.references
        if record["model_id"] in strong and transcript.extracted:
            given[record["model_id"], transcript.extracted[-1]] = True
    if given:
        [(item.agreed_value, item.agreed_by)] = Counter(value for _, value in given).most_common(1)


def _complete(scores: Array) -> tuple[Array, Array]:
    """Models that answered nearly all questions, and questions that all of them answered."""
    answered = ~np.isnan(scores)
    models = np.flatnonzero(answered.mean(axis=1) >= _COVERAGE)
    return models, np.flatnonzero(answered[models].all(axis=0))


def _subset(table: ScopeRecords, scores: Array, size: int, seed: int) -> Subset | None:
    """Choose among the questions that all models with enough answers have answered.

    None if there are too few models or questions.
    """
    models, complete = _complete(scores)
    if len(models) < FEWEST_MODELS or len(complete) <= size:
        return None
    values = scores[np.ix_(models, complete)]
    chosen = complete[choose_subset(values, size, seed)]
    by_choice, by_chance = judge_subsets(values, size, seed)
    return Subset(
        questions=[table.hashes[number] for number in chosen.tolist()],
        chosen=by_choice,
        random=by_chance,
    )
