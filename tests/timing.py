"""Processor time as a ratio of two measurements in one run: a shared machine makes absolute times
meaningless.
"""

from __future__ import annotations

import time
from collections.abc import Callable

NOISE = 0.002
"""Seconds. A shorter time counts as this one."""


def processor_seconds(work: Callable[[], object], attempts: int = 2) -> float:
    """The shortest of some attempts, but not less than what can be measured."""
    found = []
    for _ in range(attempts):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return max(min(found), NOISE)


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether eight times the size takes less than thirty times as long.

    Quadratic growth would take 64 times.
    """
    limit = 30 * processor_seconds(lambda: work(size))
    return any(processor_seconds(lambda: work(8 * size), attempts=1) < limit for _ in range(2))
