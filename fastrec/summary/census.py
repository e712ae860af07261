"""The census: how many questions an evaluation has, which models answered them, and where ids and hashes disagree.

A question is a `sample_hash` within an evaluation. Each part writes two sorted lists of census rows. After merging the
lists of all parts, comparing neighbours is enough to count everything:

    by hash       models per question, questions per model, hashes with several ids
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

from fastrec.summary.tally import Sums

__all__ = [
    "CONFLICT_EXAMPLES",
    "CensusRow",
    "Conflict",
    "QuestionCounts",
    "RowsByModel",
    "census_of_part",
    "count_conflicts",
    "count_questions",
    "merge_rows",
]

CONFLICT_EXAMPLES: Final = 100

CensusRow = tuple[bytes, bytes, bytes, int, bool, bytes]
"""evaluation_name; sample_hash and sample_id (or the other way round); number of models; whether a model has several
records here; and the packed list of answers, which is only unpacked if neighbouring rows belong together."""

RowsByModel = dict[bytes, Counter[bytes]]
"""Number of census rows by evaluation and model."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[tuple[bytes, bytes, int]]).decode  # model_id, evaluation_id, records


def census_of_part(fields: Iterable[Sequence[bytes]]) -> tuple[list[CensusRow], list[CensusRow], RowsByModel]:
    """Build the census rows of records, given their key fields: by hash, by sample_id, and counted by model."""
    answers: dict[tuple[bytes, bytes, bytes], list[tuple[bytes, bytes]]] = {}
    for evaluation, sample_hash, model, evaluation_id, sample_id in fields:
        key = (evaluation, sample_hash, sample_id)
        found = answers.get(key)
        if found is None:
            answers[key] = [(model, evaluation_id)]
        else:
            found.append((model, evaluation_id))
    rows_by_model: RowsByModel = {}
    for (evaluation, _, _), found in answers.items():
        rows_by_model.setdefault(evaluation, Counter()).update({model for model, _ in found})
    rows = [(*key, *_packed(found)) for key, found in answers.items()]
    by_hash = sorted(rows)
    by_id = sorted((evaluation, sample_id, sample_hash, *rest) for evaluation, sample_hash, sample_id, *rest in rows)
    return by_hash, by_id, rows_by_model  # type: ignore[return-value]


def _packed(answers: list[tuple[bytes, bytes]]) -> tuple[int, bool, bytes]:
    models = len({model for model, _ in answers})
    if len(set(answers)) == len(answers):
        return models, False, _pack([(*answer, 1) for answer in sorted(answers)])
    return models, True, _pack([(*answer, count) for answer, count in sorted(Counter(answers).items())])


class QuestionCounts(Sums):
    """Counts of the questions of one evaluation."""

    questions: int = 0
    by_models: Counter[int] = msgspec.field(default_factory=Counter)
    """Number of questions by the number of models that answered them."""
    repeated_rows: Counter[bytes] = msgspec.field(default_factory=Counter)
    """By model: rows of a question that another row already counts, with another id or from another part. A model's
    rows minus these are its questions. They are few, so few rows have to be unpacked."""
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
            if len(rows) == 1:
                counts.by_models[rows[0][3]] += 1
                continue
            rows_of = Counter(model for row in rows for model in {answer[0] for answer in _unpack(row[5])})
            counts.by_models[len(rows_of)] += 1
            counts.repeated_rows.update({model: count - 1 for model, count in rows_of.items() if count > 1})
            counts.hashes_with_many_ids += len({row[2] for row in rows}) > 1
    return counted


def count_conflicts(lists: Iterable[Iterable[CensusRow]], counted: dict[bytes, QuestionCounts]) -> Iterator[Conflict]:
    """Merge lists by sample_id, add ids with several hashes to `counted`, and yield conflicts in order."""
    for (evaluation, sample_id), group in groupby(merge_rows(lists), key=itemgetter(0, 1)):
        rows = list(group)
        counted[evaluation].ids_with_many_hashes += len({row[2] for row in rows}) > 1
        if len(rows) == 1 and not rows[0][4]:
            continue
        records: Counter[tuple[bytes, bytes]] = Counter()
        hashes: dict[tuple[bytes, bytes], set[bytes]] = {}
        for row in rows:
            for model, evaluation_id, count in _unpack(row[5]):
                records[model, evaluation_id] += count
                hashes.setdefault((model, evaluation_id), set()).add(row[2])
        for (model, evaluation_id), count in sorted(records.items()):
            if count > 1:
                found = sorted(hashes[model, evaluation_id])
                yield Conflict(evaluation, sample_id, model, evaluation_id, count, found)


def merge_rows(lists: Iterable[Iterable[CensusRow]]) -> Iterator[Any]:
    """Merge sorted lists of census rows."""
    return merge(*lists, key=itemgetter(0, 1, 2))
