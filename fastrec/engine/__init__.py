"""Engines: ways to run tasks and hand back their results as they finish.

A task is a function of one argument that takes paths and gives back counts. The functions are the same whichever
engine runs them; there is no debug path.
"""

from fastrec.engine.base import Engine
from fastrec.engine.pool import PoolEngine
from fastrec.engine.serial import SerialEngine

__all__ = ["Engine", "PoolEngine", "SerialEngine", "make_engine"]


def make_engine(jobs: int, kind: str = "pool", scheduler: str | None = None) -> Engine:
    """Choose the engine.

    Args:
        jobs: How many processes; a cluster that is there has as many as it has.
        kind: `pool`, which is this process alone if there is one job, or `dask`.
        scheduler: The address of a Dask scheduler; without it, a cluster starts on this machine.
    """
    if kind == "dask":
        from fastrec.engine.cluster import ClusterEngine  # noqa: PLC0415 - few need it

        return ClusterEngine(jobs, scheduler)
    return SerialEngine() if jobs == 1 else PoolEngine(jobs)
