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
identities and of records; and packed lists, which are only unpacked if there may be several records of a model or of an
identity: models, evaluation_ids, outcomes and, by sample_id, numbers of contradictions, if there are any."""

Numbers = Sequence[int | None]
"""For each record of a key, which contradiction it belongs to; None if it contradicts no other."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[list[bytes], list[bytes], list[Any], list[int | None]]).decode

_Key = tuple[bytes, bytes, bytes]
_Records = tuple[list[bytes], list[bytes], list[Outcome]]
"""model_id, evaluation_id and outcome of each record of a key."""


def census_of_part(
    keys: KeyColumns, outcomes: list[Outcome], contradictions: Mapping[tuple[bytes, ...], Numbers] | None = None
) -> tuple[list[CensusRow], list[CensusRow]]:
    """Build the census rows of records, given their key fields and outcomes: by hash, and by sample_id.

    Args:
        keys: The key fields of all records.
        outcomes: The outcome of each record.
        contradictions: By key fields, the contradictions of the records with this key, in the same order.
    """
    records: dict[_Key, _Records] = {}
    scopes, hashes, sample_ids = keys.scopes, keys.hashes, keys.sample_ids
    models, evaluation_ids = keys.models, keys.evaluation_ids
    for first, end in keys.groups():
        key = scopes[first], hashes[first], sample_ids[first]
        group = models[first:end], evaluation_ids[first:end], outcomes[first:end]
        found = records.setdefault(key, group)
        if found is not group:
            found[0].extend(group[0])
            found[1].extend(group[1])
            found[2].extend(group[2])
    rows = [(*key, *_counts(*found), _pack((*found, ()))) for key, found in records.items()]
    by_hash = sorted(rows)
    if contradictions:
        affected = {(evaluation, hash_, sample_id) for evaluation, hash_, _, _, sample_id in contradictions}
        rows = [
            (*row[:7], _numbered(row[:3], records[row[:3]], contradictions)) if row[:3] in affected else row
            for row in rows
        ]
    by_id = [(evaluation, sample_id, sample_hash, *rest) for evaluation, sample_hash, sample_id, *rest in rows]
    return by_hash, sorted(by_id)  # type: ignore[arg-type]


def _counts(models: list[bytes], evaluation_ids: list[bytes], outcomes: list[Outcome]) -> tuple[int, int, int, int]:
    """Return the numbers of models, of models with an answer, of identities and of records."""
    count = len(models)
    if count == 1:
        return 1, not outcomes[0][2], 1, 1
    distinct = set(models)
    failed = [error for _, _, error in outcomes]
    answering = {model for model, error in zip(models, failed, strict=True) if not error} if any(failed) else distinct
    identities = count if len(distinct) == count else len(set(zip(models, evaluation_ids, strict=True)))
    return len(distinct), len(answering), identities, count


def _numbered(key: _Key, records: _Records, contradictions: Mapping[tuple[bytes, ...], Numbers]) -> bytes:
    """Pack records with the contradiction that each of them belongs to."""
    evaluation, sample_hash, sample_id = key
    runs = list(zip(*records[:2], strict=True))
    numbers = {run: iter(contradictions.get((evaluation, sample_hash, *run, sample_id), ())) for run in runs}
    return _pack((*records, [next(numbers[run], None) for run in runs]))


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
            records = chain.from_iterable(zip(*_unpack(row[7])[:3:2], strict=True) for row in rows)
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
            models, evaluation_ids, _, numbers = _unpack(row[7])
            numbers = numbers or [None] * len(models)
            for model, evaluation_id, number in zip(models, evaluation_ids, numbers, strict=True):
                found.setdefault((model, evaluation_id), {}).setdefault(row[2], []).append(number)
        for (model, evaluation_id), by_hash in sorted(found.items()):
            if sum(map(len, by_hash.values())) > 1:
                yield SeveralRecords(evaluation, sample_id, model, evaluation_id, by_hash)
