"""Count wins, losses and ties of two models, and test whether the difference is more than chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

from fastrec.answers.table import Scope
from fastrec.commands.compare.document import ComparedScope
from fastrec.summary.significance import paired_test, to_double

__all__ = ["compare_values"]

_MOST_SIZES: Final = 1_000  # of differences; the exact sign-flip test gives up far below
_MOST_ANSWERS: Final = 1_000_000  # of a model to a question


def compare_values(scope: Scope, values: Iterable[Sequence[float | None]]) -> ComparedScope:
    """Compare the values of two models on each question of a scope; None is a question without an answer."""
    counts = Counter((a, b) for a, b in values)
    pairs = {(a, b): number for (a, b), number in counts.items() if a is not None and b is not None}
    questions = sum(pairs.values())
    found = ComparedScope(
        evaluation_name=scope.evaluation_name,
        metric=scope.metric,
        graded=scope.graded,
        questions=questions,
        only_a=sum(number for (a, b), number in counts.items() if a is not None and b is None),
        only_b=sum(number for (a, b), number in counts.items() if a is None and b is not None),
        wins=sum(number for (a, b), number in pairs.items() if a > b),
        losses=sum(number for (a, b), number in pairs.items() if a < b),
        ties=sum(number for (a, b), number in pairs.items() if a == b),
        a=None,
        b=None,
        difference=None,
        test=None,
        p=None,
        adjusted_p=None,
        examples=[],
    )
    if questions:
        _test(found, pairs)
    return found


def _test(found: ComparedScope, pairs: dict[tuple[float, float], int]) -> None:
    """Fill in the means and the test."""
    total_a = total_b = squares = Fraction()
    differences: Counter[Fraction] = Counter()
    for (a, b), number in pairs.items():
        exact_a, exact_b = _exact(a, graded=found.graded), _exact(b, graded=found.graded)
        total_a += number * exact_a
        total_b += number * exact_b
        if exact_a != exact_b:
            differences[exact_a - exact_b] += number
            squares += number * (exact_a - exact_b) ** 2
    found.a, found.b, found.difference = (
        to_double(total / found.questions) for total in (total_a, total_b, total_a - total_b)
    )
    found.test, found.p = paired_test(
        differences if len(differences) <= _MOST_SIZES else None,
        found.questions,
        total=total_a - total_b,
        squares=squares,
        binary=not found.graded and all(value in (0, 1) for pair in pairs for value in pair),
    )


def _exact(value: float, *, graded: bool) -> Fraction:
    """Return the number that a double stands for: a decimal score, or a share of some answers."""
    return Fraction(repr(value)) if graded else Fraction(value).limit_denominator(_MOST_ANSWERS)
