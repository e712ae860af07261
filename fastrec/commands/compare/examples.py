"""The most telling questions of a comparison: the two models differ, and most other models agree.

If the others agree with A, the question shows a weakness of B; if they agree with B, a strength of A. Questions that
A wins and questions that B wins take turns. If a metric is graded, the questions with the largest differences come
first, whatever the others make of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Final, Literal, NamedTuple

import msgspec

from fastrec.answers.index import Index
from fastrec.answers.shown import read_question
from fastrec.answers.table import Query, QuestionRow, Scope
from fastrec.commands.compare.document import Example
from fastrec.filters import Filters

__all__ = ["Differences", "telling_questions"]

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


def telling_questions(differences: Differences, number: int) -> list[Example]:
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
