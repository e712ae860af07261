"""Group files into logs: one file is one log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastrec.harnesses.log import FoundFile, Grouped, Log

__all__ = ["NAME", "logs_of"]

NAME: Final = "inspect"


def logs_of(files: Sequence[FoundFile]) -> Grouped:
    """Return one log for each file."""
    return Grouped(logs=[Log(NAME, file.path, (file,)) for file in files])
