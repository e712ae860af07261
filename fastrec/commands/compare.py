"""`fastrec compare`: two models on the questions that both have answered, with the answers that differ."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Final, Literal, NamedTuple, Unpack

import msgspec

from fastrec.answers.index import Index, open_index
from fastrec.answers.shown import ShownQuestion, check_questions, choose_model, choose_scopes, read_question
from fastrec.answers.table import Query, QuestionRow, Scope
from fastrec.errors import UsageError
from fastrec.filters import FilterArguments, Filters, make_filters
from fastrec.limits import LIMITS, Limits
from fastrec.progress import Progress
from fastrec.summary.significance import Test, adjust, compare_pairs

# @@ document: The document of `compare`.


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
    """Whether the metric has scores other than 0 and 1. Then scores are compared, and higher counts as better."""
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
    """The most telling questions."""


class Uncompared(msgspec.Struct):
    """An evaluation and metric on which the two models cannot be compared."""

    evaluation_name: str
    """The evaluation."""
    metric: str | None
    """The `evaluation_result_id`; null for records without one."""
    missing: list[str]
    """Which of the two models have no records."""


class Comparison(msgspec.Struct):
    """Two models, compared on each evaluation and metric."""

    a: str
    """The model A."""
    b: str
    """The model B."""
    evaluations: list[ComparedEvaluation]
    """The evaluations and metrics for which both have records."""
    uncompared: list[Uncompared]
    """The others."""


# @@ pairs: Count wins, losses and ties of two models, and test whether the difference is more than chance.


def _compare_values(scope: Scope, values: Iterable[Sequence[float | None]]) -> ComparedEvaluation:
    """Compare the values of two models on each question of a scope; None is a question without an answer."""
    found = compare_pairs(((b, a) for a, b in values), graded=scope.graded)
    return ComparedEvaluation(
        evaluation_name=scope.evaluation_name,
        metric=scope.metric,
        graded=scope.graded,
        questions=found.questions,
        only_a=found.only_second,
        only_b=found.only_first,
        wins=found.rose,
        losses=found.fell,
        ties=found.questions - found.rose - found.fell,
        a=found.second,
        b=found.first,
        difference=found.difference,
        test=found.test,
        p=found.p,
        p_adjusted=None,
        examples=[],
    )


# @@ examples: The most telling questions of a comparison: the two models differ, and most other models agree.
#
# If the others agree with A, the question shows a weakness of B; if they agree with B, a strength of A. Questions that
# A wins and questions that B wins take turns. If a metric is graded, the questions with the largest differences come
# first, whatever the others make of them.

_ENDS: Final[tuple[Literal["easiest", "hardest"], ...]] = ("easiest", "hardest")


class _Candidate(NamedTuple):
    """A question on which the two models differ."""

    sample_hash: str
    a: float
    b: float
    others: int
    others_value: float | None

    def rank(self, *, graded: bool) -> tuple[float, float, int, str]:
        """Return a key that sorts the most telling question first."""
        agreement = 0.0 if graded or self.others_value is None else abs(2 * self.others_value - 1)
        return -abs(self.a - self.b), -agreement, -self.others, self.sample_hash


class Differences(msgspec.Struct, frozen=True):
    """Two models on the questions of a scope."""

    index: Index
    scope: Scope
    query: Query
    pair: tuple[str, str]
    values: Mapping[str, Sequence[float | None]]
    """The values of both models, by question."""

    def ends(self, number: int) -> dict[str, QuestionRow]:
        """Return questions that one model has right and the other wrong, and nearly all others right, or all wrong.

        These are at both ends of the table of questions by difficulty, so a few rows of it are enough.
        """
        found: dict[str, QuestionRow] = {}
        for right, wrong in (self.pair, self.pair[::-1]):
            for sort in _ENDS:
                query = msgspec.structs.replace(self.query, right=(right,), wrong=(wrong,), sort=sort)
                found |= {row.sample_hash: row for row in self.index.page(query, limit=number).rows}
        return found

    def largest(self, number: int) -> dict[str, QuestionRow]:
        """Return the questions with the largest differences, in both directions."""
        sizes = {name: a - b for name, (a, b) in self.values.items() if a is not None and b is not None and a != b}
        names = sorted(sizes, key=lambda name: (-sizes[name], name))
        some = dict.fromkeys([*names[:number], *names[-number:]])
        return {name: row for name in some if (row := self.index.row(self.query, name))}

    def candidate(self, row: QuestionRow) -> _Candidate:
        """Take the two models out of a row, which leaves the others."""
        a, b = (value or 0.0 for value in self.values[row.sample_hash])
        mean = row.mean_score if self.scope.graded else row.share
        others = row.models - 2
        value = (mean * row.models - a - b) / others if others and mean is not None else None
        return _Candidate(row.sample_hash, a, b, others, value)


def _distinguishing_questions(differences: Differences, number: int) -> list[Example]:
    """Return some of the most telling questions with the answers of both models."""
    graded = differences.scope.graded
    rows = differences.largest(number) if graded else differences.ends(number)
    ranked = sorted(map(differences.candidate, rows.values()), key=lambda one: one.rank(graded=graded))
    won = [one for one in ranked if one.a > one.b]
    lost = [one for one in ranked if one.a < one.b]
    turns = [one for one in chain.from_iterable(zip_longest(won, lost)) if one]
    index, query, pair = differences.index, differences.query, differences.pair
    examples = []
    for one in turns[:number]:
        if shown := read_question(index, [query], one.sample_hash, Filters(), pair):
            shown.answers.sort(key=lambda answer: pair.index(answer.model_id))
            examples.append(Example(a=one.a, b=one.b, others=one.others, others_value=one.others_value, question=shown))
    return examples


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
    found = _compare_values(scope, values.values())
    if examples and found.wins + found.losses:
        found.examples = _distinguishing_questions(Differences(index, scope, query, pair, values), examples)
    return found
