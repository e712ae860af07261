"""Cutting the corpus into parts of about the same size, at keys that depend on its content alone."""

from __future__ import annotations

from collections.abc import Iterable

from fastrec.stages.runs.spill import SAMPLE_ONE_IN, Sampled

__all__ = ["cut_keys"]


def cut_keys(sample: Iterable[Sampled], part_bytes: int) -> list[bytes]:
    """Return the first keys of all parts but the first.

    The sample is taken as a set: a record that came in several copies counts once, so the cuts do not depend on how
    often or where a record was met.
    """
    distinct = sorted(set(sample))
    total = sum(sampled.size for sampled in distinct) * SAMPLE_ONE_IN
    parts = -(-total // part_bytes)  # rounded up: two halves of a large part are made at the same time
    cuts: list[bytes] = []
    seen, goal = 0, 1
    for sampled in distinct:
        if goal < parts and seen * SAMPLE_ONE_IN * parts >= goal * total:
            if not cuts or cuts[-1] != sampled.key:
                cuts.append(sampled.key)
            while goal < parts and seen * SAMPLE_ONE_IN * parts >= goal * total:
                goal += 1
        seen += sampled.size
    return cuts
