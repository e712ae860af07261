"""HTML that is escaped by construction: text is text until an element is made of it.

`tag` escapes every attribute, and every child that is not `Html`; and `Html` is what `tag` gives, or a file of this
package. So nothing that a record says can become markup, wherever on the page it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

__all__ = ["Html", "code", "counted", "decimal", "joined", "num", "percent", "row", "table", "tag", "visible"]

_VOID: Final = {"meta", "input"}


class Html(str):
    """Markup."""

    __slots__ = ()


Child = Html | str | int | None


def visible(text: str) -> str:
    """Show what would be invisible, steer a text or turn its direction as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    r"""Make an element. Underscores in names of attributes stand for hyphens; one at the end is dropped.

    >>> tag("td", "a < b\x1b", class_="num", data_v=3, hidden=True)
    '<td class="num" data-v="3" hidden>a &lt; b\\x1b</td>'
    """
    spelled = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_escaped(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    inner = "".join(
        child if isinstance(child, Html) else _escaped(str(child)) for child in children if child is not None
    )
    return Html(f"<{name}{spelled}>" if name in _VOID else f"<{name}{spelled}>{inner}</{name}>")


def _escaped(text: str) -> str:
    return escape(visible(text))


def joined(parts: Iterable[Html]) -> Html:
    """Put markup together."""
    return Html("".join(parts))


def decimal(number: float) -> str:
    """Spell a count, or a number of which the digits after the point do not matter."""
    return f"{number:,.0f}"


def counted(number: int, noun: str) -> str:
    """Spell a count of things."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Spell a share."""
    return f"{share:.1%}"


def num(value: float | None, text: str, *more: Child, class_: str = "") -> Html:
    """Make a cell with a number, by which its column is sorted."""
    return tag("td", text, *more, class_=f"num {class_}".strip(), data_v=_sortable(value))


def _sortable(value: float | None) -> str | None:
    """Spell a number as a script reads it."""
    return None if value is None else repr(value).replace("inf", "Infinity")


def code(text: str) -> Html:
    """Make a cell with something that is not read as words."""
    return tag("td", tag("code", text))


def row(name: str, *cells: Html | str) -> Html:
    """Make a row: its name, and cells: text, or ready-made."""
    made = [cell if isinstance(cell, Html) else tag("td", tag("span", cell)) for cell in cells]
    return tag("tr", tag("th", tag("span", name), scope="row"), *made)


def table(caption: str, heads: Sequence[str], rows: Sequence[Html], *, class_: str = "") -> Html:
    """Make a table under its title that scripts can sort and search, and that scrolls; nothing if it has no rows."""
    if not rows:
        return Html("")
    head = joined(tag("th", tag("button", head, type="button"), scope="col") for head in heads)
    body = tag("table", tag("thead", tag("tr", head)), tag("tbody", *rows), class_=class_ or None, aria_label=caption)
    scrolling = tag("div", body, class_="wide", role="region", aria_label=caption, tabindex=0)
    return tag("figure", tag("figcaption", caption), scrolling, class_="frame")
