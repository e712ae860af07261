"""How much two graders agree on the same answers, beyond chance."""

from collections.abc import Mapping, Sequence
from math import fsum, sqrt

from fastrec.statistics.intervals import OptionalNumber, Z

# Answers that two graders judge: right by both, by the first only, by the second only, by none.
Table = tuple[int, ...]


def kappa_interval(
    tables: Mapping[Table, int],
) -> tuple[OptionalNumber, OptionalNumber, OptionalNumber]:
    """Cohen's kappa of two graders, and its 95 % interval; None if it is undefined.

    Given are the tables of all questions, with the number of questions that have each. The standard
    error is that of a jackknife, which leaves out one question at a time: answers of several models
    to a question are not independent.

    >>> kappa_interval({(1, 0, 0, 0): 20, (0, 1, 0, 0): 5, (0, 0, 1, 0): 10, (0, 0, 0, 1): 15})
    (0.4, 0.14..., 0.65...)
    """
    whole = [sum(table[cell] * number for table, number in tables.items()) for cell in range(4)]
    kappa = _kappa(whole)
    questions = sum(tables.values())
    others = [
        (_kappa([total - cell for total, cell in zip(whole, table, strict=True)]), number)
        for table, number in tables.items()
    ]
    known = [(value, number) for value, number in others if value is not None]
    if kappa is None or questions < 2 or len(known) < len(others):
        return kappa, None, None
    mean = fsum(value * number for value, number in known) / questions
    error = sqrt(
        fsum((value - mean) ** 2 * number for value, number in known) * (1 - 1 / questions)
    )
    return kappa, max(kappa - Z * error, -1.0), min(kappa + Z * error, 1.0)


def _kappa(table: Sequence[int]) -> OptionalNumber:
    """How much more two graders agree than by chance."""
    both, first, second, neither = table
    answers = sum(table)
    by_chance = (both + first) * (both + second) + (neither + first) * (neither + second)
    if not answers or by_chance == answers**2:
        return None
    return ((both + neither) * answers - by_chance) / (answers**2 - by_chance)
