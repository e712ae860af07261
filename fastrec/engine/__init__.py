"""Engines: they run tasks, and yield the results as tasks finish.

A task is a function of one argument that takes paths and returns counts. All engines run the same
functions; there is no debug path.
"""

from fastrec.engine.base import Engine, SerialEngine
from fastrec.errors import UsageError
from fastrec.limits import current_limits

__all__ = ["check_jobs", "is_small", "jobs_for", "make_engine"]


def make_engine(jobs: int, kind: str = "pool", scheduler: str | None = None) -> Engine:
    """Choose the engine: `pool`, which is this process alone for one job, or `dask`."""
    if kind == "dask":
        from fastrec.engine.cluster import ClusterEngine  # noqa: PLC0415 - rarely used

        return ClusterEngine(jobs, scheduler)
    if jobs == 1:
        return SerialEngine()
    from fastrec.engine.pool import PoolEngine  # noqa: PLC0415 - small inputs do not need it, and it takes 10 ms

    return PoolEngine(jobs)


def jobs_for(text_bytes: int, tasks: int, most: int) -> int:
    """Choose a number of processes: one per task, at most `most`, and only one for a small input.

    >>> [jobs_for(text_bytes, 5, 8) for text_bytes in (1_000, 10**9)], jobs_for(10**9, 0, 8)
    ([1, 5], 1)
    """
    return 1 if is_small(text_bytes) else max(min(most, tasks), 1)


def is_small(text_bytes: int) -> bool:
    """Whether one process handles some text faster than several."""
    return text_bytes < current_limits().small_input


def check_jobs(jobs: int) -> None:
    if jobs < 1:
        raise UsageError(f"there must be at least one job, not {jobs}")
