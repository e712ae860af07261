"""Who hears how far a run is."""

from __future__ import annotations

from typing import Protocol

__all__ = ["NoProgress", "Progress"]


class Progress(Protocol):
    """Hears how far a run is."""

    def start(self, stage: str, total_bytes: int) -> None:
        """A pass begins that will go over so many bytes, at a guess."""

    def advance(self, size: int, records: int, rejects: int) -> None:
        """So many more bytes, records and rejects are done."""

    def finish(self) -> None:
        """The pass is over."""


class NoProgress:
    """Hears nothing."""

    def start(self, stage: str, total_bytes: int) -> None:
        """Nothing is shown."""

    def advance(self, size: int, records: int, rejects: int) -> None:
        """Nothing is shown."""

    def finish(self) -> None:
        """Nothing is shown."""
