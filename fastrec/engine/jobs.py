"""How many processes pay for an amount of text."""

from __future__ import annotations

from typing import Final

from fastrec.errors import UsageError

__all__ = ["SMALL", "check_jobs", "is_small", "jobs_for"]

SMALL: Final = 8 << 20
"""Text that one process has handled before others would be of use."""


def jobs_for(text_bytes: int, tasks: int, most: int) -> int:
    """Choose a number of processes: no more than there are tasks, and one alone for a trifle.

    >>> jobs_for(1_000, 5, 8), jobs_for(10**9, 5, 8), jobs_for(10**9, 0, 8)
    (1, 5, 1)
    """
    return 1 if is_small(text_bytes) else max(min(most, tasks), 1)


def is_small(text_bytes: int) -> bool:
    """Tell whether one process has handled some text before others would be of use."""
    return text_bytes < SMALL


def check_jobs(jobs: int) -> None:
    """Refuse a number of processes below one."""
    if jobs < 1:
        raise UsageError(f"there must be at least one job, not {jobs}")
