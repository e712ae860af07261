"""What the size and the scores of a corpus mean for the page: what is drawn, parsed late, or left out."""

from __future__ import annotations

from collections.abc import Sequence

from fastrec.html import Html, tag
from fastrec.limits import Limits
from fastrec.summary.ranking import ModelStats, Stats

__all__ = ["are_shares", "is_large", "left_out", "position"]


def is_large(stats: Stats, limits: Limits) -> bool:
    """Return whether the page has so many models that browsers would be slow: then large tables are parsed late."""
    return sum(len(one.by_model) for one in stats.evaluations) > limits.report_static_rows


def are_shares(models: Sequence[ModelStats]) -> bool:
    """Return whether all mean scores are from 0 to 1, so that they can be drawn like an accuracy."""
    return all(0 <= model.mean_score <= 1 for model in models if model.mean_score is not None)


def position(value: float, low: float, high: float) -> float:
    """Return where a value is on a scale, from 0 to 1. The halves keep huge doubles from overflowing."""
    share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
    return min(max(share, 0.0), 1.0)


def left_out(shown: int, total: int, what: str) -> Html:
    """Say how many are shown, if not all are."""
    if shown >= total:
        return Html("")
    return tag("p", f"Shown: {shown:,} of {total:,} {what}; `fastrec stats` lists all.", class_="soft")
