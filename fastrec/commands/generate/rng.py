"""A random number generator with the same results on every platform and Python version."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

__all__ = ["Rng"]

T = TypeVar("T")


class Rng:
    """A seeded generator built on `random()` and `getrandbits()`, whose algorithm (Mersenne Twister) never changed.

    `randrange`, `choice`, `shuffle` and `sample` have changed between Python versions, and `gauss` depends on the
    platform's libm. The helpers here use plain IEEE arithmetic, which is the same everywhere.
    """

    __slots__ = ("bits", "random")

    def __init__(self, seed: int) -> None:
        source = Random(seed)
        self.random = source.random
        self.bits = source.getrandbits

    def below(self, stop: int) -> int:
        """Return an integer in `[0, stop)`."""
        return int(self.random() * stop)

    def between(self, low: int, high: int) -> int:
        """Return an integer in `[low, high]`."""
        return low + int(self.random() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items, all equally likely."""
        return items[int(self.random() * len(items))]

    def skewed_choice(self, items: Sequence[T]) -> T:
        """Return one of the items, early ones far more often: close enough to Zipf's law for word lists."""
        number = self.random()
        return items[int(number * number * len(items))]

    def chance(self, share: float) -> bool:
        """Return True with this probability."""
        return self.random() < share

    def long_tail(self, typical: int, longest: int) -> int:
        """Return a size near `typical`, with a long tail up to `longest`, like the sizes of real outputs."""
        return int(typical / (2.0 * self.random() + typical / longest)) + 1

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher-Yates)."""
        result = list(items)
        for last in range(len(result) - 1, 0, -1):
            other = int(self.random() * (last + 1))
            result[last], result[other] = result[other], result[last]
        return result
