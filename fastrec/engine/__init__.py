"""Engines: ways to run tasks and hand back their results as they finish.

A task is a function of one argument that takes paths and gives back counts. The functions are the same whichever
engine runs them; there is no debug path.
"""

from fastrec.engine.base import Engine
from fastrec.engine.pool import PoolEngine
from fastrec.engine.serial import SerialEngine

__all__ = ["Engine", "PoolEngine", "SerialEngine", "make_engine"]


def make_engine(jobs: int) -> Engine:
    """Choose the engine for a number of processes."""
    return SerialEngine() if jobs == 1 else PoolEngine(jobs)
