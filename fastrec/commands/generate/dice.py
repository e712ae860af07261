"""Random numbers that are the same everywhere: two methods whose algorithm never changed, and helpers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

__all__ = ["Dice"]

T = TypeVar("T")


class Dice:
    """Seeded throws that give the same results on every platform and in every version of Python.

    `random()` and `getrandbits()` hand out the Mersenne Twister as it is. `randrange`, `choice`, `shuffle`
    and `sample` have changed between versions, and `gauss` and its friends go through the platform's libm.
    So all is built on the first two, with nothing but the IEEE arithmetic that every platform does alike.
    """

    __slots__ = ("bits", "roll")

    def __init__(self, seed: int) -> None:
        source = Random(seed)
        self.roll = source.random
        self.bits = source.getrandbits

    def below(self, stop: int) -> int:
        """An integer in `[0, stop)`."""
        return int(self.roll() * stop)

    def between(self, low: int, high: int) -> int:
        """An integer in `[low, high]`."""
        return low + int(self.roll() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, all alike."""
        return items[int(self.roll() * len(items))]

    def favour(self, items: Sequence[T]) -> T:
        """One of the items, the first ones far more often: close enough to Zipf's law for word lists."""
        throw = self.roll()
        return items[int(throw * throw * len(items))]

    def chance(self, share: float) -> bool:
        """True for this share of the throws."""
        return self.roll() < share

    def tail(self, typical: int, longest: int) -> int:
        """A size around `typical` with a long tail up to `longest`: few are large, as in real outputs."""
        return int(typical / (2.0 * self.roll() + typical / longest)) + 1

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in a new order (Fisher and Yates)."""
        deck = list(items)
        for last in range(len(deck) - 1, 0, -1):
            other = int(self.roll() * (last + 1))
            deck[last], deck[other] = deck[other], deck[last]
        return deck
