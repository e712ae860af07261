"""What all steps of a run work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastrec.engine import Engine
from fastrec.jobs.normalize.journal import Journal
from fastrec.jobs.normalize.options import Options
from fastrec.jobs.normalize.progress import Progress
from fastrec.jobs.publish import Workplace

__all__ = ["Workshop"]


@dataclass(frozen=True)
class Workshop:
    """How a run works, where, by whom, and who hears of it."""

    options: Options
    place: Workplace
    engine: Engine
    journal: Journal
    progress: Progress
    notice: Callable[[str], None]
