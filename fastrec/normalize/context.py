"""What all steps of a run work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastrec.corpus.output import Output
from fastrec.engine.base import Engine
from fastrec.normalize.journal import Journal
from fastrec.normalize.options import Options
from fastrec.normalize.progress import Progress

__all__ = ["RunContext"]


@dataclass(frozen=True)
class RunContext:
    """How a run works, where, by whom, and who hears of it."""

    options: Options
    output: Output
    engine: Engine
    journal: Journal
    progress: Progress
    notice: Callable[[str], None]
