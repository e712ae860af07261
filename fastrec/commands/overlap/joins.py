"""Which questions the models of an evaluation have in common, and what keeps the others apart.

    columns ──▶ `Asked`: which model was asked what, under which id, by which metric ──▶ groups of
    models that were asked the same ──▶ counts for all pairs of groups

Two models were asked the same question if the `sample_hash` is the same, whatever the metric, and
the `sample_id`, too, if a metric has the hash split (`keys.is_split`). If hashes differ, but the
`sample_id` is the same, the digests of prompt and references tell what differs; texts are never
kept.

Counting works on matrices with a column for each group of models: whether the group was asked a
question, or has an id, or one of the texts at an id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from xxhash import xxh3_64_intdigest

from fastrec.answers.codes import Array, by_key, distinct_of, joint_codes, look_up, order_of
from fastrec.answers.question_table import QuestionTable
from fastrec.answers.table import Query, Scope
from fastrec.corpus.columns import new_codes
from fastrec.judge.parse import parse, spell
from fastrec.schemas.hashes import References
from fastrec.schemas.view import encode_json, view, view_decoder

# What keeps two questions of the same `sample_id` apart, the closest first, with its heading in a
# table.
#
# hash: prompt and references are equal, so one hash is wrong or of another recipe. white_space:
# they are equal but for white space. reference: only the references differ. prompt: only the
# prompts (`input.raw`) differ.
REASONS = {
    "hash": "other hash",
    "white_space": "white space",
    "reference": "other reference",
    "prompt": "other prompt",
    "prompt_and_reference": "both other",
}


class QuestionGroup(Struct):
    """Models that were asked exactly the same, under the same ids and with the same metrics."""

    #: Their ids, sorted.
    models: list[str]
    #: Questions of each: distinct values of `sample_hash`; of a split hash, of both.
    questions: int
    #: Distinct values of `sample_id` of each.
    ids: int


class PairJoins(Struct):
    """What two models of different groups have in common.

    The numbers are the same for all models of the groups.
    """

    #: Position of the first model's group in `groups`, from 0.
    first: int
    #: That of the second.
    second: int
    #: Questions that both were asked, by `sample_hash`.
    common: int
    #: Those with a record of both by the same metric, or without one.
    same_metric: int
    #: Values of `sample_id` that both have.
    ids: int
    #: Those whose hashes differ.
    apart: int = 0
    #: What keeps these apart, in ids: hash, white_space, reference, prompt, prompt_and_reference;
    #: of an id with several questions, for the two that are closest.
    reasons: dict[str, int] = {}
    #: The first ids of each reason, of the pairs with the fewest common questions.
    examples: dict[str, list[int | str]] = {}


class EvaluationJoins(Struct):
    """Which questions of an evaluation its models have in common."""

    evaluation_name: str
    #: The chosen metrics, sorted; null, for records without one, is first.
    metrics: list[str | None]
    #: Chosen models with records.
    models: int
    #: Questions of all of them: distinct values of `sample_hash`; of a split hash, of both.
    questions: int
    #: Those that all of them have.
    common: int
    #: Distinct values of `sample_id` of all of them.
    ids: int
    #: Those that all of them have.
    common_ids: int
    #: Models that were asked exactly the same, under the same ids and with the same metrics, the
    #: largest first.
    groups: list[QuestionGroup]
    #: All pairs of groups, those with the smallest share of common questions first.
    pairs: list[PairJoins]

    def rows(self) -> Iterator[dict[str, Any]]:
        """All pairs of models: those of different groups first, then those of the same group."""
        within = [
            PairJoins(
                first=at,
                second=at,
                common=group.questions,
                same_metric=group.questions,
                ids=group.ids,
            )
            for at, group in enumerate(self.groups)
        ]
        for pair in self.pairs + within:
            first = self.groups[pair.first]
            second = self.groups[pair.second]
            models = product(first.models, second.models)
            for model, other in combinations(first.models, 2) if first is second else models:
                yield {
                    "evaluation_name": self.evaluation_name,
                    "model_id": model,
                    "other_model_id": other,
                    "questions": first.questions,
                    "other_questions": second.questions,
                    "common": pair.common,
                    "same_metric": pair.same_metric,
                    "ids": pair.ids,
                    "apart": pair.apart,
                    **dict.fromkeys(REASONS, 0),
                    **pair.reasons,
                }


class Asked(NamedTuple):
    """What models were asked: a row for each question, id, model and metric, as codes."""

    question: Array
    sample: Array
    model: Array
    metric: Array

    def chosen(self, mask: Array) -> Asked:
        return Asked(*(codes[mask] for codes in self))


_EXAMPLES = 3
_PAIRS_WITH_EXAMPLES = 50
# The digests that two questions of an id must have in common for each reason, as in REASONS; with
# the last one, `prompt_and_reference`, they have none. The digests are those of `digests_of`.
_AGREEMENTS = ([0, 1], [2, 3], [2], [3])

_decode = view_decoder(input=view(raw=str, reference=References))


_Scopes = Sequence[tuple[Scope, Query]]


def find_joins(index: QuestionTable, scopes: _Scopes) -> list[EvaluationJoins]:
    """Find out which questions the chosen models have in common, for each evaluation."""
    evaluations = by_key((pair[0].evaluation_name, pair) for pair in scopes)
    return [_find_joins(index, name, chosen) for name, chosen in evaluations.items()]


def _find_joins(index: QuestionTable, evaluation: str, scopes: _Scopes) -> EvaluationJoins:
    models = sorted({model for scope, query in scopes for model in query.models or scope.models})
    tables = [index.table(query) for _, query in scopes]
    split = {sample_hash for table in tables for sample_hash in table.split_hashes()}
    questions = new_codes()
    ids = new_codes()
    by_metric = []
    numbers = []
    for metric, table in enumerate(tables):
        model = table.columns_of(models)[table.model]
        sample_ids = table.sample_ids
        first, places = distinct_of(table.question, sample_ids.codes)
        names = []
        spelled = []
        for place in first.tolist():
            sample_hash = table.hashes[table.question[place]]
            sample_id = spell(sample_ids.value(place))
            names.append((sample_hash, sample_id if sample_hash in split else b""))
            spelled.append(sample_id)
        asked = Asked(
            look_up(questions, names)[places],
            look_up(ids, spelled)[places],
            model,
            np.full_like(model, metric),
        )
        is_chosen = model >= 0
        by_metric.append(asked.chosen(is_chosen))
        numbers.append(table.number[is_chosen])
    everything = Asked(*(np.concatenate(codes) for codes in zip(*by_metric, strict=True)))
    first, places = distinct_of(everything.question)
    of_questions = index.selection.read(np.concatenate(numbers)[first], _digests_of_line)
    digests = np.array(of_questions, dtype=np.uint64)
    metrics = [scope.metric for scope, _ in scopes]
    joins = count_joins(models, list(ids), everything._replace(question=places), digests)
    return EvaluationJoins(
        evaluation_name=evaluation,
        metrics=sorted(metrics, key=lambda metric: (metric is not None, metric)),
        **joins,
    )


def _digests_of_line(line: bytes) -> tuple[int, ...]:
    asked = _decode(line).input
    return digests_of(asked.raw, asked.reference)


def digests_of(prompt: str, references: References) -> tuple[int, ...]:
    """Digests of the prompt, the references, and both without white space."""
    texts = [references] if isinstance(references, str) else references
    bare = ["".join(text.split()) for text in texts]
    digested = (prompt, texts, "".join(prompt.split()), bare)
    return tuple(xxh3_64_intdigest(encode_json(text)) for text in digested)


def count_joins(
    models: Sequence[str], ids: Sequence[bytes], asked: Asked, digests: Array
) -> dict[str, Any]:
    """Count the joins of all pairs of models: the fields of `EvaluationJoins`.

    `ids` are spelled in JSON, by code. `digests` has a row for each question.
    """
    by_id, rank_of = order_of(ids)
    asked = asked._replace(sample=rank_of[asked.sample])
    groups = _groups(models, asked)
    column_of = np.full(len(models), -1)
    for column, group in enumerate(groups):
        column_of[models.index(group[0])] = column
    asked = asked._replace(model=column_of[asked.model])
    asked = asked.chosen(asked.model >= 0)
    of_questions, _ = _matrix(asked.model, len(groups), asked.question)
    of_ids, _ = _matrix(asked.model, len(groups), asked.sample)
    common = _shared(of_questions)
    same_id = _shared(of_ids)
    same_metric = _shared_by_metric(asked, common)
    closeness = _Closeness(asked, digests, len(groups))
    reasons = [closeness.counts(first) for first in range(len(groups))]
    pairs = []
    for first, second in combinations(range(len(groups)), 2):
        counts = zip(REASONS, reasons[first][:, second].tolist(), strict=True)
        known = {reason: count for reason, count in counts if count}
        pairs.append(
            PairJoins(
                first=first,
                second=second,
                common=int(common[first, second]),
                same_metric=int(same_metric[first, second]),
                ids=int(same_id[first, second]),
                apart=sum(known.values()),
                reasons=known,
            )
        )
    questions = np.diagonal(common)
    pairs.sort(
        key=lambda pair: pair.common / (min(questions[pair.first], questions[pair.second]) or 1)
    )
    for pair in [pair for pair in pairs if pair.apart][:_PAIRS_WITH_EXAMPLES]:
        pair.examples = {
            reason: [parse(ids[by_id[rank]])[0] for rank in ranks]
            for reason, ranks in closeness.examples(pair.first, pair.second).items()
        }
    return {
        "models": len(models),
        "questions": len(of_questions),
        "common": int(of_questions.all(axis=1).sum()),
        "ids": len(of_ids),
        "common_ids": int(of_ids.all(axis=1).sum()),
        "groups": [
            QuestionGroup(models=group, questions=int(questions[at]), ids=int(same_id[at, at]))
            for at, group in enumerate(groups)
        ],
        "pairs": pairs,
    }


def _groups(models: Sequence[str], asked: Asked) -> list[list[str]]:
    """Group models that have the same questions, ids and metrics, the largest group first."""
    questions = joint_codes(asked.question, asked.sample)
    metrics = joint_codes(asked.question, asked.metric)
    owns = (asked.model == code for code in range(len(models)))
    keys = [
        tuple(np.unique(codes[own]).tobytes() for codes in (questions, metrics)) for own in owns
    ]
    groups = by_key(zip(keys, models, strict=True))
    return sorted(map(sorted, groups.values()), key=lambda group: (-len(group), group))


def _matrix(columns: Array, width: int, *rows: Array) -> tuple[Array, Array]:
    """Whether each combination of codes has each column; and the first row of each combination."""
    first, places = distinct_of(*rows)
    matrix = np.zeros((len(first), width), dtype=np.bool_)
    matrix[places, columns] = True
    return matrix, first


def _shared(matrix: Array) -> Array:
    """How many rows each pair of columns has in common."""
    numbers = matrix.astype(np.float32)
    return numbers.T @ numbers


def _shared_by_metric(asked: Asked, common: Array) -> Array:
    """How many questions each pair of groups has with a metric that both have."""
    if not asked.metric.any():
        return common
    shares = _Sharing(len(common), asked.model, asked.question, asked.metric)
    return np.array([shares.with_group(group).sum(axis=0) for group in range(len(common))])


class _Sharing:
    """Which groups have one of several keys of a unit in common: a text of an id, for example."""

    def __init__(self, width: int, groups: Array, units: Array, *keys: Array) -> None:
        self._matrix, first = _matrix(groups, width, units, *keys)
        self._starts = np.flatnonzero(np.diff(units[first], prepend=-1))

    def with_group(self, group: int) -> Array:
        """By unit and group: whether it has a key of the unit in common with this one."""
        own = self._matrix & self._matrix[:, group, None]
        return np.logical_or.reduceat(own, self._starts, axis=0)


class _Closeness:
    """How close the questions are that groups have of the same ids."""

    def __init__(self, asked: Asked, digests: Array, groups: int) -> None:
        questions = distinct_of(asked.sample, asked.question)
        number = np.bincount(asked.sample[questions.first])  # of questions by id
        several = asked.chosen(number[asked.sample] > 1)
        self._ids = np.unique(several.sample)
        texts = [
            np.unique(column, return_inverse=True)[1][several.question] for column in digests.T
        ]
        keys = [[], [several.question]]
        keys += [[texts[column] for column in columns] for columns in _AGREEMENTS]
        self._levels = [_Sharing(groups, several.model, several.sample, *key) for key in keys]

    def _reasons(self, group: int) -> Array:
        """By id and group, the position in REASONS; -1 if nothing keeps them apart."""
        has_id, same_question, *agreeing = (level.with_group(group) for level in self._levels)
        reasons = np.where(has_id, len(agreeing), -1)
        for reason in reversed(range(len(agreeing))):
            reasons[agreeing[reason]] = reason
        reasons[same_question] = -1
        return reasons

    def counts(self, group: int) -> Array:
        """By reason and group, how many ids it keeps apart from this group."""
        reasons = self._reasons(group)
        return np.array([(reasons == reason).sum(axis=0) for reason in range(len(REASONS))])

    def examples(self, first: int, second: int) -> dict[str, list[int]]:
        """The first ids of each reason that keeps two groups apart."""
        reasons = self._reasons(first)[:, second]
        examples = {
            name: self._ids[reasons == reason][:_EXAMPLES].tolist()
            for reason, name in enumerate(REASONS)
        }
        return {name: ids for name, ids in examples.items() if ids}
