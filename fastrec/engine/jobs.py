"""How many processes to use for an amount of text."""

from __future__ import annotations

from fastrec.errors import UsageError
from fastrec.limits import Limits

__all__ = ["check_jobs", "is_small", "jobs_for"]


def jobs_for(text_bytes: int, tasks: int, most: int, limits: Limits) -> int:
    """Choose a number of processes: one per task, at most `most`, and only one for a small input.

    >>> [jobs_for(text_bytes, 5, 8, Limits()) for text_bytes in (1_000, 10**9)], jobs_for(10**9, 0, 8, Limits())
    ([1, 5], 1)
    """
    return 1 if is_small(text_bytes, limits) else max(min(most, tasks), 1)


def is_small(text_bytes: int, limits: Limits) -> bool:
    """Return whether one process handles some text faster than several."""
    return text_bytes < limits.small_input


def check_jobs(jobs: int) -> None:
    """Refuse a number of processes below one."""
    if jobs < 1:
        raise UsageError(f"there must be at least one job, not {jobs}")
