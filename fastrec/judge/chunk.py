"""A chunk of lines that is being judged. The judge works on its text, in which known inputs may be replaced.

Each key of JSON text has a colon and two quotes, so a dropped key changes the number of both.
"""

from __future__ import annotations

from typing import Final

from stringzilla import bytesum, count, find, find_first_not_of, translate

from fastrec.judge.known_inputs import PLACEHOLDER_BYTES, KnownInput, KnownInputs
from fastrec.judge.version_rules import VersionRules, count_colons
from fastrec.sources.lines import count_newlines

_IS_QUOTE: Final = bytes(byte == ord('"') for byte in range(256))
_FEW: Final = 32
_BLANK: Final = b" \t\r\n"
_NEWLINE: Final = ord("\n")
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


class OpenChunk:
    """A chunk of lines and how far it was judged."""

    def __init__(self, data: bytes, line: int, offset: int, *, normal: bool) -> None:
        """With `normal`, colons are compared with those of the normal forms, else quotes with those of the records."""
        self._data, self._offset = data, offset
        self._normal = normal
        self.line = line
        self.text = data
        self.inputs: list[KnownInput | None] | None = None
        """The known input of each line, if any are replaced."""
        self.rules: VersionRules | None = None
        """The rules of the version of these inputs."""
        self.position = self.number = 0
        """Of the next line."""
        self.saved = 0
        """Bytes by which the text up to the position is shorter than the lines."""
        self.excess = 0
        """Colons that the text up to the position has more than the output, for good reason; or quotes that it has."""
        self._null = -1

    def shorten(self, known: KnownInputs, rules: VersionRules) -> None:
        if shortened := known.shorten(self._data, rules.learn):
            self.text, self.inputs = shortened
            self.rules = rules

    def next_null(self) -> int:
        """The position of the next null, or the end of the text if there is none."""
        if not self._normal:
            return len(self.text)  # nulls stay where they are
        if self._null < self.position:
            found = find(self.text, b"null", self.position)
            self._null = len(self.text) if found < 0 else found
        return self._null

    def skip_blank(self) -> int:
        """Move on past blank lines, at memory speed: a bomb can be made of nothing else. Return their number."""
        start, size = self.position, len(self.text)
        end = find_first_not_of(self.text, _BLANK, start)
        end = size if end < 0 else self.text.rfind(b"\n", start, end) + 1
        if end <= start:
            return 0
        lines = count_newlines(memoryview(self.text)[start:end]) + (self.text[end - 1] != _NEWLINE)
        self.position = end
        self.number += lines
        return lines

    def next_line(self) -> tuple[bytes, int, bool]:
        """Move on by a line, which is refused; return it as it was read, its offset, and if it is short in the text."""
        start, end = self.position, self.text.find(b"\n", self.position)
        if end < 0:
            end = len(self.text)
        known = self.inputs[self.number] if self.inputs else None
        begin = start + self.saved
        if known:
            self.saved += len(known.text) - PLACEHOLDER_BYTES
        self.position = end + 1
        self.number += 1
        self.excess += self._count(memoryview(self.text)[start:end])
        return self._data[begin : end + self.saved], self._offset + begin, known is not None

    def is_balanced(self, into: bytearray, start: int) -> bool:
        """Whether no key was dropped, now that the output from `start` on is complete."""
        return self._count(self.text) == self.excess + self.count_output(into, start)

    def count_output(self, into: bytearray, start: int) -> int:
        """Count the colons of the output from `start` on; 0 if quotes are compared, since there is none."""
        colons: int = count(memoryview(into)[start:], b":") if self._normal else 0
        return colons

    def _count(self, text: bytes | memoryview) -> int:
        return count_colons(text) if self._normal else count_quotes(text)
