"""Metrics that look like the same under other names, and how to rename them.

They are metrics that only one corpus has, with models in common. Either the names that `--map eee`
gives them are the same; or the evaluation is the same, and each of these models has as many
questions by both, and the same mean of scores that vary.
"""

import json
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fastrec.answers.question_table import QuestionTable
from fastrec.errors import listed
from fastrec.schemas.registry import NEWEST_SCHEMA
from fastrec.sorting.keys import METRIC

if TYPE_CHECKING:
    from fastrec.normalize.corrections import Renamer

_SAME = "these look like the same metrics under other names"
_Scope = tuple[str, str]


def rename_notices(old: QuestionTable, new: QuestionTable) -> list[str]:
    """Notices with what to give to `normalize --map`."""
    before = _numbers_in(old)
    after = _numbers_in(new)
    added = after.keys() - before.keys()
    gone = before.keys() - after.keys()
    if not added or not gone:
        return []
    from fastrec.normalize.corrections import Renamer, read_names  # noqa: PLC0415 - rarely needed

    renamer = Renamer(read_names("eee"), NEWEST_SCHEMA, keep_names=False)
    by_map = set()
    lines = set()
    for scope in added:
        mine = after[scope]
        for other in gone:
            theirs = before[other]
            common = mine.keys() & theirs.keys()
            if common and _new_names(scope, renamer) == _new_names(other, renamer):
                by_map.add(" · ".join(scope))
            elif len(mine.items() & theirs.items()) == len(common) > 0 and scope[0] == other[0]:
                lines.add(f"{json.dumps(scope[1])} = {json.dumps(other[1])}")
    notices = []
    if by_map:
        notices.append(f"{_SAME}: {listed(sorted(by_map))}; normalize both with --map eee")
    if lines:
        place = "the file of `normalize --map` for NEW, below [metrics]"
        notices.append(f"{_SAME}; for {place}: {listed(sorted(lines))}")
    return notices


def _numbers_in(corpus: QuestionTable) -> dict[_Scope, dict[str, Any]]:
    """By evaluation and metric, the numbers of each model.

    If all of its scores are the same, they tell nothing: it gets an object that equals no other.
    """
    numbers = defaultdict[_Scope, dict[str, Any]](dict)
    for (evaluation, metric, model), result in corpus.results.items():
        if metric:
            means = result.questions, result.mean_score
            numbers[evaluation, metric][model] = means if result.score_standard_error else object()
    return numbers


def _new_names(scope: _Scope, renamer: "Renamer") -> dict[str, str]:
    names = {"model_id": "", "evaluation_name": scope[0], METRIC: scope[1]}
    changes = renamer.change_of(SimpleNamespace(**names))
    return names | {field: name for field, name, _ in changes}
