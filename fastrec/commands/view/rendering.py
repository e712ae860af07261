"""What a model said as HTML: its text as it is, with the layout that its Markdown asks for.

Every character of the text is in the page, in its order. Only what cannot be anything else counts
as Markdown: fenced code, tables, headings, items of lists, code within a line, and bold words. Of
these, the page hides fences, the bars and the rule of a table, the backticks around code within a
line, and `**` around bold words (class `mark`). All else stays visible: a `*` or `_` may multiply
or index, a `#` may begin a comment, and LaTeX has its own meaning for most signs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from fastrec.html import Html, html, joined, multiline

_BLOCKS: Final = re.compile(
    r"""(?mx)
    ^(?P<fenced>
        (?P<fence>[ \t]*(?P<signs>`{3,}|~{3,})[ \t]*(?:\n|\Z|(?=[^`\s])))
        (?P<language>(?:(?<!\n)[^`\s][^`\n]*(?:\n|\Z))?)(?:(?<=\n)|\Z)
        (?P<lines>(?s:.*?))
        (?P<end>^[ \t]*(?P=signs)[`~]*[ \t]*(?:\n|\Z)|\Z))
    |^(?P<table>
        (?P<head>[^|\n]*\|.*\n)
        (?P<rule>[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?)?[ \t]*(?:\n|\Z))
        (?P<rows>(?:[^|\n]*\|.*(?:\n|\Z))*))
    |^(?P<heading>(?P<hashes>\#{1,6}[ ]+)(?P<title>\S.*\n?))
    |^(?P<item>[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S.*\n?)
    """
)
# Bold words have at least one word between `**` and `**`. Before and after them is white space, or
# punctuation that is no operator.
_SPANS: Final = re.compile(
    r"""(?x)
    (?<![\w`\\])(?P<code>`(?P<inside>[^`\n]+)`)(?![\w`])
    |(?<![^\s("'“‘])(?P<bold>\*\*(?P<words>(?=[^*\n]*?[^\W\d_]{2})[^\s*](?:[^*\n]*[^\s*])?)\*\*)
        (?![^\s)"'”’.,:;!?])
    """
)
_LINE: Final = re.compile(r".+\n?")
_CELL: Final = re.compile(r"(\s*\|)?((?:\\\||[^|])*)")


def render(text: str) -> Html:
    return _fill(text.replace("\r\n", "\n"), _BLOCKS, _spans)


def _fill(text: str, pattern: re.Pattern[str], between: Callable[[str], Html]) -> Html:
    """Make what a pattern finds into elements, and what is between into something else."""
    parts = []
    at = 0
    for found in pattern.finditer(text):
        parts += [between(text[at : found.start()]), _ELEMENTS[found.lastgroup or ""](found)]
        at = found.end()
    return joined(*parts, between(text[at:]))


def _spans(text: str) -> Html:
    return _fill(text, _SPANS, multiline)


def _mark(text: str) -> Html:
    return html('<i class="mark">{}</i>', multiline(text))


def _fenced(found: re.Match[str]) -> Html:
    return html(
        '<pre class="code">{}<span class="soft">{}</span>{}{}</pre>',
        _mark(found["fence"]),
        multiline(found["language"]),
        multiline(found["lines"]),
        _mark(found["end"]),
    )


def _table(found: re.Match[str]) -> Html:
    rule = html('<tr class="mark"><td>{}</td></tr>', multiline(found["rule"]))
    rows = map(_row, _LINE.findall(found["rows"]))
    return html("<table><tbody>{}{}{}</tbody></table>", _row(found["head"]), rule, rows)


def _row(line: str) -> Html:
    """Make a row of all cells of a line; a bar is hidden in the cell after it."""
    body = line.rstrip(" \t\n|")
    cells = [html("<td>{}{}</td>", _mark(bar), _spans(text)) for bar, text in _CELL.findall(body)]
    return html('<tr>{}<td class="mark">{}</td></tr>', cells[:-1], multiline(line[len(body) :]))


_ELEMENTS: Final[dict[str, Callable[[re.Match[str]], Html]]] = {
    "fenced": _fenced,
    "table": _table,
    "heading": lambda found: html(
        '<h4><span class="soft">{}</span>{}</h4>', found["hashes"], _spans(found["title"])
    ),
    "item": lambda found: html('<div class="item">{}</div>', _spans(found[0])),
    "code": lambda found: html("<code>{0}{1}{0}</code>", _mark("`"), multiline(found["inside"])),
    "bold": lambda found: html("<b>{0}{1}{0}</b>", _mark("**"), multiline(found["words"])),
}
