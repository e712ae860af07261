"""Format figures as text tables."""

from collections.abc import Iterable, Sequence

from bench.figures import Outcome, Value
from bench.history import Comparison


def number(value: float | None, unit: str) -> str:
    """A value with its unit, rounded to about three digits."""
    if value is None:
        return "failed"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 20 else 2 if abs(value) >= 0.1 else 3
    return f"{value:,.{digits}f} {unit}"


def shown(value: Value) -> str:
    """The value, or why it failed."""
    return value.error or number(value.value, value.unit)


def target_of(value: Outcome) -> str:
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
        rows.append((value.name, shown(value), target_of(value), _change(comparison)))
    return aligned(rows)


def _change(comparison: Comparison) -> str:
    change = comparison.change
    if change is None:
        return "failed" if comparison.is_worse else "first"
    direction = "worse" if change > 0 else "better"
    words = "same" if abs(change) < 0.005 else f"{abs(change):.0%} {direction}"
    return f"{words}  ◀ WORSE" if comparison.is_worse else words


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Align rows in columns; the first row is the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["─" * width for width in widths]
    return "\n".join(
        "  ".join(map(str.ljust, row, widths)).rstrip() for row in (rows[0], rule, *rows[1:])
    )
