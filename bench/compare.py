"""Compare the figures of a run with the best earlier ones.

A figure is compared only with values measured on the same corpora. If the history has values from
the same machine, only those count. Otherwise those of all machines count, which is why figures are
relative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bench.history import HistoryLine, Machine
from bench.values import Value

__all__ = ["Comparison", "compare", "worse"]


class Comparison(msgspec.Struct, frozen=True):
    """A figure now and its best earlier value."""

    value: Value
    best: float | None
    """None if it was never measured on these corpora before."""

    @property
    def change(self) -> float | None:
        """How much worse it got, as a fraction; negative if it got better."""
        if self.best is None or self.value.relative is None:
            return None
        if self.value.better == "lower":
            return self.value.relative / self.best - 1 if self.best else None
        return self.best / self.value.relative - 1 if self.value.relative else float("inf")

    @property
    def is_worse(self) -> bool:
        """Whether it got worse by more than its tolerance, or fails now and did not before."""
        if self.best is not None and self.value.value is None:
            return True
        return self.change is not None and self.change > self.value.tolerance


def compare(
    values: Iterable[Value], history: Sequence[HistoryLine], here: Machine
) -> list[Comparison]:
    """Compare each figure with its best earlier value."""
    return [Comparison(value, _best(value, history, here)) for value in values]


def worse(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """The figures that got worse."""
    return [comparison for comparison in comparisons if comparison.is_worse]


def _best(value: Value, history: Sequence[HistoryLine], here: Machine) -> float | None:
    lines = [
        line for line in history if (entry := line.figures.get(value.name)) and entry.of == value.of
    ]
    lines = [line for line in lines if line.machine == here] or lines
    earlier = [line.figures[value.name].relative for line in lines]
    return (min if value.better == "lower" else max)(earlier, default=None)
