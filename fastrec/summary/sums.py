"""Counts that add up."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Self

import msgspec

__all__ = ["Sums"]


class Sums(msgspec.Struct):
    """Counts that add up field by field; those in a Counter or in a dict of Sums add up by key."""

    def __iadd__(self, other: Self) -> Self:
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            elif isinstance(mine, defaultdict):
                for key, value in theirs.items():
                    mine[key] += value
            else:
                mine += theirs
                setattr(self, name, mine)
        return self
