"""A check before a run on a cluster: every worker can read and write the directories of the run."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable

from fastrec.engine.base import Engine
from fastrec.errors import UsageError, shown
from fastrec.storage import storage_of
from fastrec.storage.paths import join

__all__ = ["check_reachable"]


def check_reachable(directories: Iterable[str], engine: Engine) -> None:
    """Raise a UsageError if a worker cannot read and write in one of the directories."""
    for directory in directories:
        probe, storage = join(directory, f".{time.time_ns():x}"), storage_of(directory)
        storage.write_all(probe, b"")
        try:
            answers = engine.on_every_worker(_can_reach, probe)
        finally:
            storage.remove(probe)
        if failed := sorted(worker for worker, reached in answers.items() if not reached):
            more = f" and {len(failed) - 3:,} more workers" if len(failed) > 3 else ""
            raise UsageError(
                f"{shown(directory)} cannot be reached by {', '.join(failed[:3])}{more}: put the output, and "
                "--work-dir, on storage that all workers share under the same name"
            )


def _can_reach(probe: str) -> bool:
    """Return whether a file is visible, and another one can be written beside it. Runs in a worker."""
    own, storage = f"{probe}-{secrets.token_hex(4)}", storage_of(probe)
    try:
        if not storage.exists(probe):
            return False
        storage.write_all(own, b"")
        storage.remove(own)
    except (OSError, UsageError):
        return False
    return True
