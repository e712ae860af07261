"""The census: how many questions an evaluation has, which models answered them, and where ids and hashes disagree.

A question is a `sample_hash` within an evaluation. Each part writes two sorted lists of census rows. After merging the
lists of all parts, comparing neighbours is enough to count everything:

    by hash       models per question, repeats, hashes with several ids
    by sample_id  ids with several hashes, identities with several records (conflicts)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import msgspec

from fastrec.summary.means import Outcome, Repeats, RepeatsByModel, add_repeats
from fastrec.summary.sums import Sums

__all__ = [
    "CONFLICT_EXAMPLES",
    "CensusRow",
    "Conflict",
    "QuestionCounts",
    "census_of_part",
    "count_conflicts",
    "count_questions",
    "merge_rows",
]

CONFLICT_EXAMPLES: Final = 100

CensusRow = tuple[bytes, bytes, bytes, int, int, int, int, bytes]
"""evaluation_name; sample_hash and sample_id (or the other way round); numbers of models, of models with an answer, of
identities and of records; and the packed list of records, which is only unpacked if there may be several of a model or
of an identity."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[tuple[bytes, bytes, Any]]).decode  # model_id, evaluation_id, outcome


def census_of_part(
    fields: Iterable[Sequence[bytes]], outcomes: Iterable[Outcome]
) -> tuple[list[CensusRow], list[CensusRow]]:
    """Build the census rows of records, given their key fields and outcomes: by hash, and by sample_id."""
    records: dict[tuple[bytes, bytes, bytes], list[tuple[bytes, bytes, Outcome]]] = {}
    for (evaluation, sample_hash, model, evaluation_id, sample_id), outcome in zip(fields, outcomes, strict=True):
        key = (evaluation, sample_hash, sample_id)
        found = records.get(key)
        if found is None:
            records[key] = [(model, evaluation_id, outcome)]
        else:
            found.append((model, evaluation_id, outcome))
    rows = [(*key, *_packed(found)) for key, found in records.items()]
    by_hash = sorted(rows)
    by_id = sorted((evaluation, sample_id, sample_hash, *rest) for evaluation, sample_hash, sample_id, *rest in rows)
    return by_hash, by_id  # type: ignore[return-value]


def _packed(records: list[tuple[bytes, bytes, Outcome]]) -> tuple[int, int, int, int, bytes]:
    count = identities = len(records)
    models = len({model for model, _, _ in records})
    answering = len({model for model, _, outcome in records if not outcome[2]})
    if models < count:
        identities = len({(model, evaluation_id) for model, evaluation_id, _ in records})
    return models, answering, identities, count, _pack(records)


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


class Conflict(msgspec.Struct):
    """An identity with several records; its fields are encoded as in sort keys."""

    evaluation: bytes
    sample_id: bytes
    model: bytes
    evaluation_id: bytes
    records: int
    hashes: list[bytes]

    def sort_key(self) -> tuple[bytes, ...]:
        """Return the key that conflicts are listed by."""
        return self.evaluation, self.sample_id, self.model, self.evaluation_id


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
            records = ((model, outcome) for row in rows for model, _, outcome in _unpack(row[7]))
            answers_of = add_repeats(counts.repeats, records)
            counts.by_models[len(answers_of)] += 1
            counts.by_answering[sum(map(bool, answers_of.values()))] += 1
            counts.hashes_with_many_ids += len({row[2] for row in rows}) > 1
    return counted


def count_conflicts(lists: Iterable[Iterable[CensusRow]], counted: dict[bytes, QuestionCounts]) -> Iterator[Conflict]:
    """Merge lists by sample_id, add ids with several hashes to `counted`, and yield conflicts in order."""
    for (evaluation, sample_id), group in groupby(merge_rows(lists), key=itemgetter(0, 1)):
        rows = list(group)
        counted[evaluation].ids_with_many_hashes += len({row[2] for row in rows}) > 1
        if len(rows) == 1 and rows[0][5] == rows[0][6]:
            continue
        records: Counter[tuple[bytes, bytes]] = Counter()
        hashes: dict[tuple[bytes, bytes], set[bytes]] = {}
        for row in rows:
            for model, evaluation_id, _ in _unpack(row[7]):
                records[model, evaluation_id] += 1
                hashes.setdefault((model, evaluation_id), set()).add(row[2])
        for (model, evaluation_id), count in sorted(records.items()):
            if count > 1:
                found = sorted(hashes[model, evaluation_id])
                yield Conflict(evaluation, sample_id, model, evaluation_id, count, found)


def merge_rows(lists: Iterable[Iterable[CensusRow]]) -> Iterator[Any]:
    """Merge sorted lists of census rows."""
    return merge(*lists, key=itemgetter(0, 1, 2))
