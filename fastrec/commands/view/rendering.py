"""What a model said as HTML: its text as it is, with the layout that its Markdown asks for.

Every character of the text is in the page, in its order. Only what cannot be anything else counts
as Markdown: fenced code, tables, headings, items of lists, code within a line, and bold words. Of
these, the style of the page hides fences, the bars and the rule of a table, the backticks around
code within a line, and `**` around bold words (class `mark`; the rule is the second row). All else
stays visible: a `*` or `_` may multiply or index, a `#` may begin a comment, and LaTeX has its own
meaning for most signs.
"""

import re
from collections.abc import Callable

from fastrec.html import Html, html, joined, multiline, tag

_BLOCKS = re.compile(
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
    |^(?P<heading>\#{1,6}[ ]+\S.*\n?)
    |^(?P<item>[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S.*\n?)
    """
)
# Bold words have at least one word. Before and after both is white space, or punctuation that is no
# operator.
_SPANS = re.compile(
    r"""(?x)
    (?<![^\s("'“‘])
    (?P<span>(?P<mark>`(?!`)|\*\*)
        (?P<inside>(?<=`)[^`\n]+|(?<=\*\*)(?=[^*\n]*?[^\W\d_]{2})[^\s*](?:[^*\n]*[^\s*])?)
        (?P=mark))
    (?![^\s)"'”’.,:;!?])
    """
)
_LINE = re.compile(r".+\n?")
_CELL = re.compile(r"(\s*\|)?((?:\\\||[^|])*)")


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


def _row(line: str) -> Html:
    """Make a row of all cells of a line; a bar is hidden in the cell after it."""
    body = line.rstrip(" \t\n|")
    cells = [html("<td>{}{}</td>", _mark(bar), _spans(text)) for bar, text in _CELL.findall(body)]
    return html('<tr>{}<td class="mark">{}</td></tr>', cells[:-1], multiline(line[len(body) :]))


def _span(found: re.Match[str]) -> Html:
    mark = _mark(found["mark"])
    name = "code" if found["mark"] == "`" else "b"
    return tag(name, mark, multiline(found["inside"]), mark)


_ELEMENTS: dict[str, Callable[[re.Match[str]], Html]] = {
    "fenced": _fenced,
    # The second row is the rule, which the style hides.
    "table": lambda found: html("<table>{}</table>", map(_row, _LINE.findall(found[0]))),
    "heading": lambda found: html("<h4>{}</h4>", _spans(found[0])),
    "item": lambda found: html('<div class="item">{}</div>', _spans(found[0])),
    "span": _span,
}
