"""The garbage collector, which tasks that make many small objects do better without."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_off"]


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the collector off: what tasks make holds no cycles, and it would walk all of it again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
