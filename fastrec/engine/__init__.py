"""Engines: they run tasks, and yield the results as tasks finish.

A task is a function of one argument that takes paths and returns counts. All engines run the same functions; there is
no debug path.
"""

from fastrec.engine.base import Engine
from fastrec.engine.pool import PoolEngine
from fastrec.engine.serial import SerialEngine
from fastrec.limits import LIMITS, Limits

__all__ = ["make_engine"]


def make_engine(jobs: int, kind: str = "pool", scheduler: str | None = None, limits: Limits = LIMITS) -> Engine:
    """Choose the engine.

    Args:
        jobs: The number of processes; an existing cluster brings its own.
        kind: `pool`, which is this process alone for one job, or `dask`.
        scheduler: The address of a Dask scheduler; None starts a cluster on this machine.
        limits: Waiting times for workers.
    """
    if kind == "dask":
        from fastrec.engine.cluster import ClusterEngine  # noqa: PLC0415 - rarely used

        return ClusterEngine(jobs, scheduler, limits)
    return SerialEngine() if jobs == 1 else PoolEngine(jobs, limits)
