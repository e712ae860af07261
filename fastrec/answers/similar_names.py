"""Models that are probably one: names that differ only in spelling, and the same answers.

Names are compared without their organisation, in lower case, with - for _ and spaces. Whether the answers are the same
is told by their lengths, verdicts and scores on common questions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

import msgspec

from fastrec.answers.index import Index
from fastrec.answers.table import Query


class SimilarModels(msgspec.Struct, kw_only=True):
    """Two models whose names differ only in spelling."""

    name: str
    """The name to keep: of the model with more records."""
    other: str
    """The other name."""
    common: int
    """Questions that both have answered."""
    same: int
    """Those on which length, verdict and score of the answers are the same."""

    @property
    def is_one(self) -> bool:
        """Whether nothing speaks against both names being one model."""
        return self.same == self.common


def spelling(name: str) -> str:
    """What names have in common that differ only in spelling.

    >>> spelling("OpenAI/gsm8k-6B_finetuning"), spelling("gsm8k 6b finetuning")
    ('gsm8k-6b-finetuning', 'gsm8k-6b-finetuning')
    """
    return re.sub(r"[\s_-]+", "-", name.rpartition("/")[2].casefold())


def similar_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """All pairs of names that differ only in spelling."""
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        groups.setdefault(spelling(name), []).append(name)
    return [pair for some in groups.values() for pair in combinations(some, 2)]


def compare_similar(index: Index, records: dict[str, int]) -> list[SimilarModels]:
    """Compare the answers of models with similar names; `records` has the number of records of each chosen model."""
    pairs = similar_pairs(records)
    counts = {pair: [0, 0] for pair in pairs}
    for scope in index.scopes:
        inside = [pair for pair in pairs if {*pair} <= {*scope.models}]
        if not inside:
            continue
        models = tuple(sorted({name for pair in inside for name in pair}))
        for _, found in index.records(Query(evaluation_name=scope.evaluation_name, metric=scope.metric, models=models)):
            for one, other in inside:
                mine, theirs = ([trial for trial in found[name] if trial.flag] for name in (one, other))
                if mine and theirs:
                    counts[one, other][0] += 1
                    counts[one, other][1] += mine == theirs
    similar = []
    for pair, (common, same) in counts.items():
        name, other = sorted(pair, key=lambda name: (-records[name], name))
        similar.append(SimilarModels(name=name, other=other, common=common, same=same))
    return similar
