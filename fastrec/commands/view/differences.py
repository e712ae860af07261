"""The differences between two texts, word by word.

1. Cut both texts into words, each with the white space after it, and single other characters.
2. Leave out what is equal at both ends. Find the shortest way from one text to the other (Myers, 1986) in the middle.
   The effort grows with the square of the differences, so it is limited. Texts that differ more than that are compared
   by sentences; if they still do, the middle counts as different.
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
_MOST_EDITS: Final = 1_200
_WORDS: Final = re.compile(r"\w+\s*|\s+|[^\w\s]\s*")
_SENTENCES: Final = re.compile(r"[^.!?\n]*[.!?\n]+\s*|[^.!?\n]+")
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
    left, right = left[:LONGEST], right[:LONGEST]
    by_words = _compare(_WORDS.findall(left), _WORDS.findall(right))
    if by_words is not None:
        return by_words, True
    a, b = _SENTENCES.findall(left), _SENTENCES.findall(right)
    return _compare(a, b) or list(_pieces(a, b, [])), False


def _compare(a: Sequence[str], b: Sequence[str]) -> list[Piece] | None:
    """Compare words or sentences; None if they differ too much."""
    start = _common(a, b)
    a_rest, b_rest = a[start:], b[start:]
    end = _common(a_rest[::-1], b_rest[::-1])
    runs = _equal_runs(a_rest[: len(a_rest) - end], b_rest[: len(b_rest) - end])
    if runs is None:
        return None
    middle = [(start + i, start + j, length) for i, j, length in runs]
    return list(_pieces(a, b, [(0, 0, start), *_without_noise(a, middle), (len(a) - end, len(b) - end, end)]))


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
    for edits in range(len(trace) - 1, 0, -1):
        furthest, diagonal = trace[edits], x - y
        below, above = furthest[diagonal - 1 + edits], furthest[diagonal + 1 + edits]
        down = diagonal == -edits or (diagonal != edits and below < above)
        before_x, before = (above, diagonal + 1) if down else (below, diagonal - 1)
        turn_x = before_x if down else before_x + 1
        if x > turn_x:
            runs.append((turn_x, turn_x - diagonal, x - turn_x))
        x, y = before_x, before_x - before
    if x:
        runs.append((0, 0, x))
    return runs[::-1]


def _trace(a: Sequence[str], b: Sequence[str]) -> list[list[int]] | None:
    """Return how far each diagonal was reached before each edit; None if there are too many edits.

    Before the edit number d, the diagonals are those from -d to d. The list has one more at its end.
    """
    ends = len(a), len(b)
    numbers: dict[str, int] = {}
    left, right = ([numbers.setdefault(word, len(numbers)) for word in words] for words in (a, b))
    left.append(-1)  # equal to no word: the loop below needs no bounds
    right.append(-2)
    most = min(sum(ends), _MOST_EDITS)
    furthest = [0] * (2 * most + 3)
    trace: list[list[int]] = []
    for edits in range(most + 1):
        trace.append(furthest[most - edits : most + edits + 2])
        for diagonal in range(-edits, edits + 1, 2):
            at = diagonal + most
            below, above = furthest[at - 1], furthest[at + 1]
            x = above if diagonal == -edits or (diagonal != edits and below < above) else below + 1
            y = x - diagonal
            if 0 <= y <= ends[1] and x <= ends[0]:
                while left[x] == right[y]:
                    x += 1
                    y += 1
            furthest[at] = x
            if (x, y) == ends:
                return trace
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
