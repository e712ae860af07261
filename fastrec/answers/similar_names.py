"""Models that are probably one: their names differ only in spelling.

Names of models are compared without their organisation, in lower case, with - for _ and spaces.
Whether the answers are the same is told by their outputs, verdicts and scores on common questions.
Of several spellings, the others get the name of the model with the most records.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain, combinations

from msgspec import Struct
from msgspec.structs import replace

from fastrec.answers.codes import by_key
from fastrec.answers.question_table import QuestionTable, query_of
from fastrec.answers.records import ANSWERS
from fastrec.answers.values import trials_of
from fastrec.parameters import Names
from fastrec.statistics.repeats import Trial


class SimilarModels(Struct):
    """Two models whose names differ only in spelling."""

    #: The name to keep, of the model with more records.
    model_id: str
    #: The other name.
    other_model_id: str
    #: Questions that both answered, added up over metrics.
    common: int
    #: Those with the same output, verdict and score.
    same: int
    #: Whether the other one should be renamed: there are common questions, and all answers are the
    #: same.
    rename: bool


def spelling(name: str) -> str:
    """What names have in common that differ only in spelling.

    >>> spelling("OpenAI/gsm8k-6B_finetuning"), spelling("gsm8k 6b finetuning")
    ('gsm8k-6b-finetuning', 'gsm8k-6b-finetuning')
    """
    return re.sub(r"[\s_-]+", "-", name.rpartition("/")[2].casefold())


def similar_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """All pairs of names that differ only in spelling, in the order of the names."""
    groups = by_key((spelling(name), name) for name in names)
    return [pair for group in groups.values() for pair in combinations(group, 2)]


def probable_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of similar names that are not of two organisations."""
    return [pair for pair in similar_pairs(sorted(set(names))) if len(_organisations(pair)) < 2]


def _organisations(names: Iterable[str]) -> set[str]:
    return {spelling(name.rpartition("/")[0]) for name in names} - {""}


def _answers(trials: Iterable[Trial]) -> list[tuple[object, ...]]:
    """What two models must have in common to be the same."""
    return [trial[:4] for trial in trials if trial.flag & ANSWERS]


def compare_similar(index: QuestionTable, records: Mapping[str, int]) -> list[SimilarModels]:
    """Compare the answers of models with similar names, given the number of records of each."""
    names = sorted(records, key=lambda name: (-records[name], name))
    ranks = {name: rank for rank, name in enumerate(names)}
    pairs = sorted(similar_pairs(names), key=lambda pair: ranks[pair[0]])
    common = Counter[Names]()
    same = Counter[Names]()
    for scope in index.scopes:
        inside = [pair for pair in pairs if {*pair} <= {*scope.models}]
        if not inside:
            continue
        models = tuple(sorted({*chain(*inside)}))
        query = replace(query_of(scope), models=models)
        for by_model in trials_of(index, query).values():
            for pair in inside:
                mine, theirs = (_answers(by_model.get(model, ())) for model in pair)
                if mine and theirs:
                    common[pair] += 1
                    same[pair] += mine == theirs
    similar = []
    renamed = set[str]()
    for pair in pairs:
        name, other = pair
        is_plain = "*" not in name + other and (name + other).isprintable()  # as a map needs it
        rename = 0 < common[pair] == same[pair] and not {*pair} & renamed and is_plain
        if rename:
            renamed.add(other)
        similar.append(SimilarModels(name, other, common[pair], same[pair], rename=rename))
    return similar
