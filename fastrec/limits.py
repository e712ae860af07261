"""Sizes, counts and waiting times that bound the work, in one object that callers can replace.

Functions that need a limit take a `Limits`, and tasks carry one to their worker. Tests pass smaller limits to reach
with a few kilobytes what otherwise takes gigabytes.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["LIMITS", "Limits"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a run. Nothing here changes the content of a corpus."""


LIMITS: Final = Limits()
"""What is used unless a caller says otherwise."""
