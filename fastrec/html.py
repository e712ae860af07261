"""HTML that is escaped by construction.

`html` and `tag` escape every value that is not `Html`. `Html` comes only from them and from files
of this package. So no text from a record can become markup.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from operator import attrgetter
from types import MappingProxyType
from typing import Any, LiteralString
from unicodedata import category

_VOID = frozenset({"br", "hr", "input", "link", "meta"})  # elements without an end tag
# Line breaks, and the joiners that many languages and emojis need.
_KEPT = frozenset("\n\t\u200c\u200d")
# Categories of invisible characters: controls, marks of direction, separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Html(str):
    """Markup."""

    __slots__ = ()


class Exact(str):
    """The value of an attribute that a form sends back: its invisible characters stay."""

    __slots__ = ()


# What markup is made of: a value, or the parts that stand there one after the other.
Child = Html | str | float | Iterable[Html | None] | None


def html(template: LiteralString, /, *values: Child, **named: Child) -> Html:
    """Fill a template: HTML with a field for each value, spelled as for `str.format`.

    Fields within a tag are in double quotes.

    >>> html('<td title="{}">{:,}</td>', 'a "b"', 1234)
    '<td title="a &quot;b&quot;">1,234</td>'
    """
    escaped = {name: _Escaped(value) for name, value in named.items()}
    return Html(template.format(*map(_Escaped, values), **escaped))


def each(template: LiteralString, rows: Iterable[object]) -> Html:
    """Fill a template once for each row, which is a value or a tuple of values."""
    tuples: Iterable[tuple[Any, ...]] = (row if isinstance(row, tuple) else (row,) for row in rows)
    return joined(*(html(template, *values) for values in tuples))


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    r"""Make an element; attributes that are None or False are left out.

    Underscores in attribute names stand for hyphens; a trailing one is dropped.

    >>> tag("td", "a < b\x1b", class_="num", data_v=3, hidden=True)
    '<td class="num" data-v="3" hidden>a &lt; b\\x1b</td>'
    """
    spelled = ""
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            spelled += f" {attribute}"
        elif value is not None and value is not False:
            spelled += f' {attribute}="{_escape(value)}"'
    if name in _VOID:
        return Html(f"<{name}{spelled}>")
    return Html(f"<{name}{spelled}>{joined(*children)}</{name}>")


class _Escaped:
    """A value of a template."""

    __slots__ = ("_value",)

    def __init__(self, value: Child) -> None:
        self._value = value

    def __format__(self, spec: str) -> str:
        return _markup(format(self._value, spec) if spec else self._value)


def _markup(child: Child) -> str:
    if isinstance(child, Html):
        return child
    if isinstance(child, str | float | int):
        return _escape(child)
    return "" if child is None else "".join(map(_markup, child))


def _escape(value: str | float) -> str:
    """Escape markup, and characters that are invisible or change the direction of text."""
    text = str(value)
    if not isinstance(value, Exact) and not text.isprintable():
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return escape(text)


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


def joined(*parts: Child) -> Html:
    return Html("".join(map(_markup, parts)))


def soft(*children: Child) -> Html:
    """Make a paragraph of less weight, such as a note."""
    return html('<p class="soft">{}</p>', joined(*children))


def num(value: float | None, spec: str = ",") -> Html:
    """Make a cell with a formatted number, which its column is sorted by; None is empty."""
    text = "" if value is None else format(value, spec)
    return tag("td", text, class_="num", data_v=value)


def code(text: str) -> Html:
    return html("<td><code>{}</code></td>", text)


def row(name: str, *cells: Child) -> Html:
    """Make a row from its name and its cells: texts, numbers, or cells already."""
    return html('<tr><th scope="row"><span>{}</span></th>{}</tr>', name, map(_cell, cells))


def _cell(value: Child) -> Html:
    if isinstance(value, Html):
        return value
    if value is None or isinstance(value, int | float):
        return num(value)
    return html("<td><span>{}</span></td>", value)


def short_cell(*children: Child, class_: str = "") -> Html:
    """Make a cell of a large table: without an end tag and quotes, which HTML does not need."""
    if class_ and not class_.isalnum():
        raise ValueError(f"not a plain name: {class_!r}")
    start = f"<td class={class_}>" if class_ else "<td>"
    return Html(start + joined(*children))


def short_row(name: str, cells: Iterable[Html]) -> Html:
    """Make a row of a large table from its name and cells, without end tags."""
    return html("<tr><th><span>{}</span>{}", name, cells)


def table(caption: str, heads: Iterable[str], rows: Sequence[Html], *, class_: str = "") -> Html:
    """Make a table that scrolls, and that the script of `report` can sort and search.

    The head of a column is aligned as the cell of its first row. Empty if there are no rows.
    """
    if not rows:
        return Html("")
    starts = re.findall("<t[dh][^>]*>", rows[0])
    kinds = ("num" if re.search('class="?num', start) else None for start in starts)
    cells = [
        tag("th", head, scope="col", class_=kind) for head, kind in zip(heads, kinds, strict=True)
    ]
    return html(
        '<figure class="frame"><figcaption>{caption}</figcaption>'
        '<div class="wide" role="region" aria-label="{caption}" tabindex="0">{table}</div>'
        "</figure>",
        caption=caption,
        table=plain_table(cells, rows, class_=class_ or None, aria_label=caption),
    )


def plain_table(heads: Child, rows: Child, **attributes: str | None) -> Html:
    """Make a table from the cells of its head and its rows."""
    return tag(
        "table", html("<thead><tr>{}</tr></thead><tbody>{}</tbody>", heads, rows), **attributes
    )


def field_table(
    caption: str,
    columns: Mapping[str, str],
    items: Iterable[object],
    formats: Mapping[str, Callable[[Any], Child]] = MappingProxyType({}),
) -> Html:
    """Make a table of objects: a column has a head and a field, which a format makes a cell of."""
    rows = []
    for item in items:
        values = {field: attrgetter(field)(item) for field in columns.values()}
        for field in formats.keys() & values:
            values[field] = formats[field](values[field])
        rows.append(row(*values.values()))
    return table(caption, columns, rows)


def first_ten(rows: int, *content: Html) -> Html:
    """Show ten rows of a table, and a box that shows all; the style of the page hides the rest."""
    box = html('<label class="all"><input type="checkbox"> show all {:,}</label>', rows)
    return html('<section class="ten">{}{}</section>', content, box if rows > 10 else None)


def counts_table(title: str, head: str, unit: str, counts: Mapping[str, int]) -> Html:
    return table(title, (head, unit), [row(*item) for item in counts.items()])


def tiles(*numbers: tuple[str, int]) -> Html:
    shown = each("<div><dt>{}</dt><dd>{:,}</dd></div>", numbers)
    return html('<dl class="tiles">{}</dl>', shown)


def details(summary: Child, *content: Child, class_: str | None = None) -> Html:
    """Make content that a click on its summary unfolds."""
    return tag("details", html("<summary>{}</summary>", summary), *content, class_=class_)


def allowed(text: str) -> str:
    """Make the entry of a content security policy that allows a script or a style by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
