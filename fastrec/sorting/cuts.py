"""Cutting the corpus into parts of about the same size, at keys that depend on its content alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastrec.sorting.key_sample import SampledKey

__all__ = ["MOST_PARTS", "cut_keys"]

MOST_PARTS: Final = 1 << 16
"""Of a corpus that would take more, parts are larger: names have five digits, and each is some work for the driver."""


def cut_keys(sample: Iterable[SampledKey], one_in: int, part_bytes: int) -> list[bytes]:
    """Return the first keys of all parts but the first.

    The sample, one key in so many, is taken as a set: a record that came in several copies counts once, so the cuts do
    not depend on how often or where a record was met.
    """
    distinct = sorted(set(sample))
    total = sum(sampled.size for sampled in distinct) * one_in
    # Rounded up: two halves of a large part are made at the same time.
    parts = min(-(-total // part_bytes), MOST_PARTS)
    cuts: list[bytes] = []
    seen, goal = 0, 1
    for sampled in distinct:
        if goal < parts and seen * one_in * parts >= goal * total:
            if not cuts or cuts[-1] != sampled.key:
                cuts.append(sampled.key)
            while goal < parts and seen * one_in * parts >= goal * total:
                goal += 1
        seen += sampled.size
    return cuts
