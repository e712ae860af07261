"""Progress of a run, as it is reported to the caller."""

from __future__ import annotations

from typing import Protocol

__all__ = ["NoProgress", "Progress"]


class Progress(Protocol):
    """Receives the progress of a run."""

    def start(self, stage: str, total_bytes: int) -> None:
        """A stage begins; `total_bytes` is an estimate."""

    def advance(self, size: int, records: int, rejects: int) -> None:
        """Some more bytes, records and rejected lines are done."""

    def finish(self) -> None:
        """The stage is over."""


class NoProgress:
    """Ignores all progress."""

    def start(self, stage: str, total_bytes: int) -> None:
        """Ignore the beginning of a stage."""

    def advance(self, size: int, records: int, rejects: int) -> None:
        """Ignore the progress of a stage."""

    def finish(self) -> None:
        """Ignore the end of a stage."""
