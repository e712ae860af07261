"""Find duplicates by comparing the bytes of records whose keys are equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["in_order"]


def in_order(keys: Sequence[bytes], rows: Sequence[Any], text: Callable[[int], bytes]) -> tuple[list[int], list[int]]:
    """Sort records by key, then by their bytes; of duplicates, keep the one of the lowest source.

    Args:
        keys: The key of each record.
        rows: The row of each record; its first value is the record's source.
        text: Returns the bytes of a record; only called where keys are equal.

    Returns:
        The positions of the records to keep, in order, and those of the duplicates.
    """
    order = sorted(range(len(keys)), key=keys.__getitem__)
    if len(set(keys)) == len(keys):
        return order, []
    kept: list[int] = []
    copies: list[int] = []
    position = 0
    while position < len(order):
        end = position + 1
        key = keys[order[position]]
        while end < len(order) and keys[order[end]] == key:
            end += 1
        if end - position == 1:
            kept.append(order[position])
        else:
            last = None
            for body, _, index in sorted((text(index), rows[index][0], index) for index in order[position:end]):
                (copies if body == last else kept).append(index)
                last = body
        position = end
    return kept, copies
