"""Lay out text on a terminal: measure, cut and wrap it by the columns that it takes, not by its characters."""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from fastrec.cli.spelling import safe

__all__ = ["clip", "pad", "safe_lines", "terminal_width", "width_of", "wrap"]

_WORDS = re.compile(r" *[^ ]+| +")


def terminal_width() -> int | None:
    """Return the width of the terminal; None if stdout is no terminal, where lines may have any length."""
    return max(shutil.get_terminal_size().columns, 20) if sys.stdout.isatty() else None


def safe_lines(text: str) -> list[str]:
    r"""Return the lines of a text, without characters that could control a terminal.

    >>> safe_lines("a\tb\r\n\x1b[2Jc\n")
    ['a       b', '\\x1b[2Jc', '']
    """
    return [safe(line.expandtabs()) for line in text.replace("\r\n", "\n").split("\n")]


def width_of(text: str) -> int:
    """Return how many columns a text takes.

    >>> width_of("abc"), width_of("日本"), width_of("e\u0301")
    (3, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_columns, text))


@lru_cache(1 << 14)
def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill a text with spaces up to a width; before it if it is aligned right."""
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def clip(text: str, width: int | None) -> str:
    """Cut a line to a width; None does not cut.

    >>> clip("abcdef", 4), clip("日本語", 5), clip("abc", 3), clip("abc", None)
    ('abc…', '日本…', 'abc', 'abc')
    """
    if width is None or width_of(text) <= width:
        return text
    piece = next(_pieces(text, width - 1))
    return f"{piece}…" if width_of(piece) < width else "…"


def wrap(line: str, width: int | None) -> list[str]:
    """Break a line between words where it exceeds a width, and inside of words that exceed it by themselves.

    >>> wrap("to be or not", 6), wrap("  indented", 20), wrap("abcdefgh", 3), wrap("", 5)
    (['to be', 'or not'], ['  indented'], ['abc', 'def', 'gh'], [''])
    """
    if width is None or width_of(line) <= width:
        return [line]
    lines, current, used = [], "", 0
    for word in _WORDS.findall(line):
        if used + (size := width_of(word)) <= width:
            current, used = current + word, used + size
            continue
        if current.strip():
            lines.append(current.rstrip())
            word = word.lstrip()
        *full, current = _pieces(word, width) if word else [""]
        lines.extend(full)
        used = width_of(current)
    return [*lines, current] if current.strip() or not lines else lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """Yield pieces of a text that are as wide as possible; each has at least one character."""
    start = used = 0
    for position, char in enumerate(text):
        columns = _columns(char)
        if used + columns > width and position > start:
            yield text[start:position]
            start, used = position, 0
        used += columns
    yield text[start:]
