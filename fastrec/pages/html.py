"""Values as HTML: what is escaped, texts with line breaks, and the cells of tables.

Templates are filled with them. `Html` is markup, and comes only from templates, from `markdown`,
and from files of this package. So no text from a record can become markup.
"""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from typing import Any, NamedTuple
from unicodedata import category

# Line breaks, and the joiners that many languages and emojis need.
_KEPT = frozenset("\n\t\u200c\u200d")
# Categories of invisible characters: controls, marks of direction, separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Html(str):
    """Markup."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def escaped(value: Any) -> Any:
    r"""Escape markup, and characters that are invisible or change the direction of text.

    None is empty.

    >>> escaped("a < b\x1b"), escaped(3), escaped(None), escaped(Html("<b>"))
    ('a &lt; b\\x1b', '3', '', '<b>')
    """
    text = value
    if type(value) is not str:  # the test is quicker than the next one
        if hasattr(value, "__html__"):
            return value
        text = "" if value is None else str(value)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return Html(escape(text))


def exact(text: str) -> Html:
    """Make the value of an attribute that a form sends back: its invisible characters stay."""
    return Html(escape(text))


def multiline(text: str) -> Html:
    r"""Make text that keeps its line breaks and tabs.

    Other characters that are invisible are shown as code.

    >>> multiline("a < b\r\nc\u202ed")
    'a &lt; b\nc<span class="hidden-char">\\u202e</span>d'
    """
    return visible(text.replace("\r\n", "\n"))


def visible(text: str) -> Html:
    """Do the same for text whose lines end with a line feed alone."""
    odd = "".join(char for char in set(text) - _KEPT if category(char) in _HIDDEN)
    if not odd:
        return Html(escape(text))
    pieces = list(map(escape, re.split(f"([{re.escape(odd)}]+)", text)))
    pieces[1::2] = [f'<span class="hidden-char">{escaped(piece)}</span>' for piece in pieces[1::2]]
    return Html("".join(pieces))


class Cell(NamedTuple):
    """A cell of a table, maybe with a link."""

    text: str
    kind: str = ""  # `num`, `code`, or a class of the style
    href: str = ""
    value: float | None = None  # what its column is sorted by


def number_cell(value: float | None, spec: str = ",") -> Cell:
    return Cell("" if value is None else format(value, spec), "num", value=value)


def as_cell(value: Cell | str | float | None) -> Cell:
    if isinstance(value, Cell):
        return value
    return Cell(value) if isinstance(value, str) else number_cell(value)


Row = Sequence[Cell | str | float | None]  # of a table; the first value is its name
Table = tuple[Sequence[str], Sequence[Row]]  # its heads and rows


def allowed(text: str) -> str:
    """Make the entry of a content security policy that allows a script or a style by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
