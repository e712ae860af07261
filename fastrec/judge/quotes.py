"""Count the quotes around the strings of JSON text: each key has two, so a dropped key changes their number."""

from __future__ import annotations

from typing import Final

from stringzilla import bytesum, count, find, translate

__all__ = ["count_quotes"]

_IS_QUOTE: Final = bytes(byte == ord('"') for byte in range(256))
_FEW: Final = 32
_MOST_BACKSLASHES: Final = 6  # an even number: see below


def count_quotes(text: bytes | memoryview) -> int:
    r"""Count the quotes that begin or end a string; never too few.

    A quote is part of a string if an odd number of backslashes is before it. In most text this number is 0 or 1.

    >>> count_quotes(rb'{"a": "\"b\\", "c": ["\\\"d", 1]}')
    8
    """
    # The sum of a table takes two thirds of the time of `count`, which is slow where there is much to count.
    quotes: int = bytesum(translate(text, _IS_QUOTE))
    quotes -= count(text, b'\\"')
    position = 0
    for _ in range(_FEW):
        found = find(text, b'\\\\"', position)
        if found < 0:
            return quotes
        position = found + 3
        while found and text[found - 1] == 92:
            found -= 1
        quotes += (position - found) % 2  # an even number of backslashes, and the quote
    return quotes + _count_escaped_backslashes(memoryview(text)[position:])


def _count_escaped_backslashes(text: memoryview) -> int:
    """Count the quotes after an even number of backslashes, but not after none; never too few.

    With c(k) quotes that have at least k backslashes before them, these are c(2) - c(3) + c(4) - … quotes. Sums that
    end after an odd number of terms are never too small. So text with many quotes after seven backslashes may seem to
    have more quotes than it has.
    """
    quotes, sign, pattern = 0, 1, b'\\\\"'
    while len(pattern) <= _MOST_BACKSLASHES + 1 and (found := count(text, pattern)):
        quotes += sign * found
        sign, pattern = -sign, b"\\" + pattern
    return quotes
