"""`fastrec compare`: two models on the questions that both have answered, with the answers that differ."""

from __future__ import annotations

import os
from typing import Unpack

import msgspec

from fastrec.answers.choosing import check_questions, choose_model, choose_scopes
from fastrec.answers.index import Index, open_index
from fastrec.answers.table import Query, Scope
from fastrec.commands.compare.document import ComparedEvaluation, Comparison, Uncompared
from fastrec.commands.compare.examples import Differences, telling_questions
from fastrec.commands.compare.pairs import compare_values
from fastrec.errors import UsageError
from fastrec.filters import FilterArguments, make_filters
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress
from fastrec.summary.significance import adjust

__all__ = ["Comparison", "compare"]


def compare(
    corpus: str | os.PathLike[str],
    a: str,
    b: str,
    *,
    examples: int = 2,
    jobs: int = 1,
    progress: Progress | None = None,
    limits: Limits = LIMITS,
    **filters: Unpack[FilterArguments],
) -> Comparison:
    """Compare two models on each evaluation and metric.

    Args:
        corpus: A directory or URL that `normalize` published.
        a: A model, or a pattern that matches only one.
        b: The other model.
        examples: The number of questions per evaluation and metric to return with both answers.
        jobs: Processes to use if the index of the corpus has to be built.
        progress: Receives the progress of building it.
        limits: Sizes of buffers.
        **filters: Which questions are compared, and which other models count for the examples (`FilterArguments`).

    Raises:
        UsageError: There is no such model, or a pattern matches several.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    chosen = make_filters(**filters)
    with open_index(corpus, jobs=jobs, progress=progress, limits=limits) as index:
        scopes = choose_scopes(index.scopes, chosen)
        models = {model for scope, _ in scopes for model in scope.models}
        first, second = choose_model(a, models), choose_model(b, models)
        if first == second:
            raise UsageError(f"{a!r} and {b!r} are the same model, {first}")
        check_questions(index, [query for _, query in scopes], chosen)
        compared, uncompared = [], []
        for scope, query in scopes:
            if missing := [model for model in (first, second) if model not in scope.models]:
                uncompared.append(Uncompared(scope.evaluation_name, scope.metric, missing))
            else:
                if query.models:
                    query = msgspec.structs.replace(query, models=tuple(sorted({*query.models, first, second})))
                compared.append(_compare_scope(index, scope, query, (first, second), examples))
    tested = [one for one in compared if one.p is not None]
    for one, adjusted in zip(tested, adjust([one.p for one in tested if one.p is not None]), strict=True):
        one.p_adjusted = adjusted
    return Comparison(first, second, compared, uncompared)


def _compare_scope(
    index: Index, scope: Scope, query: Query, pair: tuple[str, str], examples: int
) -> ComparedEvaluation:
    values = index.values(query, pair)
    found = compare_values(scope, values.values())
    if examples and found.wins + found.losses:
        found.examples = telling_questions(Differences(index, scope, query, pair, values), examples)
    return found
