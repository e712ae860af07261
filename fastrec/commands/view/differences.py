"""The differences between two texts, word by word.

1. Cut both texts into words, each with the white space after it, and single other characters.
2. Leave out what is equal at both ends. Find the shortest way from one text to the other (Myers, 1986) in the middle.
   The effort grows with the square of the differences, so it is limited: beyond that, the middle counts as different.
3. A few equal words between two differences are noise, and belong to the differences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

__all__ = ["LONGEST", "Piece", "differences"]

LONGEST: Final = 20_000
"""Characters of each text that are compared."""
_MOST_EDITS: Final = 1_000
_WORDS: Final = re.compile(r"\w+\s*|\s+|[^\w\s]\s*")
_NOISE: Final = 2
"""So many equal words between two differences do not count."""


class Piece(msgspec.Struct, frozen=True):
    """A piece of both texts: equal, or different; then one side may be empty."""

    left: str
    right: str
    equal: bool


def differences(left: str, right: str) -> tuple[list[Piece], bool]:
    """Compare the beginnings of two texts; return pieces, and whether the texts were compared word by word.

    >>> differences("It is 42.", "It is 43.")[0]
    [Piece(left='It is ', right='It is ', equal=True), Piece(left='42', right='43', equal=False), \
Piece(left='.', right='.', equal=True)]
    """
    a, b = _WORDS.findall(left[:LONGEST]), _WORDS.findall(right[:LONGEST])
    start = _common(a, b)
    a_rest, b_rest = a[start:], b[start:]
    end = _common(a_rest[::-1], b_rest[::-1])
    a_middle, b_middle = a_rest[: len(a_rest) - end], b_rest[: len(b_rest) - end]
    runs = _equal_runs(a_middle, b_middle)
    middle = [(start + i, start + j, length) for i, j, length in runs or ()]
    blocks = [(0, 0, start), *_without_noise(a, middle), (len(a) - end, len(b) - end, end)]
    return list(_pieces(a, b, blocks)), runs is not None


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return how many words are equal at the beginning."""
    length = min(len(a), len(b))
    return next((number for number in range(length) if a[number] != b[number]), length)


def _equal_runs(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int, int]] | None:
    """Return the runs that both have in common (start in a, start in b, length); None if they differ too much."""
    trace = _trace(a, b)
    if trace is None:
        return None
    x, y = len(a), len(b)
    runs: list[tuple[int, int, int]] = []
    for edits in range(len(trace) - 1, -1, -1):
        furthest, diagonal = trace[edits], x - y
        if edits == 0:
            before_x = before_y = 0
        else:
            down = diagonal == -edits or (
                diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            before = diagonal + 1 if down else diagonal - 1
            before_x = furthest[before]
            before_y = before_x - before
        turn_x = before_x if edits == 0 or before_x - before_y > diagonal else before_x + 1
        if x > turn_x:
            runs.append((turn_x, turn_x - diagonal, x - turn_x))
        x, y = before_x, before_y
    return runs[::-1]


def _trace(a: Sequence[str], b: Sequence[str]) -> list[dict[int, int]] | None:
    """Return for each number of edits how far each diagonal was reached before; None if there are too many edits."""
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    most = min(len(a) + len(b), _MOST_EDITS)
    for edits in range(most + 1):
        trace.append(furthest)
        reached: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1, 2):
            left, right = furthest.get(diagonal - 1, -1), furthest.get(diagonal + 1, -1)
            x = right if diagonal == -edits or (diagonal != edits and left < right) else left + 1
            y = x - diagonal
            while x < len(a) and y < len(b) and x >= 0 and y >= 0 and a[x] == b[y]:
                x += 1
                y += 1
            reached[diagonal] = x
            if x >= len(a) and y >= len(b):
                return trace
        furthest = reached
    return None


def _without_noise(a: Sequence[str], runs: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Leave out short runs of equal words: they are equal by chance."""
    for i, j, length in runs:
        words = sum(any(map(str.isalnum, word)) for word in a[i : i + length])
        if words > _NOISE:
            yield i, j, length


def _pieces(a: Sequence[str], b: Sequence[str], blocks: Sequence[tuple[int, int, int]]) -> Iterator[Piece]:
    """Yield the equal blocks, and what is between them."""
    x = y = 0
    for i, j, length in [*blocks, (len(a), len(b), 0)]:
        if i > x or j > y:
            yield Piece("".join(a[x:i]), "".join(b[y:j]), equal=False)
        if length:
            yield Piece("".join(a[i : i + length]), "".join(b[j : j + length]), equal=True)
        x, y = i + length, j + length
