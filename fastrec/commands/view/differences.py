"""The differences between two texts, word by word.

1. Cut both texts into words, each with the white space after it, and single other characters.
2. Leave out what is equal at both ends. Find the shortest way from one text to the other (Myers,
   1986) in the middle. The effort grows with the square of the differences, so it is limited. Texts
   that differ more than that are compared by sentences; if they still do, the middle counts as
   different.
3. A few equal words between two differences are noise, and belong to the differences.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

LONGEST = 20_000  # characters of each text that are compared
_MOST_EDITS = 1_200
_WORDS = re.compile(r"\w+\s*|\s+|[^\w\s]\s*")
_SENTENCES = re.compile(r"[^.!?\n]*[.!?\n]+\s*|[^.!?\n]+")
_NOISE = 2  # so many equal words between two differences do not count


Piece = tuple[str, str]  # of both texts: equal, or different; then one of them may be empty


def differences(left: str, right: str) -> tuple[list[Piece], bool]:
    """Compare the beginnings of two texts.

    Return pieces, and whether the texts were compared word by word.

    >>> differences("It is 42.", "It is 43.")[0]
    [('It is ', 'It is '), ('42', '43'), ('.', '.')]
    """
    texts = (left[:LONGEST], right[:LONGEST])
    by_words = _compare(*map(_WORDS.findall, texts))
    if by_words is not None:
        return by_words, True
    a, b = map(_SENTENCES.findall, texts)
    return _compare(a, b) or list(_pieces(a, b, [])), False


def _compare(a: Sequence[str], b: Sequence[str]) -> list[Piece] | None:
    """Compare words or sentences; None if they differ too much."""
    start = _common(a, b)
    a_rest = a[start:]
    b_rest = b[start:]
    end = _common(a_rest[::-1], b_rest[::-1])
    runs = _equal_runs(a_rest[: len(a_rest) - end], b_rest[: len(b_rest) - end])
    if runs is None:
        return None
    blocks = [(0, 0, start)]
    for i, j, length in runs:
        words = sum(any(map(str.isalnum, word)) for word in a_rest[i : i + length])
        if words > _NOISE:  # few words are equal by chance
            blocks.append((start + i, start + j, length))
    blocks.append((len(a) - end, len(b) - end, end))
    return list(_pieces(a, b, blocks))


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    length = min(len(a), len(b))
    return next((number for number in range(length) if a[number] != b[number]), length)


def _equal_runs(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int, int]] | None:
    """Find the runs that both have in common (start in a, start in b, length).

    None if they differ too much.
    """
    most = min(len(a) + len(b), _MOST_EDITS)
    ends = (len(a), len(b))
    # By diagonal: how far it was reached, and the runs on the way, as a linked list. Below zero,
    # they are at the end.
    reached = [0] * (2 * most + 3)
    runs_to: list[Any] = [()] * len(reached)
    for edits in range(most + 1):
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reached[diagonal - 1] < reached[diagonal + 1]
            )
            before = diagonal + 1 if down else diagonal - 1
            x = reached[before] if down else reached[before] + 1
            runs = runs_to[before]
            start = x
            y = x - diagonal
            while x < ends[0] and y < ends[1] and a[x] == b[y]:
                x += 1
                y += 1
            reached[diagonal] = x
            runs_to[diagonal] = ((start, start - diagonal, x - start), runs) if x > start else runs
            if (x, y) == ends:
                found = []
                runs = runs_to[diagonal]
                while runs:
                    run, runs = runs
                    found.append(run)
                return found[::-1]
    return None


def _pieces(
    a: Sequence[str], b: Sequence[str], blocks: Sequence[tuple[int, int, int]]
) -> Iterator[Piece]:
    """Yield the equal blocks, and what is between them."""
    x = y = 0
    for i, j, length in [*blocks, (len(a), len(b), 0)]:
        if i > x or j > y:
            yield "".join(a[x:i]), "".join(b[y:j])
        if length:
            yield "".join(a[i : i + length]), "".join(b[j : j + length])
        x = i + length
        y = j + length
