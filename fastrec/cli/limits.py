"""Limits that this process sets itself, against input that is made to fill the machine's memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["cap_memory"]

_LEAST: Final = 1 << 30
_CONTROL_GROUP: Final = Path("/sys/fs/cgroup/memory.max")


def cap_memory(jobs: int) -> None:
    """Let no process, this one or a worker, take more than its share of nine tenths of the machine's memory.

    A line that needs more ends in a MemoryError, which names its shard, rather than in a machine that stands still.
    """
    try:
        import resource

        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        with_limit = [total, *_control_group_limit()]
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        cap = max(min(with_limit) * 9 // 10 // jobs, _LEAST)
        resource.setrlimit(resource.RLIMIT_DATA, (cap if hard < 0 else min(cap, hard), hard))
    except (ImportError, OSError, ValueError):  # a system without such limits
        return


def _control_group_limit() -> list[int]:
    try:
        return [int(_CONTROL_GROUP.read_text())]
    except (OSError, ValueError):  # none, or "max"
        return []
