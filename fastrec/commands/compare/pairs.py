"""Count wins, losses and ties of two models, and test whether the difference is more than chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastrec.answers.table import Scope
from fastrec.commands.compare.document import ComparedEvaluation
from fastrec.summary.paired import compare_pairs

__all__ = ["compare_values"]


def compare_values(scope: Scope, values: Iterable[Sequence[float | None]]) -> ComparedEvaluation:
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
