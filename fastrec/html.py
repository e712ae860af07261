"""HTML that is escaped by construction.

`tag` and `fill` escape every value that is not `Html`. `Html` comes only from them and from files
of this package. So no text from a record can become markup.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Final
from unicodedata import category

_VOID: Final = frozenset({"br", "hr", "input", "link", "meta"})  # elements without an end tag
_KEPT: Final = frozenset("\n\t\u200c\u200d")
"""Line breaks, and the joiners that many languages and emojis need."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that control a terminal, change the direction of text, or cannot be seen."""


class Html(str):
    """Markup."""

    __slots__ = ()


class Exact(str):
    """The value of an attribute that a form sends back: escaped, but its invisible characters stay as they are."""

    __slots__ = ()


Child = Html | str | int | None


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    r"""Make an element.

    Underscores in attribute names stand for hyphens; a trailing one is dropped.

    >>> tag("td", "a < b\x1b", class_="num", data_v=3, hidden=True)
    '<td class="num" data-v="3" hidden>a &lt; b\\x1b</td>'
    """
    spelled = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + (
            ""
            if value is True
            else f'="{escape(value) if isinstance(value, Exact) else _escaped(str(value))}"'
        )
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{spelled}>")
    inner = "".join(_markup(child) for child in children if child is not None)
    return Html(f"<{name}{spelled}>{inner}</{name}>")


def fill(template: Html, **values: Child) -> Html:
    """Replace each `$name` in a template; values are escaped like the children of `tag`."""
    return Html(
        Template(template).substitute({name: _markup(value) for name, value in values.items()})
    )


def _markup(child: Child) -> str:
    return child if isinstance(child, Html) else _escaped(str(child))


def multiline(text: str) -> Html:
    r"""Make text that keeps its line breaks and tabs.

    Other characters that are invisible are shown as code.

    >>> multiline("a < b\r\nc\u202ed")
    'a &lt; b\nc<span class="hidden-char">\\u202e</span>d'
    """
    text = text.replace("\r\n", "\n")
    odd = "".join(char for char in set(text) - _KEPT if category(char) in _HIDDEN)
    if not odd:
        return Html(escape(text))
    pieces = list(map(escape, re.split(f"([{re.escape(odd)}]+)", text)))
    pieces[1::2] = [tag("span", piece, class_="hidden-char") for piece in pieces[1::2]]
    return Html("".join(pieces))


def _escaped(text: str) -> str:
    """Escape markup, and characters that are invisible or change the direction of text."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return escape(text)


def joined(*parts: Html) -> Html:
    return Html("".join(parts))


def soft(*children: Child) -> Html:
    """Make a paragraph of less weight, such as a note."""
    return tag("p", *children, class_="soft")


def num(value: float | None, spec: str = ",", *more: Child) -> Html:
    """Make a cell with a formatted number, which its column is sorted by; None is empty."""
    return tag(
        "td", "" if value is None else format(value, spec), *more, class_="num", data_v=value
    )


def code(text: str) -> Html:
    return tag("td", tag("code", text))


def row(name: str, *cells: Html | str | int) -> Html:
    """Make a row from its name and its cells, which are values or cells already."""
    made = [cell if isinstance(cell, Html) else tag("td", tag("span", cell)) for cell in cells]
    return tag("tr", tag("th", tag("span", name), scope="row"), *made)


def short_cell(*children: Child, class_: str = "") -> Html:
    """Make a cell of a large table: without an end tag and quotes, which HTML does not need."""
    inner = "".join(_markup(child) for child in children if child is not None)
    if class_ and not class_.isalnum():
        raise ValueError(f"not a plain name: {class_!r}")
    return Html(f"<td class={class_}>{inner}" if class_ else f"<td>{inner}")


def short_row(name: str, *cells: Html) -> Html:
    """Make a row of a large table from its name and cells, without end tags."""
    return Html(f"<tr><th>{tag('span', name)}{joined(*cells)}")


def lazy(content: Html) -> Html:
    """Make content that the script of the page parses when it is needed.

    While scripts are enabled, a browser takes the content of `noscript` for text, which costs next
    to nothing. Without scripts it is content like any other.
    """
    return tag("div", tag("noscript", content), class_="lazy") if content else content


def table(caption: str, heads: Sequence[str], rows: Sequence[Html], *, class_: str = "") -> Html:
    """Make a table that scrolls and that the script can sort and search.

    Empty if there are no rows.
    """
    if not rows:
        return Html("")
    cells = (tag("th", tag("button", head, type="button"), scope="col") for head in heads)
    head = tag("thead", tag("tr", *cells))
    body = tag("table", head, tag("tbody", *rows), class_=class_ or None, aria_label=caption)
    scrolling = tag("div", body, class_="wide", role="region", aria_label=caption, tabindex=0)
    return tag("figure", tag("figcaption", caption), scrolling, class_="frame")


def counts_table(title: str, head: str, unit: str, counts: Mapping[str, int]) -> Html:
    return table(title, (head, unit), [row(name, num(count)) for name, count in counts.items()])


def tiles(*numbers: tuple[str, int]) -> Html:
    tiles = (tag("div", tag("dt", name), tag("dd", f"{count:,}")) for name, count in numbers)
    return tag("dl", *tiles, class_="tiles")
