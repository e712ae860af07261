"""A memory limit for this process, against input that is made to exhaust the machine's memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["cap_memory"]

_LEAST: Final = 1 << 30
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


def cap_memory(jobs: int) -> None:
    """Limit this process and its workers to equal shares of 90 % of the machine's memory.

    A line that needs more ends in a MemoryError that names its shard. Without the limit the machine would swap.
    """
    try:
        import resource

        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        cap = max(min(total, _cgroup_limit(total)) * 9 // 10 // jobs, _LEAST)
        resource.setrlimit(resource.RLIMIT_DATA, (cap if hard < 0 else min(cap, hard), hard))
    except (ImportError, OSError, ValueError):  # the system has no such limits
        return


def _cgroup_limit(default: int) -> int:
    try:
        return int(_CGROUP_LIMIT.read_text())
    except (OSError, ValueError):  # no control group, or its limit is "max"
        return default
