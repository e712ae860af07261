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

from fastrec.pages.html import Html, visible

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


def markdown(text: str) -> Html:
    return Html(_fill(text.replace("\r\n", "\n"), _BLOCKS, _spans))


def _fill(text: str, pattern: re.Pattern[str], between: Callable[[str], str]) -> str:
    """Make what a pattern finds into elements, and what is between into something else."""
    parts = []
    at = 0
    for match in pattern.finditer(text):
        parts += [between(text[at : match.start()]), _ELEMENTS[match.lastgroup or ""](match)]
        at = match.end()
    return "".join([*parts, between(text[at:])])


def _spans(text: str) -> str:
    return _fill(text, _SPANS, visible)


def _mark(text: str) -> str:
    return f'<i class="mark">{visible(text)}</i>'


def _fenced(match: re.Match[str]) -> str:
    return (
        f'<pre class="code">{_mark(match["fence"])}'
        f'<span class="soft">{visible(match["language"])}</span>'
        f"{visible(match['lines'])}{_mark(match['end'])}</pre>"
    )


def _row(line: str) -> str:
    """Make a row of all cells of a line; a bar is hidden in the cell after it."""
    body = line.rstrip(" \t\n|")
    cells = [f"<td>{_mark(bar)}{_spans(text)}</td>" for bar, text in _CELL.findall(body)]
    rest = visible(line[len(body) :])
    return f'<tr>{"".join(cells[:-1])}<td class="mark">{rest}</td></tr>'


def _span(match: re.Match[str]) -> str:
    mark = _mark(match["mark"])
    name = "code" if match["mark"] == "`" else "b"
    return f"<{name}>{mark}{visible(match['inside'])}{mark}</{name}>"


_ELEMENTS = {
    "fenced": _fenced,
    # The second row is the rule, which the style hides.
    "table": lambda match: f"<table>{''.join(map(_row, _LINE.findall(match[0])))}</table>",
    "heading": lambda match: f"<h4>{_spans(match[0])}</h4>",
    "item": lambda match: f'<div class="item">{_spans(match[0])}</div>',
    "span": _span,
}
