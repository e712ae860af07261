"""Models that are probably one: names that differ only in spelling, and the same answers.

Names are compared without their organisation, in lower case, with - for _ and spaces. Whether the answers are the same
is told by their lengths, verdicts and scores on common questions. Of several spellings, the others get the name of the
model with the most records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

from fastrec.answers.index import Index
from fastrec.answers.marks import ANSWERS
from fastrec.answers.table import Query
from fastrec.summary.present_ranking import SimilarModels


def spelling(name: str) -> str:
    """What names have in common that differ only in spelling.

    >>> spelling("OpenAI/gsm8k-6B_finetuning"), spelling("gsm8k 6b finetuning")
    ('gsm8k-6b-finetuning', 'gsm8k-6b-finetuning')
    """
    return re.sub(r"[\s_-]+", "-", name.rpartition("/")[2].casefold())


def similar_pairs(names: Iterable[str], *, probable: bool = False) -> list[tuple[str, str]]:
    """All pairs of names that differ only in spelling; if only probable ones, then not of two organisations."""
    groups: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        groups.setdefault(spelling(name), []).append(name)
    pairs = [pair for some in groups.values() for pair in combinations(some, 2)]
    if probable:
        pairs = [pair for pair in pairs if len({spelling(name.rpartition("/")[0]) for name in pair} - {""}) < 2]
    return pairs


def compare_similar(index: Index, records: dict[str, int]) -> list[SimilarModels]:
    """Compare the answers of models with similar names; `records` has the number of records of each chosen model."""

    def order(name: str) -> tuple[int, str]:
        return -records[name], name

    pairs = [tuple(sorted(pair, key=order)) for pair in similar_pairs(records)]
    pairs.sort(key=lambda pair: [*map(order, pair)])
    counts = {pair: [0, 0] for pair in pairs}
    for scope in index.scopes:
        inside = [pair for pair in pairs if {*pair} <= {*scope.models}]
        if not inside:
            continue
        models = tuple(sorted({name for pair in inside for name in pair}))
        for _, found in index.records(Query(evaluation_name=scope.evaluation_name, metric=scope.metric, models=models)):
            for one, other in inside:
                both = (found.get(name, ()) for name in (one, other))
                mine, theirs = ([trial for trial in some if trial.flag & ANSWERS] for some in both)
                if mine and theirs:
                    counts[one, other][0] += 1
                    counts[one, other][1] += mine == theirs
    similar: list[SimilarModels] = []
    renamed: set[str] = set()
    for (name, other), (common, same) in counts.items():
        plain = "*" not in name + other and (name + other).isprintable()  # in a map, a * stands for any text
        rename = 0 < common == same and not {name, other} & renamed and plain
        renamed |= {other} if rename else set()
        similar.append(SimilarModels(name=name, other=other, common=common, same=same, rename=rename))
    return similar
