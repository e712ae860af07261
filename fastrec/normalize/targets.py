"""The target: the schema version of a corpus, to which all of its records are upgraded.

With `--schema auto` it follows from the content alone: the default version if every valid record is of that version,
also if there is none; else the newest one.
"""

from __future__ import annotations

from typing import Final

from fastrec.judge.batch import Batch
from fastrec.schemas.registry import DEFAULT_SCHEMA

__all__ = ["has_later"]

_VALID_ELSEWHERE: Final = ("version.newer", "hash.mismatch")
"""Codes of lines that follow a schema version, but are rejected: by the target, or by `--sample-hash verify`."""


def has_later(batch: Batch) -> bool:
    """Return whether a chunk has a record of a later version than the default one, whichever target it is judged for.

    A record counts even if its `sample_hash` is the reason to reject it.
    """
    default = DEFAULT_SCHEMA.name
    return any(name != default for name, count in batch.versions.items() if count) or any(
        line.is_later or (line.version != default and line.findings[0].code in _VALID_ELSEWHERE)
        for line in batch.rejected
    )
