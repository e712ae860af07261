"""`fastrec compare`: two models on the questions that both have answered, with the answers that differ."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, Final, Literal, NamedTuple, Unpack

import msgspec

from fastrec.answers.index import Index, check_questions, choose_model, choose_scopes
from fastrec.answers.shown import ShownQuestion, read_question
from fastrec.answers.table import Query, QuestionRow, Scope
from fastrec.errors import UsageError
from fastrec.filters import FilterArguments, Filters, Strings, make_filters
from fastrec.limits import current_limits
from fastrec.normalize.scratch import open_scopes
from fastrec.notebook import Tabular, flat
from fastrec.progress import Progress
from fastrec.summary.significance import Test, adjust, compare_pairs

_ENDS: Final[tuple[Literal["easiest", "hardest"], ...]] = ("easiest", "hardest")
_Values = Mapping[str, Sequence[float | None]]
"""By question, the values of both models."""


class Example(msgspec.Struct, kw_only=True):
    """A question on which the two models differ."""

    a: float
    """The share of right answers of A, or its mean score if the metric is graded."""
    b: float
    """The same of B."""
    others: int
    """How many other models have answered it."""
    others_value: float | None
    """The mean of their shares of right answers, or of their scores; null if there are none."""
    question: ShownQuestion
    """The question with the answers of both models, those of A first."""


class ComparedEvaluation(msgspec.Struct, kw_only=True):
    """Two models on an evaluation and metric."""

    evaluation_name: str
    """The evaluation."""
    metric: str | None
    """The `evaluation_result_id`; null for records without one."""
    graded: bool
    """Whether the metric has scores other than 0 and 1. Then scores are compared."""
    lower_is_better: bool
    """Whether a lower score is better."""
    questions: int
    """Questions that both models have answered; the numbers below are about these."""
    only_a: int
    """Questions that only A has answered."""
    only_b: int
    """Questions that only B has answered."""
    wins: int
    """Questions on which A is better."""
    losses: int
    """Questions on which B is better."""
    ties: int
    """The other questions."""
    a: float | None
    """The accuracy of A, or its mean score if the metric is graded; null without common questions."""
    b: float | None
    """The same of B."""
    difference: float | None
    """`a` minus `b`."""
    test: Test | None
    """The test: `mcnemar`, `sign-flip` or `t`; null without common questions."""
    p: float | None
    """Its p-value: how likely so large a difference is if both models are equally good."""
    p_adjusted: float | None
    """The p-value, adjusted for the number of evaluations and metrics by the method of Benjamini and Hochberg."""
    examples: list[Example]
    """The most distinguishing questions."""


class Uncompared(msgspec.Struct):
    """An evaluation and metric on which the two models cannot be compared."""

    evaluation_name: str
    """The evaluation."""
    metric: str | None
    """The `evaluation_result_id`; null for records without one."""
    missing: list[str]
    """Which of the two models have no records."""


class Comparison(Tabular):
    """Two models, compared on each evaluation and metric."""

    a: str
    """The model A."""
    b: str
    """The model B."""
    evaluations: list[ComparedEvaluation]
    """The evaluations and metrics for which both have records."""
    uncompared: list[Uncompared]
    """The others."""
    others: int = 0
    """Metrics that are left out because they judge no answer: costs and bookkeeping."""

    def rows(self) -> list[dict[str, Any]]:
        """A row for each evaluation and metric."""
        return [flat(one, {}) for one in self.evaluations]


def compare(
    corpus: str | os.PathLike[str],
    a: str,
    b: str,
    *,
    examples: int = 2,
    lower_is_better: Strings = (),
    jobs: int = 1,
    progress: Progress | None = None,
    **filters: Unpack[FilterArguments],
) -> Comparison:
    """Compare two models on each evaluation and metric.

    Args:
        corpus: A directory or URL that `normalize` published.
        a: A model, or a pattern that matches only one.
        b: The other model.
        examples: The number of questions per evaluation and metric to return with both answers.
        lower_is_better: Patterns of metrics, evaluations, or `evaluation/metric`: their lower scores are better.
        jobs: Processes to use if the index of the corpus has to be built.
        progress: Receives the progress of building it.
        **filters: Which questions are compared, and which other models count for the examples (`FilterArguments`).

    Raises:
        UsageError: There is no such model, or a pattern matches several.
        CorpusError: A file of the corpus is damaged.
        ShardError: A part cannot be read completely.
    """
    limits = current_limits()
    chosen = make_filters(**filters)
    opening = open_scopes(corpus, chosen, lower_is_better=lower_is_better, jobs=jobs, progress=progress, limits=limits)
    with opening as (index, scopes):
        models = {model for scope, _ in scopes for model in scope.models}
        first, second = choose_model(a, models), choose_model(b, models)
        if first == second:
            raise UsageError(f"{a!r} and {b!r} are the same model, {first}")
        check_questions(index, scopes, chosen)
        others = len(choose_scopes(index.scopes, chosen, "all")) - len(scopes)
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
    return Comparison(first, second, compared, uncompared, others)


def _compare_scope(
    index: Index, scope: Scope, query: Query, pair: tuple[str, str], examples: int
) -> ComparedEvaluation:
    values = index.values(query, pair)
    found = compare_pairs(((b, a) for a, b in values.values()), graded=scope.graded)
    return ComparedEvaluation(
        evaluation_name=scope.evaluation_name,
        metric=scope.metric,
        graded=scope.graded,
        questions=found.questions,
        only_a=found.only_second,
        only_b=found.only_first,
        lower_is_better=scope.lower_is_better,
        wins=found.fell if scope.lower_is_better else found.rose,
        losses=found.rose if scope.lower_is_better else found.fell,
        ties=found.questions - found.rose - found.fell,
        a=found.second,
        b=found.first,
        difference=found.difference,
        test=found.test,
        p=found.p,
        p_adjusted=None,
        examples=_distinguishing_questions(index, scope, query, pair, values, number=examples)
        if examples and found.rose + found.fell
        else [],
    )


class _Candidate(NamedTuple):
    """A question on which the two models differ."""

    name: str
    a: float
    b: float
    others: int
    others_value: float | None

    def rank(self, *, graded: bool) -> tuple[float, float, int, str]:
        """Sort the most distinguishing question first: the models differ, and most others agree.

        If the others agree with A, it shows a weakness of B; if they agree with B, a strength of A. If a metric is
        graded, only the size of the difference counts.
        """
        agreement = 0.0 if graded or self.others_value is None else abs(2 * self.others_value - 1)
        return -abs(self.a - self.b), -agreement, -self.others, self.name


def _distinguishing_questions(
    index: Index, scope: Scope, query: Query, pair: tuple[str, str], values: _Values, *, number: int
) -> list[Example]:
    """Read the most distinguishing questions; those that A wins and those that B wins take turns."""
    rows = _largest(index, query, values, number) if scope.graded else _ends(index, query, pair, number)
    candidates = [_candidate(row, values, graded=scope.graded) for row in rows]
    candidates.sort(key=lambda one: one.rank(graded=scope.graded))
    higher = [one for one in candidates if one.a > one.b]
    lower = [one for one in candidates if one.a < one.b]
    won, lost = (lower, higher) if scope.lower_is_better else (higher, lower)
    turns = [one for one in chain.from_iterable(zip_longest(won, lost)) if one]
    examples = []
    for one in turns[:number]:
        if shown := read_question(index, [query], one.name, Filters(), pair):
            shown.answers.sort(key=lambda answer: pair.index(answer.model_id))
            examples.append(Example(a=one.a, b=one.b, others=one.others, others_value=one.others_value, question=shown))
    return examples


def _ends(index: Index, query: Query, pair: tuple[str, str], number: int) -> Iterable[QuestionRow]:
    """Find questions that one model has right and the other wrong, and nearly all others right, or all wrong.

    These are at both ends of the table of questions by difficulty, so a few rows of it are enough.
    """
    found: dict[str, QuestionRow] = {}
    for right, wrong in (pair, pair[::-1]):
        for sort in _ENDS:
            ordered = msgspec.structs.replace(query, right=(right,), wrong=(wrong,), sort=sort)
            found |= {row.name: row for row in index.page(ordered, limit=number).rows}
    return found.values()


def _largest(index: Index, query: Query, values: _Values, number: int) -> Iterable[QuestionRow]:
    """Find the questions with the largest differences, in both directions."""
    sizes = {name: a - b for name, (a, b) in values.items() if a is not None and b is not None and a != b}
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    return [row for name in dict.fromkeys([*names[:number], *names[-number:]]) if (row := index.row(query, name))]


def _candidate(row: QuestionRow, values: _Values, *, graded: bool) -> _Candidate:
    """Take the two models out of a row, which leaves the others."""
    a, b = (value or 0.0 for value in values[row.name])
    mean = row.mean_score if graded else row.share
    others = row.models - 2
    value = (mean * row.models - a - b) / others if others and mean is not None else None
    return _Candidate(row.name, a, b, others, value)
