"""HTML and SVG: values are escaped, fields of templates are in quotes, scales stay in their range."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import fastrec
from fastrec.pages import render_macro, render_template
from fastrec.pages.html import Cell, Html, escaped, exact, number_cell
from fastrec.pages.svg import Scale

TEMPLATES = Path(fastrec.__file__).parent / "pages/templates"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("<b>", "&lt;b&gt;"),
        (Html("<b>"), "<b>"),
        ("\"'", "&quot;&#x27;"),
        ("\u202e", "\\u202e"),
        (exact("\u202e<"), "\u202e&lt;"),
        (3, "3"),
        (None, ""),
    ],
)
def test_values_are_escaped(value: object, text: str) -> None:
    assert escaped(value) == text
    assert render_template("view/refusal.html", reason=value).count(f"<h1>{text}</h1>") == 1


def test_results_of_macros_are_not_escaped_again() -> None:
    made = render_macro("tables.html", "tiles", [("<a>", 1234)])
    assert made == '<dl class="tiles"><div><dt>&lt;a&gt;</dt><dd>1,234</dd></div></dl>'


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'reason' is undefined"):
        render_template("view/refusal.html")


def test_fields_within_tags_are_in_quotes() -> None:
    """A value in an attribute cannot end it, because quotes are escaped."""
    paths = list(TEMPLATES.rglob("*.html"))
    assert len(paths) > 15
    for path in paths:
        text = re.sub(r"\{#.*?#\}|\{%.*?%\}", "", path.read_text(), flags=re.DOTALL)
        constants = re.sub(r'\{\{ "[^"]*" if [^}]*\}\}', "", text)
        marked = re.sub(r"\{\{.*?\}\}", "@", constants, flags=re.DOTALL)
        for start in re.findall(r"<[^>]*>", marked):
            assert "@" not in re.sub('"[^"]*"', "", start), (path, start)


def test_line_breaks_beside_tags_are_dropped() -> None:
    assert "\n" not in render_template("notebook.html", names=["a"], rows=[["b"]], left_out=1)


def test_heads_are_aligned_as_their_cells() -> None:
    """A head above numbers has their class."""
    rows = [("a", None, "text", number_cell(1), Cell("-", "num"))]
    made = render_macro("tables.html", "table", "caption", "abcde", rows)
    heads = re.findall("<th scope=.col.[^>]*>", made)
    assert ["num" in head for head in heads] == [False, True, False, True, True]


def test_a_table_without_rows_is_empty() -> None:
    assert not render_macro("tables.html", "table", "title", ["a"], [])


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
    assert not render_macro("view/pieces.html", "share_bar", None)
    assert 'width="30"' in render_macro("view/pieces.html", "share_bar", 0.5)


def test_histogram() -> None:
    """The label has the numbers."""
    drawn = render_macro("charts.html", "histogram", "Questions", [1, 0, 3], "0%", "100%")
    assert 'aria-label="Questions: 4 from 0% to 100%, at most 3 in one bar"' in drawn
    assert drawn.count("<rect") == 3
