"""The differences between two texts, word by word.

1. Cut both texts into words, each with the white space after it, and single other characters.
2. Leave out what is equal at both ends, and match the middle.
3. A few equal words between two differences are noise, and belong to the differences.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from os.path import commonprefix

LONGEST = 20_000  # characters of each text that are compared
_WORDS = re.compile(r"\w+\s*|\s+|[^\w\s]\s*")
_NOISE = 2  # so many equal words between two differences do not count
# In longer texts, a match has at least one word that is not among the most frequent ones. Else the
# time would grow with the square of the length.
_MOST_WORDS = 1_000


Piece = tuple[str, str]  # of both texts: equal, or different; then one of them may be empty


def differences(left: str, right: str) -> list[Piece]:
    """Compare the beginnings of two texts.

    >>> differences("It is 42.", "It is 43.")
    [('It is ', 'It is '), ('42', '43'), ('.', '.')]
    """
    a, b = (_WORDS.findall(text[:LONGEST]) for text in (left, right))
    start = len(commonprefix((a, b)))  # noqa: RUF071 - of lists
    end = len(commonprefix((a[start:][::-1], b[start:][::-1])))  # noqa: RUF071
    a_rest = a[start : len(a) - end]
    b_rest = b[start : len(b) - end]
    matcher = SequenceMatcher(None, a_rest, b_rest, autojunk=len(b_rest) > _MOST_WORDS)
    blocks = [(0, 0, start)]
    for i, j, length in matcher.get_matching_blocks():
        words = sum(any(map(str.isalnum, word)) for word in a_rest[i : i + length])
        if words > _NOISE:  # few words are equal by chance
            blocks.append((start + i, start + j, length))
    blocks.append((len(a) - end, len(b) - end, end))
    return list(_pieces(a, b, blocks))


def _pieces(
    a: Sequence[str], b: Sequence[str], blocks: Sequence[tuple[int, int, int]]
) -> Iterator[Piece]:
    """Yield the equal blocks, and what is between them."""
    x = y = 0
    for i, j, length in blocks:
        if i > x or j > y:
            yield "".join(a[x:i]), "".join(b[y:j])
        if length:
            yield "".join(a[i : i + length]), "".join(b[j : j + length])
        x = i + length
        y = j + length
