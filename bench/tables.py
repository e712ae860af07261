"""Format figures as text tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.compare import Comparison
from bench.values import Value

__all__ = ["aligned", "comparison_table", "number", "target_of"]


def number(value: float | None, unit: str) -> str:
    """A value with its unit, rounded to about three digits."""
    if value is None:
        return "failed"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 20 else 2 if abs(value) >= 0.1 else 3
    return f"{value:,.{digits}f} {unit}" if unit != "×" else f"{value:,.{digits}f} ×"


def target_of(value: Value) -> str:
    """The target, and whether it is reached."""
    if value.target is None:
        return ""
    sign = "≤" if value.better == "lower" else "≥"
    mark = {True: "✓", False: "✗", None: "–"}[value.reached]
    return f"{mark} {sign} {number(value.target, value.unit)}"


def comparison_table(comparisons: Iterable[Comparison]) -> str:
    """The table that `make bench` prints."""
    rows = [("figure", "now", "target", "compared with the best")]
    for comparison in comparisons:
        value = comparison.value
        rows.append(
            (
                value.name,
                value.error or number(value.value, value.unit),
                target_of(value),
                _change(comparison),
            )
        )
    return aligned(rows)


def _change(comparison: Comparison) -> str:
    change = comparison.change
    if change is None:
        return "failed" if comparison.is_worse else "first"
    words = (
        f"{abs(change):.0%} {'worse' if change > 0 else 'better'}"
        if abs(change) >= 0.005
        else "same"
    )
    return f"{words}  ◀ WORSE" if comparison.is_worse else words


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Align rows in columns; the first row is the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])
