"""The census: which samples an evaluation has, who answered them, and where ids, hashes and identities disagree.

A sample is a `sample_hash` within an evaluation. Each part of the corpus writes two lists of what it holds, one sorted
by hash and one by sample_id; merged over all parts, neighbours tell everything:

    by hash       models that answered a sample, samples that a model answered; hashes that carry several ids
    by sample_id  ids that carry several hashes; identities with several records: conflicts
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Self

import msgspec

__all__ = [
    "CONFLICT_EXAMPLES",
    "Answered",
    "Answers",
    "CensusRow",
    "Conflict",
    "QuestionCounts",
    "census_of_part",
    "count_conflicts",
    "count_questions",
]

CONFLICT_EXAMPLES: Final = 100

CensusRow = tuple[bytes, bytes, bytes, int, bool, bytes]
"""evaluation_name; sample_hash and sample_id in either order; how many models answered; whether any of them has several
records; and who answered, packed: only where neighbours meet does it have to be known."""

Answers = list[tuple[bytes, bytes, int]]
"""Who answered: model_id, evaluation_id, records."""

Answered = dict[bytes, Counter[bytes]]
"""In how many entries each model of an evaluation is."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[tuple[bytes, bytes, int]]).decode


def census_of_part(fields: Iterable[Sequence[bytes]]) -> tuple[list[CensusRow], list[CensusRow], Answered]:
    """List what some records hold, given the fields of their keys: by hash, and by sample_id; and count by model."""
    answers: dict[tuple[bytes, bytes, bytes], list[tuple[bytes, bytes]]] = {}
    for evaluation, sample, model, run, sample_id in fields:
        key = (evaluation, sample, sample_id)
        who = answers.get(key)
        if who is None:
            answers[key] = [(model, run)]
        else:
            who.append((model, run))
    answered: Answered = {}
    for (evaluation, _, _), found in answers.items():
        answered.setdefault(evaluation, Counter()).update({model for model, _ in found})
    packed = [(*key, *_packed(found)) for key, found in answers.items()]
    by_hash = sorted(packed)
    by_id = sorted((evaluation, sample_id, sample, *rest) for evaluation, sample, sample_id, *rest in packed)
    return by_hash, by_id, answered  # type: ignore[return-value]


def _packed(found: list[tuple[bytes, bytes]]) -> tuple[int, bool, bytes]:
    models = len({model for model, _ in found})
    if len(set(found)) == len(found):
        return models, False, _pack([(*who, 1) for who in sorted(found)])
    return models, True, _pack([(*who, count) for who, count in sorted(Counter(found).items())])


class QuestionCounts(msgspec.Struct):
    """The samples of one evaluation."""

    samples: int = 0
    by_models: Counter[int] = msgspec.field(default_factory=Counter)
    """How many samples were answered by so many models."""
    again: Counter[bytes] = msgspec.field(default_factory=Counter)
    """By model: entries of a sample that it has answered in another entry already, with another id or in another part.
    What it has answered is all its entries but these; few are, so that few entries have to be unpacked."""
    hashes_with_many_ids: int = 0
    ids_with_many_hashes: int = 0

    def __iadd__(self, other: QuestionCounts) -> Self:
        self.samples += other.samples
        self.by_models.update(other.by_models)
        self.again.update(other.again)
        self.hashes_with_many_ids += other.hashes_with_many_ids
        self.ids_with_many_hashes += other.ids_with_many_hashes
        return self


class Conflict(msgspec.Struct):
    """An identity with several records, its fields as spelled in keys."""

    evaluation: bytes
    sample_id: bytes
    model: bytes
    run: bytes
    records: int
    hashes: list[bytes]

    def sort_key(self) -> tuple[bytes, ...]:
        """Return what conflicts are listed by."""
        return self.evaluation, self.sample_id, self.model, self.run


def count_questions(lists: Iterable[Iterable[CensusRow]]) -> dict[bytes, QuestionCounts]:
    """Merge the lists by hash of all parts, and count by evaluation."""
    counted: dict[bytes, QuestionCounts] = {}
    for evaluation, samples in groupby(_merged(lists), key=itemgetter(0)):
        found = counted[evaluation] = QuestionCounts()
        for _, entries in groupby(samples, key=itemgetter(1)):
            same = list(entries)
            found.samples += 1
            if len(same) == 1:
                found.by_models[same[0][3]] += 1
                continue
            entries_of = _entries_by_model(same)
            found.by_models[len(entries_of)] += 1
            found.again.update({model: count - 1 for model, count in entries_of.items() if count > 1})
            found.hashes_with_many_ids += len({entry[2] for entry in same}) > 1
    return counted


def _entries_by_model(entries: list[CensusRow]) -> Counter[bytes]:
    return Counter(model for entry in entries for model in {who[0] for who in _unpack(entry[5])})


def count_conflicts(lists: Iterable[Iterable[CensusRow]], counted: dict[bytes, QuestionCounts]) -> Iterator[Conflict]:
    """Merge the lists by sample_id of all parts; count ids with several hashes, and give the conflicts in order."""
    for (evaluation, sample_id), group in groupby(_merged(lists), key=itemgetter(0, 1)):
        entries = list(group)
        hashes = {entry[2] for entry in entries}
        counted[evaluation].ids_with_many_hashes += len(hashes) > 1
        if len(entries) == 1 and not entries[0][4]:
            continue
        records: Counter[tuple[bytes, bytes]] = Counter()
        hashes_of: dict[tuple[bytes, bytes], set[bytes]] = {}
        for entry in entries:
            for model, run, count in _unpack(entry[5]):
                records[model, run] += count
                hashes_of.setdefault((model, run), set()).add(entry[2])
        for (model, run), count in sorted(records.items()):
            if count > 1:
                yield Conflict(evaluation, sample_id, model, run, count, sorted(hashes_of[model, run]))


def _merged(lists: Iterable[Iterable[CensusRow]]) -> Iterator[Any]:
    return merge(*lists, key=itemgetter(0, 1, 2))
