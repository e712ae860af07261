"""The census: how many questions an evaluation has, which models answered them, and where ids and hashes disagree.

A question is a `sample_hash` within an evaluation. Each part writes two sorted lists of census rows. After merging the
lists of all parts, comparing neighbours is enough to count everything:

    by hash       models per question, repeats, hashes with several ids
    by sample_id  ids with several hashes, identities with several records (repeats and contradictions)

Every record of an identity with several records counts once: as a contradiction if it contradicts another one, else as
a repeat. So an identity may count as both, and the records add up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

import msgspec

from fastrec.sorting.fields import KeyColumns
from fastrec.summary.lists import merge_rows
from fastrec.summary.means import Outcome, Repeats, RepeatsByModel, add_repeats
from fastrec.summary.sums import Sums

__all__ = [
    "IDENTITY_EXAMPLES",
    "CensusRow",
    "Identity",
    "Numbers",
    "QuestionCounts",
    "SeveralRecords",
    "census_of_part",
    "count_questions",
    "find_several",
]

IDENTITY_EXAMPLES: Final = 100

CensusRow = tuple[bytes, bytes, bytes, int, int, int, int, bytes]
"""evaluation_name; sample_hash and sample_id (or the other way round); numbers of models, of models with an answer, of
identities and of records; and the packed lists of records, which are only unpacked if there may be several of a model
or of an identity: by hash the models and outcomes; by sample_id the models, the evaluation_ids and, if any of them is a
contradiction, its number."""

Numbers = Sequence[int | None]
"""For each record of a key, which contradiction it belongs to; None if it contradicts no other."""

_pack = msgspec.msgpack.Encoder().encode
_unpack_outcomes = msgspec.msgpack.Decoder(tuple[list[bytes], list[Any]]).decode
_unpack_runs = msgspec.msgpack.Decoder(tuple[list[bytes], list[bytes], list[int | None]]).decode

_Key = tuple[bytes, bytes, bytes]
_Records = tuple[list[bytes], list[bytes], list[Outcome]]
"""model_id, evaluation_id and outcome of each record of a key."""


def census_of_part(
    keys: KeyColumns, outcomes: Sequence[Outcome], contradictions: Mapping[tuple[bytes, ...], Numbers] | None = None
) -> tuple[list[CensusRow], list[CensusRow]]:
    """Build the census rows of records, given their key fields and outcomes: by hash, and by sample_id.

    Args:
        keys: The key fields of all records.
        outcomes: The outcome of each record.
        contradictions: By key fields, the contradictions of the records with this key, in the same order.
    """
    records: dict[_Key, _Records] = {}
    for first, end in keys.groups():
        key = keys.scopes[first], keys.hashes[first], keys.sample_ids[first]
        group = keys.models[first:end], keys.evaluation_ids[first:end], list(outcomes[first:end])
        if known := records.get(key):
            for before, more in zip(known, group, strict=True):
                before += more  # type: ignore[operator]
        else:
            records[key] = group
    affected = {(evaluation, hash_, sample_id) for evaluation, hash_, _, _, sample_id in contradictions or ()}
    by_hash: list[CensusRow] = []
    by_id: list[CensusRow] = []
    for key, (models, evaluation_ids, some) in records.items():
        evaluation, sample_hash, sample_id = key
        counts = _counts(models, evaluation_ids, some)
        numbers = _numbers(key, models, evaluation_ids, contradictions) if contradictions and key in affected else []
        by_hash.append((evaluation, sample_hash, sample_id, *counts, _pack((models, some))))
        by_id.append((evaluation, sample_id, sample_hash, *counts, _pack((models, evaluation_ids, numbers))))
    return sorted(by_hash), sorted(by_id)


def _counts(
    models: Sequence[bytes], evaluation_ids: Sequence[bytes], outcomes: Sequence[Outcome]
) -> tuple[int, int, int, int]:
    """Return the numbers of models, of models with an answer, of identities and of records."""
    distinct = set(models)
    failed = [error for _, _, error in outcomes]
    answering = {model for model, error in zip(models, failed, strict=True) if not error} if any(failed) else distinct
    identities = len(models)
    if len(distinct) < identities:
        identities = len(set(zip(models, evaluation_ids, strict=True)))
    return len(distinct), len(answering), identities, len(models)


def _numbers(
    key: _Key,
    models: Sequence[bytes],
    evaluation_ids: Sequence[bytes],
    contradictions: Mapping[tuple[bytes, ...], Numbers],
) -> list[int | None]:
    """Return which contradiction each record belongs to."""
    evaluation, sample_hash, sample_id = key
    runs = list(zip(models, evaluation_ids, strict=True))
    numbers = {run: iter(contradictions.get((evaluation, sample_hash, *run, sample_id), ())) for run in runs}
    return [next(numbers[run], None) for run in runs]


class QuestionCounts(Sums):
    """Counts of the questions of one evaluation."""

    questions: int = 0
    by_models: Counter[int] = msgspec.field(default_factory=Counter)
    """Number of questions by the number of models that have records of them."""
    by_answering: Counter[int] = msgspec.field(default_factory=Counter)
    """Number of questions by the number of models that answered them."""
    repeats: RepeatsByModel = msgspec.field(default_factory=lambda: defaultdict(Repeats))
    hashes_with_many_ids: int = 0
    ids_with_many_hashes: int = 0


class Identity(msgspec.Struct, frozen=True):
    """An identity, and how many of its records count; its fields are encoded as in sort keys."""

    evaluation: bytes
    sample_id: bytes
    model: bytes
    evaluation_id: bytes
    records: int
    hashes: list[bytes]

    def sort_key(self) -> tuple[bytes, ...]:
        """Return the key that identities are listed by."""
        return self.evaluation, self.sample_id, self.model, self.evaluation_id


class SeveralRecords(msgspec.Struct, frozen=True):
    """An identity with several records; its fields are encoded as in sort keys."""

    evaluation: bytes
    sample_id: bytes
    model: bytes
    evaluation_id: bytes
    numbers: dict[bytes, list[int | None]]
    """By sample_hash, which contradiction each record belongs to; None if it contradicts no other."""

    def repeats(self) -> Identity | None:
        """Return the identity with its records that contradict no other, if there are any."""
        return self._with({hash_: numbers.count(None) for hash_, numbers in self.numbers.items()})

    def contradictions(self) -> Identity | None:
        """Return the identity with its records that contradict another one, if there are any."""
        return self._with({hash_: len(numbers) - numbers.count(None) for hash_, numbers in self.numbers.items()})

    def _with(self, records: dict[bytes, int]) -> Identity | None:
        hashes = sorted(hash_ for hash_, count in records.items() if count)
        fields = (self.evaluation, self.sample_id, self.model, self.evaluation_id)
        return Identity(*fields, sum(records.values()), hashes) if hashes else None

    def key_fields(self, *, without_contradictions: bool) -> list[tuple[bytes, ...]]:
        """Return the fields of its keys in ascending order, perhaps only of those that are no contradiction alone."""
        return [
            (self.evaluation, hash_, self.model, self.evaluation_id, self.sample_id)
            for hash_, numbers in sorted(self.numbers.items())
            if None in numbers or not without_contradictions
        ]


def count_questions(lists: Iterable[Iterable[CensusRow]]) -> dict[bytes, QuestionCounts]:
    """Merge lists by hash, and count the questions of each evaluation."""
    counted: dict[bytes, QuestionCounts] = defaultdict(QuestionCounts)
    for evaluation, evaluation_rows in groupby(merge_rows(lists), key=itemgetter(0)):
        counts = counted[evaluation]
        for _, group in groupby(evaluation_rows, key=itemgetter(1)):
            rows = list(group)
            counts.questions += 1
            _, _, _, models, answering, _, count, _ = rows[0]
            if len(rows) == 1 and models == count:
                counts.by_models[models] += 1
                counts.by_answering[answering] += 1
                continue
            records = chain.from_iterable(zip(*_unpack_outcomes(row[7]), strict=True) for row in rows)
            answers_of = add_repeats(counts.repeats, records)
            counts.by_models[len(answers_of)] += 1
            counts.by_answering[sum(map(bool, answers_of.values()))] += 1
            counts.hashes_with_many_ids += len({row[2] for row in rows}) > 1
    return counted


def find_several(
    lists: Iterable[Iterable[CensusRow]], counted: dict[bytes, QuestionCounts]
) -> Iterator[SeveralRecords]:
    """Merge lists by sample_id, add ids with several hashes to `counted`, and yield identities with several records."""
    for (evaluation, sample_id), group in groupby(merge_rows(lists), key=itemgetter(0, 1)):
        rows = list(group)
        counted[evaluation].ids_with_many_hashes += len({row[2] for row in rows}) > 1
        if len(rows) == 1 and rows[0][5] == rows[0][6]:
            continue
        found: dict[tuple[bytes, bytes], dict[bytes, list[int | None]]] = {}
        for row in rows:
            models, evaluation_ids, numbers = _unpack_runs(row[7])
            numbers = numbers or [None] * len(models)
            for model, evaluation_id, number in zip(models, evaluation_ids, numbers, strict=True):
                found.setdefault((model, evaluation_id), {}).setdefault(row[2], []).append(number)
        for (model, evaluation_id), by_hash in sorted(found.items()):
            if sum(map(len, by_hash.values())) > 1:
                yield SeveralRecords(evaluation, sample_id, model, evaluation_id, by_hash)
