"""HTML and SVG: values are escaped, templates are constants, scales stay in their range."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastrec
from fastrec.html import Child, Exact, Html, html, num, row, short_cell, table, tag
from fastrec.svg import Scale, histogram, share_bar

ROOT = Path(fastrec.__file__).parent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("<b>", "&lt;b&gt;"),
        (Html("<b>"), "<b>"),
        ('"', "&quot;"),
        ("\u202e", "\\u202e"),
        (Exact("\u202e<"), "\u202e&lt;"),
        (3, "3"),
        (None, ""),
        ([Html("<i>"), None, Html("</i>")], "<i></i>"),
    ],
)
def test_values_are_escaped(value: Child, text: str) -> None:
    assert html("{}", value) == html("{value}", value=value) == text
    assert tag("p", value) == f"<p>{text}</p>"


def test_formatted_values_are_escaped() -> None:
    assert html("{:,} {:.1%} {:>3}", 1234, 0.5, "<") == "1,234 50.0%   &lt;"


def templates() -> Iterator[str]:
    """The templates of all modules, which are constants, or variables that hold one."""
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        if not re.search(r"\b(?:html|each)\(", text):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        texts = {}
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(
                node.value, ast.Constant
            ):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                texts[ast.unparse(target)] = node.value.value
        for node in nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("html", "each"):
                template = node.args[0]
                if isinstance(template, ast.Constant):
                    yield str(template.value)
                elif ast.unparse(template) != "template":  # a file of `report`
                    yield str(texts[ast.unparse(template)])


def test_templates_are_constants_with_fields_in_quotes() -> None:
    """A value in an attribute cannot end it, because quotes are escaped."""
    found = list(templates())
    assert len(found) > 50
    for template in found:
        for start in re.findall(r"<[^>]*>", template):
            assert "{" not in re.sub('"[^"]*"', "", start), template


def test_short_cells_have_plain_classes() -> None:
    assert short_cell("a", class_="h1") == "<td class=h1>a"
    with pytest.raises(ValueError, match="not a plain name"):
        short_cell(class_="a b")


def test_heads_are_aligned_as_their_cells() -> None:
    """A head above numbers has their class, whether the cells are quoted or short."""
    cells = row("a", num(None), "text <td class=num>", short_cell(1, class_="num"))
    heads = re.findall("<th scope=.col.[^>]*>", table("caption", "abcd", [cells]))
    assert ["num" in head for head in heads] == [False, True, False, True]


def test_a_table_without_rows_is_empty() -> None:
    assert not table("title", ["a"], [])


@pytest.mark.parametrize(
    ("scale", "value", "place"),
    [
        (Scale(0, 10, 100), 2.5, 25),
        (Scale(0, 10, 100), 11, 100),
        (Scale(0, 10, 100), -1, 0),
        (Scale(0, 1, 0, 80), 0.25, 60),
        (Scale(3, 3, 100), 3, 50),
        (Scale(-1e308, 1e308, 100), 0, 50),
    ],
)
def test_scales(scale: Scale, value: float, place: float) -> None:
    assert math.isclose(scale(value), place)


def test_shares() -> None:
    assert not share_bar(None)
    assert 'width="30"' in share_bar(0.5)


def test_histogram() -> None:
    """The label has the numbers."""
    drawn = histogram("Questions", [1, 0, 3], "0%", "100%", Html(""))
    assert 'aria-label="Questions: 4 from 0% to 100%, at most 3 in one bar"' in drawn
    assert drawn.count("<rect") == 3
